"""Range-min: reformulation against enumeration against a scan, on the workload of [ProSem thesis] table 3.1.

Tuples uniform over x in [0, 10000], y a random walk in [0, 10000] with 0.5 % spikes (`bench/random_walk.py`); ranges with
midpoint N(5000, 1500) and length N(1000, 1000). The engine's own space is driven, not a copy of it. All strategies see the
same events and must agree on every affected subscription. As in [ProSem thesis] no event is ignorable. The source sends a
message for every region of an event, ours only for those that hold a subscription: both are counted. Events come in requests
of 100, as in `bench/end_to_end.py`, and also one by one. Beside it stand tree and rule in C++ alone, without and with the
search for subscriptions, where there is a compiler (`bench/native.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bench.common import Report, as_served, fail, progress, resident_bytes
from bench.native import RUNS, range_min
from bench.random_walk import DOMAIN, SPIKES, ranges, settled, updates
from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.types.base import Draft
from prosem.types.extreme import rule
from prosem.types.extreme.form import ExtremeSpace
from prosem.values.model import Delta, Row

_NAMES = {
    "subscriptions": "subs",
    "messages_reformulate": "msgs",
    "messages_regions": "regions",
    "unaffecting_percent": "no subs %",
    "messages_enumerate": "one by one",
    "us_reformulate": "µs",
    "us_enumerate": "µs 1 by 1",
    "us_scan": "µs scan",
    "us_one_by_one": "µs alone",
    "us_native": "C++",
    "us_native_searched": "C++, search",
    "us_rows": "rows",
    "us_step": "step",
    "us_messages": "messages",
}
SQL = "SELECT MIN(y) FROM stocks WHERE x BETWEEN :lo AND :hi"
TABLE = {
    "name": "stocks",
    "columns": [
        {"name": "k", "type": "integer"},
        {"name": "x", "type": "integer"},
        {"name": "y", "type": "integer"},
    ],
    "primary_key": ["k"],
}
SEEDS = {"subscriptions": 8, "events": 7}  # the same events for any number of subscriptions
EVENTS = {True: 300, False: 10_000}
REQUEST = 100  # events
THESIS_BY_TUPLES = {
    20_000: (2.10, 726),
    40_000: (2.15, 671),
    60_000: (2.18, 678),
    80_000: (2.20, 655),
    100_000: (2.22, 654),
}
THESIS_BY_SUBSCRIPTIONS = {
    200_000: (2.08, 303), 400_000: (2.08, 616), 600_000: (2.08, 909), 800_000: (2.08, 1218), 1_000_000: (2.08, 1441)
}  # fmt: skip


def run(quick: bool) -> Report:
    events = EVENTS[quick]
    report = Report("range-min", {"events": events, "quick": quick, "spikes": SPIKES})
    by_subscriptions, memory = by_subscription_count(quick)
    by_tuples = by_tuple_count(quick)
    report.figures = {
        "by_subscriptions": by_subscriptions,
        "by_tuples": by_tuples,
        "bytes_per_subscription": round(memory, 1),
        "thesis": {"by_subscriptions": THESIS_BY_SUBSCRIPTIONS, "by_tuples": THESIS_BY_TUPLES},
    }
    report.tables = [
        (
            "growth with subscriptions (thesis table 3.3)",
            _beside(by_subscriptions, "subscriptions", THESIS_BY_SUBSCRIPTIONS),
        ),
        ("growth with tuples (thesis table 3.2)", _beside(by_tuples, "tuples", THESIS_BY_TUPLES)),
    ]
    report.notes = [
        f"{memory:.0f} bytes per subscription at {by_subscriptions[-1]['subscriptions']:,}, everything included",
        "msgs: regions that hold a subscription; regions: all of them, as the thesis sends; thesis: S-CN / unicast",
        f"µs: in requests of {REQUEST}; µs alone: each event is a request; 1 by 1: all affected subscriptions are named",
        "rows, step, messages: parts of µs; a step is tree, rule and the search for subscriptions",
        "C++: tree and rule without Python; C++, search: with the search for subscriptions too",
    ]
    return report


def by_subscription_count(quick: bool) -> tuple[list[dict[str, Any]], float]:
    """Figures by the number of subscriptions, and the memory of one at the largest."""
    found, memory = [], 0.0
    for count in [10_000, 50_000] if quick else [100_000, *THESIS_BY_SUBSCRIPTIONS]:
        figures, memory = measure(2_000 if quick else 10_000, count, EVENTS[quick])
        found.append(figures)
    return found, memory


def by_tuple_count(quick: bool) -> list[dict[str, Any]]:
    """Figures by the number of tuples."""
    counts = [2_000, 10_000] if quick else [10_000, *THESIS_BY_TUPLES]
    return [measure(count, 10_000 if quick else 500_000, EVENTS[quick])[0] for count in counts]


def _beside(
    rows: list[dict[str, Any]], by: str, thesis: dict[int, tuple[float, int]]
) -> list[dict[str, Any]]:
    shown = []
    for row in rows:
        known = thesis.get(row[by])
        named = {_NAMES.get(name, name): value for name, value in row.items()}
        shown.append(named | {"thesis": f"{known[0]} / {known[1]}" if known else "-"})
    return shown


def measure(tuples: int, subscriptions: int, events: int) -> tuple[dict[str, Any], float]:
    """Figures per event, and bytes of memory a subscription."""
    progress(f"range-min: {tuples:,} tuples, {subscriptions:,} subscriptions, {events:,} events")
    random = np.random.default_rng(SEEDS["events"])
    state, xs, ys = _state(tuples, random)
    before = resident_bytes()
    low, high = _subscribe(state, subscriptions, np.random.default_rng(SEEDS["subscriptions"]))
    memory = (resident_bytes() - before) / subscriptions
    (space,) = state.spaces.values()
    assert isinstance(space, ExtremeSpace)
    moves = list(islice(updates(xs, ys, random), events))
    walk = Walk(state, space, xs, ys)
    with as_served():
        told, reformulate_s = walk.least(moves, "reformulate")
        again, alone_s = walk.least(moves, "reformulate", 1)
        parts = walk.parts(moves)
        addressed, enumerate_s = walk.take(moves, "enumerate")
    if again != told:
        fail("events that are taken one by one make other messages than in requests")
    scan = Scan(low, high, xs, ys)
    start = time.thread_time()
    affected = [scan.take(key, y) for key, y in moves]
    scan_s = time.thread_time() - start
    for (key, _), drafts, found in zip(moves, addressed, affected, strict=True):
        if sorted(sid for draft in drafts for sid in draft.targets or ()) != [int(at) + 1 for at in found]:
            fail(f"enumeration and scan disagree on an event of key {key}")
    named = [sum(len(draft.targets or ()) for draft in drafts) for drafts in addressed]
    all_regions, native = regions(xs, ys, moves), range_min(xs, ys, moves, low, high)
    if native is not None and (native.pieces, native.pieces_held) != (all_regions, sum(map(len, told))):
        fail(
            f"C++ makes {native}, and here there are {all_regions} regions and {sum(map(len, told))} messages"
        )
    return {
        "subscriptions": subscriptions,
        "tuples": tuples,
        "messages_reformulate": round(sum(map(len, told)) / len(moves), 3),
        "messages_regions": round(all_regions / len(moves), 3),
        "messages_enumerate": round(sum(named) / len(moves), 2),  # as one by one: they share few messages
        "unaffecting_percent": round(100 * sum(not count for count in named) / len(moves), 1),
        "most_affected": max(named),
        "us_reformulate": round(reformulate_s / len(moves) * 1e6, 2),
        **parts,
        "us_one_by_one": round(alone_s / len(moves) * 1e6, 2),
        "us_enumerate": round(enumerate_s / len(moves) * 1e6, 2),
        "us_scan": round(scan_s / len(moves) * 1e6, 2),
        "us_native": None if native is None else round(native.us, 2),
        "us_native_searched": None if native is None else round(native.us_searched, 2),
    }, memory


def regions(xs: NDArray[np.int64], ys: NDArray[np.int64], moves: list[tuple[int, int]]) -> int:
    """The regions of all events, whether or not a subscription lies in them: what [ProSem thesis] sends."""
    tree = A2BTree().build([(int(x), int(y), key) for key, (x, y) in enumerate(zip(xs, ys, strict=True))])
    values, count = ys.tolist(), 0
    for key, y in moves:
        x = int(xs[key])
        count += len(rule.step(tree, (x, values[key]), (x, y), key))
        values[key] = y
    return count


class Walk:
    """Each strategy walks alone: a scan in between would push the trees out of the processor's cache."""

    def __init__(
        self, state: EngineState, space: ExtremeSpace, xs: NDArray[np.int64], ys: NDArray[np.int64]
    ) -> None:
        self._table, self._rows = state.tables()["stocks"], state.rows[1]
        self._space, self._xs, self._ys = space, xs, ys

    def take(
        self, moves: list[tuple[int, int]], plan: str, size: int = REQUEST
    ) -> tuple[list[list[Draft]], float]:
        """The messages of every event, in requests of this size, and the seconds of CPU time they took."""
        take, rows, deltas = self._space.take, self._rows, self._deltas(moves)
        out: list[list[Draft]] = []

        def choose(space: object, description: object) -> str:
            return plan

        start = time.thread_time()
        for first in range(0, len(deltas), size):
            request = deltas[first : first + size]
            for delta in request:
                rows[delta.key] = delta.new  # type: ignore[assignment]
            out += [outcome.drafts for outcome in take(request, choose)]
        return out, time.thread_time() - start

    def least(
        self, moves: list[tuple[int, int]], plan: str, size: int = REQUEST
    ) -> tuple[list[list[Draft]], float]:
        """The same with the least time of some walks, as `bench/native.py` has it; the rows are as before."""
        walks = []
        for _ in range(RUNS):
            walks.append(self.take(moves, plan, size))
            self.rewind(moves)
        return walks[0][0], min(seconds for _, seconds in walks)

    def parts(self, moves: list[tuple[int, int]]) -> dict[str, float]:
        """µs per event of each part, the least of some walks; all events go through one part before the next."""
        walks = []
        for _ in range(RUNS):
            walks.append(self._parts(moves))
            self.rewind(moves)
        names = ("us_rows", "us_step", "us_messages")
        return {
            name: round(min(times), 2) for name, times in zip(names, zip(*walks, strict=True), strict=True)
        }

    def _parts(self, moves: list[tuple[int, int]]) -> list[float]:
        space, rows, deltas = self._space, self._rows, self._deltas(moves)
        clock = [time.thread_time()]
        for delta in deltas:
            rows[delta.key] = delta.new  # type: ignore[assignment]
        clock.append(time.thread_time())
        requests = [deltas[first : first + REQUEST] for first in range(0, len(deltas), REQUEST)]
        descriptions = [one for request in requests for one in self._step_all(request)]
        clock.append(time.thread_time())
        for description in descriptions:
            if description:
                space.messages(description, "reformulate")
        clock.append(time.thread_time())
        return [1e6 * (after - before) / len(deltas) for before, after in pairwise(clock)]

    def _step_all(self, request: list[Delta]) -> Sequence[Any | None]:
        described = self._space.step_all(request)
        return [self._space.step(delta) for delta in request] if described is None else described

    def _deltas(self, moves: list[tuple[int, int]]) -> list[Delta]:
        """The events; the rows are as before them."""
        rows, deltas = self._rows, []
        for key, y in moves:
            old, new = rows[key,], (key, int(self._xs[key]), y)
            rows[key,] = new
            deltas.append(Delta(0, self._table, (key,), old, new))
        for delta in deltas:
            rows[delta.key] = cast(Row, self._first(delta))
        return deltas

    def _first(self, delta: Delta) -> Row | None:
        key = delta.key[0]
        return (key, int(self._xs[key]), int(self._ys[key]))

    def rewind(self, moves: list[tuple[int, int]]) -> None:
        """Every row as it was before the walk."""
        for key in {key for key, _ in moves}:
            old = self._rows[key,]
            new = self._rows[key,] = (key, int(self._xs[key]), int(self._ys[key]))
            self._space.step(Delta(0, self._table, (key,), old, new))


def _state(
    tuples: int, random: np.random.Generator
) -> tuple[EngineState, NDArray[np.int64], NDArray[np.int64]]:
    state = EngineState(chooser("auto"), Metrics())
    state.execute(c.CreateTable(TABLE))
    xs = random.integers(0, DOMAIN + 1, tuples)
    ys = settled(random.integers(0, DOMAIN + 1, tuples), random)
    state.rows[1].update({(k,): (k, int(xs[k]), int(ys[k])) for k in range(tuples)})
    return state, xs, ys


def _subscribe(
    state: EngineState, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    low, high = ranges(random, count).T
    query = parse(SQL)
    for start in range(0, count, 50_000):
        stop = min(count, start + 50_000)
        rows: list[tuple[str | None, dict[str, Any]]] = [
            (None, {"lo": int(low[at]), "hi": int(high[at])}) for at in range(start, stop)
        ]
        state.execute(c.Subscribe(query, None, rows, batch=True))
        state.begin()
    return low, high


class Scan:
    """What a competent engineer writes first: all ranges and their minima in arrays, scanned at each event."""

    def __init__(
        self, low: NDArray[np.int64], high: NDArray[np.int64], xs: NDArray[np.int64], ys: NDArray[np.int64]
    ) -> None:
        self._low, self._high, self._xs, self._ys = low, high, xs, ys.copy()
        order = np.argsort(xs, kind="stable")
        self._sorted_x, self._order = xs[order], order
        table = _sparse(self._ys[order])
        start, stop = (
            np.searchsorted(self._sorted_x, low, "left"),
            np.searchsorted(self._sorted_x, high, "right"),
        )
        self._minimum = _lowest(table, start, stop)

    def take(self, key: int, y: int) -> NDArray[np.int64]:
        """The subscriptions whose minimum the event changes."""
        x, old = self._xs[key], self._ys[key]
        self._ys[key] = y
        if y == old:
            return np.empty(0, np.int64)
        inside = (self._low <= x) & (self._high >= x)
        if y < old:
            found = np.flatnonzero(inside & (self._minimum > y))
            self._minimum[found] = y
            return found
        suspects = np.flatnonzero(inside & (self._minimum == old))
        if not len(suspects):
            return suspects
        first, last = self._low[suspects].min(), self._high[suspects].max()
        left = int(np.searchsorted(self._sorted_x, first, "left"))
        right = int(np.searchsorted(self._sorted_x, last, "right"))
        table = _sparse(self._ys[self._order[left:right]])
        start = np.searchsorted(self._sorted_x, self._low[suspects], "left") - left
        stop = np.searchsorted(self._sorted_x, self._high[suspects], "right") - left
        now = _lowest(table, start, stop)
        changed = now != old
        self._minimum[suspects] = now
        return np.asarray(suspects[changed], np.int64)


def _sparse(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Minima over all runs of length 1, 2, 4, …"""
    table, width = [values], 1
    while 2 * width <= len(values):
        table.append(np.minimum(table[-1][:-width], table[-1][width:]))
        width *= 2
    return table


def _lowest(
    table: list[NDArray[np.int64]], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The minimum of values[start:stop] for each pair; the greatest number where it is empty."""
    found = np.full(len(start), np.iinfo(np.int64).max)
    length = stop - start
    level = np.where(length > 0, np.log2(np.maximum(length, 1)).astype(np.int64), -1)
    for depth, minima in enumerate(table):
        here = np.flatnonzero(level == depth)
        if len(here):
            found[here] = np.minimum(minima[start[here]], minima[stop[here] - (1 << depth)])
    return found
