"""Value notification: reformulation against enumeration against a scan, on the workloads of [ProSem thesis] table 4.1.

`diff_rad`: radii N(25000, 50000) in [1, 200000], all told the same at first, values AR1(400, 1, 1000).
`same_rad`: one radius of 51000, told values spread around the first one, values AR1(500, 1, 800).
`all_rad`: radii in cents, one in ten uniform up to $100, the others N($20, $20) in whole dollars; a third of the
subscriptions arrive between the events; values AR1(500, 1, 800).
The tree is the engine's own. Tree and scan see the same events, each alone, so that nothing else cools their caches,
and must agree on every affected subscription. A message is a range of radii, or one radius with its arcs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedList

from bench.common import Report, as_served, fail, progress
from bench.value_choice import may_must
from bench.value_many import many
from bench.value_workloads import truncated
from prosem.index.radii.b2_tree import B2Tree
from prosem.index.radii.ba_tree_ends import Change
from prosem.index.radii.ba_tree_radii import Fired
from prosem.index.radii.labels import ORIGIN, Labels

Integers = NDArray[np.int64]
THESIS_DIFF_RAD = {
    20_000: (30, 499),
    40_000: (33, 982),
    60_000: (34, 1426),
    80_000: (35, 1850),
    100_000: (36, 2201),
}
THESIS_SAME_RAD = {
    10_000: (0.04, 97),
    20_000: (0.04, 193),
    30_000: (0.04, 290),
    40_000: (0.04, 386),
    50_000: (0.04, 483),
}
DIFF_SIZES = {True: (5_000, 20_000), False: (10_000, *THESIS_DIFF_RAD)}
SAME_SIZES = {True: (5_000, 10_000), False: (5_000, *THESIS_SAME_RAD, 100_000)}
RADIUS = 51_000
SEED = 7
FEW = 4  # messages of an event
FIRST = 200  # events for which a tree on endpoints is measured too


class Workload(NamedTuple):
    """Subscriptions by ascending radius; each arrives before an event (0: before the first), told the value of then."""

    radius: Integers
    arrival: Integers
    first: Integers  # what the early ones were told
    values: list[int]


def run(quick: bool) -> Report:
    with as_served():
        return _run(quick)


def _run(quick: bool) -> Report:
    events = 1_000 if quick else 20_000
    diff_sizes, same_sizes = DIFF_SIZES[quick], SAME_SIZES[quick]
    all_sizes = [5_000] if quick else [5_000, 10_000, 20_000, 50_000]
    report = Report("value-change", {"events": events, "quick": quick})
    rng = np.random.default_rng(SEED)
    diff_rad = [measure("diff-rad", diff_rad_workload(size, events, rng)) for size in diff_sizes]
    same_rad = [measure("same-rad", same_rad_workload(size, events, rng)) for size in same_sizes]
    all_rad = [measure("all-rad", all_rad_workload(size, events, rng)) for size in all_sizes]
    extremes = [
        {"state": state} | measure(state, workload)
        for state, workload in (
            ("few ranges", few_ranges_workload(diff_sizes[-1], events, rng)),
            ("fragmented", fragmented_workload(diff_sizes[-1], events // 10, rng)),
        )
    ]
    arrivals = [relabelling(rate, events // 2, rng) for rate in (0.25, 0.5, 1.0, 2.0)]
    free = [
        may_must(diff_rad_workload(size, events // 4, rng).radius, share, _walk(rng, 400, 1_000, events // 4))
        for size in ([5_000] if quick else [10_000, 100_000])
        for share in (0.25, 0.5, 0.8)
    ]
    all_rows = [
        many(size, items, events // 4, moments, listed=listed, rng=rng)
        for size, items in ([(5_000, 50)] if quick else [(10_000, 200), (100_000, 200)])
        for listed in (False, True)
        for moments in (1, 20)
    ]
    gaps = [one_gap(count) for count in ([1_000, 4_000] if quick else [1_000, 10_000, 100_000])]
    report.figures = {
        "diff_rad": diff_rad,
        "same_rad": same_rad,
        "all_rad": all_rad,
        "extremes": extremes,
        "relabelling": arrivals,
        "one_gap": gaps,
        "may_must": free,
        "many_items": all_rows,
        "thesis": {"diff_rad": THESIS_DIFF_RAD, "same_rad": THESIS_SAME_RAD},
    }
    report.tables = [
        ("different radii (thesis table 4.2)", _shown(diff_rad, THESIS_DIFF_RAD)),
        ("one radius (thesis table 4.3)", _shown(same_rad, THESIS_SAME_RAD)),
        ("all radii", _shown(all_rad, {})),
        ("the extremes", _shown(extremes, {})),
        ("relabelling, one radius", arrivals),
        ("every label into one gap", gaps),
        ("may and must, against must alone", free),
        ("many items", all_rows),
    ]
    report.notes = [
        "messages: reformulation / enumeration; thesis: CN(r) or CN(lid) / unicast",
        "µs of CPU per event: mean (median); few: median of events with up to four messages; endpoints: a tree on ends",
    ]
    return report


def _shown(rows: list[dict[str, Any]], thesis: Mapping[int, tuple[float, int]]) -> list[dict[str, Any]]:
    """A row of figures as a row of the table: means, medians in brackets."""
    shown = []
    for row in rows:
        known = thesis.get(row["subscriptions"])
        shown.append({"state": row["state"]} if "state" in row else {})
        shown[-1] |= {
            "subscriptions": row["subscriptions"],
            "messages": f"{row['messages_reformulate']:,.2f} / {row['messages_enumerate']:,.0f}",
            "thesis": f"{known[0]} / {known[1]}" if known else "-",
            "µs tree": f"{row['us_tree']:,.1f} ({row['us_tree_median']:,.1f})",
            "µs few": row["us_tree_few"],
            "µs scan": f"{row['us_scan']:,.1f} ({row['us_scan_median']:,.1f})",
            "µs endpoints": row["us_endpoints"],
        }
    return shown


# -- workloads -------------------------------------------------------------------------------------------------
def _walk(rng: np.random.Generator, drift: float, deviation: float, events: int) -> list[int]:
    values: list[int] = np.cumsum(drift + rng.normal(0, deviation, events)).round().astype(np.int64).tolist()
    return values


def _early(radius: Any, told: Any, values: list[int]) -> Workload:
    order = np.argsort(radius, kind="stable")
    zeros = np.zeros(len(radius), np.int64)
    return Workload(radius[order].astype(np.int64), zeros, (zeros + told)[order], values)


def diff_rad_workload(count: int, events: int, rng: np.random.Generator) -> Workload:
    radius = truncated(rng, 25_000, 50_000, 1, 200_000, count).round()
    return _early(radius, 0, _walk(rng, 400, 1_000, events))


def same_rad_workload(count: int, events: int, rng: np.random.Generator) -> Workload:
    told = truncated(rng, 0, RADIUS / 8, -RADIUS / 2.1, RADIUS / 2.1, count).round().astype(np.int64)
    return _early(np.full(count, RADIUS), told, _walk(rng, 500, 800, events))


def all_rad_workload(count: int, events: int, rng: np.random.Generator) -> Workload:
    cents = rng.integers(1, 10_001, count // 10)
    dollars = truncated(rng, 20, 20, 1, 100, count - len(cents)).round() * 100
    radius = np.concatenate((cents, dollars)).astype(np.int64)
    radius.sort()
    arrival = np.where(rng.random(count) < 1 / 3, rng.integers(1, events, count), 0)
    return Workload(radius, arrival, np.zeros(count, np.int64), _walk(rng, 500, 800, events))


def few_ranges_workload(count: int, events: int, rng: np.random.Generator) -> Workload:
    """A price that stays where it is: small steps without drift, so that few radii are told apart."""
    radius = truncated(rng, 25_000, 50_000, 1, 200_000, count).round()
    return _early(radius, 0, _walk(rng, 0, 300, events))


def fragmented_workload(count: int, events: int, rng: np.random.Generator) -> Workload:
    """No two neighbours were told the same: anything inside their intervals."""
    radius = np.sort(truncated(rng, 25_000, 50_000, 1, 200_000, count).round())
    unique, place = np.unique(radius, return_inverse=True)
    told = (rng.uniform(-1, 1, len(unique)) * (unique - 1)).astype(np.int64)
    return _early(radius, told[place], _walk(rng, 400, 1_000, events))


# -- the ways ----------------------------------------------------------------------------------------------------
class Scan:
    """What a competent engineer writes first: both ends and the told value of each subscription, compared at each event."""

    def __init__(self, workload: Workload) -> None:
        self._radius, here = workload.radius, workload.arrival == 0
        never = np.iinfo(np.int64).max // 2
        self._right = np.where(here, workload.first + workload.radius, never)
        self._left = np.where(here, workload.first - workload.radius, -never)
        self._told = workload.first.copy()

    def arrive(self, at: Integers, value: int) -> None:
        self._right[at], self._left[at], self._told[at] = (
            value + self._radius[at],
            value - self._radius[at],
            value,
        )

    def take(self, value: int) -> Integers:
        found = np.flatnonzero((self._right <= value) | (self._left >= value))
        radius = self._radius[found]
        self._right[found], self._left[found], self._told[found] = value + radius, value - radius, value
        return np.asarray(found, np.int64)


class EndpointTree:
    """B-tree(lr) of [ProSem thesis] 4.2.3: all left and right ends in order; what fires is taken out and put in again."""

    def __init__(self, workload: Workload) -> None:
        self._radius = workload.radius.tolist()
        here = np.flatnonzero(workload.arrival == 0).tolist()
        told = workload.first.tolist()
        self._right = SortedList((told[at] + self._radius[at], at) for at in here)
        self._left = SortedList((told[at] - self._radius[at], at) for at in here)
        self._told = dict(zip(here, (told[at] for at in here), strict=True))

    def take(self, value: int) -> list[int]:
        found = [at for _, at in self._right.irange(maximum=(value, math.inf))]
        found += [at for _, at in self._left.irange(minimum=(value, -1))]
        for at in found:
            told, radius = self._told[at], self._radius[at]
            self._right.remove((told + radius, at))
            self._left.remove((told - radius, at))
            self._told[at] = value
            self._right.add((value + radius, at))
            self._left.add((value - radius, at))
        return sorted(found)


class Labelled:
    """The subscriptions of a tree with their labels: which of them its messages reach."""

    def __init__(self, workload: Workload) -> None:
        self.radius = workload.radius
        self.label = np.full(len(workload.radius), -1, np.int64)
        self.tree = self._tree(workload)

    def _tree(self, workload: Workload) -> B2Tree:
        """The tree with the early ones: as if each had come when the value was what it was told."""
        here = np.flatnonzero(workload.arrival == 0)
        told = workload.first[here]
        order = here[np.lexsort((told, workload.radius[here]))]
        state: list[Any] = []
        for at in order.tolist():
            radius, value = int(workload.radius[at]), int(workload.first[at])
            if not state or state[-1][0] != radius:
                state.append((radius, []))
            classes = state[-1][1]
            if not classes or classes[-1][0] != value:
                classes.append((value, [[ORIGIN + (len(classes) << 32), 0]]))
            classes[-1][1][0][1] += 1
            self.label[at] = classes[-1][1][0][0]
        return B2Tree.from_state(Change(), (0, state))

    def arrive(self, at: int) -> tuple[int, float]:
        """How many others moved, and the time it took."""
        radius = int(self.radius[at])
        start = time.thread_time()
        label, moved = self.tree.add(radius)
        spent = time.thread_time() - start
        if moved:
            low, high = (
                np.searchsorted(self.radius, radius, "left"),
                np.searchsorted(self.radius, radius, "right"),
            )
            old = np.array([pair[1] for pair in moved])
            new = np.array([pair[2] for pair in moved])
            here = self.label[low:high]
            place = np.searchsorted(old, here).clip(max=len(old) - 1)
            self.label[low:high] = np.where(old[place] == here, new[place], here)
        self.label[at] = label
        return len(moved), spent

    def reached(self, fired: list[Fired]) -> Integers:
        """The subscriptions that messages are for, in order."""
        found = [np.empty(0, np.int64)]
        for radius_low, radius_high, arcs in fired:
            low = int(np.searchsorted(self.radius, radius_low, "left"))
            high = int(np.searchsorted(self.radius, radius_high, "right"))
            labels = self.label[low:high]
            inside = labels >= 0
            if arcs is not None:
                inside = np.logical_or.reduce([(labels >= first) & (labels <= last) for first, last in arcs])
            found.append(np.flatnonzero(inside) + low)
        return np.concatenate(found)


# -- measures ----------------------------------------------------------------------------------------------------
def measure(name: str, workload: Workload) -> dict[str, Any]:
    """Figures per event."""
    events, count = len(workload.values), len(workload.radius)
    progress(f"value-change: {name}, {count:,} subscriptions, {events:,} events")
    clock = time.thread_time
    late: dict[int, list[int]] = {}
    for at in np.flatnonzero(workload.arrival).tolist():
        late.setdefault(int(workload.arrival[at]), []).append(at)
    messages, tree_s = np.zeros(events, np.int64), np.zeros(events)
    held = Labelled(workload)
    for number, value in enumerate(workload.values):
        for at in late.get(number, ()):
            held.arrive(at)
        start = clock()
        fired = held.tree.event(value)
        tree_s[number] = clock() - start
        messages[number] = len(fired)
    reached: list[bytes] = []
    first: list[list[int]] = []
    notified = 0
    held = Labelled(workload)  # once more, not measured: looking up the notified cools the tree's caches
    for number, value in enumerate(workload.values):
        for at in late.get(number, ()):
            held.arrive(at)
        ids = held.reached(held.tree.event(value))
        notified += len(ids)
        reached.append(_digest(ids))
        if number < FIRST:
            first.append(ids.tolist())
    scan, scan_s = Scan(workload), np.zeros(events)
    for number, value in enumerate(workload.values):
        if number in late:
            scan.arrive(np.array(late[number]), workload.values[number - 1])
        start = clock()
        found = scan.take(value)
        scan_s[number] = clock() - start
        if _digest(found) != reached[number]:
            fail(f"{name}: tree and scan disagree on event {number}")
    few = (messages > 0) & (messages <= FEW)
    return {
        "subscriptions": count,
        "radii": len(np.unique(workload.radius)),
        "messages_reformulate": round(float(messages.mean()), 3),
        "messages_enumerate": round(notified / events, 2),
        "us_tree": round(float(tree_s.mean()) * 1e6, 2),
        "us_scan": round(float(scan_s.mean()) * 1e6, 2),
        "us_tree_median": round(float(np.median(tree_s)) * 1e6, 2),
        "us_scan_median": round(float(np.median(scan_s)) * 1e6, 2),
        "us_tree_few": round(float(np.median(tree_s[few])) * 1e6, 2) if few.any() else None,
        "us_endpoints": _endpoints(name, workload, first, late),
    }


def _digest(ids: Integers) -> bytes:
    """What is kept of the subscriptions that an event notifies: a hundred thousand events have gigabytes of them."""
    return blake2b(ids.tobytes(), digest_size=16).digest()


def _endpoints(
    name: str, workload: Workload, reached: list[list[int]], late: dict[int, list[int]]
) -> float | None:
    """Microseconds per event of the tree on endpoints, over the first events, while no subscription is added."""
    stop = min(FIRST, *late) if late else FIRST
    tree, spent = EndpointTree(workload), 0.0
    for number, value in enumerate(workload.values[:stop]):
        start = time.thread_time()
        found = tree.take(value)
        spent += time.thread_time() - start
        if found != reached[number]:
            fail(f"{name}: the tree on endpoints disagrees on event {number}")
    return round(spent / stop * 1e6, 2) if stop else None


def relabelling(rate: float, events: int, rng: np.random.Generator) -> dict[str, Any]:
    """One radius, subscriptions arriving at a rate per event ([ProSem thesis] figure 4.10)."""
    progress(f"value-change: {rate} arrivals an event")
    values = _walk(rng, 500, 800, events)
    count = int(rate * events)
    held = Labelled(
        _early(np.full(1_000 + count, RADIUS), 0, values)._replace(arrival=np.arange(1_000 + count) // 1_000)
    )
    moved = messages = arrived = 0
    spent = 0.0
    for number, value in enumerate(values):
        messages += len(held.tree.event(value))
        for _ in range(int(rate * (number + 1)) - int(rate * number)):
            others, seconds = held.arrive(1_000 + arrived)
            arrived, moved, spent = arrived + 1, moved + others, spent + seconds
    held.tree.check()
    return {
        "arrivals_per_event": rate,
        "subscriptions": len(held.tree),
        "moved_per_arrival": round(moved / arrived, 3),
        "us_arrival": round(spent / arrived * 1e6, 2),
        "messages_per_event": round(messages / events, 3),
    }


def one_gap(count: int) -> dict[str, Any]:
    """The worst that can happen to labels: every new one comes right after the first."""
    labels = Labels()
    first, _ = labels.insert(None)
    labels.insert(first)
    moved, start = 0, time.thread_time()
    for _ in range(count):
        moved += len(labels.insert(labels.first)[1])
    return {
        "labels": count,
        "moved_per_label": round(moved / count, 2),
        "log2": round(math.log2(count), 2),
        "us_label": round((time.thread_time() - start) / count * 1e6, 2),
    }
