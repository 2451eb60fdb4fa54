"""Links over NATS JetStream: what is sent stays in a file store until the receiver has applied it.

One stream holds the packets of all links of one life of a server; a receiver has a subject and a durable consumer of its
own, and a packet is gone from the store once it was acknowledged. Packets are numbered (`cn.transport.packets`), so that
what JetStream stores twice, out of order, or only at the second try is still taken once and in order. Publishing does not
wait: a window of packets is under way, and those without an answer are sent again.

It loses to a plain socket by one write to disk and two hops through the NATS server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cn.transport.packets import PACKET_BYTES, Incoming, Outgoing, read_packet

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger("prosem.nats")
AGAIN_S = 2.0  # a packet without an answer is sent again after so long
ACK_WAIT_S = 30.0
ROOM_BYTES = 1024  # for the head of a packet
INACTIVE_S = 600.0  # consumers whose process is gone for so long are removed by NATS
UNAPPLIED = 128  # packets that a receiver is sent before it has acknowledged the first
Receive = Callable[[str, bytes], Awaitable[None]]


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

    def send(self, item: bytes) -> None:
        """Put an encoded item on its way; never blocks."""
        if not self.is_closed:
            self.outgoing.put(item)
            self._wake()


class NatsTransport:
    """The links of one process. Everything happens on the loop's thread.

    `missing` is called when the stream is not there: who owns it makes it again.
    """

    def __init__(self, url: str, missing: Callable[[], Awaitable[None]] | None = None) -> None:
        self.url, self._missing = url, missing
        self._client: Client | None = None
        self._links: dict[int, Link] = {}
        self._numbers = 0
        self._inbox = ""
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closing = False
        self._again_at = 0.0  # everything unconfirmed is sent again at this time
        self._subscriptions: dict[str, Any] = {}

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

        async def lost() -> None:
            if not self._is_closing:
                log.warning("the connection to NATS is lost")

        async def error(problem: Exception) -> None:
            log.debug("NATS: %s", problem)

        try:
            self._client = await nats.connect(
                self.url.split(","),
                error_cb=error,
                disconnected_cb=lost,
                reconnected_cb=again,
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
        self._tasks = [asyncio.create_task(self._send_all()), asyncio.create_task(self._repeat())]

    async def close(self) -> None:
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    # -- the stream ----------------------------------------------------------------------------------------------
    async def make_stream(self, name: str, subjects: str, replicas: int, is_new: bool) -> None:
        """The stream of this name for these subjects; `is_new` throws away what an earlier one held."""
        from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
        from nats.js.errors import Error, NotFoundError

        manager = self._jetstream()
        config = StreamConfig(
            name=name,
            subjects=[subjects],
            retention=RetentionPolicy.WORK_QUEUE,
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE,
            num_replicas=replicas,
        )
        try:
            if is_new:
                with contextlib.suppress(NotFoundError):
                    await manager.delete_stream(name)
            await manager.add_stream(config)
        except (Error, TimeoutError, OSError) as problem:
            raise OSError(f"the stream {name} cannot be made: {problem}") from problem

    async def listen(self, stream: str, subject: str, name: str, receive: Receive) -> None:
        """Take what is sent to `subject` through the durable consumer `name`: `receive(sender, list of items)`.

        What was received is acknowledged when `receive` has returned, and comes again if that fails.
        """
        from nats.js.api import AckPolicy, ConsumerConfig
        from nats.js.errors import Error

        senders: dict[str, Incoming] = {}

        async def take(message: Msg) -> None:
            packet = read_packet(message.data)
            incoming = senders.setdefault(packet.sender, Incoming())
            for body in incoming.take(packet):
                await receive(packet.sender, body)
            if packet.number <= incoming.number:
                await message.ack()

        config = ConsumerConfig(
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=UNAPPLIED,
            inactive_threshold=INACTIVE_S,
        )
        try:
            self._subscriptions[name] = await self._jetstream().subscribe(
                subject, stream=stream, durable=name, cb=take, manual_ack=True, config=config
            )
        except (Error, TimeoutError, OSError) as problem:
            raise OSError(f"the consumer {name} cannot be made: {problem}") from problem

    async def leave(self, name: str) -> None:
        """Take nothing more through a consumer."""
        subscription = self._subscriptions.pop(name, None)
        if subscription is not None and self.is_connected:
            await subscription.unsubscribe()

    async def forget(self, stream: str, subject: str, name: str) -> None:
        """Remove a receiver that is gone, and what was stored for it."""
        from nats.errors import Error

        try:
            manager = self._jetstream()
            await manager.delete_consumer(stream, name)
            await manager.purge_stream(stream, subject=subject)
        except (Error, TimeoutError, OSError) as problem:
            log.debug("%s was not removed from NATS: %s", name, problem)

    def _jetstream(self) -> Any:
        if self._client is None:
            raise OSError("NATS is not connected yet")
        return self._client.jetstream(timeout=5)

    # -- links ---------------------------------------------------------------------------------------------------
    def link(self, sender: str, subject: str) -> Link:
        """A link to the receiver at `subject`; `sender` is unique to this life of this process."""
        room = (self._client.max_payload if self._client is not None else 1 << 20) - ROOM_BYTES
        self._numbers += 1
        made = Link(subject, Outgoing(sender, min(PACKET_BYTES, room)), self._wake.set)
        self._links[self._numbers] = made
        return made

    def unlink(self, link: Link) -> None:
        """Send nothing more to a receiver that is gone."""
        link.is_closed = True
        self._links = {number: other for number, other in self._links.items() if other is not link}

    async def flush(self, seconds: float) -> None:
        """Wait until everything is stored, at most so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(link.outgoing.is_idle for link in self._links.values()):
            await asyncio.sleep(0.01)

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

    async def _send(self, link_number: int, link: Link, packets: list[tuple[int, bytes]]) -> None:
        assert self._client is not None
        for number, data in packets:
            link.sent_at = time.monotonic()
            await self._client.publish(link.subject, data, reply=f"{self._inbox}.{link_number}.{number}")

    async def _repeat(self) -> None:
        """Send again what was not answered."""
        while True:
            await asyncio.sleep(AGAIN_S / 8)
            now = time.monotonic()
            is_due = self._again_at and now >= self._again_at
            self._again_at = 0.0 if is_due else self._again_at
            for number, link in list(self._links.items()):
                late = link.outgoing.unconfirmed()
                if late and self.is_connected and (is_due or now - link.sent_at > AGAIN_S):
                    try:
                        await self._send(number, link, late)
                    except Exception as problem:
                        log.debug("sending again failed: %s", problem)

    async def _answered(self, message: Msg) -> None:
        """JetStream says whether it has stored a packet."""
        _, link_number, number = message.subject.rsplit(".", 2)
        link = self._links.get(int(link_number))
        if link is None:
            return
        answer = json.loads(message.data) if message.data else {"error": {"description": "no stream"}}
        if "error" not in answer:
            link.outgoing.confirm(int(number))
            if link.outgoing.backlog_bytes:
                self._wake.set()
            return
        log.debug("a packet was not stored: %s", answer["error"].get("description"))
        self._again_at = self._again_at or time.monotonic() + AGAIN_S / 4
        if not message.data and self._missing is not None:
            missing, self._missing = self._missing, None
            try:
                await missing()
            except OSError as problem:
                log.debug("%s", problem)
            finally:
                self._missing = missing
