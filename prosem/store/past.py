"""One consistent view of rows and of the events that led to them: rows as of `last_seq`, and the log before it.

Everything is read in one repeatable-read transaction, in chunks bounded in bytes from server-side cursors. Undoing the log
back from `last_seq` gives the rows as of any seq that is still kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import sql

from prosem.store import catalog
from prosem.store.paging import PageSize
from prosem.store.partitions import HOLD_LOG
from prosem.values.codes import Boxes
from prosem.values.columns import Value
from prosem.values.model import Row, Table

_BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_STATE = "SELECT last_seq, retained_after FROM prosem.engine_state"
_HISTORY = (
    "SELECT sid, seq, part, kind, params, state, mark FROM prosem.history"
    " WHERE sid = ANY(%s::bigint[]) ORDER BY sid, seq, part"
)
_EVENTS = (
    "SELECT seq, table_id, old, new, coalesce(request_end, seq) FROM prosem.event_log"
    " WHERE table_id = ANY($1::integer[]) AND seq > $2 AND seq <= $3 ORDER BY seq"
)
_UNDER_WAY = (
    "SELECT coalesce(request_end, seq) FROM prosem.event_log WHERE seq <= %s ORDER BY seq DESC LIMIT 1"
)
_LAST_ENDED = (
    "SELECT seq FROM prosem.event_log WHERE seq <= %s AND coalesce(request_end, seq) <= %s"
    " ORDER BY seq DESC LIMIT 1"
)
_CHANGES = (
    "SELECT seq, body FROM prosem.outbox"
    " WHERE space = $1 AND seq > $2 AND seq <= $3 AND kind = 'change' ORDER BY seq"
)


class Logged(NamedTuple):
    """One event: the row before and after it as JSON text, and the last seq of its request."""

    seq: int
    table_id: int
    old: bytes | None
    new: bytes | None
    request_end: int


class Past:
    """Made by `ReplayStore.view`; ends with it."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._cursors = count()
        self.last_seq = self.retained_after = 0

    async def begin(self) -> None:
        """The first statements of the transaction, which fix what it sees."""
        await self._connection.execute(_BEGIN)
        await self._connection.execute(HOLD_LOG)
        await self._connection.execute("SET LOCAL timezone = 'UTC'")
        ((self.last_seq, self.retained_after),) = await self._all(_STATE, [])

    async def history(self, sids: Sequence[int]) -> dict[int, list[Any]]:
        """What happened to these points, in order; a point without an entry has an empty list."""
        found: dict[int, list[Any]] = {sid: [] for sid in sids}
        for sid, *entry in await self._all(_HISTORY, [list(found)]):
            found[sid].append(tuple(entry))
        return found

    async def tables(self) -> list[Table]:
        """All tables there are."""
        known: list[Table] = []
        text = "SELECT id, tenant, definition FROM prosem.tenant_table ORDER BY id"
        for number, tenant, definition in await self._all(text, []):
            known.append(catalog.table_from(number, tenant, msgspec.json.decode(definition), known))
        return known

    async def rows(self, table: Table, boxes: Boxes) -> AsyncIterator[list[Row]]:
        """The rows of a table, and of those that extend it, in one of the boxes."""
        text, values = selection(table, boxes)
        async for chunk in self._chunks(text, values):
            yield chunk

    async def events(self, table_ids: Sequence[int], after: int, upto: int) -> AsyncGenerator[list[Logged]]:
        """The events of these tables with `after < seq <= upto`, in order; to be closed by a caller that leaves early."""
        async with aclosing(self._chunks(sql.SQL(_EVENTS), [list(table_ids), after, upto])) as chunks:
            async for chunk in chunks:
                yield list(map(Logged._make, chunk))

    async def request_start(self, seq: int) -> int | None:
        """The last seq up to this one at which no request was under way; None if that is not kept any more."""
        rows = await self._all(_UNDER_WAY, [seq])
        if not rows or rows[0][0] <= seq:
            return seq
        rows = await self._all(_LAST_ENDED, [seq, seq])
        start = rows[0][0] if rows else 0
        return start if start >= self.retained_after else None

    def changes(self, space: int, after: int, upto: int) -> AsyncGenerator[list[tuple[int, bytes]]]:
        """The messages with the changes of moved points, in order; to be closed by a caller that leaves early."""
        return self._chunks(sql.SQL(_CHANGES), [space, after, upto])

    async def _all(self, text: str, values: Sequence[Any]) -> list[Any]:
        cursor = await self._connection.execute(text, values, binary=True)
        return await cursor.fetchall()

    async def _chunks(self, text: sql.Composable, values: Sequence[Any]) -> AsyncGenerator[list[Any]]:
        name = f"prosem_{next(self._cursors)}"  # raw: a column's name may hold a per cent sign
        async with psycopg.AsyncRawServerCursor(self._connection, name) as cursor:
            await cursor.execute(text, values, binary=True)  # type: ignore[arg-type]  # SQL or Composed
            size = PageSize()
            while rows := await cursor.fetchmany(size.rows):
                size.read(rows)
                yield rows


def selection(table: Table, boxes: Boxes) -> tuple[sql.Composed, list[Value]]:
    """The query for the rows in one of the boxes, with its values; without a box for none."""
    names = catalog.column_names(table)
    values: list[Value] = []
    alternatives = []
    for box in boxes:
        sides: list[sql.Composable] = []
        for at, ends in box.items():
            for sign, end in zip((">=", "<="), ends, strict=True):
                if end is not None:
                    values.append(end)
                    place = sql.SQL(f"${len(values)}")
                    sides.append(sql.SQL("{} {} {}").format(names[at], sql.SQL(sign), place))
        alternatives.append(sql.SQL(" AND ").join(sides) if sides else sql.SQL("true"))
    where = sql.SQL(" OR ").join([sql.SQL("({})").format(one) for one in alternatives])
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
        sql.SQL(", ").join(names), catalog.relation(table), where if alternatives else sql.SQL("false")
    )
    return query, values
