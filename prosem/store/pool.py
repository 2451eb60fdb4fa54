"""Pools of connections to PostgreSQL, for everything but the writer's session and the listeners.

psycopg_pool opens connections when they are first needed, closes idle ones and replaces broken ones. The address is
asked at each connecting: the embedded PostgreSQL may come back at another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from prosem.store.connecting import KEEPALIVE
from prosem.values.errors import ProsemError

CONNECT_S = 5.0  # how long a reader waits for PostgreSQL
RECONNECT_S = 3.0  # how long one series of attempts lasts; the next reader begins another
AsyncConnection = psycopg.AsyncConnection[Any]


class Pool:
    """At most `size` connections of one event loop, in autocommit mode.

    Waiting for a connection in use has no time limit, waiting for PostgreSQL has: psycopg.OperationalError after
    `CONNECT_S`. So a reader behind many others is served, and one without a database gets an error.
    """

    def __init__(
        self,
        address: Callable[[], str],
        name: str,
        size: int,
        prepare: Callable[[AsyncConnection], None] | None = None,
    ) -> None:
        async def configure(connection: AsyncConnection) -> None:
            if prepare is not None:
                prepare(connection)

        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._pool = AsyncConnectionPool[AsyncConnection](
            address,
            kwargs={"autocommit": True, "client_encoding": "utf8", "application_name": name, **KEEPALIVE},
            min_size=0,
            max_size=size,
            open=False,
            configure=configure,
            name=name,
            timeout=CONNECT_S,
            reconnect_timeout=RECONNECT_S,
        )

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection for the time of the block. After an error other than ours its state is unknown: it is closed."""
        async with self._slots:
            if self._pool.closed:
                await self._pool.open()
            async with self._pool.connection() as connection:
                try:
                    yield connection
                except ProsemError:
                    raise
                except BaseException:
                    await connection.close()
                    raise

    async def check(self) -> None:
        """Replace the idle connections that are broken."""
        await self._pool.check()

    async def close(self) -> None:
        """Close the connections, after the queries under way."""
        for _ in range(self._size):
            await self._slots.acquire()
        try:
            await self._pool.close()
        finally:
            for _ in range(self._size):
                self._slots.release()
