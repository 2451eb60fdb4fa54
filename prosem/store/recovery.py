"""Reading the truth back: what the engine needs to rebuild its memory from PostgreSQL.

Everything is read in one snapshot, in chunks from server-side cursors, in PostgreSQL's binary format;
the values are exactly those that `ColumnType.read` gave when they came in. Rows of large tables are read over
several connections (`reading`). Cost: about 1 µs per value; a million subscriptions take 3 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

import msgspec
import psycopg
from psycopg import sql
from psycopg.adapt import AdaptersMap
from psycopg.types.json import set_json_loads
from psycopg.types.string import ByteaBinaryLoader

from prosem.store import catalog, schema
from prosem.store.connecting import KEEPALIVE
from prosem.store.last_notified import marks_as_of
from prosem.store.partitions import HOLD_LOG
from prosem.store.reading import READERS, Chunk, block_ranges, read_ranges
from prosem.store.writeset import Counters
from prosem.values.errors import SetupError
from prosem.values.model import DEFAULT_TENANT, Group, PlaceMark, Statement, Table

# What no subscription refers to any more: after those that were not durable, and as older versions left it.
_UNUSED = (
    "DELETE FROM prosem.statement t WHERE NOT EXISTS (SELECT FROM prosem.subscription s WHERE s.statement_id = t.id)",
    "DELETE FROM prosem.group_ g WHERE NOT EXISTS (SELECT FROM prosem.subscription s WHERE s.group_id = g.id)",
    "DELETE FROM prosem.plan_measurement m WHERE NOT EXISTS"
    " (SELECT FROM prosem.group_ g WHERE CASE m.part WHEN 0 THEN g.space = m.space ELSE g.id = m.group_id END)",
    "DELETE FROM prosem.statistics_point p WHERE NOT EXISTS (SELECT FROM prosem.group_ g WHERE g.id = p.group_id)",
    "DELETE FROM prosem.statistics_training r WHERE NOT EXISTS (SELECT FROM prosem.group_ g WHERE g.id = r.group_id)",
)
ITEMS_PER_CHUNK = 10_000
SUBSCRIPTIONS_PER_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of the order: the last seq, the seq after which all is kept, the next free numbers."""

    last_seq: int
    retained_after: int
    counters: Counters


class StoredSubscription(NamedTuple):
    """One subscription as it is stored; `params` and `frozen` are JSON text."""

    sid: int
    id: str
    statement_id: int
    group_id: int
    params: bytes
    active: bool
    durable: bool
    created_seq: int
    frozen: bytes | None
    tenant: str = DEFAULT_TENANT
    key_id: int = 0


class StoredView(NamedTuple):
    """A view as it was defined."""

    id: int
    tenant: str
    name: str
    sql: str


class Loaded:
    """One consistent view of the database, open until closed. Use as a context manager."""

    def __init__(self, url: str, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._url, self._connection = url, connection
        self._cursors = count()
        self.state = self._state()
        self.tables: list[Table] = []
        for number, tenant, definition in self._all(
            "SELECT id, tenant, definition FROM prosem.tenant_table ORDER BY id"
        ):
            self.tables.append(
                catalog.table_from(number, tenant, msgspec.json.decode(definition), self.tables)
            )
        self.views = [
            StoredView._make(row)
            for row in self._all("SELECT id, tenant, name, sql FROM prosem.view_ ORDER BY id")
        ]
        self.groups = [
            Group(*fields, tuple(tables), sql, notify and msgspec.json.decode(notify), tenant, per)  # type: ignore[call-arg]
            for *fields, tables, sql, notify, tenant, per in self._all(
                "SELECT id, name, type, label, space, tables, sample_sql, sample_notify, tenant, per"
                " FROM prosem.group_ ORDER BY id"
            )
        ]
        self.statements = [
            Statement(number, text, None if notify is None else msgspec.json.decode(notify), tenant, per)
            for number, text, notify, tenant, per in self._all(
                "SELECT id, sql, notify, tenant, per FROM prosem.statement ORDER BY id"
            )
        ]

    def rows(
        self,
        *tables: Table,
        columns: Mapping[int, Sequence[int]] = MappingProxyType({}),
        readers: int = READERS,
    ) -> Iterator[Chunk]:
        """All rows of these tables in chunks, in no order; large tables are read over several connections.

        `columns` are those to be read of some tables, by id.
        """
        ranges = block_ranges(self._connection, tables, columns)
        others = [] if len(ranges) < len(tables) + readers else self._others(readers - 1)
        try:
            yield from read_ranges([self._connection, *others], ranges)
        finally:
            for other in others:
                other.close()

    def _others(self, count: int) -> list[psycopg.Connection[tuple[Any, ...]]]:
        """Further connections with the same snapshot, as many as the database has left."""
        ((snapshot,),) = self._all("SELECT pg_export_snapshot()")
        made: list[psycopg.Connection[tuple[Any, ...]]] = []
        with suppress(psycopg.OperationalError):
            while len(made) < count:
                made.append(_connect(self._url))
                _read_only(made[-1])
                made[-1].execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        return made

    def subscriptions(self, chunk: int = SUBSCRIPTIONS_PER_CHUNK) -> Iterator[list[StoredSubscription]]:
        """All subscriptions in the order of their sids."""
        text = sql.SQL(
            "SELECT sid, id, statement_id, group_id, params, active, durable, created_seq, frozen,"
            " tenant, key_id FROM prosem.subscription ORDER BY sid"
        )
        for rows in self._chunks(text, chunk):
            yield list(map(StoredSubscription._make, rows))

    def last_move(self) -> int:
        """The greatest number that an entry of the points' history has."""
        ((last,),) = self._all("SELECT coalesce(max(part), 0) FROM prosem.history WHERE kind <> 'told'")
        return int(last)

    def marks(self) -> dict[int, tuple[int, PlaceMark]]:
        """The places of subscriptions of marked types, and their last notified values; the seq of their marks."""
        return {
            sid: (seq, mark) for sid, seq, _, mark in marks_as_of(self._connection, self.state.retained_after)
        }

    def items(self) -> dict[int, list[bytes]]:
        """What was kept of items, by space."""
        found: dict[int, list[bytes]] = {}
        for rows in self._chunks(sql.SQL("SELECT space, told FROM prosem.item_told"), ITEMS_PER_CHUNK):
            for space, kept in rows:
                found.setdefault(space, []).append(kept)
        return found

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _state(self) -> StoredState:
        ((last_seq, retained_after, *following),) = self._all(
            "SELECT last_seq, retained_after, next_table, next_group, next_statement, next_sid"
            " FROM prosem.engine_state"
        )
        return StoredState(last_seq, retained_after, Counters(*following))

    def _all(self, text: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(text, binary=True).fetchall()

    def _chunks(self, text: sql.Composable, size: int) -> Iterator[list[tuple[Any, ...]]]:
        with self._connection.cursor(f"prosem_{next(self._cursors)}") as cursor:
            cursor.execute(text, binary=True)  # type: ignore[arg-type]  # SQL or Composed
            while rows := cursor.fetchmany(size):
                yield rows


def load(url: str, *, restart: bool = True, epoch: int | None = None) -> Loaded:
    """Open a view of the whole database; the caller's engine must hold the lock.

    A restart ends the subscriptions that are not durable, with their history; when the memory is rebuilt
    after a failed commit their streams still live, and they stay. Nothing is deleted if the epoch is over.
    """
    try:
        connection = _connect(url)
    except psycopg.OperationalError as error:
        raise SetupError(f"the database cannot be reached: {str(error).strip()}") from error
    try:
        schema.check_revision(connection)
        if restart:
            connection.execute(
                "WITH gone AS (DELETE FROM prosem.subscription WHERE NOT durable RETURNING sid)"
                " DELETE FROM prosem.history h USING gone WHERE h.sid = gone.sid"
            )
            for unused in _UNUSED:
                connection.execute(unused)
            connection.execute(
                "DELETE FROM prosem.item_told i WHERE NOT EXISTS (SELECT FROM prosem.group_ g"
                " JOIN prosem.subscription s ON s.group_id = g.id WHERE g.space = i.space AND s.active)"
            )
            if epoch is not None:
                connection.execute(
                    "SELECT prosem.hold_epoch(epoch, %s) FROM prosem.engine_state FOR SHARE", [epoch]
                )
        connection.commit()
        _read_only(connection)
        connection.execute(HOLD_LOG)  # first of the transaction: the snapshot follows
        return Loaded(url, connection)
    except BaseException:
        connection.close()
        raise


def _connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(url, client_encoding="utf8", application_name="prosem recovery", **KEEPALIVE)


def _read_only(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """From the next statement on one snapshot, with values as the engine has them."""
    connection.execute("SET timezone = 'UTC'")
    connection.commit()
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    register_loaders(connection)


def register_loaders(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """`json` as its text, in bytes; `jsonb` as Python values."""
    adapters: AdaptersMap = connection.adapters
    loads: Callable[[str | bytes], Any] = msgspec.json.decode
    set_json_loads(loads, connection)
    adapters.register_loader("json", ByteaBinaryLoader)
