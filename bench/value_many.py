"""Value notification of many items: subscriptions to all rows, and to lists of keys.

The space is the engine's own. Beside it stands what a competent engineer writes first: an array for each item of what
every subscription was told of it, compared at each event. Both see the same events, and must agree on how many are told.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.common import fail, progress
from bench.value_workloads import truncated
from prosem.types.base import Bound
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


def many(
    count: int, items: int, events: int, moments: int, *, listed: bool, rng: np.random.Generator
) -> dict[str, Any]:
    """`moments`: the subscriptions come in so many parts, evenly among the first half of the events."""
    progress(f"value-change: {count:,} subscriptions to {'lists of keys' if listed else 'all rows'}")
    rows: dict[Any, Row] = {(key,): (key, 0) for key in range(items)}
    space = ManySpace(ITEMS, 1, rows)
    radius = truncated(rng, 2_500, 5_000, 1, 20_000, count).round().astype(np.int64)
    chosen = rng.integers(0, items, (count, KEYS)) if listed else None
    arrival = np.sort(rng.integers(0, max(1, events // 2), moments)) if moments > 1 else np.zeros(1, int)
    parts = dict(enumerate(np.array_split(np.arange(count), moments)))
    told: dict[int, Any] = {}
    came = part = reached = messages = changed = 0
    spent = arriving = scanning = 0.0
    kept = 0
    keys, steps = (
        rng.integers(0, items, events).tolist(),
        rng.normal(40, 100, events).round().astype(int).tolist(),
    )
    members = (
        [np.flatnonzero((chosen == key).any(axis=1)) for key in range(items)] if chosen is not None else []
    )
    for number, (key, step) in enumerate(zip(keys, steps, strict=True)):
        while part < moments and arrival[part] <= number:
            sids = parts[part]
            bounds = [Bound(b"", Selected(_topics(chosen, sid), int(radius[sid]))) for sid in sids.tolist()]
            start = time.thread_time()
            space.add(sids.tolist(), bounds)
            arriving += time.thread_time() - start
            came, part = came + len(sids), part + 1
            for item, values in told.items():
                values[sids] = rows[item,][1]
        old = rows[key,]
        new = rows[key,] = (key, old[1] + step)
        start = time.thread_time()
        description = space.step(Delta(number, TABLE, (key,), old, new))
        drafts = [] if description is None else space.messages(description, "reformulate")
        spent += time.thread_time() - start
        kept += sum(len(item or b"") for item in space.changed_items().values())
        messages += len(drafts)
        changed += bool(drafts)
        hit = sum(
            len(draft.targets) if draft.targets is not None else len(space.points.find(ALL, draft.region))
            for draft in drafts
        )
        if key not in told:
            told[key] = np.full(count, old[1], np.int64)
        values = told[key]
        start = time.thread_time()
        some: Any = members[key][members[key] < came] if listed else slice(0, came)
        found = np.abs(values[some] - new[1]) >= radius[some]
        scanning += time.thread_time() - start
        if listed:
            values[some[found]] = new[1]
        else:
            values[:came][found] = new[1]
        if int(found.sum()) != hit:
            fail(f"{hit} were told of event {number} and {int(found.sum())} should have been")
        reached += hit
    return {
        "subscriptions": count,
        "to": f"{KEYS} keys" if listed else "all rows",
        "items": items,
        "moments": moments,
        "told": round(reached / events, 2),
        "messages": round(messages / events, 3),
        "us_event": round(spent / events * 1e6, 2),
        "us_scan": round(scanning / events * 1e6, 2),
        "us_arrival": round(arriving / count * 1e6, 2),
        "bytes_kept": round(kept / events, 1),
    }


def _topics(chosen: Any, sid: int) -> tuple[bytes, ...] | None:
    if chosen is None:
        return None
    return tuple(dict.fromkeys(ITEMS.topic((int(key),)) for key in chosen[sid]))
