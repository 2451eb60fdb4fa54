"""The Python client and redirects, against fakes of the contract: where feeds are, and that nothing is lost or repeated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from prosem_client.backoff import Backoff
from prosem_client.feed import Feed
from prosem_client.redirects import MOST_HOPS, Redirects
from prosem_client.stream import Stream
from prosem_client.transport import Transport
from websockets.asyncio.server import ServerConnection, serve

from api.commands.process import free_port
from tests.support.waiting import until_async

Json = dict[str, Any]


class World:
    """One log that all brokers tell, as the contract has it."""

    def __init__(self) -> None:
        self.seq = 0
        self.log: list[tuple[int, str]] = []
        self.brokers: list[Broker] = []

    async def tell(self, id: str) -> int:
        self.seq += 1
        self.log.append((self.seq, id))
        for broker in self.brokers:
            for socket, ids in [*broker.sockets.items()]:
                if id in ids:
                    await broker.send(socket, {"id": id, "seq": self.seq, "change": {"value": self.seq}})
        return self.seq


class Broker:
    """A broker that redirects by the rule it is given: the address for an id, or None."""

    def __init__(self, world: World, rule: Callable[[str], str | None]) -> None:
        self.world, self.rule = world, rule
        self.sockets: dict[ServerConnection, set[str]] = {}
        self.attached: list[Json] = []
        self.url = ""
        world.brokers.append(self)

    async def send(self, socket: ServerConnection, frame: Json) -> None:
        try:
            await socket.send(json.dumps(frame))
        except Exception:  # it is gone, and the client comes back
            self.sockets.pop(socket, None)

    async def converse(self, socket: ServerConnection) -> None:
        ids = self.sockets[socket] = set()
        try:
            async for text in socket:
                frame = json.loads(text)
                if frame["op"] == "ping":
                    await self.send(socket, {"pong": self.world.seq})
                elif frame["op"] == "detach":
                    ids.discard(frame["id"])
                else:
                    await self._attach(socket, ids, frame)
        finally:
            self.sockets.pop(socket, None)

    async def _attach(self, socket: ServerConnection, ids: set[str], frame: Json) -> None:
        self.attached.append(frame)
        id, to = frame["id"], self.rule(frame["id"])
        if to is not None and frame.get("redirects"):
            await self.send(socket, {"redirect": to, "id": id})
            return
        ids.add(id)
        for seq, told in [*self.world.log]:
            if told == id and seq > frame["after"]:
                await self.send(socket, {"id": id, "seq": seq, "change": {"value": seq}})

    def drop(self) -> None:
        for socket in [*self.sockets]:
            socket.transport.abort()
        self.sockets.clear()


@asynccontextmanager
async def brokers(*rules: Callable[[str], str | None]) -> AsyncIterator[list[Broker]]:
    world = World()
    async with AsyncExitStack() as stack:
        made = []
        for rule in rules:
            broker = Broker(world, rule)
            server = await stack.enter_async_context(serve(broker.converse, "127.0.0.1", 0))
            broker.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            made.append(broker)
        yield made


@asynccontextmanager
async def streaming(url: str) -> AsyncIterator[Stream]:
    transport = Transport(url)
    open_socket = partial(transport.open_socket, "/v1/stream")
    stream = Stream(open_socket, Backoff(0.01, 0.05), Redirects(open_socket, lambda: transport.url))
    yield stream
    await stream.close()
    await transport.close()


def seqs(feed: Feed) -> list[int]:
    """What was received and not taken before."""
    taken = []
    while (frame := feed.pop()) is not None:
        taken.append(frame.seq)
    return taken


def listening(stream: Stream, id: str) -> Feed:
    feed = Feed(id, 0, 1000)
    stream.listen(feed)
    return feed


def addresses(stream: Stream) -> list[str]:
    assert stream.redirects is not None
    return [*stream.redirects.streams()]


async def test_each_feed_is_where_it_was_sent_and_comes_back_when_that_broker_is_lost() -> None:
    async with brokers(lambda id: second.url if id == "moves" else None, lambda id: None) as (first, second):
        world = first.world
        async with streaming(first.url) as stream:
            moves, stays = listening(stream, "moves"), listening(stream, "stays")
            await until_async(lambda: {"moves"} in second.sockets.values())
            assert {"stays"} in first.sockets.values()
            assert addresses(stream) == [second.url]
            told: dict[str, list[int]] = {"moves": [], "stays": []}
            for step in range(60):
                id = ("moves", "stays")[step % 2]
                told[id].append(await world.tell(id))
                if step == 30:
                    second.drop()  # it may be reached again, but is avoided for a while
            await until_async(lambda: moves.received == told["moves"][-1])
            await until_async(lambda: stays.received == told["stays"][-1])
            assert seqs(moves) == told["moves"]
            assert seqs(stays) == told["stays"]
            assert {"moves", "stays"} in first.sockets.values()
            assert not addresses(stream)


async def test_a_broker_that_does_not_answer_or_may_not_be_followed_leaves_the_feed_where_it_is() -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    for named in (dead, "https://", "ftp://127.0.0.1", "nothing", "http://[::"):
        async with brokers(lambda id, named=named: named) as (only,), streaming(only.url) as stream:
            feed = listening(stream, "a")
            await until_async(lambda only=only: {"a"} in only.sockets.values())  # type: ignore[misc]
            seq = await only.world.tell("a")
            await until_async(lambda feed=feed, seq=seq: feed.received == seq)  # type: ignore[misc]
            assert [frame.get("redirects") for frame in only.attached] == [True, None]


async def test_brokers_that_name_each_other_are_followed_so_far_and_no_further() -> None:
    async with (
        brokers(lambda id: second.url, lambda id: third.url, lambda id: second.url) as (
            first,
            second,
            third,
        ),
        streaming(first.url) as stream,
    ):
        feed = listening(stream, "a")
        await until_async(lambda: any({"a"} in one.sockets.values() for one in (first, second, third)))
        hops = [frame for one in (first, second, third) for frame in one.attached]
        assert len(hops) == MOST_HOPS + 1
        assert sum("redirects" in frame for frame in hops) == MOST_HOPS
        seq = await first.world.tell("a")
        await until_async(lambda: feed.received == seq)
        assert len(addresses(stream)) == 1, "a socket that no feed uses is closed"
        stream.leave(feed)
        await until_async(lambda: not second.sockets and not third.sockets)
        assert not addresses(stream)


async def test_a_feed_that_was_sent_elsewhere_can_be_left_and_attached_again() -> None:
    async with (
        brokers(lambda id: second.url, lambda id: None) as (first, second),
        streaming(first.url) as stream,
    ):
        feed = listening(stream, "a")
        await until_async(lambda: {"a"} in second.sockets.values())
        with pytest.raises(ValueError, match="already attached"):
            stream.listen(Feed("a", 0, 10))
        stream.leave(feed)
        await first.world.tell("a")
        again = listening(stream, "a")
        await until_async(lambda: again.received == 1)
        assert seqs(feed) == []
        first.drop()  # feeds elsewhere do not notice
        seq = await first.world.tell("a")
        await until_async(lambda: again.received == seq)
        assert seqs(again) == [1, 2]
