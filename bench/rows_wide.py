"""What columns that nothing uses cost: rows of 20 columns, all in memory, and only those that are used.

One group of range minima over two of the columns. For both settings of `--columns-in-memory` the same database is recovered
in a process of its own; then random rows are updated in batches of ten requests, each batch committed before the next, as
the engine does it. The time of an event is that of the engine: with columns in PostgreSQL it includes the read, of which
the engine waits for most.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import psycopg

from bench.common import Report, child_found, fail, progress
from bench.postgres import migrated_postgres
from bench.stored_rows import DOMAIN, fill, recovered, updates
from optimizer.choose import chooser
from prosem.engine.publishing import read_ahead
from prosem.engine.state import EngineState
from prosem.runtime.metrics import Metrics
from prosem.store.log import Writer
from prosem.store.stored_rows import StoredRows

ROWS, SUBSCRIPTIONS, EVENTS = 1_000_000, 10_000, 20_000
REQUESTS = 10  # of a batch
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
        fill(url, dict(zip(COLUMNS, TYPES, strict=True)), subscriptions)
        alone = child_found(__name__, url, "all", 0)
        found, contents = [], set()
        for setting in ("all", "used"):
            progress(
                f"rows: writing {rows:,} rows of {len(COLUMNS)} columns to PostgreSQL, for columns in memory: {setting}"
            )
            _insert(url, rows)
            found.append((setting, child_found(__name__, url, setting, events)))
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


def child() -> None:
    """Recover, then publish; prints what was found."""
    url, setting, events = sys.argv[1], sys.argv[2], int(sys.argv[3])
    stored, metrics = StoredRows(lambda: url), Metrics()
    state = EngineState(chooser("auto"), metrics, stored=stored if setting == "used" else None)
    found = recovered(url, state)
    us, cpu_us = _us_per_event(url, state, found["rows"], events) if events else (0.0, 0.0)
    stored.close()
    (table,) = state.tables().values()
    found |= {"held": len(state.table_store.held(table)), "rows_read": metrics.rows_read}
    found |= {"us_per_event": us, "cpu_us_per_event": cpu_us}
    print(json.dumps(found))


def _us_per_event(url: str, state: EngineState, rows: int, events: int) -> tuple[float, float]:
    """Elapsed and CPU time of an update of y; the first half is not counted: plans are measured then."""
    requests = updates(rows, events)
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
