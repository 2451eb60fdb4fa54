"""Webhooks in PostgreSQL: addresses, positions, deliveries under way and dead letters.

A delivery is stored in the transaction that moves the positions past what it holds (`put`), and deleted when the receiver
has it (`delivered`). So whenever the process ends, each change is after a position, or in a stored delivery, or was
received: nothing is lost, and what is sent again has the id it had before.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from prosem.store.pool import Pool
from prosem.values.access import Scope
from prosem.values.errors import BusyError, LimitError, NotFoundError

_WEBHOOK = "w.id, w.tenant, w.key_id, w.own, w.url, w.secret, w.created"
_DELIVERY = "id, frames, first_seq, last_seq, body, attempts, error, created, dead"
_LETTER = _DELIVERY.replace("body", "''::bytea")
_VISIBLE = "w.tenant = %(tenant)s AND (%(key)s::integer IS NULL OR w.key_id = %(key)s)"
_COUNT = "SELECT count(*) FROM prosem.webhook WHERE tenant = %s AND key_id = %s"
_INSERT = (
    "INSERT INTO prosem.webhook AS w (id, tenant, key_id, own, url, secret)"
    f" VALUES (%s, %s, %s, %s, %s, %s) RETURNING {_WEBHOOK}"
)
_FOLLOW = "INSERT INTO prosem.webhook_subscription (webhook, id) SELECT %s, unnest(%s::text[])"
_POSITIONS = (
    "SELECT s.id, greatest(s.seq, CASE WHEN s.seq IS NOT NULL THEN w.progress END)"
    " FROM prosem.webhook w JOIN prosem.webhook_subscription s ON s.webhook = w.id WHERE w.id = %s ORDER BY s.id"
)
_MOVE = (
    "UPDATE prosem.webhook_subscription s SET seq = greatest(s.seq, moved.seq)"
    " FROM unnest(%s::text[], %s::bigint[]) AS moved (id, seq) WHERE s.webhook = %s AND s.id = moved.id"
)
_CURRENT = " AND (%s = '' OR %s = (SELECT id FROM prosem.timeline ORDER BY number DESC LIMIT 1))"
_LEAVE = "DELETE FROM prosem.webhook_subscription WHERE webhook = %s AND id = ANY(%s::text[])"
_PUT = (
    "INSERT INTO prosem.webhook_delivery (id, webhook, frames, first_seq, last_seq, body)"
    f" VALUES (%s, %s, %s, %s, %s, %s) RETURNING {_DELIVERY}"
)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that changes are sent to; `scope` is what the key that made it reaches."""

    id: str
    scope: Scope
    url: str
    secret: str = field(repr=False)
    created: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """Some frames on their way to a receiver. `dead`: when it was given up, None while it is being sent."""

    id: str
    frames: int
    first_seq: int
    last_seq: int
    body: bytes = field(repr=False)
    attempts: int
    error: str | None
    created: datetime
    dead: datetime | None

    def shown(self) -> dict[str, Any]:
        """Its description without its content."""
        names = ("frames", "first_seq", "last_seq", "attempts", "error", "created", "dead")
        return {"delivery": self.id} | {name: getattr(self, name) for name in names}


class WebhookStore:
    """One transaction at a time, over a pool of one connection. `address` may change with the embedded PostgreSQL."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._pool = Pool(address, "prosem webhooks", size=1)

    async def close(self) -> None:
        await self._pool.close()

    # -- webhooks --------------------------------------------------------------------------------------------------
    async def create(
        self, id: str, scope: Scope, url: str, secret: str, subscriptions: Sequence[str], most: int | None
    ) -> Webhook:
        """A webhook without deliveries. LimitError if the key has `most` already."""
        async with self._transaction() as connection:
            if most is not None:
                lock = "SELECT pg_advisory_xact_lock(hashtext('prosem webhooks'), %s)"
                await connection.execute(lock, [scope.key])
                cursor = await connection.execute(_COUNT, [scope.tenant, scope.key])
                row = await cursor.fetchone()
                if row is not None and row[0] >= most:
                    raise LimitError(f"this key may have {most} webhooks; delete one first", retry_after_s=60)
            values = [id, scope.tenant, scope.key, scope.own, url, secret]
            cursor = await connection.execute(_INSERT, values)
            stored = _webhook(await cursor.fetchone())
            await connection.execute(_FOLLOW, [id, list(subscriptions)])
            return stored

    async def all(self) -> list[Webhook]:
        rows = await self._rows(f"SELECT {_WEBHOOK} FROM prosem.webhook w ORDER BY w.created, w.id", [])
        return [_webhook(row) for row in rows]

    async def page(self, tenant: str, key: int | None, after: str, limit: int) -> list[Webhook]:
        """The next webhooks of a tenant by id after `after`; of one key, if one is given."""
        values = {"tenant": tenant, "key": key, "after": after, "limit": limit}
        text = f"SELECT {_WEBHOOK} FROM prosem.webhook w WHERE {_VISIBLE} AND w.id > %(after)s"
        return [_webhook(row) for row in await self._rows(text + " ORDER BY w.id LIMIT %(limit)s", values)]

    async def one(self, id: str, tenant: str, key: int | None) -> Webhook:
        """NotFoundError if the tenant (or the key, if one is given) has no such webhook."""
        text = f"SELECT {_WEBHOOK} FROM prosem.webhook w WHERE {_VISIBLE} AND w.id = %(id)s"
        rows = await self._rows(text, {"tenant": tenant, "key": key, "id": id}) if "\0" not in id else []
        if not rows:
            raise NotFoundError(f"there is no webhook {id[:200]!r}")
        return _webhook(rows[0])

    async def delete(self, id: str) -> None:
        """With its positions, deliveries and dead letters."""
        await self._rows("DELETE FROM prosem.webhook WHERE id = %s RETURNING id", [id])

    async def positions(self, id: str) -> dict[str, int | None]:
        """How far each subscription has come; None: nothing was delivered yet."""
        return dict(await self._rows(_POSITIONS, [id]))

    async def progress(self, id: str, seq: int, timeline: str = "") -> None:
        """All subscriptions with deliveries have come to `seq`; nothing, if its timeline is over."""
        text = "UPDATE prosem.webhook SET progress = greatest(progress, %s) WHERE id = %s"
        await self._rows(text + _CURRENT + " RETURNING id", [seq, id, timeline, timeline])

    # -- deliveries ------------------------------------------------------------------------------------------------
    async def put(
        self,
        webhook: str,
        id: uuid.UUID,
        body: bytes,
        frames: int,
        first_seq: int,
        last_seq: int,
        moved: Mapping[str, int],
        gone: Collection[str],
        timeline: str = "",
    ) -> Delivery:
        """Store a delivery, and move the positions past what it holds; subscriptions that are gone leave.

        Of a timeline that is over no position is kept: the next round begins with snapshots.
        """
        async with self._transaction() as connection:
            values = [list(moved), list(moved.values()), webhook, timeline, timeline]
            await connection.execute(_MOVE + _CURRENT, values)
            if gone:
                await connection.execute(_LEAVE, [webhook, list(gone)])
            values = [id, webhook, frames, first_seq, last_seq, body]
            cursor = await connection.execute(_PUT, values, binary=True)
            return _delivery(await cursor.fetchone())

    async def pending(self, webhook: str) -> Delivery | None:
        """The first of what is to be sent."""
        text = f"SELECT {_DELIVERY} FROM prosem.webhook_delivery WHERE webhook = %s AND dead IS NULL"
        rows = await self._rows(text + " ORDER BY number LIMIT 1", [webhook])
        return _delivery(rows[0]) if rows else None

    async def waiting(self, webhook: str) -> list[Delivery]:
        """All that is to be sent, in its order; without the bodies."""
        text = f"SELECT {_LETTER} FROM prosem.webhook_delivery WHERE webhook = %s AND dead IS NULL"
        return [_delivery(row) for row in await self._rows(text + " ORDER BY number LIMIT 100", [webhook])]

    async def delivered(self, id: str) -> None:
        await self._rows("DELETE FROM prosem.webhook_delivery WHERE id = %s RETURNING number", [id])

    async def failed(self, id: str, attempts: int, error: str, is_dead: bool) -> None:
        text = (
            "UPDATE prosem.webhook_delivery SET attempts = %s, error = %s,"
            " dead = CASE WHEN %s THEN now() END WHERE id = %s RETURNING number"
        )
        await self._rows(text, [attempts, error, is_dead, id])

    # -- dead letters ----------------------------------------------------------------------------------------------
    async def dead_letters(self, webhook: str, limit: int = 1_000) -> list[Delivery]:
        """What was given up, oldest first; without the bodies."""
        text = f"SELECT {_LETTER} FROM prosem.webhook_delivery WHERE webhook = %s AND dead IS NOT NULL"
        rows = await self._rows(text + " ORDER BY number LIMIT %s", [webhook, limit])
        return [_delivery(row) for row in rows]

    async def dead_letter(self, webhook: str, id: uuid.UUID) -> Delivery:
        """NotFoundError if there is no such dead letter."""
        text = f"SELECT {_DELIVERY} FROM prosem.webhook_delivery WHERE webhook = %s AND id = %s AND dead IS NOT NULL"
        rows = await self._rows(text, [webhook, id])
        if not rows:
            raise NotFoundError(f"there is no dead letter {id} of this webhook")
        return _delivery(rows[0])

    async def count_dead(self, webhook: str) -> int:
        text = "SELECT count(*) FROM prosem.webhook_delivery WHERE webhook = %s AND dead IS NOT NULL"
        ((count,),) = await self._rows(text, [webhook])
        return int(count)

    async def revive(self, webhook: str, ids: Sequence[uuid.UUID] | None) -> int:
        """Send dead letters again (None: all); how many there were."""
        text = (
            "UPDATE prosem.webhook_delivery SET dead = NULL, attempts = 0 WHERE webhook = %s AND dead IS NOT NULL"
            " AND (%s::uuid[] IS NULL OR id = ANY(%s::uuid[])) RETURNING number"
        )
        requested = None if ids is None else list(ids)
        return len(await self._rows(text, [webhook, requested, requested]))

    async def discard(self, webhook: str, id: uuid.UUID) -> bool:
        """Delete a dead letter; False if there is none."""
        text = "DELETE FROM prosem.webhook_delivery WHERE webhook = %s AND id = %s AND dead IS NOT NULL RETURNING number"
        return bool(await self._rows(text, [webhook, id]))

    # -- the connection --------------------------------------------------------------------------------------------
    async def _rows(self, text: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
        async with self._transaction() as connection:
            cursor = await connection.execute(text, values, binary=True)
            return await cursor.fetchall()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """BusyError if the database cannot be reached; the next one takes another connection."""
        try:
            async with self._pool.connection() as connection, connection.transaction():
                yield connection
        except psycopg.OperationalError as error:
            raise BusyError(f"the database cannot be reached: {str(error).strip()}") from error


def _webhook(row: tuple[Any, ...] | None) -> Webhook:
    assert row is not None
    id, tenant, key, own, url, secret, created = row
    return Webhook(id, Scope(tenant, key, own), url, secret, created)


def _delivery(row: tuple[Any, ...] | None) -> Delivery:
    assert row is not None
    id, *rest = row
    return Delivery(str(id), *rest)
