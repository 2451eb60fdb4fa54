"""Reading the past: what a returning subscriber missed, and pages of subscriptions.

Asynchronous, over a few connections of its own, so that the writer never waits for a reader. Every
chunk is one short query by key, bounded in bytes; no connection is held between two chunks. Retention may pass a reader
while it reads: it then gets `NotRetainedError`, never a gap.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from prosem.store.paging import PAGE_BYTES, PageSize
from prosem.store.past import Past
from prosem.store.pool import Pool
from prosem.store.recovery import register_loaders
from prosem.store.retention import IDEMPOTENCY_S
from prosem.values.access import WHOLE, Scope
from prosem.values.errors import BusyError

CHUNK = 2000
_RETAINED = "SELECT retained_after FROM prosem.engine_state"
# A page ends where its bodies reach a size, which PostgreSQL knows without reading them; `page` is what it had been without.
_MESSAGES = (
    "SELECT seq, part, kind, body, page FROM (SELECT *, count(*) OVER () AS page,"
    " sum(coalesce(octet_length(body), 0)) OVER (ORDER BY seq {0}, part {0}) AS size"
    " FROM (SELECT seq, part, kind, body FROM prosem.outbox WHERE {1} ORDER BY seq {0}, part {0} LIMIT %(chunk)s) AS page"
    ") AS sized WHERE size - coalesce(octet_length(body), 0) < %(bytes)s ORDER BY seq {0}, part {0}"
)
_FORWARD = _MESSAGES.format(
    "ASC",
    "space = %(space)s AND seq >= %(seq)s AND (seq, part) > (%(seq)s, %(part)s) AND seq <= %(upto)s",
)
_BACK = _MESSAGES.format(
    "DESC",
    "space = %(space)s AND seq > %(after)s AND (seq, part) < (%(seq)s, %(part)s) AND seq <= %(seq)s",
)
_ROWS = "SELECT seq, old, new FROM prosem.event_log WHERE seq = ANY(%s::bigint[])"
_HISTORY = (
    "SELECT sid, seq, part, kind, params, state, mark FROM prosem.history"
    " WHERE sid = ANY(%s::bigint[]) ORDER BY sid, seq, part"
)
_FIELDS = "s.id, s.sid, g.name, g.type, t.sql, t.notify, s.params, s.active, s.durable, s.created_seq, t.per"
_JOINED = "JOIN prosem.group_ g ON g.id = s.group_id JOIN prosem.statement t ON t.id = s.statement_id"
_PAGE = (
    f"SELECT {_FIELDS} FROM prosem.subscription s {_JOINED}"
    " WHERE s.tenant = %(tenant)s AND s.id > %(after)s AND (%(key)s::integer IS NULL OR s.key_id = %(key)s)"
    " ORDER BY s.id LIMIT %(limit)s"
)
_ONE = (
    f"SELECT {_FIELDS} FROM prosem.subscription s {_JOINED} WHERE s.tenant = %(tenant)s AND s.id = %(id)s"
    " AND (%(key)s::integer IS NULL OR s.key_id = %(key)s)"
)
_DURABILITY = (
    "SELECT id, durable FROM prosem.subscription WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::text[])"
    " AND (%(key)s::integer IS NULL OR key_id = %(key)s)"
)
# A page of each group by its own index, then the first of all: no scan past subscriptions of other groups.
_FILTERED_PAGE = (
    f"SELECT {_FIELDS} FROM prosem.group_ w CROSS JOIN LATERAL (SELECT * FROM prosem.subscription"
    " WHERE group_id = w.id AND id > %(after)s AND (%(key)s::integer IS NULL OR key_id = %(key)s)"
    " ORDER BY id LIMIT %(limit)s) s"
    f" {_JOINED} WHERE w.tenant = %(tenant)s AND (%(group)s::text IS NULL OR w.name = %(group)s)"
    " AND (%(type)s::text IS NULL OR w.type = %(type)s) ORDER BY s.id LIMIT %(limit)s"
)
_IDEMPOTENCY = (
    "SELECT answer, done, lines FROM prosem.idempotency"
    " WHERE key = %s AND at > now() - make_interval(secs => %s)"
)

MessageRow = tuple[int, int, str, bytes | None]  # seq, part, kind, body
HistoryRow = tuple[
    int, int, str, bytes | None, bytes | None, bytes | None
]  # seq, part, kind, params, state before, mark


def _reached(scope: Scope) -> dict[str, Any]:
    return {"tenant": scope.tenant, "key": scope.key if scope.own else None}


class NotRetainedError(LookupError):
    """What was asked for reaches back beyond the retention: only a fresh snapshot helps."""


class ListedSubscription(NamedTuple):
    """One line of a page; `notify` and `params` are JSON text."""

    id: str
    sid: int
    group: str
    type: str
    sql: str
    notify: bytes | None
    params: bytes
    active: bool
    durable: bool
    created_seq: int
    per: str


class ReplayStore:
    """The readers of one event loop. At most `size` queries run at a time; `url` gives the database's present address."""

    def __init__(self, url: Callable[[], str], size: int = 2) -> None:
        self._pool = Pool(url, "prosem replay", size, register_loaders)

    async def close(self) -> None:
        """Close the connections, after the queries under way."""
        await self._pool.close()

    # -- a returning subscriber ------------------------------------------------------------------------------
    async def retained_after(self) -> int:
        """Everything with a greater `seq` is kept."""
        ((rows),) = await self._fetch((_RETAINED, []))
        return int(rows[0][0])

    def messages(
        self, space: int, after: int, upto: int, chunk: int = CHUNK
    ) -> AsyncIterator[list[MessageRow]]:
        """The messages of a space with `after < seq <= upto`, in order."""
        values = {"space": space, "upto": upto, "seq": after + 1, "part": -1, "chunk": chunk}
        return self._pages(_FORWARD, after, values)

    def messages_back(
        self, space: int, after: int, upto: int, chunk: int = CHUNK
    ) -> AsyncIterator[list[MessageRow]]:
        """The same messages in reverse order."""
        values = {"space": space, "after": after, "seq": upto, "part": 2**31 - 1, "chunk": chunk}
        return self._pages(_BACK, after, values)

    async def _pages(self, text: str, after: int, values: dict[str, Any]) -> AsyncIterator[list[MessageRow]]:
        while True:
            rows = await self._kept(after, text, values | {"bytes": PAGE_BYTES})
            if not rows:
                return
            seq, part, *_, page = rows[-1]
            yield [row[:4] for row in rows]
            if len(rows) == page < values["chunk"]:
                return
            values = values | {"seq": seq, "part": part}

    async def rows(self, seqs: Sequence[int]) -> AsyncIterator[tuple[int, tuple[bytes | None, bytes | None]]]:
        """The row before and after each of these events, as JSON text, in the order given."""
        size, at = PageSize(), 0
        while at < len(seqs):
            some = seqs[at : at + size.rows]
            rows = await self._kept(min(some) - 1, _ROWS, [list(some)])
            found = {seq: (old, new) for seq, old, new in rows}
            size.read(rows)
            for seq in some:
                yield seq, found[seq]
            at += len(some)

    async def history(self, sids: Iterable[int]) -> dict[int, list[HistoryRow]]:
        """What happened to these points, in order; a point without an entry has an empty list."""
        found: dict[int, list[HistoryRow]] = {sid: [] for sid in sids}
        (rows,) = await self._fetch((_HISTORY, [list(found)]))
        for sid, *entry in rows:
            found[sid].append(tuple(entry))
        return found

    # -- pages -----------------------------------------------------------------------------------------------
    async def page(
        self,
        group: str | None = None,
        type: str | None = None,
        limit: int = 100,
        after: str | None = None,
        scope: Scope = WHOLE,
    ) -> list[ListedSubscription]:
        """The next subscriptions by id after `after`; of one group (its name) or one type, if given."""
        text = _PAGE if group is None and type is None else _FILTERED_PAGE
        values = {"group": group, "type": type, "limit": limit, "after": after or "", **_reached(scope)}
        (rows,) = await self._fetch((text, values))
        return [ListedSubscription._make(row) for row in rows]

    async def subscription(self, id: str, scope: Scope = WHOLE) -> ListedSubscription | None:
        """The subscription of this id, if the scope holds it."""
        (rows,) = await self._fetch((_ONE, {"id": id, **_reached(scope)}))
        return ListedSubscription._make(rows[0]) if rows else None

    async def durability(self, ids: Sequence[str], scope: Scope = WHOLE) -> dict[str, bool]:
        """Of those of these subscriptions that the scope holds: whether they are durable."""
        (rows,) = await self._fetch((_DURABILITY, {"ids": list(ids), **_reached(scope)}))
        return dict(rows)

    async def idempotency(
        self, key_hash: str, age_s: float = IDEMPOTENCY_S
    ) -> tuple[bytes | None, bool, int] | None:
        """The request of this key: the answer, whether the request is done, how many lines are committed."""
        (rows,) = await self._fetch((_IDEMPOTENCY, [key_hash, float(age_s)]))
        return rows[0] if rows else None

    @asynccontextmanager
    async def view(self) -> AsyncIterator[Past]:
        """One consistent view of rows and log; its connection is in use as long as it is open."""
        async with self._pool.connection() as connection, connection.transaction():
            past = Past(connection)
            await past.begin()
            yield past

    # -- connections -----------------------------------------------------------------------------------------
    async def _kept(self, after: int, text: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
        """The rows, if nothing after `after` was gone when they were read: the state is read after them."""
        rows, state = await self._fetch((text, values), (_RETAINED, []))
        if state[0][0] > after:
            raise NotRetainedError(f"only what comes after {state[0][0]} is kept, not after {after}")
        return rows

    async def _fetch(self, *queries: tuple[str, Sequence[Any] | dict[str, Any]]) -> list[list[Any]]:
        """The rows of each query. After a broken connection they are read once more, by another one."""
        for again in (True, False):
            try:
                async with self._pool.connection() as connection, connection.pipeline():
                    cursors = [
                        await connection.execute(text, values, binary=True) for text, values in queries
                    ]
                    return [await cursor.fetchall() for cursor in cursors]
            except psycopg.OperationalError as error:
                if not again or isinstance(error, PoolTimeout | PoolClosed):
                    raise BusyError(f"the database cannot be read: {str(error).strip()}") from error
                await self._pool.check()
        raise AssertionError("the second try returns or raises")
