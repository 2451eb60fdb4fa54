"""Range-min subscriptions and their events as networks see them: the engine's own space over rows that walk at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bench import random_walk, range_min
from bench.network_setting import Ints
from bench.random_walk import BELOW, DOMAIN, updates
from cn.model.message import Message
from prosem.engine import commands as c
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.language.parse import parse
from prosem.types.base import Bound
from prosem.types.extreme import rule
from prosem.types.extreme.form import ExtremeSpace
from prosem.values.model import Delta

SEEDS = {"subscriptions": 5, "events": 7}
USUAL = (random_walk.MIDDLE, random_walk.LENGTH)  # midpoints and lengths of ranges


class Event(NamedTuple):
    """An update of the row at x: its messages, and the subscriptions that each affects.

    `regions` are the messages of [ProSem thesis], also to regions that hold no subscription; none if it was ignorable. `row`
    is the new row, which CN sends to all ranges that hold it.
    """

    x: int
    row: bytes
    messages: list[Message]
    ids: list[Ints]
    regions: list[Message]


def ranges(
    count: int, middle: tuple[float, float], length: tuple[float, float], seed: int = SEEDS["subscriptions"]
) -> Ints:
    """Points (lo, hi) of so many subscriptions, drawn from normal distributions."""
    return random_walk.ranges(np.random.default_rng(seed), count, middle, length)


class Workload:
    """The engine's own space over rows that walk at random ([ProSem thesis] table 3.1)."""

    def __init__(
        self, tuples: int, points: Ints, seed: int = SEEDS["events"], recommendations: bool = False
    ) -> None:
        self._random, self._seq = np.random.default_rng(seed), 0
        random = self._random
        self._state, self.xs, self.ys = range_min._state(tuples, random)
        if (
            recommendations
        ):  # some hundred places, as mean ratings from 1 to 5 are, and values with a long tail
            self.xs = np.rint(random.beta(4, 5, tuples) * 400).astype(np.int64) * (DOMAIN // 400)
            self.ys = np.clip(random.lognormal(6.5, 0.8, tuples), 1, DOMAIN).astype(np.int64)
            rows = zip(self.xs.tolist(), self.ys.tolist(), strict=True)
            self._state.rows[1].update({(k,): (k, x, y) for k, (x, y) in enumerate(rows)})
        first: list[tuple[str | None, dict[str, Any]]] = [
            (None, dict(zip(("lo", "hi"), points[0].tolist(), strict=True)))
        ]
        self._state.execute(c.Subscribe(parse(range_min.SQL), None, first, batch=True))
        (space,) = self._state.spaces.values()
        assert isinstance(space, ExtremeSpace)
        self.space = space
        for start in range(1, len(points), 100_000):
            some = points[start : start + 100_000].tolist()
            space.add(range(start + 1, start + 1 + len(some)), [Bound(b"", tuple(one)) for one in some])
        placed = zip(self.xs.tolist(), self.ys.tolist(), strict=True)
        self._tree = A2BTree().build([(x, y, (key,)) for key, (x, y) in enumerate(placed)])

    def events(self, *, ignorable: bool = False) -> Iterator[Event]:
        """Updates without spikes and without end; ignorable ones too, if asked for."""
        for key, y in updates(self.xs, self.ys, self._random, spikes=0.0, ignorable=ignorable):
            yield self._take(key, y)

    def spikes(self, count: int) -> Iterator[Event]:
        """A value drops below all others, and then bounces back."""
        for key in self._random.integers(0, len(self.xs), count // 2).tolist():
            y = int(self._state.rows[1][key,][2])
            yield self._take(key, BELOW)
            yield self._take(key, y)

    def _take(self, key: int, y: int) -> Event:
        self._seq += 1
        rows = self._state.rows[1]
        old = rows[key,]
        new = rows[key,] = (key, old[1], y)
        description = self.space.step(Delta(self._seq, self._state.tables()["stocks"], (key,), old, new))
        drafts = self.space.messages(description, "reformulate") if description else []
        messages = [Message(self._seq, part, 1, *draft) for part, draft in enumerate(drafts)]
        found = [(one, self.space.points.find(b"", one.region)) for one in messages]
        found = [(one, ids) for one, ids in found if len(ids)]
        pieces = rule.step(self._tree, (old[1], old[2]), (old[1], y), (key,))
        regions = [
            Message(self._seq, part, 1, *draft)
            for part, draft in enumerate(self.space.drafts([(b"", one) for one in pieces]))
        ]
        row = b'{"k":%d,"x":%d,"y":%d}' % new
        return Event(int(old[1]), row, [one for one, _ in found], [ids for _, ids in found], regions)


def affecting(events: Iterator[Event], count: int) -> list[Event]:
    """The first events that affect a subscription."""
    found: list[Event] = []
    for event in events:
        if event.messages:
            found.append(event)
            if len(found) >= count:
                break
    return found
