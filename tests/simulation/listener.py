"""A client with one socket: it attaches its subscriptions, folds what comes with the client library, and connects again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from prosem_client.folding import Answer, answer_of
from prosem_client.query import Order, Shape

from prosem.delivery.subscriber import Item
from prosem.values.errors import ProsemError
from prosem.values.wire import decode
from tests.simulation.machine import VirtualLoop
from tests.simulation.plan import Query

CLOSED = Item("closed", None, 0, b"")
AGAIN_S = 0.5


@dataclass
class Attached:
    """What one attach of one subscription has brought: `base` is what the client held before it."""

    id: str
    base: tuple[int, Any] | None
    retained_after: int = 0
    """what the database kept when a snapshot came"""
    items: list[tuple[str, int, Any, Any]] = field(default_factory=list)
    """kind, seq, the answer after it, the body"""
    ping: int = 0
    """marks before its pong may be from before the attach"""


@dataclass
class _Held:
    """What the client knows of a subscription: the answer as of `seq`."""

    query: Query
    seq: int | None = None
    timeline: str | None = None
    answer: Any = None
    past: list[tuple[int, str, Any]] = field(default_factory=list)
    fold: Answer | None = None
    attached: Attached | None = None
    problem: str = ""


class Listener:
    """`endpoints` gives what can be connected to now: servers and brokers; `retained_after` what the database keeps."""

    def __init__(
        self,
        loop: VirtualLoop,
        chance: random.Random,
        endpoints: Callable[[], list[Any]],
        retained_after: Callable[[], int],
    ) -> None:
        self._loop, self._chance, self._endpoints = loop, chance, endpoints
        self._retained_after = retained_after
        self._own_chance = (
            random.Random()
        )  # of redirects, so that the rest of a plan is as it was without them
        self._own_chance.setstate(chance.getstate())
        self.redirected = 0
        self._held: dict[str, _Held] = {}
        self.attached: list[Attached] = []
        self.progress = 0
        self.stalled_until = 0.0
        self._socket: _Socket | None = None
        self.task = loop.create_task(self._run(), context=Context())

    def listen(self, id: str, query: Query) -> None:
        if id not in self._held:
            self._held[id] = _Held(query)
            if self._socket is not None:
                self._attach(self._socket, id, None)

    def hang_up(self) -> None:
        """The connection is lost."""
        if self._socket is not None:
            self._socket.close()
            self._socket.arrived.put_nowait(CLOSED)

    def is_at(self, seq: int) -> bool:
        """Whether everything up to this seq has arrived, of every subscription."""
        return not self._held or (
            self._socket is not None
            and self.progress >= seq
            and all(self._is_current(held) for held in self._held.values())
        )

    def _is_current(self, held: _Held) -> bool:
        assert self._socket is not None
        return held.attached is not None and held.seq is not None and held.attached.ping <= self._socket.pongs

    @property
    def problems(self) -> list[str]:
        return [f"{id}: {held.problem}" for id, held in self._held.items() if held.problem]

    # -- connections ---------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        while True:
            endpoints = self._endpoints()
            if self._held and endpoints:
                self._socket = _Socket(self._loop, self._chance.choice(endpoints), self, self._chance)
                self.progress = 0
                for id in self._held:
                    self._attach(self._socket, id, self._chosen(self._held[id]))
                await self._read(self._socket)
                self._socket.close()
                self._socket = None
                for held in self._held.values():
                    held.attached = None
            await asyncio.sleep(AGAIN_S * self._chance.uniform(0.2, 1.0))

    def _chosen(self, held: _Held) -> tuple[int, str, Any] | None:
        """Where the client goes on: where it was, or as after the loss of its disk, at an earlier place, or anew."""
        if not held.past or self._chance.random() < 0.1:
            return None
        return held.past[-1] if self._chance.random() < 0.7 else self._chance.choice(held.past)

    def _attach(
        self, socket: _Socket, id: str, at: tuple[int, str, Any] | None, follows: bool | None = None
    ) -> None:
        held = self._held[id]
        follows = self._own_chance.random() < 0.5 if follows is None else follows
        held.attached = Attached(id, None if at is None else (at[0], at[2]))
        self.attached.append(held.attached)
        held.seq, held.timeline, held.answer = (None, None, None) if at is None else at
        held.fold = None if at is None else answer_of(at[2], _shape(held.query))
        socket.attach(id, held.seq, held.timeline, follows)

    async def _read(self, socket: _Socket) -> None:
        while True:
            item = await socket.arrived.get()
            if item is CLOSED:
                return
            if item.kind in ("progress", "pong"):
                self._advance(socket, item)
            elif item.kind == "error":
                self._refused(socket, item)
            elif item.kind == "redirect":
                self._redirected(socket, item)
            elif item.id in self._held:
                self._take(self._held[item.id], item)

    def _advance(self, socket: _Socket, item: Item) -> None:
        self.progress = max(self.progress, item.seq)
        socket.pongs += item.kind == "pong"
        for held in self._held.values():
            if held.attached is not None and held.seq is not None and held.attached.ping <= socket.pongs:
                held.attached.items.append(("progress", item.seq, held.answer, None))
                if item.seq > held.seq:
                    held.seq, held.timeline = item.seq, item.timeline
                    held.past.append((item.seq, item.timeline, held.answer))

    def _redirected(self, socket: _Socket, item: Item) -> None:
        """Nothing has come for it: it is attached here, as by a client that cannot reach the broker, or at any broker."""
        held = self._held[str(item.id)]
        if held.attached is None or socket is not self._socket:
            return
        self.redirected += 1
        base = held.attached.base
        at = None if base is None or held.timeline is None else (base[0], held.timeline, base[1])
        if self._own_chance.random() < 0.7:
            self._attach(socket, str(item.id), at, follows=False)
            socket.ping()
            held.attached.ping = socket.pings
        else:
            self.hang_up()

    def _refused(self, socket: _Socket, item: Item) -> None:
        """It may not be there yet, or the server may not serve: again, a little later."""
        if item.id in self._held and socket is self._socket:
            held = self._held[item.id]
            held.attached = None
            held.problem = item.body.decode()

            def again() -> None:
                if socket is self._socket and held.attached is None:
                    self._attach(socket, str(item.id), None)

            self._loop.call_later(AGAIN_S, again, context=Context())

    def _take(self, held: _Held, item: Item) -> None:
        body = decode(item.body)
        held.problem = ""
        if held.attached is None:
            return
        if item.kind == "snapshot":
            held.attached.retained_after = self._retained_after()
            held.fold = answer_of(body, _shape(held.query))
        elif held.fold is None:
            held.attached.items.append(("stray", item.seq, None, body))
            return
        else:
            try:
                held.fold.apply(body)
            except Exception as error:
                held.attached.items.append(("unfoldable", item.seq, repr(error), body))
                return
        held.seq, held.timeline, held.answer = item.seq, item.timeline, held.fold.result()
        held.past.append((item.seq, item.timeline, held.answer))
        held.attached.items.append((item.kind, item.seq, held.answer, body))


class _Socket:
    """A connection to a server or a broker; what is sent arrives in order, some time later."""

    def __init__(self, loop: VirtualLoop, endpoint: Any, listener: Listener, chance: random.Random) -> None:
        self._loop, self._endpoint, self._listener, self._chance = loop, endpoint, listener, chance
        self.arrived: asyncio.Queue[Item] = asyncio.Queue()
        self._subscriber: Any = None
        self._last = 0.0
        self.pings = self.pongs = 0
        self._is_closed = False
        process = endpoint.process
        process.on_death.append(lambda: self._put(CLOSED))
        process.call(self._open)
        if not process.is_alive:
            self._put(CLOSED)

    def _open(self) -> None:
        """In the process of the server."""
        try:
            self._subscriber = self._endpoint.subscriber()
        except ProsemError:
            self._put(CLOSED)
            return
        self._endpoint.process.spawn(self._pump())

    async def _pump(self) -> None:
        while not self._is_closed:
            items = await self._subscriber.fetch()
            if not items:
                return
            stall = self._listener.stalled_until - self._loop.now
            if stall > 0:
                await asyncio.sleep(stall)  # the socket's buffer is full
            for item in items:
                self._put(item)

    def attach(self, id: str, after: int | None, timeline: str | None, follows: bool) -> None:
        def work() -> None:
            if self._subscriber is not None and not self._is_closed:
                self._subscriber.attach(id, after, timeline, follows=follows)

        self._endpoint.process.call(work)

    def ping(self) -> None:
        def work() -> None:
            if self._subscriber is not None and not self._is_closed:
                self._subscriber.ping()

        self.pings += 1
        self._endpoint.process.call(work)

    def _put(self, item: Item) -> None:
        if not self._is_closed:
            self._last = max(self._last + 1e-6, self._loop.now + self._chance.uniform(0.0, 0.01))
            self._loop.call_at(self._last, self.arrived.put_nowait, item, context=Context())

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._endpoint.process.call(lambda: self._subscriber is not None and self._subscriber.close())


def _shape(query: Query) -> Shape:
    order = tuple(Order(column, is_descending=column == "y", type="integer") for column in query.order)
    return Shape(query.key, "integer", order)
