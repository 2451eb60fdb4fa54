"""What columns that nothing uses cost: rows of 20 columns, all in memory, and only those that are used.

One group of range minima over two of the columns. For both settings of `--columns-in-memory` the same database is recovered
in a process of its own; then random rows are updated in batches of ten requests, each batch committed before the next, as
the engine does it. The time of an event is that of the engine: with columns in PostgreSQL it includes the read, of which
the engine waits for most.
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
from prosem.engine.publishing import read_ahead
from prosem.engine.recovery import recover
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.store.log import Writer
from prosem.store.stored_rows import StoredRows
from prosem.values.packed_rows import TableRows

ROWS, SUBSCRIPTIONS, EVENTS = 1_000_000, 10_000, 20_000
PER_REQUEST, REQUESTS = 100, 10
DOMAIN, RANGE = 1_000_000_000, 100_000_000
SQL = "SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi"
TYPES = ["integer"] * 3 + ["bigint"] * 6 + ["double precision"] * 5 + ["timestamptz"] * 3 + ["text"] * 3
COLUMNS = ["k", "x", "y", *(f"c{at}" for at in range(3, 20))]
_FILL = {
    "bigint": "n * 31::bigint",
    "double precision": "n * 0.5",
    "timestamptz": "'2026-01-01'::timestamptz + n * interval '1 second'",
    "text": "'article number ' || n",
}


def run(quick: bool) -> Report:
    """`--quick`: a fiftieth of the rows, a tenth of the subscriptions, a quarter of the events."""
    rows = ROWS // (50 if quick else 1)
    subscriptions, events = SUBSCRIPTIONS // (10 if quick else 1), EVENTS // (4 if quick else 1)
    report = Report(
        "rows", {"columns": len(COLUMNS), "rows": rows, "subscriptions": subscriptions, "events": events}
    )
    figures = measure(rows, subscriptions, events)
    report.figures = {"columns_in_memory": figures}
    report.tables = [(f"rows of {len(COLUMNS)} columns, one group of range minima", figures)]
    whole, used = figures
    report.notes = [
        f"with the columns that are used in memory a row takes {used['bytes_per_row'] / whole['bytes_per_row']:.2f} of"
        f" the bytes, and an event {used['us_per_event'] / whole['us_per_event']:.2f} times the engine's time",
        "bytes per row: growth of the process from before the recovery to after it, less that of a state"
        " with the subscriptions alone; packed: of columns and index; us: elapsed, cpu_us: of the process",
    ]
    return report


def measure(rows: int, subscriptions: int, events: int) -> list[dict[str, Any]]:
    """Figures of all columns in memory, and of those used alone."""
    with migrated_postgres() as (url, _):
        _fill(url, subscriptions)
        alone = _recovered(url, "all", 0)
        found, contents = [], set()
        for setting in ("all", "used"):
            progress(f"rows: writing {rows:,} rows of {len(COLUMNS)} columns to PostgreSQL")
            _insert(url, rows)
            found.append((setting, _recovered(url, setting, events)))
            contents.add(_content(url))
    if any((one["rows"], one["subscriptions"]) != (rows, subscriptions) for _, one in found):
        fail("rows or subscriptions are missing")
    if len(contents) > 1:
        fail("the same events led to other rows")
    return [
        {
            "columns_in_memory": setting,
            "held": one["held"],
            "bytes_per_row": round((one["grown_bytes"] - alone["grown_bytes"]) / rows, 1),
            "packed_bytes_per_row": round(one["packed_bytes"] / rows, 1),
            "recovered_s": round(one["recovered_s"], 2),
            "us_per_event": round(one["us_per_event"], 2),
            "cpu_us_per_event": round(one["cpu_us_per_event"], 2),
            "rows_read_per_event": round(one["rows_read"] / max(1, events), 3),
        }
        for setting, one in found
    ]


def _fill(url: str, subscriptions: int) -> None:
    """The table and the subscriptions, without rows."""
    writer, state = Writer.connect(url), EngineState(chooser("auto"), Metrics())
    random = np.random.default_rng(7)
    low = random.integers(0, DOMAIN - RANGE, subscriptions).tolist()
    length = random.integers(0, RANGE, subscriptions).tolist()
    columns = [{"name": name, "type": kind} for name, kind in zip(COLUMNS, TYPES, strict=True)]
    try:
        state.execute(c.CreateTable({"name": "t", "columns": columns, "primary_key": ["k"]}))
        writer.write(state.begin().writes)
        given: list[tuple[str | None, dict[str, Any]]] = [
            (None, {"lo": lo, "hi": lo + more}) for lo, more in zip(low, length, strict=True)
        ]
        state.execute(c.Subscribe(parse(SQL), None, given, batch=True))
        writer.write(state.begin().writes)
    finally:
        writer.close()


def _insert(url: str, rows: int) -> None:
    values = [
        "n",
        f"n * 7919::bigint % {DOMAIN}",
        "n * 31::bigint % 1000003",
        *(_FILL[kind] for kind in TYPES[3:]),
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE tenant_default.t")
        connection.execute(
            f"INSERT INTO tenant_default.t SELECT {', '.join(values)} FROM generate_series(1, {rows}) n".encode()
        )
        connection.execute("VACUUM ANALYZE tenant_default.t")


def _content(url: str) -> tuple[Any, ...]:
    """A digest of all rows."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*), sum(hashtext(t::text)::bigint) FROM tenant_default.t t")
        return found.fetchall()[0]


def _recovered(url: str, setting: str, events: int) -> dict[str, Any]:
    """What a process of its own finds."""
    command = [sys.executable, "-c", "from bench.rows_wide import child; child()", url, setting, str(events)]
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
    progress(
        f"rows: {found['rows']:,} recovered in {found['recovered_s']:.1f} s, columns in memory: {setting}"
    )
    return found


def child() -> None:
    """Recover as the server does, without collections meanwhile, then publish; prints what was found."""
    url, setting, events = sys.argv[1], sys.argv[2], int(sys.argv[3])
    stored, metrics = StoredRows(lambda: url), Metrics()
    state = EngineState(chooser("auto"), metrics, stored=stored if setting == "used" else None)
    before = resident_bytes()
    gc.disable()
    start = time.perf_counter()
    recover(url, state, lambda *_: None)
    recovered_s = time.perf_counter() - start
    gc.enable()
    grown = resident_bytes() - before
    (table,) = state.tables().values()
    rows = cast(TableRows, state.rows[table.id])
    us, cpu_us = _us_per_event(url, state, len(rows), events) if events else (0.0, 0.0)
    stored.close()
    found = {
        "rows": len(rows),
        "subscriptions": len(state.registry),
        "held": len(state.table_store.held(table)),
        "grown_bytes": grown,
        "packed_bytes": rows.nbytes,
        "recovered_s": recovered_s,
        "us_per_event": us,
        "cpu_us_per_event": cpu_us,
        "rows_read": metrics.rows_read,
    }
    print(json.dumps(found))


def _us_per_event(url: str, state: EngineState, rows: int, events: int) -> tuple[float, float]:
    """Elapsed and CPU time of an update of y; the first half is not counted: plans are measured then."""
    random = np.random.default_rng(3)
    keys = random.integers(1, rows + 1, events).tolist()
    heights = random.integers(0, 1_000_003, events).tolist()
    given = [
        {"op": "update", "key": {"k": key}, "set": {"y": y}} for key, y in zip(keys, heights, strict=True)
    ]
    requests = [c.Publish("t", given[at : at + PER_REQUEST]) for at in range(0, events, PER_REQUEST)]
    writer, took = Writer.connect(url), []
    try:
        for at in range(0, len(requests), REQUESTS):
            some = requests[at : at + REQUESTS]
            begun, cpu = time.perf_counter_ns(), time.process_time_ns()
            read_ahead(state, some)
            for one in some:
                state.execute(one)
            count = sum(len(one.events) for one in some)
            took.append(
                (
                    (time.perf_counter_ns() - begun) / count / 1e3,
                    (time.process_time_ns() - cpu) / count / 1e3,
                )
            )
            writer.write(state.begin().writes)
    finally:
        writer.close()
    counted = took[len(took) // 2 :]
    elapsed, cpu_time = zip(*counted, strict=True)
    return float(np.mean(elapsed)), float(np.mean(cpu_time))
