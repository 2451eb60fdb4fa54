"""The source's catalog: which tables are followed, with which columns and key, and its publication and slot.

The key is what identifies a row in the source's log: the primary key, or the index of REPLICA IDENTITY USING INDEX.
Columns of types that the server has not must be left out by choice; generated columns are not in the log and stay out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from api.attach.pgoutput import lsn
from api.attach.values import NUMERIC_OID, reader, server_type
from prosem.values.errors import SetupError

Connection = psycopg.Connection[tuple[Any, ...]]


class Followed(NamedTuple):
    """A column that is followed: its type in the source (OID and modifier) and on the server."""

    name: str
    oid: int
    modifier: int
    type: str
    nullable: bool
    read: Callable[[str], Any]


@dataclass(frozen=True)
class SourceTable:
    """One table of the source, and under which name the server has it."""

    oid: int
    schema: str
    name: str
    target: str
    columns: tuple[Followed, ...]
    key: tuple[str, ...]
    is_partitioned: bool

    @property
    def relation(self) -> sql.Composable:
        name = sql.Identifier(self.schema, self.name)
        return name if self.is_partitioned else sql.SQL("ONLY {}").format(name)

    def value(self, column: Followed, text: str | None) -> Any:
        """A value as it is sent to the server."""
        try:
            return None if text is None else column.read(text)
        except ValueError as error:
            raise SetupError(
                f"a value of {self.schema}.{self.name}.{column.name} cannot be followed: {error}; leave the column "
                f"out with --leave-out {self.target}.{column.name}"
            ) from None

    def adapted(self, columns: Sequence[dict[str, Any]]) -> SourceTable:
        """As the table that the server has already, where that holds everything that the source may send.

        The precision of a numeric that has none in the source is the server's, and a column may be nullable there alone.
        """
        has = {column["name"]: column for column in columns}
        found = []
        for column in self.columns:
            there = has.get(column.name)
            if there is not None:
                nullable = column.nullable or (bool(there["nullable"]) and column.name not in self.key)
                column = column._replace(nullable=nullable)
                kind = str(there["type"])
                if column.oid == NUMERIC_OID and column.modifier == -1 and kind.startswith("numeric("):
                    column = column._replace(type=kind, read=reader(kind))
            found.append(column)
        return replace(self, columns=tuple(found))

    def definition(self) -> dict[str, Any]:
        """The body of POST /v1/tables."""
        columns = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in self.columns]
        return {"name": self.target, "columns": columns, "primary_key": list(self.key)}


class SlotState(NamedTuple):
    """What the source says of a slot; `reason` why it is lost, if it is."""

    confirmed: int
    is_active: bool
    is_lost: bool
    reason: str = ""


class Lag(NamedTuple):
    """`end` is the end of the log, `clock` the source's; `safe` bytes may be written before the slot is given up."""

    end: int
    clock: datetime
    kept: int
    safe: int | None
    status: str


def parse_tables(text: str) -> list[tuple[str, str, str]]:
    """Schema, name and name on the server of each table in a list with commas.

    >>> parse_tables("stocks, sales.orders=orders")
    [('public', 'stocks', 'stocks'), ('sales', 'orders', 'orders')]
    """
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        path, _, target = item.partition("=")
        schema, dot, name = path.partition(".")
        schema, name = (schema, name) if dot else ("public", path)
        found.append((schema, name, target or name))
    targets = [target for _, _, target in found]
    if not found:
        raise SetupError("name the tables to follow: --tables stocks,sales.orders=orders")
    if len(set(targets)) < len(targets):
        raise SetupError("two tables would have one name on the server; give one of them another: a.t=a_t")
    return found


class Source:
    """Questions to the source and what is set up there, over one session."""

    def __init__(self, connection: Connection, slot: str, publication: str) -> None:
        self.connection = self._connection = connection
        self.slot_name, self.publication = slot, publication

    def check(self) -> str:
        """Whether it can be followed at all; an identifier of the cluster."""
        ((level,),) = self._all("SHOW wal_level")
        if level != "logical":
            raise SetupError(
                f"the source runs with wal_level = {level}: set it to logical (ALTER SYSTEM SET wal_level = logical)"
                " and start the source again"
            )
        ((system,),) = self._all("SELECT system_identifier::text FROM pg_control_system()")
        return str(system)

    def table(self, schema: str, name: str, target: str, left_out: set[str]) -> SourceTable:
        found = self._all(
            "SELECT c.oid::bigint, c.relkind::text, c.relreplident::text FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
            schema,
            name,
        )
        if not found:
            raise SetupError(f"the source has no table {schema}.{name}")
        ((oid, kind, identity),) = found
        key = self._key(oid, f"{schema}.{name}", identity)
        columns, unknown = [], []
        for column, type_oid, modifier, text, is_enum, is_required in self._all(
            "SELECT a.attname, a.atttypid::bigint, a.atttypmod, format_type(a.atttypid, a.atttypmod), t.typtype = 'e',"
            " a.attnotnull FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
            " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum",
            oid,
        ):
            if column in left_out and column not in key:
                continue
            found_type = server_type(text, is_enum)
            if found_type is None:
                unknown.append(f"{column} ({text})")
            else:
                nullable = not is_required and column not in key
                columns.append(Followed(column, type_oid, modifier, found_type, nullable, reader(found_type)))
        if unknown:
            raise SetupError(
                f"{schema}.{name} has columns of types that cannot be followed: {', '.join(unknown)}; leave them out"
                f" with --leave-out {target}.{unknown[0].partition(' ')[0]} (a key column cannot be)"
            )
        return SourceTable(oid, schema, name, target, tuple(columns), key, kind == "p")

    def _key(self, oid: int, name: str, identity: str) -> tuple[str, ...]:
        chosen = "indisreplident" if identity == "i" else "indisprimary"
        key = self._all(
            "SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(number, place), pg_attribute a"
            f" WHERE i.indrelid = %s AND i.{chosen} AND k.place <= i.indnkeyatts"
            " AND a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place",
            oid,
        )
        if not key or identity == "n":
            raise SetupError(
                f"{name} has no key in the source's log: add a primary key, or a unique index over columns that are"
                f" NOT NULL and ALTER TABLE {name} REPLICA IDENTITY USING INDEX …"
            )
        return tuple(column for (column,) in key)

    # -- publication and slot ------------------------------------------------------------------------------------
    def publish(self, tables: Sequence[SourceTable]) -> None:
        """Let the publication hold exactly these tables, unless it is one FOR ALL TABLES."""
        name = sql.Identifier(self.publication)
        relations = sql.SQL(", ").join(table.relation for table in tables)
        existing = self._all("SELECT puballtables FROM pg_publication WHERE pubname = %s", self.publication)
        if existing == [(True,)]:
            return
        if existing:
            text = sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(name, relations)
        else:
            text = sql.SQL(
                "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
            ).format(name, relations)
        self._connection.execute(text)

    def slot(self) -> SlotState | None:
        for confirmed, is_active, status, reason in self._all(
            "SELECT confirmed_flush_lsn::text, active, coalesce(wal_status, ''),"
            " coalesce(to_jsonb(s) ->> 'invalidation_reason', '') FROM pg_replication_slots s WHERE slot_name = %s",
            self.slot_name,
        ):
            return SlotState(lsn(confirmed or "0/0"), is_active, status == "lost" or bool(reason), reason)
        return None

    def drop_slot(self) -> None:
        if self.slot() is not None:
            self._all("SELECT pg_drop_replication_slot(%s)", self.slot_name)

    def drop(self) -> None:
        """Take away what was set up here."""
        self.drop_slot()
        self._connection.execute(
            sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.publication))
        )

    def end(self) -> int:
        """The end of the log."""
        ((end,),) = self._all("SELECT pg_current_wal_flush_lsn()::text")
        return lsn(end)

    def lag(self) -> Lag | None:
        """The state of the slot; None if it is gone."""
        for end, clock, kept, safe, status in self._all(
            "SELECT pg_current_wal_lsn()::text, clock_timestamp(),"
            " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, safe_wal_size,"
            " coalesce(wal_status, '') FROM pg_replication_slots WHERE slot_name = %s",
            self.slot_name,
        ):
            return Lag(lsn(end), clock, max(0, kept), safe, status)
        return None

    def settings(self) -> dict[str, str]:
        """What decides how long the source waits for us."""
        names = ["wal_sender_timeout", "max_slot_wal_keep_size"]
        return dict(
            self._all("SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", names)
        )

    def sender_timeout_s(self) -> float:
        """After how long without a word from us the source ends the connection; 0: never."""
        ((milliseconds,),) = self._all(
            "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'"
        )
        return float(milliseconds) / 1_000

    def _all(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(text.encode(), values or None).fetchall()


def copied(connection: Connection, snapshot: str, table: SourceTable) -> Iterator[dict[str, Any]]:
    """The rows of a table as of an exported snapshot, as the server takes them."""
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    text = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, table.relation)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        with connection.cursor() as cursor, cursor.copy(text) as copy:
            for cells in copy.rows():
                yield {
                    column.name: table.value(column, cell)
                    for column, cell in zip(table.columns, cells, strict=True)
                }


def digest(tables: Sequence[SourceTable]) -> str:
    """What versions before the stored facts (catalog.py) kept of the tables."""
    text = repr([(t.schema, t.name, t.definition(), [c.oid for c in t.columns]) for t in tables])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
