"""Drives a simulated network at random, by seed, and compares what it delivers with the contract."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.model.frames import Carrier, Frame, Straight
from cn.model.geometry import Extent, Filter, Interval, contains, difference
from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.registry import scheme_of
from cn.simulation.network import SERVER
from cn.simulation.registry import make_simulated
from cn.simulation.transport import Faults

SPACES = (Space(1, 1, True), Space(2, 2, True), Space(3, 2, False), Space(4, 0, True), Space(5, 3, True))
TOPICS = (b"tech", b"tech", b"")
WIDTH = 30
WAITS = 60  # of two seconds, at the end
Hosted = dict[int, tuple[Space, bytes, Place | None]]
Delivered = list[tuple[Message, list[int]] | int]


def concerned(hosted: Hosted, message: Message) -> list[int]:
    """The contract in one function: what is to be delivered."""
    found = []
    for id, (space, topic, place) in sorted(hosted.items()):
        if space.id != message.space:
            continue
        if message.targets is not None:
            matches = id in message.targets
        elif place is None:
            matches = False
        elif message.attributes is not None:
            rows = [row for row in message.attributes if row is not None]
            matches = any(
                all(row[at] in extent for at, extent in one.items()) for one in place for row in rows
            )
        else:
            matches = topic == message.topic and contains(message.region, place)
        if matches:
            found.append(id)
    return found


class Driver:
    """Random joins, moves, leaves and messages in flight; `delivered` against `expected` in the end."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        brokers: int = 9,
        ids: int = 40,
        faults: Faults | None = None,
        options: dict[str, Any] | None = None,
        spaces: Sequence[Space] = SPACES,
        codec: bool = True,
    ) -> None:
        self.dice = random.Random(seed)
        self.delivered: Delivered = []
        self.expected: Delivered = []
        self.hosted: Hosted = {}
        self.positions: dict[tuple[int, int], int] = {}  # of (seq, part)
        self.carried: set[tuple[str, int, int]] = set()  # by the link to a broker: the message
        self.spaces, self.ids = spaces, ids
        self.has_contents = "repository" in (options or {})
        self.gaps: dict[int, list[tuple[int, int]]] = {}  # of an id: where its host had died, from to
        self.seq, self.part = 1, 0
        latencies: dict[frozenset[str], float] = {}
        names = [f"b{number}" for number in range(brokers)]
        self.network = make_simulated(
            name,
            self.deliver,
            self.delivered.append,
            brokers=names,
            faults=faults,
            codec=codec,
            eager=False,
            options=options,
            latency=lambda a, b: latencies.setdefault(frozenset((a, b)), 0.5 + random.Random(a + b).random()),
        )
        self.host_of = self.network._host_of
        self.exact = scheme_of(name).exact and not (options or {}).get("lub")
        self.below: dict[str, set[str]] = {
            name: {one for one in names if name in self.network._way(one)} for name in names
        }
        self.network.memory.watch = self.watch

    def deliver(self, message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        found = sorted(int(id) for id in ids)
        assert len(set(found)) == len(found), "an id is delivered once"
        self.delivered.append((message, found))

    def watch(self, sender: str, to: str, frame: Frame) -> None:
        if isinstance(frame, Carrier | Straight) and to != SERVER:
            self.carried.add((to, frame.message.seq, frame.message.part))

    # -- what happens at random --------------------------------------------------------------------------------
    def steps(self, count: int) -> None:
        for _ in range(count):
            roll = self.dice.random()
            if roll < 0.25:
                self.place()
            elif roll < 0.32:
                self.remove()
            elif roll < 0.75:
                self.message()
            elif roll < 0.85:
                self.mark()
            else:
                self.network.run(self.dice.random() * 3)

    def place(self) -> None:
        id, space = self.dice.randrange(self.ids), self.dice.choice(self.spaces)
        topic = self.dice.choice(TOPICS) if space.dimensions else b""
        place = None if self.dice.random() < 0.1 else self._place(space)
        self.network.register(space, id, topic, place)
        self.hosted[id] = space, topic, place

    def remove(self) -> None:
        id = self.dice.randrange(self.ids)
        self.network.remove(id)
        self.hosted.pop(id, None)

    def message(self) -> None:
        space = self.dice.choice(self.spaces)
        message = Message(
            self.seq, self.part, space.id, "some", payload=b"p", **self._whom(space), **self._content()
        )
        self.part += 1
        found = concerned(self.hosted, message)
        self.network.inject(message)
        self.positions[message.seq, message.part] = self.network.root.position
        if found:
            self.expected.append((message, found))

    def mark(self) -> None:
        self.network.watermark(self.seq)
        self.expected.append(self.seq)
        self.seq, self.part = self.seq + 1, 0

    def cut(self) -> None:
        """A link carries nothing for a while."""
        broker = self.dice.choice([*self.network.parents])
        memory = self.network.memory
        memory.cut(broker, self.network.parents[broker], memory.now + 10 * self.dice.random())

    def crash(self) -> None:
        """A broker dies: its ids miss what it had not applied by now, and hear everything from now on."""
        self._without(self.dice.choice([*self.network.parents]), self.network.crash)

    def lose(self) -> None:
        """A broker dies that leads to others, if there is one: those miss nothing."""
        parents = self.network.parents
        inner = [one for one in parents if one in parents.values()]
        self._without(self.dice.choice(inner or [*parents]), self.network.lose)

    def _without(self, broker: str, crash: Callable[[str], list[str]]) -> None:
        now = self.network.root.position
        applied = {name: edge.position for name, edge in self.network.edges.items()}
        for lost in crash(broker):
            for id in range(self.ids):
                if self.host_of(id) == lost:
                    self.gaps.setdefault(id, []).append((applied[lost], now))

    def _place(self, space: Space) -> Place:
        code = lambda: self.dice.randrange(WIDTH) if space.int64 else self.dice.choice("abcdef")
        if space.dimensions:
            return tuple(code() for _ in range(space.dimensions))
        return tuple(self._filter() for _ in range(self.dice.randint(1, 2)))

    def _filter(self) -> Filter:
        chosen: dict[int, Extent] = {}
        for attribute in range(3):
            roll = self.dice.random()
            if roll < 0.4:
                chosen[attribute] = Extent((self._interval(True),), self.dice.random() < 0.2)
            elif roll < 0.6:
                code = self.dice.randrange(WIDTH)
                chosen[attribute] = Extent((Interval(code, code),))
        return chosen

    def _interval(self, int64: bool) -> Interval:
        low, high = sorted(self.dice.randrange(WIDTH) if int64 else self.dice.choice("abcdef") for _ in "lh")
        bare = self.dice.random()
        return Interval(
            None if bare < 0.1 else low, None if bare > 0.9 else high, self.dice.random() < 0.2, False
        )

    def _whom(self, space: Space) -> dict[str, Any]:
        if self.dice.random() < 0.15:
            return {"targets": tuple(self.dice.sample(range(self.ids), 3))}
        if space.dimensions:
            box, hole = (tuple(self._interval(space.int64) for _ in range(space.dimensions)) for _ in "bh")
            pieces = tuple(difference(box, hole)) if self.dice.random() < 0.4 else ()
            return {"topic": self.dice.choice(TOPICS), "region": pieces or (box,)}
        code = lambda: None if self.dice.random() < 0.1 else self.dice.randrange(WIDTH)
        return {"attributes": (tuple(code() for _ in range(3)), None)}

    def _content(self) -> dict[str, tuple[bytes, ...]]:
        if not self.has_contents or self.dice.random() < 0.2:
            return {}
        number = self.dice.randrange(6)
        numbers = [number, (number + 1) % 6] if self.dice.random() < 0.3 else [number]
        return {
            "contents": tuple([b"content %d" % one * 9 for one in numbers]),
            "digests": tuple([bytes([one]) for one in numbers]),
        }

    # -- the end -----------------------------------------------------------------------------------------------
    def finish(self) -> None:
        self.mark()
        self.network.settle()
        heard = [*self._heard()]
        for _ in range(
            WAITS
        ):  # who was asked for a content and died is not waited for any longer, one after another
            if len(self.delivered) == len(heard):
                break
            self.network.memory.now += 2.0
            self.network.memory.tick()
            self.network.settle()
        self.network.check()
        assert self.delivered == heard
        if self.exact:
            assert not self._spurious(), "a link with no match below it carries no message"

    def _spurious(self) -> list[tuple[str, int, int]]:
        """The messages that passed a link though nobody below it was concerned."""
        hosts = {
            (one[0].seq, one[0].part): {self.host_of(id) for id in one[1]}
            for one in self.expected
            if not isinstance(one, int)
        }
        return [(to, *key) for to, *key in self.carried if not hosts.get((*key,), set()) & self.below[to]]

    def _heard(self) -> Iterator[tuple[Message, list[int]] | int]:
        """What was to be delivered, without what ids missed because their hosts had died."""
        for one in self.expected:
            if isinstance(one, int):
                yield one
                continue
            message, ids = one
            at = self.positions[message.seq, message.part]
            heard = [id for id in ids if not any(a < at <= b for a, b in self.gaps.get(id, ()))]
            if heard:
                yield message, heard
