"""Any network of brokers as one `Network`, in a simulator: what the contract suite and the benches run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.model.message import Message
from cn.model.network import Deliver, Place, Release, Space
from cn.networks.edge_buffer import EdgeBuffer
from cn.networks.node import Node, Options, Out, Root, Scheme
from cn.simulation.transport import Faults, Latency, Memory

SERVER = "server"
BROKERS = tuple(f"broker-{number}" for number in range(1, 8))
Known = tuple[Space, bytes, Place | None]


class Simulated:
    """The server's node, its brokers and their edges over a memory transport.

    Each id has one host, `host_of(id)`. What the edges deliver is put together again: a message is delivered once, with
    the ids of all hosts, when every edge is past its position. With `eager` every mark runs the simulator until nothing
    is under way; otherwise time passes only in `run` and `settle`, and messages are in flight meanwhile.
    """

    def __init__(
        self,
        scheme: Scheme,
        deliver: Deliver,
        release: Release,
        *,
        brokers: Sequence[str] = BROKERS,
        host_of: Callable[[int], str] | None = None,
        options: Options | None = None,
        latency: Latency = lambda sender, to: 1.0,
        faults: Faults | None = None,
        codec: bool = False,
        eager: bool = True,
    ) -> None:
        self.name, self.scheme = scheme.name, scheme
        self.options = options or {}
        self.memory = Memory(latency=latency, faults=faults, codec=codec)
        self.root: Root = scheme.root(SERVER, self.options)
        self.edges: dict[str, EdgeBuffer] = {}
        self.parents = scheme.overlay(SERVER, brokers, self.options)
        self._deliver, self._release, self._eager = deliver, release, eager
        hosts = (SERVER, *brokers)
        self._host_of = host_of or (lambda id: hosts[id % len(hosts)])
        self._known: dict[int, Known] = {}
        self._matches: dict[int, tuple[Message, list[NDArray[np.int64]]]] = {}  # by position
        self._marks: list[tuple[int, int]] = []  # (position, seq), not yet released
        self._add(self.root)
        for broker in sorted(self.parents, key=lambda one: len(self._way(one))):  # after its parent
            self._join(broker)

    # -- what a network does -----------------------------------------------------------------------------------
    def register(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        if self._known.get(id) != (space, topic, place):
            self._post(self.root.place(self._host_of(id), space, id, topic, place))
            self._known[id] = space, topic, place

    def move(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        if id in self._known:
            self.register(space, id, topic, place)

    def remove(self, id: int) -> None:
        if self._known.pop(id, None) is not None:
            self._post(self.root.left(self._host_of(id), id))

    def inject(self, message: Message) -> None:
        self._post(self.root.inject(message))

    def watermark(self, seq: int) -> None:
        self.root.trim(min(edge.position for edge in self.edges.values()))
        self._post(self.root.mark(seq))
        self._marks.append((self.root.position, seq))
        if self._eager:
            self.settle()
        else:
            self._deliver_ready()

    def links(self) -> list[dict[str, Any]]:
        """Each link in each direction: messages carried, all frames, and the bytes of all of them as encoded."""
        pairs = [(parent, broker) for broker, parent in self.parents.items()]
        traffic = {**dict.fromkeys(pairs), **self.memory.traffic}
        return [
            {
                "from": sender,
                "to": to,
                "messages": carried.messages if carried else 0,
                "bytes": carried.bytes if carried else 0,
                "message_bytes": carried.message_bytes if carried else 0,
                "frames": carried.frames if carried else 0,
            }
            for (sender, to), carried in traffic.items()
        ]

    # -- time and membership -----------------------------------------------------------------------------------
    def run(self, time: float) -> None:
        """Let some time pass."""
        self.memory.run(self.memory.now + time)
        self._deliver_ready()

    def settle(self) -> None:
        """Let time pass until nothing is under way."""
        self.memory.run()
        self._deliver_ready()

    def crash(self, broker: str) -> list[str]:
        """A broker dies, and with it its part of the tree; it comes back at once, empty. Returns the lost ones.

        What their edges had not yet applied is lost with them; what they hosted is placed again, from this position
        on. (In a deployment the server replays what lies between.)
        """
        lost = [one for one in self.parents if broker in self._way(one)]
        self._post(self.root.leave(broker))
        for one in lost:
            self.memory.crash(one)
            del self.edges[one]
        self._bring_back(lost, lost)
        return lost

    def lose(self, broker: str) -> list[str]:
        """A broker dies, and those below it go on below its parent; it comes back at once, empty. Returns the lost ones."""
        below = [one for one in self.parents if broker in self._way(one)]
        kept, outs = self.root.lose(broker, {name: edge.position for name, edge in self.edges.items()})
        lost = [one for one in below if one not in kept]
        for one in lost:
            self.memory.crash(one)
            del self.edges[one]
        self._post(outs)
        for one in kept:
            if self.parents[one] == broker:
                self.parents[one] = self.parents[broker]
        self._bring_back(lost, below)
        return lost

    def _bring_back(self, lost: Sequence[str], displaced: Sequence[str]) -> None:
        """Lost brokers join again, parents first; what the displaced host is placed from this position on."""
        for one in sorted(lost, key=lambda one: len(self._way(one))):
            self._join(one)
        for id, (space, topic, place) in self._known.items():
            if self._host_of(id) in displaced:
                self._post(self.root.place(self._host_of(id), space, id, topic, place))

    def check(self) -> None:
        """Assert the invariants of every edge, and of every node that has some."""
        for edge in self.edges.values():
            edge.check()
        for node in self.memory.nodes.values():
            getattr(node, "check", lambda: None)()

    # -- parts -------------------------------------------------------------------------------------------------
    def _way(self, broker: str) -> list[str]:
        way = [broker]
        while way[-1] in self.parents:
            way.append(self.parents[way[-1]])
        return way

    def _join(self, broker: str) -> None:
        outs = self.root.join(broker, self.parents[broker])
        self._add(self.scheme.node(broker, self.options, self.root.position))
        self._post(outs)

    def _add(self, node: Node) -> None:
        def deliver(message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
            position = self.edges[node.name].applying
            self._matches.setdefault(position, (message, []))[1].append(np.asarray(ids, np.int64))

        edge = EdgeBuffer(deliver, lambda seq: None, since=self.root.position)
        self.edges[node.name] = edge
        self.memory.add(node, edge.take)

    def _post(self, outs: Iterable[Out]) -> None:
        self.memory.post(SERVER, outs)

    def _deliver_ready(self) -> None:
        """Deliver and release up to where every edge has come."""
        if not self._marks:
            return
        reached = min(edge.position for edge in self.edges.values())
        done = 0
        for mark, seq in self._marks:
            if mark > reached:
                break
            for position in sorted(position for position in self._matches if position < mark):
                message, ids = self._matches.pop(position)
                self._deliver(message, np.concatenate(ids))
            self._release(seq)
            done += 1
        del self._marks[:done]
