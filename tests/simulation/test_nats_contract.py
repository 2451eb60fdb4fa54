"""One suite for NATS and its stand-in: what the transport may rely on, when nothing happens and when an accident does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("greenlet")
pytest.importorskip("nats")

import nats

from cn.transport.consumer import Consumer
from cn.transport.nats import NatsTransport
from cn.transport.stream import OwnStream
from tests.simulation.machine import VirtualLoop, virtual_time
from tests.simulation.nats import Nats, simulated_nats
from tests.support.nats_admin import running_nats
from tests.support.waiting import until_async

Case = Callable[["Pair"], Awaitable[None]]


class Pair:
    """A sender that has made the stream, and a receiver; the same for NATS and for its stand-in."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.losses: list[str] = []
        self.restored: list[str] = []
        self.got: list[object] = []
        self.failed: list[tuple[str, str]] = []
        self.sender = NatsTransport(url, self.losses.append, check_s=0.1)
        self.receiver = NatsTransport(url, restored=self.restored.append, check_s=0.1)

    async def open(self, inactive_s: float = 600.0) -> None:
        await self.sender.connect()
        await self.sender.make_stream(OwnStream(self.name, f"{self.name}.>", 1))
        await self.receiver.connect()
        await self.listen(inactive_s)
        self.link = self.sender.link("sender", f"{self.name}.a")

    async def listen(self, inactive_s: float = 600.0) -> None:
        failed = lambda sender, error: self.failed.append((sender, repr(error)))
        await self.receiver.listen(
            Consumer(self.name, f"{self.name}.a", "a", self._receive, failed, inactive_s=inactive_s)
        )

    async def close(self) -> None:
        await self.receiver.close()
        await self.sender.close()

    async def _receive(self, sender: str, body: bytes) -> None:
        for item in msgspec.msgpack.decode(body):
            if item == "bad":
                raise ValueError("injected")
            self.got.append(item)

    def send(self, *items: object) -> None:
        for item in items:
            self.link.send(msgspec.msgpack.encode(item))

    async def admin(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        client = await nats.connect(self.url)
        try:
            return await work(client.jsm())
        finally:
            await client.close()

    async def arrives(self, *items: object) -> None:
        await until_async(lambda: len(self.got) >= len(items))
        assert self.got == list(items), "each once and in order"


async def items_arrive_once_and_in_order(pair: Pair) -> None:
    pair.send(*range(200))
    await pair.arrives(*range(200))
    await until_async(lambda: not pair.link.outgoing.backlog_bytes)


async def a_receiver_that_comes_later_gets_what_waits(pair: Pair) -> None:
    await pair.receiver.leave("a")
    pair.send(1, 2)
    await until_async(lambda: not pair.link.outgoing.backlog_bytes)
    await pair.listen()
    await pair.arrives(1, 2)


async def a_deleted_consumer_is_made_again(pair: Pair) -> None:
    pair.send(1)
    await pair.arrives(1)
    await pair.admin(lambda manager: manager.delete_consumer(pair.name, "a"))
    pair.send(2, 3)
    await pair.arrives(1, 2, 3)
    await until_async(lambda: pair.restored == ["a"])
    assert not pair.losses


async def a_consumer_without_a_listener_expires(pair: Pair) -> None:
    from nats.js.errors import NotFoundError

    other = NatsTransport(pair.url)
    await other.connect()
    ignored: Any = lambda *_: None
    await other.listen(Consumer(pair.name, f"{pair.name}.b", "b", ignored, ignored, inactive_s=0.3))
    await other.close()  # its process is gone

    async def is_gone() -> bool:
        try:
            await pair.admin(lambda manager: manager.consumer_info(pair.name, "b"))
        except NotFoundError:
            return True
        return False

    await until_async(is_gone)
    pair.send(1)
    await pair.arrives(1)


async def a_deleted_stream_is_reported(pair: Pair) -> None:
    pair.send(1)
    await pair.arrives(1)
    await pair.admin(lambda manager: manager.delete_stream(pair.name))
    pair.send(2)
    await until_async(lambda: bool(pair.losses))
    assert "gone" in pair.losses[0]
    assert pair.got == [1]


async def a_stream_that_was_made_anew_is_reported(pair: Pair) -> None:
    async def replace(manager: Any) -> None:
        config = (await manager.stream_info(pair.name)).config
        await manager.delete_stream(pair.name)
        await manager.add_stream(config)

    await pair.admin(replace)
    await until_async(lambda: bool(pair.losses))
    assert "anew" in pair.losses[0]


async def a_packet_that_fails_is_reported_and_nothing_follows(pair: Pair) -> None:
    pair.send(1)
    await pair.arrives(1)
    pair.send("bad", 2)
    await until_async(lambda: bool(pair.failed))
    pair.send(3)
    other = pair.sender.link("another", f"{pair.name}.a")
    other.send(msgspec.msgpack.encode(4))
    await pair.arrives(1, 4)
    assert [sender for sender, _ in pair.failed] == ["sender"]


async def what_is_for_a_receiver_can_be_forgotten(pair: Pair) -> None:
    await pair.receiver.leave("a")
    pair.send(1)
    await until_async(lambda: not pair.link.outgoing.backlog_bytes)
    await pair.sender.forget(pair.name, f"{pair.name}.a", "a")
    await pair.listen()
    other = pair.sender.link("another", f"{pair.name}.a")
    other.send(msgspec.msgpack.encode(2))
    await pair.arrives(2)


CASES: tuple[Case, ...] = (
    items_arrive_once_and_in_order,
    a_receiver_that_comes_later_gets_what_waits,
    a_deleted_consumer_is_made_again,
    a_consumer_without_a_listener_expires,
    a_deleted_stream_is_reported,
    a_stream_that_was_made_anew_is_reported,
    a_packet_that_fails_is_reported_and_nothing_follows,
    what_is_for_a_receiver_can_be_forgotten,
)


async def _judge(case: Case, url: str) -> None:
    pair = Pair(url, case.__name__)  # type: ignore[attr-defined]
    await pair.open()
    try:
        await case(pair)
    finally:
        await pair.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("nats")
    with running_nats(folder) as made:
        yield made.url


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_nats_keeps_its_promises(url: str, case: Case) -> None:
    await _judge(case, url)


def _judge_stand_in(case: Case, seed: int, lossy_s: float) -> None:
    loop = VirtualLoop()
    server = Nats(loop, random.Random(seed))
    server.lossy_until = loop.now + lossy_s
    asyncio.set_event_loop(loop)
    try:
        with virtual_time(loop, seed), simulated_nats(server):
            loop.run_until_complete(loop.create_task(_judge(case, "nats://simulated"), context=Context()))
    finally:
        asyncio.set_event_loop(None)
        loop.end()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_stand_in_keeps_them_too(case: Case) -> None:
    _judge_stand_in(case, seed=1, lossy_s=0.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_lossy_way_loses_nothing(seed: int) -> None:
    async def case(pair: Pair) -> None:
        pair.sender.link("warm", f"{pair.name}.z")
        server: Nats = pair.sender._client.server  # type: ignore[union-attr]
        server.lossy_until = server.loop.now + 20.0
        await items_arrive_once_and_in_order(pair)

    _judge_stand_in(case, seed, lossy_s=0.0)
