"""Value notification of many items: subscriptions to all rows, and to lists of keys.

The space is the engine's own. Against it runs what a competent engineer writes first: an array for each item of what
every subscription was told of it, compared at each event. Both see the same events, each alone, so that nothing else cools
their caches, and must agree on how many are told of each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bench.common import fail, progress
from bench.value_workloads import truncated
from prosem.types.base import Bound, Draft
from prosem.types.value.items import Items
from prosem.types.value.many_places import ALL, Selected
from prosem.types.value.many_space import ManySpace
from prosem.types.value.measure import measure_of
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Row, Table

INTEGER = column_type("bigint")
TABLE = Table(1, "t", (Column("k", INTEGER), Column("y", INTEGER)), ("k",))
ITEMS = Items(TABLE, 1, "change", measure_of(column_type("integer")))
KEYS = 5  # that a list has


class Workload(NamedTuple):
    """Subscriptions that come in parts, each before an event; and the events: an item, and by how much it moves."""

    radius: Any
    chosen: Any  # the items of each; None: all
    parts: list[Any]  # ids
    arrival: list[int]  # of each part
    items: int
    events: list[tuple[int, int]]

    def came(self, number: int, part: int) -> Iterator[Any]:
        """The parts from this one on that come before an event."""
        while part < len(self.parts) and self.arrival[part] <= number:
            yield self.parts[part]
            part += 1


def many(
    count: int, items: int, events: int, moments: int, *, listed: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """`moments`: the subscriptions come in so many parts, evenly among the first half of the events."""
    progress(f"value-change: {count:,} subscriptions to {'lists of keys' if listed else 'all rows'}")
    radius = truncated(rng, 2_500, 5_000, 1, 20_000, count).round().astype(np.int64)
    chosen = rng.integers(0, items, (count, KEYS)) if listed else None
    arrival = np.sort(rng.integers(0, max(1, events // 2), moments)) if moments > 1 else np.zeros(1, int)
    keys = rng.integers(0, items, events).tolist()
    steps = rng.normal(40, 100, events).round().astype(int).tolist()
    parts = np.array_split(np.arange(count), moments)
    work = Workload(radius, chosen, parts, arrival.tolist(), items, list(zip(keys, steps, strict=True)))
    hits, messages, arriving, spent, kept = _by_space(work)
    scanned, scanning = _by_scan(work)
    for number, (hit, found) in enumerate(zip(hits, scanned, strict=True)):
        if hit != found:
            fail(f"{hit} were told of event {number} and {found} should have been")
    return {
        "subscriptions": count,
        "to": f"{KEYS} keys" if listed else "all rows",
        "items": items,
        "moments": moments,
        "told": round(sum(hits) / events, 2),
        "messages": round(messages / events, 3),
        "us_event": round(statistics.mean(spent) * 1e6, 2),
        "us_event_median": round(statistics.median(spent) * 1e6, 2),
        "us_scan": round(statistics.mean(scanning) * 1e6, 2),
        "us_scan_median": round(statistics.median(scanning) * 1e6, 2),
        "us_arrival": round(arriving / count * 1e6, 2),
        "bytes_kept": round(kept / events, 1),
    }


def _by_space(work: Workload) -> tuple[list[int], int, float, list[float], int]:
    """How many are told of each event; messages; what arrivals and each event took; bytes kept.

    Subscriptions in regions are looked up after the last event: until then nothing but events touches the points.
    """
    rows: dict[Any, Row] = {(key,): (key, 0) for key in range(work.items)}
    space = ManySpace(ITEMS, 1, rows)
    drafted: list[list[Draft]] = []
    spent: list[float] = []
    part = kept = 0
    arriving = 0.0
    for number, (key, step) in enumerate(work.events):
        for sids in work.came(number, part):
            bounds = [
                Bound(b"", Selected(_topics(work.chosen, sid), int(work.radius[sid])))
                for sid in sids.tolist()
            ]
            start = time.thread_time()
            space.add(sids.tolist(), bounds)
            arriving += time.thread_time() - start
            part += 1
        old = rows[key,]
        new = rows[key,] = (key, old[1] + step)
        start = time.thread_time()
        description = space.step(Delta(number, TABLE, (key,), old, new))
        drafts = [] if description is None else space.messages(description, "reformulate")
        spent.append(time.thread_time() - start)
        kept += sum(len(item or b"") for item in space.changed_items().values())
        drafted.append(drafts)
    hits = [
        sum(
            len(draft.targets) if draft.targets is not None else len(space.points.find(ALL, draft.region))
            for draft in drafts
        )
        for drafts in drafted
    ]
    return hits, sum(map(len, drafted)), arriving, spent, kept


def _by_scan(work: Workload) -> tuple[list[int], list[float]]:
    """How many are told of each event, and what each comparison took; writing down what they were told is not counted."""
    radius, chosen = work.radius, work.chosen
    told: dict[int, Any] = {}
    present = [0] * work.items
    members = (
        None if chosen is None else [np.flatnonzero((chosen == key).any(axis=1)) for key in range(work.items)]
    )
    hits: list[int] = []
    scanning: list[float] = []
    part = came = 0
    for number, (key, step) in enumerate(work.events):
        for sids in work.came(number, part):
            for item, values in told.items():
                values[sids] = present[item]
            came, part = came + len(sids), part + 1
        if key not in told:
            told[key] = np.full(len(radius), present[key], np.int64)
        values, present[key] = told[key], present[key] + step
        start = time.thread_time()
        some: Any = slice(0, came) if members is None else members[key][members[key] < came]
        found = np.abs(values[some] - present[key]) >= radius[some]
        scanning.append(time.thread_time() - start)
        if members is None:
            values[:came][found] = present[key]
        else:
            values[some[found]] = present[key]
        hits.append(int(found.sum()))
    return hits, scanning


def _topics(chosen: Any, sid: int) -> tuple[bytes, ...] | None:
    if chosen is None:
        return None
    return tuple(dict.fromkeys(ITEMS.topic((int(key),)) for key in chosen[sid]))
