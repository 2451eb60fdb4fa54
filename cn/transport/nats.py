"""Links over NATS JetStream: what is sent stays in a file store until the receiver has applied it.

One stream holds the packets of all links of one epoch of a server; a receiver has a subject and a durable consumer of its
own (`cn.transport.consumer`), and a packet is gone from the store once it was acknowledged. Packets are numbered
(`cn.transport.packets`), so that what JetStream stores twice, out of order, or only at the second try is still taken once
and in order. Publishing does not wait: a window of packets is under way, and those without an answer are sent again.

Stream and consumers are checked from time to time, after a reconnection, and when a packet finds no stream.

It loses to a plain socket by one write to disk and two hops through the NATS server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from cn.transport.consumer import Consumer
from cn.transport.packets import PACKET_BYTES, Outgoing
from cn.transport.stream import OwnStream
from cn.transport.tasks import end_tasks

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger("prosem.nats")
AGAIN_S = 2.0  # a packet without an answer is sent again after so long
CHECK_S = 5.0  # between two checks of stream and consumers
SMOOTH = 0.1  # how much one answer counts for the latency of its link
SMOOTH_LEG = 0.3  # and one of the few round trips of this process
ROOM_BYTES = 1024  # for the head of a packet
Spawn = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], "asyncio.Task[None]"]


def spawn_task(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work(), name=name)


class NatsMissingError(RuntimeError):
    """The client library is not installed."""

    def __init__(self) -> None:
        super().__init__("brokers need the NATS client and server: pip install 'prosem[nats]'")


class Link:
    """From this process to one receiver; made by `NatsTransport.link`."""

    def __init__(self, subject: str, outgoing: Outgoing, wake: Callable[[], None]) -> None:
        self.subject, self.outgoing, self._wake = subject, outgoing, wake
        self.is_closed = False
        self.sent_at = 0.0  # the last time that something was sent, on the clock of the process
        self.latency_us: float | None = None  # until this process knows that a packet is stored, on average
        self._sent: dict[int, float] = {}  # when packets were sent that are not stored yet

    def sent(self, number: int, is_again: bool) -> None:
        """A packet goes out; the answer to one that is sent again says nothing about the time."""
        self.sent_at = time.monotonic()
        if is_again:
            self._sent.pop(number, None)
        else:
            self._sent[number] = self.sent_at

    def stored(self, number: int) -> None:
        self.outgoing.confirm(number)
        sent_at = self._sent.pop(number, None)
        if sent_at is not None:
            took_us = (time.monotonic() - sent_at) * 1e6
            before = took_us if self.latency_us is None else self.latency_us
            self.latency_us = before + SMOOTH * (took_us - before)

    def send(self, item: bytes) -> None:
        """Put an encoded item on its way; never blocks."""
        if not self.is_closed:
            self.outgoing.put(item)
            self._wake()


class NatsTransport:
    """The links of one process. Everything happens on the loop's thread.

    `lost(why)` is called when the stream that this process made is gone, or is another one: packets may be missing.
    `restored(name)` is called when a consumer was gone and made again. `spawn(name, work)` starts a background task.
    """

    def __init__(
        self,
        url: str,
        lost: Callable[[str], None] = lambda why: None,
        restored: Callable[[str], None] = lambda name: None,
        spawn: Spawn = spawn_task,
        check_s: float = CHECK_S,
    ) -> None:
        self.url, self._lost, self._restored, self._spawn, self._check_s = url, lost, restored, spawn, check_s
        self._client: Client | None = None
        self._links: dict[int, Link] = {}
        self._numbers = 0
        self._inbox = ""
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closing = False
        self._again_at = 0.0  # everything unconfirmed is sent again at this time
        self._consumers: dict[str, Consumer] = {}
        self._stream: OwnStream | None = None
        self._is_doubtful = asyncio.Event()  # stream and consumers are to be checked now
        self.leg_us: float | None = None  # from NATS to this process: half of a round trip, on average
        self._asked_at = 0.0

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def is_open(self) -> bool:
        """Whether it was connected once: from then on it connects again by itself."""
        return self._client is not None and not self._client.is_closed

    async def connect(self) -> None:
        """Connect, and stay connected; OSError while no server answers."""
        try:
            import nats
            from nats.errors import Error
        except ImportError:
            raise NatsMissingError from None

        async def again() -> None:
            log.info("connected to NATS again")
            self._again_at = time.monotonic()
            self._wake.set()
            self._is_doubtful.set()

        async def lost() -> None:
            if not self._is_closing:
                log.warning("the connection to NATS is lost")

        async def closed() -> None:
            if not self._is_closing:
                self._lost("the NATS client has given the connection up")

        async def error(problem: Exception) -> None:
            log.debug("NATS: %s", problem)

        await self._stop()
        try:
            self._client = await nats.connect(
                self.url.split(","),
                error_cb=error,
                disconnected_cb=lost,
                reconnected_cb=again,
                closed_cb=closed,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,
                connect_timeout=3,
                ping_interval=5,
                max_outstanding_pings=2,
                allow_reconnect=True,
            )
        except (Error, OSError, TimeoutError) as problem:
            raise OSError(f"NATS does not answer: {problem or type(problem).__name__}") from problem
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(self._inbox + ".*.*", cb=self._answered)
        await self._client.subscribe(self._inbox + ".leg", cb=self._came_back)
        await self._ask()
        works = {"nats-send": self._send_all, "nats-repeat": self._repeat, "nats-check": self._check_often}
        self._tasks = [self._spawn(name, work) for name, work in works.items()]

    async def close(self) -> None:
        self._is_closing = True
        await self._stop()
        if self._client is not None:
            await self._client.close()

    async def _stop(self) -> None:
        stopped, self._tasks = self._tasks, []
        await end_tasks(stopped)

    # -- the stream ----------------------------------------------------------------------------------------------
    async def make_stream(self, stream: OwnStream) -> None:
        """Make the stream that all links of this process use from now on; OSError if it cannot be made now."""
        from nats.errors import Error

        self._stream = None
        try:
            await stream.make(self._connected())
        except (Error, TimeoutError, OSError) as problem:
            raise OSError(f"the stream {stream.name} cannot be made: {problem}") from problem
        self._stream = stream

    async def listen(self, consumer: Consumer) -> None:
        """Take packets through a consumer, which is made again whenever it is gone; OSError if it cannot be made now."""
        from nats.errors import Error

        client = self._connected()
        try:
            await consumer.open(client)
        except (Error, TimeoutError, OSError) as problem:
            await consumer.close(client)
            raise OSError(f"the consumer {consumer.name} cannot be made: {problem}") from problem
        self._consumers[consumer.name] = consumer

    async def leave(self, *names: str) -> None:
        """Take nothing more through these consumers; without names, through all."""
        for name in names or [*self._consumers]:
            consumer = self._consumers.pop(name, None)
            if consumer is not None and self._client is not None:
                await consumer.close(self._client)

    async def forget(self, stream: str, subject: str, name: str) -> None:
        """Remove a receiver that is gone, and what was stored for it."""
        from nats.errors import Error
        from nats.js.errors import NotFoundError

        for consumer in self._consumers.values():
            consumer.forget(name)
        try:
            manager = self._connected().jetstream(timeout=5)
            with contextlib.suppress(NotFoundError):  # it has said goodbye itself
                await manager.delete_consumer(stream, name)
            await manager.purge_stream(stream, subject=subject)
        except (Error, TimeoutError, OSError) as problem:
            log.debug("%s was not removed from NATS: %s", name, problem)

    def _connected(self) -> Client:
        if self._client is None:
            raise OSError("NATS is not connected yet")
        return self._client

    # -- what is lost --------------------------------------------------------------------------------------------
    async def _check_often(self) -> None:
        from nats.errors import Error

        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._check_s):
                    await self._is_doubtful.wait()
            self._is_doubtful.clear()
            if self.is_connected:
                try:
                    await self._ask()
                    await self.check()
                except (Error, TimeoutError, OSError) as problem:
                    log.debug("stream and consumers were not checked: %s", problem or type(problem).__name__)

    async def check(self) -> None:
        """Report a stream that is gone or another one, and make consumers again that are gone."""
        stream = self._stream
        why = "" if stream is None else await stream.find_loss(self._connected())
        if why:
            if self._stream is stream:  # else it was made anew meanwhile
                self._lost(why)
            return
        for name, consumer in [*self._consumers.items()]:
            if await consumer.restore(self._connected()):
                if self._consumers.get(name) is not consumer:
                    await consumer.close(self._connected())  # it was left meanwhile
                    continue
                log.warning("NATS had lost the consumer %s; it was made again", name)
                self._restored(name)

    # -- the leg from NATS ---------------------------------------------------------------------------------------
    async def _ask(self) -> None:
        """Send a message to this process itself."""
        self._asked_at = time.monotonic()
        await self._connected().publish(self._inbox + ".leg", b"")

    async def _came_back(self, message: Msg) -> None:
        took_us = (time.monotonic() - self._asked_at) * 1e6 / 2
        before = took_us if self.leg_us is None else self.leg_us
        self.leg_us = before + SMOOTH_LEG * (took_us - before)

    # -- links ---------------------------------------------------------------------------------------------------
    def link(self, sender: str, subject: str) -> Link:
        """A link to the receiver at `subject`; `sender` is unique to this run of this process."""
        room = (self._client.max_payload if self._client is not None else 1 << 20) - ROOM_BYTES
        self._numbers += 1
        made = Link(subject, Outgoing(sender, min(PACKET_BYTES, room)), self._wake.set)
        self._links[self._numbers] = made
        return made

    def unlink(self, link: Link) -> None:
        """Send nothing more to a receiver that is gone."""
        link.is_closed = True
        self._links = {number: other for number, other in self._links.items() if other is not link}

    async def _send_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self.is_connected:
                continue  # the reconnection wakes
            try:
                for number, link in list(self._links.items()):
                    await self._send(number, link, link.outgoing.due())
            except Exception as problem:
                log.debug("sending failed, and is tried again: %s", problem)
                self._again_at = time.monotonic() + AGAIN_S / 4

    async def _send(
        self, link_number: int, link: Link, packets: list[tuple[int, bytes]], *, is_again: bool = False
    ) -> None:
        assert self._client is not None
        for number, data in packets:
            link.sent(number, is_again)
            await self._client.publish(link.subject, data, reply=f"{self._inbox}.{link_number}.{number}")

    async def _repeat(self) -> None:
        """Send again what was not answered."""
        while True:
            await asyncio.sleep(AGAIN_S / 8)
            now = time.monotonic()
            is_due = self._again_at and now >= self._again_at
            self._again_at = 0.0 if is_due else self._again_at
            if is_due:
                self._wake.set()  # what a failure left behind on other links
            for number, link in list(self._links.items()):
                late = link.outgoing.unconfirmed()
                if late and self.is_connected and (is_due or now - link.sent_at > AGAIN_S):
                    try:
                        await self._send(number, link, late, is_again=True)
                    except Exception as problem:
                        log.debug("sending again failed: %s", problem)

    async def _answered(self, message: Msg) -> None:
        """JetStream says whether it has stored a packet."""
        _, link_number, number = message.subject.rsplit(".", 2)
        link = self._links.get(int(link_number))
        if link is None:
            return
        answer: dict[str, Any] = (
            json.loads(message.data) if message.data else {"error": {"description": "no stream"}}
        )
        if "error" not in answer:
            link.stored(int(number))
            if self._stream is not None:
                self._stream.confirmed(answer.get("seq", 0))
            if link.outgoing.backlog_bytes:
                self._wake.set()
            return
        log.debug("a packet was not stored: %s", answer["error"].get("description"))
        self._again_at = self._again_at or time.monotonic() + AGAIN_S / 4
        if not message.data:
            self._is_doubtful.set()
