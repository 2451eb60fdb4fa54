"""How quickly the state is read back from PostgreSQL: rows per second, with a few groups of subscriptions over them.

An embedded PostgreSQL of its own holds one table of five columns; four groups have subscriptions. What is measured is
`recover`, as at a start and as after a failed commit, and the memory after several of them: each state is released before
the next one is built.
"""

from __future__ import annotations

import gc
import time
from typing import Any

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

ROWS, SUBSCRIPTIONS, REBUILDS = 500_000, 1_000, 5
COLUMNS = {"k": "bigint", "x": "integer", "y": "numeric(10,2)", "s": "text", "at": "timestamptz"}
GROUPS = (
    ("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b", {"a": 1, "b": 100}),
    ("SELECT SUM(y) FROM t WHERE x BETWEEN :a AND :b", {"a": 1, "b": 100}),
    ("SELECT COUNT(*) FROM t WHERE x >= :a AND k >= :b", {"a": 5, "b": 7}),
    ("SELECT * FROM t WHERE x < :a", {"a": 5}),
)


def run(quick: bool) -> Report:
    rows = ROWS // 10 if quick else ROWS
    report = Report("recovery", {"rows": rows, "subscriptions": SUBSCRIPTIONS, "rebuilds": REBUILDS})
    figures = measure(rows, SUBSCRIPTIONS, REBUILDS)
    report.figures = figures
    report.tables = [("Recovery from PostgreSQL", [figures])]
    return report


def measure(rows: int, subscriptions: int, rebuilds: int) -> dict[str, Any]:
    """The best rate of several recoveries, and the memory after the first and the last one."""
    with migrated_postgres() as (url, _):
        _fill(url, rows, subscriptions)
        seconds, memory = [], []
        for number in range(rebuilds):
            seconds.append(_recovered_s(url, rows, subscriptions))
            memory.append(resident_bytes())
            progress(f"recovery {number + 1}: {rows / seconds[-1]:,.0f} rows/s")
    return {
        "rows": rows,
        "subscriptions": subscriptions * len(GROUPS),
        "seconds": min(seconds),
        "rows_per_s": rows / min(seconds),
        "mib_after_first": memory[0] / 2**20,
        "mib_after_last": memory[-1] / 2**20,
    }


def _fill(url: str, rows: int, subscriptions: int) -> None:
    writer, state = Writer.connect(url), _state()
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    try:
        state.execute(c.CreateTable({"name": "t", "columns": columns, "primary_key": ["k"]}))
        writer.write(state.begin().writes)
        for text, params in GROUPS:
            given = [
                (None, {name: value + at for name, value in params.items()}) for at in range(subscriptions)
            ]
            state.execute(c.Subscribe(parse(text), None, given, batch=True))
            writer.write(state.begin().writes)
    finally:
        writer.close()
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO tenant_default.t SELECT n, n * 7919 %% 1000003, n * 31 %% 1000000 / 100.0, 'name ' || n,"
            " '2026-01-01'::timestamptz + n * interval '1 second' FROM generate_series(1, %s) n",
            [rows],
        )


def _state() -> EngineState:
    return EngineState(chooser("auto"), Metrics())


def _recovered_s(url: str, rows: int, subscriptions: int) -> float:
    """Build a state as the server does, without collections meanwhile."""
    gc.collect()
    gc.disable()
    try:
        state, start = _state(), time.perf_counter()
        recover(url, state, lambda *_: None)
        took = time.perf_counter() - start
    finally:
        gc.enable()
    (table,) = state.table_store
    if (len(state.rows[table.id]), len(state.registry)) != (rows, subscriptions * len(GROUPS)):
        fail("rows or subscriptions are missing")
    return took
