"""Links over a real NATS, in one process: what a receiver does when its consumer is gone, or its own work fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.support.waiting import until_async

pytest.importorskip("nats")

import nats
from nats.js.errors import NotFoundError

from cn.transport.consumer import Consumer
from cn.transport.nats import NatsTransport
from cn.transport.stream import OwnStream
from tests.support.nats_admin import running_nats
from tests.support.nats_proxy import CuttingProxy

WAIT_S = 60.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("nats")
    with running_nats(folder) as made:
        yield made.url


class Pair:
    """A sender that has made the stream, and a receiver behind a proxy that can be cut."""

    def __init__(self, url: str, name: str, inactive_s: float = 600.0) -> None:
        address = urlsplit(url)
        assert address.port is not None
        self.url, self.name, self.inactive_s = url, name, inactive_s
        self.proxy = CuttingProxy(address.port)
        self.losses: list[str] = []
        self.restored: list[str] = []
        self.got: list[object] = []
        self.failed: list[tuple[str, str]] = []
        self.sender = NatsTransport(url, self.losses.append, check_s=0.1)
        self.stream = OwnStream(name, f"{name}.>", 1)

    async def __aenter__(self) -> Pair:
        await self.proxy.mend()
        address = urlsplit(self.url)
        through = self.url.replace(f":{address.port}", f":{self.proxy.port}")
        self.receiver = NatsTransport(through, restored=self.restored.append, check_s=0.1)
        await self.sender.connect()
        await self.sender.make_stream(self.stream)
        await self.receiver.connect()
        await self.receiver.listen(
            Consumer(
                self.name,
                f"{self.name}.a",
                "a",
                self._receive,
                lambda sender, error: self.failed.append((sender, repr(error))),
                inactive_s=self.inactive_s,
            )
        )
        self.link = self.sender.link("sender", f"{self.name}.a")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.receiver.close()
        await self.sender.close()
        await self.proxy.cut()

    async def _receive(self, sender: str, body: bytes) -> None:
        for item in msgspec.msgpack.decode(body):
            self.got.append(item)
            if item == "bad":
                raise ValueError("a fault of ours")

    def send(self, *items: object) -> None:
        for item in items:
            self.link.send(msgspec.msgpack.encode(item))

    async def is_consumed(self) -> bool:
        """Whether NATS has the consumer."""
        client = await nats.connect(self.url)
        try:
            await client.jetstream().consumer_info(self.name, "a")
        except NotFoundError:
            return False
        finally:
            await client.close()
        return True


async def test_a_receiver_that_was_cut_off_for_longer_than_nats_waits(url: str) -> None:
    async with Pair(url, "cut", inactive_s=0.3) as pair:
        pair.send(1, 2)
        await until_async(lambda: pair.got == [1, 2])
        await pair.proxy.cut()
        pair.send(3)

        async def is_removed() -> bool:
            return not await pair.is_consumed()

        await until_async(is_removed)
        pair.send(4)
        await pair.proxy.mend()
        pair.send(5)
        await until_async(lambda: len(pair.got) == 5)
        assert pair.got == [1, 2, 3, 4, 5], "each once and in order"
        await until_async(lambda: bool(pair.restored))  # packets may come before the consumer is reported
        assert pair.restored == ["a"]
        assert not pair.losses
        assert not pair.failed


async def test_a_packet_that_fails_is_reported_and_nothing_follows_it(url: str) -> None:
    async with Pair(url, "failing") as pair:
        pair.send(1)
        await until_async(lambda: pair.got == [1])
        pair.send("bad", 2)
        await until_async(lambda: bool(pair.failed))
        pair.send(3)
        other = pair.sender.link("another", "failing.a")
        other.send(msgspec.msgpack.encode(4))
        await until_async(lambda: 4 in pair.got)
        assert pair.got == [1, "bad", 4]
        assert pair.failed == [("sender", "ValueError('a fault of ours')")]


async def test_a_stream_that_was_restored_lacks_what_it_had_confirmed(url: str) -> None:
    async with Pair(url, "restored") as pair:
        pair.send(1)
        await until_async(lambda: not pair.link.outgoing.backlog_bytes)
        await pair.sender.check()
        assert pair.losses == []
        pair.stream.confirmed(100)  # by the stream before it was restored
        await until_async(lambda: bool(pair.losses))
        assert "100 was confirmed" in pair.losses[0]


async def test_a_consumer_that_delivers_elsewhere_is_made_again(url: str) -> None:
    async with Pair(url, "elsewhere") as pair:
        client = await nats.connect(url)
        manager = client.jsm()
        found = await manager.consumer_info("elsewhere", "a")
        await manager.delete_consumer("elsewhere", "a")
        await manager.add_consumer("elsewhere", found.config.evolve(deliver_subject="nowhere"))
        pair.send(1)
        await until_async(lambda: pair.got == [1])
        await client.close()
