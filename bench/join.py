"""Select-joins: what every strategy sends and costs, on the workload of [ProSem thesis] table 5.2.

R(a, b, p) and S(b, c, p) with 100 join keys; 70 % of them have S rows, Zipf 0.8. Rows of R come and the oldest go. All
strategies take the same events through the engine's own space and must agree on the affected subscriptions: the skylines
and Enum-SJ exactly, the joined rows too, and relaxation must reach at least them. Bytes are those of the messages as
they are packed, with their regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.common import Report, fail, progress
from bench.join_many import run_many
from bench.join_walk import FLAVOURS, Walk, walk
from bench.join_workload import Workload, subscriptions
from prosem.types.join.shape import MODES
from prosem.values.model import Delta

STRATEGIES = ("enum-j", "enum-sj", "ref-j", "ref-j+", "rel-sel", *FLAVOURS)
NETWORKED = ("ref-j", "ref-j+", "rel-sel", *FLAVOURS)  # those whose cost does not grow with subscriptions
WHAT = ("kb", "kb_delivered", "us", "messages")
R_ROWS, S_ROWS = 16_000, 5_100
THESIS_KB = {
    100_000: {"enum-j": 484.8, "enum-sj": 27.3, "ref-j+": 13.4, "rel-sel": 0.86, "ref-sj-clu+": 0.38},
    300_000: {"enum-j": 1464.0, "enum-sj": 82.0, "ref-j+": 14.3, "rel-sel": 0.95, "ref-sj-clu+": 0.38},
    500_000: {"enum-j": 2461.5, "enum-sj": 137.6, "ref-j+": 14.6, "rel-sel": 0.88, "ref-sj-clu+": 0.39},
}
THESIS_SIZE = {
    100_000: {"ref-sj-sub": 73.12, "ref-sj-tup": 312.78, "ref-sj-clu": 29.59, "ref-sj-clu+": 16.88},
    300_000: {"ref-sj-sub": 99.54, "ref-sj-tup": 305.88, "ref-sj-clu": 38.15, "ref-sj-clu+": 21.96},
    500_000: {"ref-sj-sub": 111.84, "ref-sj-tup": 302.85, "ref-sj-clu": 42.87, "ref-sj-clu+": 24.68},
}


def run(quick: bool) -> Report:
    # To enumerate the joined rows of a million subscriptions takes a third of a second per event.
    events = 40 if quick else 200
    counts = [5_000, 20_000] if quick else [100_000, 300_000, 500_000, 1_000_000]
    r_rows, s_rows = (2_000, 1_000) if quick else (R_ROWS, S_ROWS)
    fixed = 10_000 if quick else 100_000
    report = Report("join", {"events": events, "quick": quick, "r_rows": r_rows, "s_rows": s_rows})
    by_subscriptions = [measure(count, events, r_rows, s_rows) for count in counts]
    by_rate = by_output_rate(quick, events)
    by_payload = [
        measure(fixed, events, r_rows, s_rows, size, ("ref-j+", "rel-sel", "ref-sj-clu+"))
        for size in ([1, 1_000] if quick else [1, 100, 1_000, 10_000, 100_000])
    ]
    many = run_many(quick)
    report.figures = {
        "by_subscriptions": by_subscriptions,
        "by_join_output_rate": by_rate,
        "by_payload_bytes": by_payload,
        "multi_way": many,
        "thesis": {"kb": THESIS_KB, "description_bytes": THESIS_SIZE},
    }
    report.tables = [
        (f"{title}, by {by.replace('_', ' ')}", _across(rows, by, what, thesis))
        for title, rows, by, what, thesis in (
            ("kB from the server an event (thesis table 5.3)", by_subscriptions, "subscriptions", "kb", THESIS_KB),
            ("kB that reach subscriptions an event (figure 5.14)", by_subscriptions, "subscriptions", "kb_delivered", {}),
            ("bytes of a description (table 5.4)", by_subscriptions, "subscriptions", "description_bytes", THESIS_SIZE),
            ("µs per event (figure 5.6)", by_subscriptions, "subscriptions", "us", {}),
            ("kB from the server an event (figure 5.11)", by_rate, "join_output_rate", "kb", {}),
            ("µs per event (figure 5.10)", by_rate, "join_output_rate", "us", {}),
            ("kB from the server an event (figure 5.12)", by_payload, "payload_bytes", "kb", {}),
        )
    ]  # fmt: skip
    report.tables.append(("several tables, kB per event: from the server / delivered (5.7.4)", many["table"]))
    report.notes = [
        "thesis figures, where it has them, in brackets; all strategies agreed on the affected subscriptions of each event",
        *many["notes"],
    ]
    return report


def by_output_rate(quick: bool, events: int, strategies: Sequence[str] = NETWORKED) -> list[dict[str, Any]]:
    """Figures by the rows of S, which set the number of joined rows per event."""
    sizes = [200, 1_000] if quick else [100, 1_100, 2_600, 5_100, 7_600, 10_100]
    count, r_rows = (10_000, 2_000) if quick else (100_000, R_ROWS)
    return [measure(count, events, r_rows, rows, strategies=strategies) for rows in sizes]


def measure(
    count: int,
    events: int,
    r_rows: int = R_ROWS,
    s_rows: int = S_ROWS,
    payload_bytes: int = 100,
    strategies: Sequence[str] = STRATEGIES,
) -> dict[str, Any]:
    """The figures of every strategy over the same events; fails if they disagree."""
    progress(f"join: {count:,} subscriptions, {s_rows:,} rows in S, payload {payload_bytes:,} bytes")
    workload = Workload(r_rows, s_rows, payload_bytes)
    points = subscriptions(count)
    deltas = list(workload.events(events))
    walks: dict[str, Walk] = {}
    for mode, plans in MODES.items():
        wanted = [plan for plan in plans if plan in strategies]
        if wanted:
            space = workload.space(mode, points)
            walks |= {plan: walk(space, deltas, plan) for plan in wanted}
    _agree(walks)
    figures = {plan: walks[plan].figures(events) for plan in strategies}
    return {
        "subscriptions": count,
        "join_output_rate": _output_rate(workload, deltas),
        "payload_bytes": payload_bytes,
        "affected": round(sum(len(one) for one in next(iter(walks.values())).told) / events, 1),
        **{what: {plan: figures[plan][what] for plan in strategies} for what in WHAT},
        "description_bytes": {
            plan: round(float(np.mean(walks[plan].description_bytes or [0])), 2)
            for plan in FLAVOURS
            if plan in walks
        },
    }


def _agree(walks: dict[str, Walk]) -> None:
    """Joined rows and semijoins concern the same subscriptions; relaxation reaches at least them."""
    exact = [one for plan, one in walks.items() if plan != "rel-sel"]
    for one in exact[1:]:
        for at, (mine, its) in enumerate(zip(exact[0].told, one.told, strict=True)):
            if not np.array_equal(mine, its):
                fail(f"{exact[0].plan} and {one.plan} disagree on event {at}: {len(mine)} and {len(its)}")
    for at, mine in enumerate(exact[0].told if "rel-sel" in walks and exact else []):
        if len(np.setdiff1d(mine, walks["rel-sel"].told[at])):
            fail(f"rel-sel misses subscriptions that {exact[0].plan} tells, on event {at}")
    if "ref-j" in walks and "ref-j+" in walks and walks["ref-j"].deliveries != walks["ref-j+"].deliveries:
        fail("ref-j and ref-j+ deliver different joined rows")


def _output_rate(workload: Workload, deltas: Sequence[Delta]) -> float:
    """Joined rows that an inserted row makes, on average."""
    per_key: dict[Any, int] = {}
    for row in workload.s.values():
        per_key[row[1]] = per_key.get(row[1], 0) + 1
    made = [per_key.get(delta.new[2], 0) for delta in deltas if delta.new is not None]
    return round(sum(made) / max(1, len(made)), 1)


def _across(
    rows: Sequence[dict[str, Any]], by: str, what: str, thesis: Mapping[int, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """A line for each strategy and a column for each size, the source's own figure in brackets."""
    shown = []
    for plan in rows[0][what]:
        line: dict[str, Any] = {"strategy": plan}
        for row in rows:
            known, value = thesis.get(row[by], {}).get(plan), row[what][plan]
            line[f"{row[by]:,}"] = value if known is None else f"{value:,.2f} ({known:,})"
        shown.append(line)
    return shown
