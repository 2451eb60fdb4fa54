"""Value notification over networks: [ProSem thesis]'s figures 4.7 and 4.9 to 4.12.

CN(r), CN(lid) and CN(r,lid) are the range tree over (radius, label), CN(lr) and CN(c) the same tree over what moves. One by
one is [ProSem thesis]'s unicast. Traffic is counted per operation, an event or an arrival.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bench.common import Curve
from bench.value_carried import TREE, Row, Topology, hosts_of, measure, one_by_one, secondary
from bench.value_change import (
    RADIUS,
    Workload,
    all_rad_workload,
    diff_rad_workload,
    same_rad_workload,
)
from bench.value_schemes import Centres, Ends, Labels
from bench.value_trace import Trace, follow

SEED = 7
FOLLOWED: dict[
    str, tuple[tuple[float, int], ...]
] = {  # up to so many subscriptions, so many events: 50 notify some
    "4.7": ((1_000, 30), (10_000, 100), (math.inf, 60)),
    "4.9": ((1_000, 60), (math.inf, 3_500)),
    "4.10": ((1_000, 30), (math.inf, 1_300)),
    "4.11": ((1_000, 30), (5_000, 80), (math.inf, 100)),
    "4.12": ((1_000, 30), (5_000, 150), (math.inf, 120)),
}
MOVED = 20_000  # notifications until CN(lr) and CN(c) stop, since each moves a subscription
BEFORE = {True: 500, False: 20_000}  # events until centres have settled
THESIS_STRESS: dict[tuple[str, int], dict[str, int]] = {
    ("4.7", 10_000): {"CN(lr)": 3_969, "one by one": 1_984, "CN(r)": 282},
    ("4.9", 10_000): {"CN(lr)": 18_051, "CN(c)": 9_026, "one by one": 9_025, "CN(lid)": 2},
}
THESIS_SHARE = {
    "CN(r)": "about 0.1",
    "CN(lid)": "< 0.01",
    "CN(r,lid)": "about 0.1",
    "CN(lr)": "> 1",
    "CN(c)": "> 1",
}
TITLES = {
    "4.7": "different radii",
    "4.9": "one radius",
    "4.10": "one radius, arrivals",
    "4.11": "all radii",
    "4.12": "all radii, prices",
}


def compare(figure: str, workload: Workload, measured: int, topology: Topology) -> list[Row]:
    """All that [ProSem thesis] compares in a figure, on one workload: its last events, when centres have settled.

    What moves subscriptions is measured on the first of these events, and set in proportion to unicast on the same ones.
    """
    trace = follow(workload, measured)
    described = {"4.7": "CN(r)", "4.9": "CN(lid)", "4.10": "CN(lid)"}.get(figure, "CN(r,lid)")
    rows: list[Row] = [{"network": "one by one"} | one_by_one(trace, topology)]
    some = _first(trace, MOVED)
    beside = one_by_one(some, topology)
    for name, scheme in (("CN(lr)", Ends()), ("CN(c)", Centres(RADIUS))):
        if name == "CN(lr)" or described == "CN(lid)":
            rows.append(
                {"network": name} | _scaled(measure(figure, TREE, scheme, some, topology), beside, rows[0])
            )
    rows.append({"network": described} | measure(figure, TREE, Labels(), trace, topology))
    if described == "CN(r,lid)":
        rows.append({"network": "secondary servers"} | secondary(figure, trace, topology))
    known = THESIS_STRESS.get((figure, len(trace.radius)), {})
    return [
        {"figure": figure, "subscriptions": len(trace.radius)}
        | _notified(trace, topology)
        | row
        | {
            "of_one_by_one": round(row["traffic_bytes"] / max(1.0, rows[0]["traffic_bytes"]), 3),
            "thesis": THESIS_SHARE.get(row["network"], "-"),
            "thesis_stress": known.get(row["network"], "-"),
        }
        for row in rows
    ]


def _first(trace: Trace, notified: int) -> Trace:
    """The first events of a trace, until they have notified so many."""
    count = np.cumsum([len(step.affected) for step in trace.steps])
    return replace(trace, steps=trace.steps[: 1 + int(np.searchsorted(count, notified))])


def _scaled(row: Row, beside: Row, whole: Row) -> Row:
    """What was measured on some of the events, in proportion to unicast on these and on all."""
    share = whole["traffic_bytes"] / max(1.0, beside["traffic_bytes"])
    return row | {name: round(row[name] * share, 2) for name in ("traffic_bytes", "overlay_hops")}


def _notified(trace: Trace, topology: Topology) -> Row:
    """How many events notify some subscription, and how many subscriptions and brokers they concern."""
    hosts = hosts_of(trace, topology.brokers)
    fired = [step for step in trace.steps if step.affected]
    concerned = [len({hosts[at] for at in step.affected}) for step in fired]
    affected = sum(len(step.affected) for step in fired)
    return {
        "affected": round(affected / len(trace.steps), 1),
        "events": len(trace.steps),
        "fired": len(fired),
        "hosts": round(float(np.mean(concerned)), 1) if fired else 0.0,
        "messages": round(sum(len(step.fired) for step in fired) / max(1, len(fired)), 2),
    }


def measured(name: str, topology: Topology, quick: bool) -> list[Row]:
    """The rows of one figure, with random numbers of its own."""
    rng = np.random.default_rng(SEED)
    before = BEFORE[quick]
    if name == "4.10":
        rows, size = [], 500 if quick else 5_000
        count = followed(name, size)
        for rate in (1.0,) if quick else (0.5, 2.0):
            workload = arriving(size, rate, before + count, count, rng)
            rows += [row | {"arrivals": rate} for row in compare(name, workload, count, topology)]
        return rows
    make, found = WORKLOADS[name], []
    for size in SIZES[name][quick]:
        count = followed(name, size)
        found += compare(name, make(size, before + count, rng), count, topology)
    return found


def followed(name: str, size: int) -> int:
    """Events that are measured: at full size so many that fifty of them notify some subscription."""
    return next(events for most, events in FOLLOWED[name] if size <= most)


def arriving(count: int, rate: float, events: int, measured: int, rng: np.random.Generator) -> Workload:
    """One radius; during the events that are measured, so many subscriptions arrive an event."""
    late = int(rate * measured)
    workload = same_rad_workload(count + late, events, rng)
    arrival = np.zeros(count + late, np.int64)
    arrival[count:] = events - measured + (np.arange(late) / rate).astype(np.int64)
    return workload._replace(arrival=arrival)


def priced(workload: Workload, rng: np.random.Generator) -> Workload:
    """The days of a stock, over and over, in cents: steps of 2 % of the price, as closing prices have."""
    days = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, 2_500)))
    days = np.concatenate([days, days[::-1]])
    cents = np.round(100 * np.resize(days, len(workload.values))).astype(np.int64)
    start = int(cents[0])
    return workload._replace(values=cents.tolist(), first=np.full(len(workload.radius), start, np.int64))


def prices_workload(count: int, events: int, rng: np.random.Generator) -> Workload:
    return priced(all_rad_workload(count, events, rng), rng)


WORKLOADS = {
    "4.7": diff_rad_workload,
    "4.9": same_rad_workload,
    "4.11": all_rad_workload,
    "4.12": prices_workload,
}
SIZES = {
    "4.7": {True: (1_000,), False: (10_000, 100_000)},
    "4.9": {True: (1_000,), False: (10_000, 50_000)},
    "4.11": {True: (500,), False: (5_000, 50_000)},
    "4.12": {True: (500,), False: (5_000, 20_000)},
}


def curves(rows: list[Row]) -> list[Curve]:
    made = []
    for figure, title in TITLES.items():
        some = [row for row in rows if row["figure"] == figure]
        by = "arrivals" if figure == "4.10" else "subscriptions"
        lines = {
            name: [(row[by], row["traffic_bytes"]) for row in some if row["network"] == name]
            for name in dict.fromkeys(row["network"] for row in some)
        }
        x = "arrivals an event" if by == "arrivals" else by
        made.append(Curve(f"thesis {figure}: {title}", x, "bytes an operation", lines))
    return made


def tables(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """The rows as they are shown, a table for each figure; [ProSem thesis]'s values in brackets."""
    shown = []
    for figure, title in TITLES.items():
        some = [
            {"network": row["network"], "subs": row["subscriptions"]}
            | ({"arrivals": row["arrivals"]} if "arrivals" in row else {})
            | {
                "bytes": row["traffic_bytes"],
                "of one by one": _beside(f"{row['of_one_by_one']:.2f}", row["thesis"]),
                "hops": row["overlay_hops"],
                "stress": _beside(f"{row['max_node_stress']:,}", row["thesis_stress"]),
            }
            for row in rows
            if row["figure"] == figure
        ]
        if some:
            shown.append((f"thesis {figure}: {title}, per operation", some))
    return shown


def _beside(ours: str, thesis: str | int) -> str:
    return ours if thesis == "-" else f"{ours} ({thesis if isinstance(thesis, str) else f'{thesis:,}'})"


NOTES = [
    "value: CN(lr) and CN(c) pay for moving the notified subscriptions; in brackets the thesis, at 10,000 and more",
    "value: figure 4.12 has prices of a random walk, since the traces of the thesis are not to be had",
]
