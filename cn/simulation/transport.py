"""Brokers in one process: a clock, links with latency and counts, and faults by seed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from time import thread_time
from typing import NamedTuple

from cn.model.frames import Carrier, Frame, Ordered, decode, encode
from cn.networks.node import Node, Out
from cn.simulation.reliable import Reliable, Segment, Wire, decode_wire, encode_wire

Latency = Callable[[str, str], float]
Service = Callable[[str, Frame, float], float]  # (node, frame, seconds its code took) → the time that passes
SIZES = 4096  # frames whose size is remembered: one passes many links


@dataclass
class Traffic:
    """What one link has carried in one direction: all frames, and those of messages."""

    frames: int = 0
    bytes: int = 0
    messages: int = 0
    message_bytes: int = 0


class Faults(NamedTuple):
    """How often a link misbehaves: the share of frames dropped, sent twice, and held back for up to `delay`."""

    seed: int
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0


class _Event(NamedTuple):
    moment: float
    number: int  # of two events of one moment the earlier made comes first
    run: Callable[[], None]


class Memory:
    """Runs nodes over simulated links, in the order of a clock.

    Without faults a link is first in, first out with a fixed latency, and frames are handed over as they are. With
    faults every link runs `Reliable`, and acknowledgements and repetitions count as traffic. With `codec` every frame is
    encoded and decoded on every link. With `service` a node works off one frame at a time, and each takes the time that
    this says: a fixed one, or the time that the code has really taken. An event costs O(log E), and a frame is encoded once
    however many links it passes.
    """

    def __init__(
        self,
        *,
        latency: Latency = lambda sender, to: 1.0,
        faults: Faults | None = None,
        codec: bool = False,
        timeout: float = 4.0,
        service: Service | None = None,
    ) -> None:
        self.now = 0.0
        self.traffic: dict[tuple[str, str], Traffic] = {}
        self.nodes: dict[str, Node] = {}
        self.watch: Callable[[str, str, Frame], None] | None = None  # sees every frame that enters a link
        self._edges: dict[str, Callable[[Ordered], None]] = {}
        self._latency, self._faults, self._codec, self._timeout = latency, faults, codec, timeout
        self._dice = random.Random(faults.seed if faults else 0)
        self._events: list[_Event] = []
        self._numbers = count()
        self._ends: dict[tuple[str, str], Reliable] = {}  # (at, of the link to)
        self._sessions: dict[frozenset[str], int] = {}
        self._cut: dict[frozenset[str], float] = {}  # links that carry nothing until then
        self._sizes: dict[int, tuple[Frame, int]] = {}
        self._service = service
        self._queues: dict[str, deque[tuple[str, Frame]]] = {}  # of a node that is busy: what waits for it
        self.busy: dict[str, float] = {}  # how long each node has worked

    # -- nodes -------------------------------------------------------------------------------------------------
    def add(self, node: Node, edge: Callable[[Ordered], None]) -> None:
        """A broker, and what takes the frames for its own edge."""
        self.nodes[node.name], self._edges[node.name] = node, edge

    def crash(self, name: str) -> None:
        """A broker loses all it knew, and what is under way to it or by it is lost; its links start anew."""
        del self.nodes[name], self._edges[name]
        for at, to in [ends for ends in self._ends if name in ends]:
            del self._ends[at, to]
        for link in [link for link in self.traffic if name in link]:
            session = frozenset(link)
            self._sessions[session] = self._sessions.get(session, 0) + 1

    def cut(self, one: str, other: str, until: float) -> None:
        """Nothing passes a link before this moment. Only with faults: it takes repetition to outlive it."""
        assert self._faults is not None, "a link that can be cut must repeat what is lost"
        self._cut[frozenset((one, other))] = until

    def tick(self) -> None:
        """Time passes at every node."""
        for name, node in [*self.nodes.items()]:
            self.post(name, node.tick(self.now))

    # -- sending -----------------------------------------------------------------------------------------------
    def post(self, sender: str, outs: Iterable[Out]) -> None:
        """What a node sends now."""
        for to, frame in outs:
            if to == sender:
                self._edges[sender](frame)  # type: ignore[arg-type]
            elif self._faults is None:
                self._count(sender, to, frame, self._size(frame))
                self.after(self._latency(sender, to), self._arrival(sender, to, frame))
            elif to in self.nodes:
                end = self._end(sender, to)
                idle = end.due is None
                self._send(sender, to, end.send(frame, self.now))
                if idle:
                    self._watch(sender, to, end)

    def _arrival(self, sender: str, to: str, frame: Frame) -> Callable[[], None]:
        session = self._session(sender, to)
        passed = decode(encode(frame)) if self._codec else frame

        def arrive() -> None:
            if session == self._session(sender, to):
                self._receive(sender, to, passed)

        return arrive

    def _session(self, one: str, other: str) -> int:
        """How often a link has begun anew."""
        return self._sessions.get(frozenset((one, other)), 0) if self._sessions else 0

    def _receive(self, sender: str, to: str, frame: Frame) -> None:
        node = self.nodes.get(to)
        if node is None:
            return
        if self._service is None:
            self.post(to, node.receive(sender, frame))
        elif to in self._queues:
            self._queues[to].append((sender, frame))
        else:
            self._queues[to] = deque()
            self._serve(node, sender, frame)

    def _serve(self, node: Node, sender: str, frame: Frame) -> None:
        """One frame at a time: what it causes is sent when its work is done, and then the next one begins."""
        assert self._service is not None
        begun = thread_time()
        outs = [*node.receive(sender, frame)]
        time = self._service(node.name, frame, thread_time() - begun)
        self.busy[node.name] = self.busy.get(node.name, 0.0) + time

        def done() -> None:
            self.post(node.name, outs)
            queue = self._queues[node.name]
            if queue:
                self._serve(node, *queue.popleft())
            else:
                del self._queues[node.name]

        self.after(time, done)

    # -- links with faults -------------------------------------------------------------------------------------
    def _end(self, at: str, to: str) -> Reliable:
        end = self._ends.get((at, to))
        if end is None:
            session = self._session(at, to)
            end = self._ends[at, to] = Reliable(session, self._timeout)
        return end

    def _send(self, sender: str, to: str, wire: Wire) -> None:
        faults = self._faults
        assert faults is not None
        data = encode_wire(wire)
        self._count(sender, to, wire.frame if isinstance(wire, Segment) else None, len(data))
        for _ in range(1 + (self._dice.random() < faults.duplicate)):
            if self._dice.random() < faults.drop or self.now < self._cut.get(frozenset((sender, to)), 0.0):
                continue
            passed = decode_wire(data) if self._codec else wire
            delay = self._latency(sender, to) + self._dice.random() * faults.delay
            self.after(delay, lambda passed=passed: self._wired(sender, to, passed))  # type: ignore[misc]

    def _wired(self, sender: str, to: str, wire: Wire) -> None:
        if to not in self.nodes or sender not in self.nodes:
            return
        frames, answers = self._end(to, sender).receive(wire)
        for answer in answers:
            self._send(to, sender, answer)
        for frame in frames:
            self._receive(sender, to, frame)

    def _watch(self, at: str, to: str, end: Reliable) -> None:
        """Repeat what is not acknowledged in time, for as long as something is not."""

        def look() -> None:
            if self._ends.get((at, to)) is not end or end.due is None:
                return
            for segment in end.tick(self.now):
                self._send(at, to, segment)
            self._watch(at, to, end)

        if end.due is not None:
            self.after(max(0.0, end.due - self.now), look)

    # -- the clock ---------------------------------------------------------------------------------------------
    def after(self, delay: float, run: Callable[[], None]) -> None:
        """Do something when this time has passed."""
        heappush(self._events, _Event(self.now + delay, next(self._numbers), run))

    def run(self, until: float | None = None) -> None:
        """Let time pass until this moment, or until nothing is under way."""
        while self._events and (until is None or self._events[0].moment <= until):
            event = heappop(self._events)
            self.now = event.moment
            event.run()
        if until is not None:
            self.now = max(self.now, until)

    # -- counts ------------------------------------------------------------------------------------------------
    def _count(self, sender: str, to: str, frame: Frame | None, size: int) -> None:
        traffic = self.traffic.get((sender, to))
        if traffic is None:
            traffic = self.traffic[sender, to] = Traffic()
        if self.watch is not None and frame is not None:
            self.watch(sender, to, frame)
        traffic.frames += 1
        traffic.bytes += size
        if isinstance(frame, Carrier):
            traffic.messages += 1
            traffic.message_bytes += size

    def _size(self, frame: Frame) -> int:
        known = self._sizes.get(id(frame))
        if known is not None and known[0] is frame:
            return known[1]
        if len(self._sizes) >= SIZES:
            self._sizes.clear()
        size = len(encode(frame))
        self._sizes[id(frame)] = frame, size
        return size
