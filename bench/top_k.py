"""Top-k: reformulation against enumeration against a scan with recomputation, for several k.

The workload of `range-min` with more rows: x and y uniform in [0, 10000], y a random walk with spikes, ranges with midpoint
N(5000, 1500) and length N(1000, 1000). The engine's own space is driven, not a copy of it. All strategies see the same
events and must agree on every affected subscription; the regions of a large k may hold others, whose edges see that nothing
changed. A sample of the subscriptions is hosted by an edge, and must have the answer of a recomputation at the end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bench.common import Report, fail, progress
from bench.random_walk import DOMAIN, updates
from bench.range_min import _state
from cn.model.message import Message
from cn.networks.local import LocalNetwork
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.types.base import Bound, Draft
from prosem.types.top_k.form import TopKForm
from prosem.types.top_k.space import MOST_BOXES, TopKSpace
from prosem.values.model import Delta, Row
from prosem.values.wire import pack

SQL = "SELECT k, y FROM stocks WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT {}"
HOSTED = 64
_KEY_BITS = 24
_NOTHING = np.iinfo(np.int64).max
_NAMES = {
    "subscriptions": "subs",
    "messages_reformulate": "msgs",
    "messages_enumerate": "one by one",
    "bytes_reformulate": "bytes",
    "us_reformulate": "µs",
    "us_enumerate": "µs 1 by 1",
    "us_scan": "µs scan",
}
Integers = NDArray[np.int64]


def run(quick: bool) -> Report:
    tuples, subscriptions = (5_000, [1_000, 10_000]) if quick else (100_000, [10_000, 100_000])
    events = 150 if quick else 1_000
    report = Report("top-k", {"events": events, "quick": quick, "tuples": tuples})
    figures = [measure(tuples, count, k, events) for count in subscriptions for k in (1, 10, 100)]
    report.figures = {"by_k": figures}
    report.tables = [
        (
            "growth with k and subscriptions",
            [{_NAMES.get(name, name): value for name, value in row.items()} for row in figures],
        )
    ]
    report.notes = [
        "µs of CPU time and affected per event, all events; messages and bytes per event that affects a subscription",
        "scan: numpy over all ranges and the rank of their last row; the affected are recomputed",
    ]
    return report


def measure(tuples: int, subscriptions: int, k: int, events: int) -> dict[str, Any]:
    """Figures per event."""
    progress(f"top-k: {tuples:,} tuples, {subscriptions:,} subscriptions, k = {k}, {events:,} events")
    random = np.random.default_rng(7)
    state, xs, ys = _state(tuples, random)
    low, high = _subscribe(state, subscriptions, k, random)
    (space,) = state.spaces.values()
    assert isinstance(space, TopKSpace)
    moves = list(islice(updates(xs, ys, random), events))
    walk = Walk(state, space, moves)
    sample = random.choice(subscriptions, min(HOSTED, subscriptions), replace=False)
    edges = [Edge(state, space, sample) for _ in range(2)]
    told, reformulate_s = walk.take("reformulate")
    reached = [_reached(space, drafts) for drafts in told]
    walk.rewind()
    addressed, enumerate_s = walk.take("enumerate")
    scan = Scan(low, high, xs, ys, k)
    start = time.process_time()
    affected = [scan.take(key, y) for key, y in moves]
    scan_s = time.process_time() - start
    for at, found in enumerate(affected):
        expected = [int(one) + 1 for one in found]
        if sorted(_reached(space, addressed[at])) != expected:
            fail(f"enumeration and scan disagree on an event of key {moves[at][0]}")
        if not reached[at].issuperset(expected) or (k <= MOST_BOXES and len(reached[at]) > len(expected)):
            fail(f"reformulation and scan disagree on an event of key {moves[at][0]}")
    for edge, drafts in zip(edges, (told, addressed), strict=True):
        edge.fold(drafts)
    number = max(1, sum(len(found) > 0 for found in affected))
    size = sum(len(pack(draft)) for drafts in told for draft in drafts)
    return {
        "k": k,
        "subscriptions": subscriptions,
        "tuples": tuples,
        "affected": round(sum(map(len, affected)) / len(moves), 3),
        "messages_reformulate": round(sum(map(len, told)) / number, 3),
        "messages_enumerate": round(sum(map(len, addressed)) / number, 3),
        "bytes_reformulate": round(size / number),
        "us_reformulate": round(reformulate_s / len(moves) * 1e6, 2),
        "us_enumerate": round(enumerate_s / len(moves) * 1e6, 2),
        "us_scan": round(scan_s / len(moves) * 1e6, 2),
    }


def _subscribe(
    state: EngineState, count: int, k: int, random: np.random.Generator
) -> tuple[Integers, Integers]:
    middle = random.normal(5000, 1500, count)
    length = np.abs(random.normal(1000, 1000, count))
    low = np.clip(middle - length / 2, 0, DOMAIN).astype(np.int64)
    high = np.clip(middle + length / 2, 0, DOMAIN).astype(np.int64)
    query = parse(SQL.format(k))
    rows: list[tuple[str | None, dict[str, Any]]] = [
        (None, {"lo": a, "hi": b}) for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]
    state.execute(c.Subscribe(query, None, rows, batch=True))
    state.begin()
    return low, high


def _reached(space: TopKSpace, drafts: Sequence[Draft]) -> set[int]:
    """The subscriptions that messages concern."""
    found: set[int] = set()
    for draft in drafts:
        named = draft.targets
        found.update(space.points.find(draft.topic, draft.region).tolist() if named is None else named)
    return found


class Walk:
    """The same events for each plan, in CPU time: what else runs on the machine does not count."""

    def __init__(self, state: EngineState, space: TopKSpace, moves: Sequence[tuple[int, int]]) -> None:
        self._space, self._rows = space, state.rows[1]
        self._first = {(key,): self._rows[key,] for key, _ in moves}
        table, now = state.tables()["stocks"], dict(self._first)
        self._deltas = []
        for key, y in moves:
            old, new = now[key,], (*now[key,][:2], y)
            now[key,] = new
            self._deltas.append(Delta(0, table, (key,), old, new))

    def take(self, plan: str) -> tuple[list[list[Draft]], float]:
        """The messages of every event, and the seconds they took."""
        space, rows, out = self._space, self._rows, []
        start = time.process_time()
        for delta in self._deltas:
            rows[delta.key] = cast(Row, delta.new)
            description = space.step(delta)
            out.append(space.messages(description, plan) if description else [])
        return out, time.process_time() - start

    def rewind(self) -> None:
        """Every row as it was before the walk."""
        for delta in reversed(self._deltas):
            self._rows[delta.key] = cast(Row, delta.old)
            self._space.step(delta._replace(old=delta.new, new=delta.old))
        assert all(self._rows[key] == row for key, row in self._first.items())


class Edge:
    """Some subscriptions with their answers as of now; they fold the messages of all events and end as recomputed."""

    def __init__(self, state: EngineState, space: TopKSpace, sample: Integers) -> None:
        self._space, self._bounds = space, dict[int, Bound]()
        self._network = LocalNetwork(self._deliver, lambda seq: None)
        self._folding: dict[int, list[Message]] = {}
        for sid in (sample + 1).tolist():
            form, _, self._bounds[sid] = state.place(sid)
            self._network.register(space.network, sid, self._bounds[sid].topic, self._bounds[sid].place)
        self._form = cast(TopKForm, form)
        self._states = {sid: self._form.state(space, bound) for sid, bound in self._bounds.items()}

    def _deliver(self, message: Message, sids: Any) -> None:
        for sid in sids if isinstance(sids, Sequence) else sids.tolist():
            self._folding.setdefault(sid, []).append(message)

    def fold(self, told: Sequence[Sequence[Draft]]) -> None:
        for seq, drafts in enumerate(told):
            for part, draft in enumerate(drafts):
                self._network.inject(Message(seq, part, self._space.network.id, *draft))
            folding, self._folding = self._folding, {}
            for sid, messages in folding.items():
                self._states[sid] = self._form.change(messages, self._bounds[sid], self._states[sid])[1]
        for sid, bound in self._bounds.items():
            if self._form.state(self._space, bound) != self._states[sid]:
                fail(f"the edge has another answer than a recomputation for {bound.place}")


class Scan:
    """What a competent engineer writes first: all ranges and the rank of their k-th row in arrays, scanned at each event."""

    def __init__(self, low: Integers, high: Integers, xs: Integers, ys: Integers, k: int) -> None:
        self._low, self._high, self._xs, self._k = low, high, xs, k
        order = np.argsort(xs, kind="stable")
        self._place = np.empty_like(order)
        self._place[order] = np.arange(len(order))  # key → where its rank stands
        self._ranks = ((ys << _KEY_BITS) | np.arange(len(ys)))[order]
        self._start = np.searchsorted(xs[order], low, "left")
        self._stop = np.searchsorted(xs[order], high, "right")
        self._last = np.array([self._kth(at) for at in range(len(low))], np.int64)

    def _kth(self, at: int) -> int:
        """The rank of a subscription's k-th row; beyond all if it has fewer."""
        inside = self._ranks[self._start[at] : self._stop[at]]
        return int(np.partition(inside, self._k - 1)[self._k - 1]) if len(inside) >= self._k else _NOTHING

    def take(self, key: int, y: int) -> Integers:
        """The subscriptions whose first k rows the event changes."""
        x, place = self._xs[key], self._place[key]
        old, new = self._ranks[place], (y << _KEY_BITS) | key
        if old == new:
            return np.empty(0, np.int64)
        self._ranks[place] = new
        inside = (self._low <= x) & (self._high >= x)
        found = np.flatnonzero(inside & (self._last >= min(old, new)))
        for at in found.tolist():
            self._last[at] = self._kth(at)
        return found
