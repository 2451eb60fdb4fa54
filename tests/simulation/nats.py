"""A stand-in for NATS with JetStream: work-queue streams, durable push consumers with acknowledgements, clients that are cut
off, and packets that are lost, repeated and late.

It takes what `cn.transport` asks of a NATS client. `tests/simulation/test_nats_contract.py` judges it and a real NATS by
the same cases.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from types import SimpleNamespace
from typing import Any
from unittest import mock

import nats
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.errors import NotFoundError

from tests.simulation.machine import CURRENT, Process, VirtualLoop

LATENCY_S = 0.003
API_S = 5.0  # after which a request without an answer fails


class Nats:
    """The server. While it is `lossy` three in ten packets are lost, two come twice, and all come late."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop, self.chance = loop, chance
        self.streams: dict[str, Stream] = {}
        self.clients: list[Client] = []
        self.lossy_until = 0.0
        self._down_until = 0.0
        self._cut: dict[str, float] = {}
        self._made = 0

    # -- clients -------------------------------------------------------------------------------------------------
    async def connect(self, servers: Any, **callbacks: Any) -> Client:
        """In the place of `nats.connect`."""
        await asyncio.sleep(LATENCY_S)
        process = CURRENT.get()
        if not self.reaches(process):
            await asyncio.sleep(1.0)
            raise OSError("no servers available for connection")
        made = Client(self, process, callbacks)
        self.clients.append(made)
        if process is not None:
            process.on_death.append(made.end)
        return made

    def reaches(self, process: Process | None) -> bool:
        now = self.loop.now
        return now >= self._down_until and (process is None or now >= self._cut.get(process.name, 0.0))

    def cut(self, name: str, for_s: float) -> None:
        """A process is cut off."""
        self._cut[name] = self.loop.now + for_s
        self._disconnect(for_s)

    def restart(self, for_s: float) -> None:
        self._down_until = self.loop.now + for_s
        self._disconnect(for_s)

    def _disconnect(self, for_s: float) -> None:
        for client in self.clients:
            if not self.reaches(client.process):
                client.disconnect()
        self.loop.call_later(for_s + self.chance.uniform(0.0, 0.2), self._reconnect, context=Context())

    def _reconnect(self) -> None:
        for client in self.clients:
            if self.reaches(client.process):
                client.reconnect()

    def heal(self) -> None:
        self._cut, self._down_until, self.lossy_until = {}, 0.0, 0.0
        self._reconnect()

    # -- accidents -----------------------------------------------------------------------------------------------
    def drop_consumers(self) -> None:
        for stream in self.streams.values():
            for name in list(stream.consumers):
                stream.delete_consumer(name)

    def drop_streams(self) -> None:
        """Streams are deleted, or restored from a backup."""
        for name, stream in list(self.streams.items()):
            if self.chance.random() < 0.5:
                del self.streams[name]
            else:
                stream.set_back(stream.last_seq // 2)

    # -- messages ------------------------------------------------------------------------------------------------
    def travel(self, arrive: Callable[[], None]) -> None:
        """One way of a message; in order, unless it is lossy."""
        chance, delay_s = self.chance, LATENCY_S
        copies = 1
        if self.loop.now < self.lossy_until:
            copies = chance.choices((0, 1, 2), (3, 5, 2))[0]
            delay_s += chance.uniform(0.0, 1.0)
        for _ in range(copies):
            self.loop.call_later(delay_s, arrive, context=Context())

    def publish(self, subject: str, data: bytes, reply: str) -> None:
        for stream in self.streams.values():
            if matches(stream.subjects, subject):
                number = stream.store(subject, data)
                self.route(reply, json.dumps({"stream": stream.name, "seq": number}).encode())
                return
        if self.is_wanted(subject):  # of a process to itself
            self.travel(lambda: self.route(subject, data))
            return
        self.route(reply, b"")

    def route(self, subject: str, data: bytes, ack: Callable[[], None] | None = None) -> None:
        """To every client that has subscribed."""
        for client in self.clients:
            if client.is_connected:
                client.deliver(subject, data, ack)

    def is_wanted(self, subject: str) -> bool:
        return any(client.is_connected and client.wants(subject) for client in self.clients)

    def new_number(self) -> int:
        self._made += 1
        return self._made


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject is one of a pattern's.

    >>> matches("a.*.c", "a.b.c"), matches("a.>", "a.b.c"), matches("a.*", "a.b.c")
    (True, True, False)
    """
    wanted, given = pattern.split("."), subject.split(".")
    for at, token in enumerate(wanted):
        if token == ">":
            return len(given) > at
        if at >= len(given) or token not in ("*", given[at]):
            return False
    return len(wanted) == len(given)


class Stream:
    def __init__(self, server: Nats, config: Any) -> None:
        self.server, self.config = server, config
        self.name: str = config.name
        self.subjects: str = config.subjects[0]
        self.created = server.new_number()
        self.last_seq = 0
        self.messages: dict[int, tuple[str, bytes]] = {}
        self.consumers: dict[str, PushConsumer] = {}

    def store(self, subject: str, data: bytes) -> int:
        self.last_seq += 1
        self.messages[self.last_seq] = subject, data
        for consumer in self.consumers.values():
            consumer.push()
        return self.last_seq

    def set_back(self, last_seq: int) -> None:
        self.last_seq = last_seq
        self.messages = {number: one for number, one in self.messages.items() if number <= last_seq}

    def delete_consumer(self, name: str) -> None:
        self.consumers.pop(name).is_deleted = True


class PushConsumer:
    def __init__(self, stream: Stream, config: Any) -> None:
        self._stream, self.config = stream, config
        self._server = stream.server
        self._next = 1
        self._pending: dict[int, int] = {}  # number → how often it was delivered
        self.is_deleted = False
        self._unwanted_since: float | None = None
        self._look()

    def _look(self) -> None:
        """NATS removes a consumer that has had no listener for too long."""
        if self.is_deleted:
            return
        now = self._server.loop.now
        if self.is_bound:
            self._unwanted_since = None
            self.push()
        elif self._unwanted_since is None:
            self._unwanted_since = now
        elif now - self._unwanted_since > self.config.inactive_threshold:
            self._stream.consumers.pop(self.config.durable_name, None)
            self.is_deleted = True
            return
        self._server.loop.call_later(0.5, self._look, context=Context())

    @property
    def is_bound(self) -> bool:
        return self._server.is_wanted(self.config.deliver_subject)

    def push(self) -> None:
        while len(self._pending) < self.config.max_ack_pending and self._next <= self._stream.last_seq:
            if not self.is_bound:
                return
            number = self._next
            self._next += 1
            stored = self._stream.messages.get(number)
            if stored is not None and matches(self.config.filter_subject, stored[0]):
                self._pending[number] = 0
                self._deliver(number)

    def _deliver(self, number: int) -> None:
        stored = self._stream.messages.get(number)
        if self.is_deleted or number not in self._pending:
            return
        if stored is None:
            del self._pending[number]
            return
        self._pending[number] += 1

        def arrive() -> None:
            self._server.route(self.config.deliver_subject, stored[1], lambda: self._acknowledge(number))

        self._server.travel(arrive)
        self._server.loop.call_later(self.config.ack_wait, self._deliver, number, context=Context())

    def _acknowledge(self, number: int) -> None:
        if not self.is_deleted and self._pending.pop(number, None) is not None:
            self._stream.messages.pop(number, None)
            self.push()


class Client:
    """As nats-py shows it."""

    max_payload = 1 << 20

    def __init__(self, server: Nats, process: Process | None, callbacks: dict[str, Any]) -> None:
        self.server, self.process, self._callbacks = server, process, callbacks
        self.is_connected, self.is_closed = True, False
        self._subscriptions: list[Subscription] = []

    def end(self) -> None:
        """Its process is dead."""
        self.is_connected, self.is_closed = False, True
        if self in self.server.clients:
            self.server.clients.remove(self)

    async def close(self) -> None:
        self.end()

    def disconnect(self) -> None:
        if self.is_connected:
            self.is_connected = False
            self._call("disconnected_cb")

    def reconnect(self) -> None:
        if not self.is_connected and not self.is_closed:
            self.is_connected = True
            self._call("reconnected_cb")

    def _call(self, name: str) -> None:
        if name in self._callbacks:
            self.spawn(self._callbacks[name]())

    def spawn(self, work: Any) -> None:
        if self.process is None:
            self.server.loop.create_task(work)
        elif self.process.is_alive:
            self.process.spawn(work)
        else:
            work.close()

    def new_inbox(self) -> str:
        return f"_INBOX.{self.server.new_number()}"

    async def subscribe(self, subject: str, cb: Callable[[Any], Awaitable[None]]) -> Subscription:
        made = Subscription(self, subject, cb)
        self._subscriptions.append(made)
        return made

    def forget(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def wants(self, subject: str) -> bool:
        return any(matches(one.subject, subject) for one in self._subscriptions)

    async def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        if self.is_connected:
            self.server.travel(lambda: self.server.publish(subject, data, reply))

    def deliver(self, subject: str, data: bytes, ack: Callable[[], None] | None) -> None:
        for subscription in self._subscriptions:
            if matches(subscription.subject, subject):
                subscription.take(Arrived(self, subject, data, ack))

    def jetstream(self, timeout: float = API_S) -> Manager:
        return Manager(self, timeout)

    jsm = jetstream


class Arrived:
    """A message."""

    def __init__(self, client: Client, subject: str, data: bytes, ack: Callable[[], None] | None) -> None:
        self._client, self.subject, self.data, self._ack = client, subject, data, ack

    async def ack(self) -> None:
        if self._ack is not None and self._client.is_connected:
            self._client.server.travel(self._ack)


class Subscription:
    """Messages are worked off one by one."""

    def __init__(self, client: Client, subject: str, take: Callable[[Any], Awaitable[None]]) -> None:
        self._client, self.subject, self._take = client, subject, take
        self._waiting: asyncio.Queue[Arrived] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._work())

    def take(self, message: Arrived) -> None:
        process = self._client.process
        if process is None:
            self._waiting.put_nowait(message)
        else:
            process.call(self._waiting.put_nowait, message)

    async def _work(self) -> None:
        while True:
            await self._take(await self._waiting.get())

    async def unsubscribe(self) -> None:
        self._client.forget(self)
        if self._task is not asyncio.current_task():
            self._task.cancel()


class Manager:
    """The requests of JetStream's API."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client, self._timeout = client, timeout

    async def _ask(self) -> dict[str, Stream]:
        """A request and its answer."""
        server, client = self._client.server, self._client
        is_lost = server.loop.now < server.lossy_until and server.chance.random() < 0.3
        await asyncio.sleep(2 * LATENCY_S)
        if is_lost or not client.is_connected or not server.reaches(client.process):
            await asyncio.sleep(self._timeout)
            raise NatsTimeoutError
        return server.streams

    async def _stream(self, name: str) -> Stream:
        streams = await self._ask()
        if name not in streams:
            raise NotFoundError(code=404, err_code=10059, description="stream not found")
        return streams[name]

    async def add_stream(self, config: Any) -> Any:
        streams = await self._ask()
        streams[config.name] = Stream(self._client.server, config)
        return self._described(streams[config.name])

    async def delete_stream(self, name: str) -> None:
        await self._stream(name)
        stream = self._client.server.streams.pop(name)
        for consumer in list(stream.consumers):
            stream.delete_consumer(consumer)

    async def stream_info(self, name: str) -> Any:
        return self._described(await self._stream(name))

    def _described(self, stream: Stream) -> Any:
        state = SimpleNamespace(last_seq=stream.last_seq)
        return SimpleNamespace(created=stream.created, state=state, config=stream.config)

    async def purge_stream(self, name: str, subject: str) -> None:
        stream = await self._stream(name)
        for number, (of, _) in list(stream.messages.items()):
            if matches(subject, of):
                del stream.messages[number]

    async def add_consumer(self, stream: str, config: Any) -> None:
        found = await self._stream(stream)
        if config.durable_name in found.consumers:
            found.delete_consumer(config.durable_name)
        found.consumers[config.durable_name] = PushConsumer(found, config)

    async def consumer_info(self, stream: str, name: str) -> Any:
        found = (await self._stream(stream)).consumers.get(name)
        if found is None:
            raise NotFoundError(code=404, err_code=10014, description="consumer not found")
        return SimpleNamespace(push_bound=found.is_bound, config=found.config)

    async def delete_consumer(self, stream: str, name: str) -> None:
        found = await self._stream(stream)
        if name not in found.consumers:
            raise NotFoundError(code=404, err_code=10014, description="consumer not found")
        found.delete_consumer(name)


@contextlib.contextmanager
def simulated_nats(server: Nats | None) -> Iterator[None]:
    """Clients connect to the stand-in."""
    if server is None:
        yield
        return
    with mock.patch.object(nats, "connect", server.connect):
        yield
