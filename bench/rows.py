"""What a row costs: bytes of memory, time to recover, and the cost of an event as the table grows.

A table of three integers, one group of range minima. The rows are in a real PostgreSQL and are recovered from it as at a
start, in a process of its own, so that its memory is that of one state. Then random rows are updated through the engine's
own steps.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import psycopg

from bench.common import Report, child_found, fail, progress
from bench.postgres import migrated_postgres
from bench.stored_rows import DOMAIN, PER_REQUEST, fill, recovered, updates
from optimizer.choose import chooser
from prosem.engine.state import EngineState
from prosem.runtime.metrics import Metrics

ROWS, FEW_ROWS, SUBSCRIPTIONS, EVENTS = 10_000_000, 100_000, 100_000, 20_000
COLUMNS = ("k", "x", "y")


def run(quick: bool) -> Report:
    """`--quick`: a hundredth of the rows and of the subscriptions."""
    share = 100 if quick else 1
    sizes = [FEW_ROWS // (10 if quick else 1), ROWS // share]
    subscriptions, events = SUBSCRIPTIONS // share, EVENTS // (4 if quick else 1)
    report = Report("rows", {"rows": sizes, "subscriptions": subscriptions, "events": events})
    figures = [measure(rows, subscriptions, events) for rows in sizes]
    report.figures = {
        "sizes": figures,
        "event_cost_ratio": round(figures[-1]["us_per_event"] / figures[0]["us_per_event"], 2),
    }
    report.tables = [("rows of three integers, one group of range minima", figures)]
    report.notes = [
        f"an event at {sizes[-1]:,} rows costs {report.figures['event_cost_ratio']} times as much as at {sizes[0]:,}",
        "bytes per row: growth of the process from before the recovery to after it, less that of a state"
        " with the subscriptions alone; packed: of columns and index",
    ]
    return report


def measure(rows: int, subscriptions: int, events: int) -> dict[str, Any]:
    """Figures of one size; both states are recovered in processes of their own."""
    with migrated_postgres() as (url, _):
        fill(url, dict.fromkeys(COLUMNS, "integer"), subscriptions)
        alone = child_found(__name__, url, 0)
        _insert(url, rows)
        found = child_found(__name__, url, events)
    if (found["rows"], found["subscriptions"]) != (rows, subscriptions):
        fail("rows or subscriptions are missing")
    return {
        "rows": rows,
        "subscriptions": subscriptions,
        "bytes_per_row": round((found["grown_bytes"] - alone["grown_bytes"]) / rows, 1),
        "packed_bytes_per_row": round(found["packed_bytes"] / rows, 1),
        "recovered_s": round(found["recovered_s"], 2),
        "without_rows_s": round(alone["recovered_s"], 2),
        "us_per_event": round(found["us_per_event"], 2),
    }


def _insert(url: str, rows: int) -> None:
    progress(f"rows: writing {rows:,} rows to PostgreSQL")
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO tenant_default.t SELECT n, n * 7919::bigint %% %s, n * 31::bigint %% 1000003"
            " FROM generate_series(1, %s) n",
            [DOMAIN, rows],
        )


def child() -> None:
    """Recover, then publish; prints what was found."""
    url, events = sys.argv[1], int(sys.argv[2])
    state = EngineState(chooser("auto"), Metrics())
    found = recovered(url, state)
    found["us_per_event"] = _us_per_event(state, found["rows"], events) if events else 0.0
    print(json.dumps(found))


def _us_per_event(state: EngineState, rows: int, events: int) -> float:
    """CPU time of an update of y in requests of 100; the first half of them is not counted: plans are measured then."""
    took = []
    for request in updates(rows, events):
        begun = time.process_time_ns()
        state.execute(request)
        took.append(time.process_time_ns() - begun)
        state.begin()
    counted = took[len(took) // 2 :]
    return sum(counted) / len(counted) / PER_REQUEST / 1e3
