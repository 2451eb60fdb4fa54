"""What a row costs: bytes of memory, time to recover, and the cost of an event as the table grows.

A table of three integers, one group of range minima. The rows are in a real PostgreSQL and are recovered from it as at a
start, in a process of its own, so that its memory is that of one state. Then random rows are updated through the engine's
own steps.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from typing import Any, cast

import numpy as np
import psycopg

from bench.common import Report, fail, progress, resident_bytes
from bench.postgres import migrated_postgres
from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.recovery import recover
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.store.log import Writer
from prosem.values.packed_rows import TableRows

ROWS, FEW_ROWS, SUBSCRIPTIONS, EVENTS = 10_000_000, 100_000, 100_000, 20_000
DOMAIN, RANGE = 1_000_000_000, 100_000_000
SQL = "SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi"
COLUMNS = ("k", "x", "y")
PER_REQUEST = 100


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
        _fill(url, subscriptions)
        alone = _recovered(url, 0)
        _insert(url, rows)
        found = _recovered(url, events)
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


def _fill(url: str, subscriptions: int) -> None:
    """The table and the subscriptions, without rows."""
    writer, state = Writer.connect(url), _state()
    random = np.random.default_rng(7)
    low = random.integers(0, DOMAIN - RANGE, subscriptions).tolist()
    length = random.integers(0, RANGE, subscriptions).tolist()
    columns = [{"name": name, "type": "integer"} for name in COLUMNS]
    try:
        state.execute(c.CreateTable({"name": "t", "columns": columns, "primary_key": ["k"]}))
        writer.write(state.begin().writes)
        given: list[tuple[str | None, dict[str, Any]]] = [
            (None, {"lo": lo, "hi": lo + more}) for lo, more in zip(low, length, strict=True)
        ]
        for start in range(0, subscriptions, 20_000):
            state.execute(c.Subscribe(parse(SQL), None, given[start : start + 20_000], batch=True))
            writer.write(state.begin().writes)
    finally:
        writer.close()


def _insert(url: str, rows: int) -> None:
    progress(f"rows: writing {rows:,} rows to PostgreSQL")
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO tenant_default.t SELECT n, n * 7919::bigint %% %s, n * 31::bigint %% 1000003"
            " FROM generate_series(1, %s) n",
            [DOMAIN, rows],
        )


def _state() -> EngineState:
    return EngineState(chooser("auto"), Metrics())


def _recovered(url: str, events: int) -> dict[str, Any]:
    """What a process of its own finds."""
    command = [sys.executable, "-c", "from bench.rows import child; child()", url, str(events)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if done.returncode:
        fail(f"the recovery failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    progress(f"rows: {found['rows']:,} recovered in {found['recovered_s']:.1f} s")
    return found


def child() -> None:
    """Recover as the server does, without collections meanwhile, then publish; prints what was found."""
    url, events = sys.argv[1], int(sys.argv[2])
    state = _state()
    before = resident_bytes()
    gc.disable()
    start = time.perf_counter()
    recover(url, state, lambda *_: None)
    recovered_s = time.perf_counter() - start
    gc.enable()
    grown = resident_bytes() - before
    (content,) = state.rows.values()
    rows = cast(TableRows, content)
    found = {
        "rows": len(rows),
        "subscriptions": len(state.registry),
        "grown_bytes": grown,
        "packed_bytes": rows.nbytes,
        "recovered_s": recovered_s,
        "us_per_event": _us_per_event(state, len(rows), events) if events else 0.0,
    }
    print(json.dumps(found))


def _us_per_event(state: EngineState, rows: int, events: int) -> float:
    """CPU time of an update of y in requests of 100; the first half of them is not counted: plans are measured then."""
    random = np.random.default_rng(3)
    keys, heights = (
        random.integers(1, rows + 1, events).tolist(),
        random.integers(0, 1_000_003, events).tolist(),
    )
    given = [
        {"op": "update", "key": {"k": key}, "set": {"y": y}} for key, y in zip(keys, heights, strict=True)
    ]
    took = []
    for start in range(0, events, PER_REQUEST):
        begun = time.process_time_ns()
        state.execute(c.Publish("t", given[start : start + PER_REQUEST]))
        took.append(time.process_time_ns() - begun)
        state.begin()
    counted = took[len(took) // 2 :]
    return sum(counted) / len(counted) / PER_REQUEST / 1e3
