"""All parts of a server within a test: the composition root without HTTP, and a listener that folds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg

from api.server.lifetime import ServerLifetime
from api.server.running import RunningServer
from api.server.settings import Settings
from prosem.delivery.subscriber import Item
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.values.errors import BusyError, ProsemError
from prosem.values.wire import decode, encode
from tests.support.live import fold
from tests.support.waiting import until_async

TABLE = {
    "name": "t",
    "columns": [{"name": "k", "type": "integer"}, {"name": "x", "type": "integer"}, {"name": "y", "type": "integer"}],
    "primary_key": ["k"],
}  # fmt: skip
LOWEST = parse("SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi")
ROWS = parse("SELECT * FROM t WHERE y < :y")
WAIT_S = 30.0


@contextlib.asynccontextmanager
async def running(url: str, **settings: Any) -> AsyncIterator[RunningServer]:
    """All parts of a server but HTTP, as the composition root puts them together."""
    async with served(url, **settings) as lifetime:
        yield lifetime.running


@contextlib.asynccontextmanager
async def served(url: str, **settings: Any) -> AsyncIterator[ServerLifetime]:
    """The same as an application serves it, with all parts there and ready."""
    lifetime = ServerLifetime(Settings(database=url, **settings))
    lifetime.start()

    def is_ready() -> bool:
        assert lifetime.failure is None, lifetime.failure
        return lifetime.is_ready

    try:
        await until_async(is_ready)
        yield lifetime
    finally:
        await lifetime.close()


async def ready(made: RunningServer) -> None:
    await until_async(lambda: made.is_ready)


class Listener:
    """A subscriber whose frames are remembered and folded."""

    def __init__(self, made: RunningServer, *ids: str) -> None:
        self.subscriber = made.subscriber()
        self.seen: list[Item] = []
        self.answers: dict[str, Any] = {}
        self.seqs: dict[str, list[int]] = {id: [] for id in ids}
        self._change = asyncio.Condition()
        self._task = asyncio.create_task(self._read())
        for id in ids:
            self.subscriber.attach(id, None)

    async def _read(self) -> None:
        while items := await self.subscriber.fetch():
            async with self._change:
                for item in items:
                    self._take(item)
                self._change.notify_all()

    def _take(self, item: Item) -> None:
        self.seen.append(item)
        if item.kind == "snapshot":
            assert item.id not in self.answers, "one snapshot is enough"
            self.answers[str(item.id)] = decode(item.body)
        elif item.kind == "change":
            id = str(item.id)
            assert not self.seqs[id] or item.seq > self.seqs[id][-1], "twice or out of order"
            self.seqs[id].append(item.seq)
            self.answers[id] = fold(self.answers[id], decode(item.body), ("k",))

    async def progress(self, seq: int) -> None:
        await self._until(lambda: any(item.kind == "progress" and item.seq >= seq for item in self.seen))

    async def attached(self) -> Listener:
        await self._until(lambda: self.answers.keys() == self.seqs.keys())
        return self

    async def _until(self, is_there: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S), self._change:
            await self._change.wait_for(lambda: self._task.done() or is_there())
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        self.subscriber.close()
        await self._task


async def again(made: RunningServer, command: c.Command) -> Any:
    """The answer of a command, sent again while the server says that it is busy."""

    async def taken() -> list[Any]:
        reply = await outcome(made, command)
        return [] if isinstance(reply, BusyError) else [reply]

    (reply,) = await until_async(taken)
    assert not isinstance(reply, ProsemError), reply
    return reply


async def outcome(made: RunningServer, command: c.Command) -> Any:
    """The answer of a command, or its error."""
    return await settled(made.call(command))


async def settled(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except ProsemError as error:
        return error


def publish(*events: Any) -> c.Publish:
    return c.Publish("t", list(events))


def subscribe(low: int, high: int, id: str | None = None) -> c.Subscribe:
    return c.Subscribe(LOWEST, None, [(id, {"lo": low, "hi": high})])


def stored_rows(url: str, table: str = "t") -> set[Any]:
    with psycopg.connect(url) as connection:
        return set(connection.execute(f"SELECT * FROM tenant_default.{table}").fetchall())  # type: ignore[call-overload]


def stored_seqs(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [seq for (seq,) in connection.execute("SELECT seq FROM prosem.event_log ORDER BY seq")]


def plain(reply: Any) -> Any:
    """A reply as it travels, so that two of them compare."""
    if isinstance(reply, ProsemError):
        return type(reply).__name__, reply.detail, reply.at
    found = decode(encode(reply.table.definition() if isinstance(reply, c.Created) else reply))
    if isinstance(found, dict):
        found.pop("timeline", None)  # each database has its own
    return found
