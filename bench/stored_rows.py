"""What `bench.rows` and `bench.rows_wide` have in common: a table with range minima, recovered in a process of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from bench.common import resident_bytes
from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.recovery import recover
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.store.log import Writer
from prosem.values.packed_rows import TableRows

DOMAIN, RANGE = 1_000_000_000, 100_000_000
SQL = "SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi"
PER_REQUEST = 100


def fill(url: str, columns: Mapping[str, str], subscriptions: int) -> None:
    """The table, with these types by name, and the subscriptions, without rows."""
    writer, state = Writer.connect(url), EngineState(chooser("auto"), Metrics())
    random = np.random.default_rng(7)
    low = random.integers(0, DOMAIN - RANGE, subscriptions).tolist()
    length = random.integers(0, RANGE, subscriptions).tolist()
    defined = [{"name": name, "type": kind} for name, kind in columns.items()]
    try:
        state.execute(c.CreateTable({"name": "t", "columns": defined, "primary_key": ["k"]}))
        writer.write(state.begin().writes)
        given: list[tuple[str | None, dict[str, Any]]] = [
            (None, {"lo": lo, "hi": lo + more}) for lo, more in zip(low, length, strict=True)
        ]
        for start in range(0, subscriptions, 20_000):
            state.execute(c.Subscribe(parse(SQL), None, given[start : start + 20_000], batch=True))
            writer.write(state.begin().writes)
    finally:
        writer.close()


def recovered(url: str, state: EngineState) -> dict[str, Any]:
    """Recover as the server does, without collections meanwhile."""
    before = resident_bytes()
    gc.disable()
    start = time.perf_counter()
    recover(url, state, lambda *_: None)
    recovered_s = time.perf_counter() - start
    gc.enable()
    grown = resident_bytes() - before
    (content,) = state.rows.values()
    rows = cast(TableRows, content)
    return {
        "rows": len(rows),
        "subscriptions": len(state.registry),
        "grown_bytes": grown,
        "packed_bytes": rows.nbytes,
        "recovered_s": recovered_s,
    }


def updates(rows: int, events: int) -> list[c.Publish]:
    """Requests that set y of random rows."""
    random = np.random.default_rng(3)
    keys = random.integers(1, rows + 1, events).tolist()
    heights = random.integers(0, 1_000_003, events).tolist()
    given = [
        {"op": "update", "key": {"k": key}, "set": {"y": y}} for key, y in zip(keys, heights, strict=True)
    ]
    return [c.Publish("t", given[at : at + PER_REQUEST]) for at in range(0, events, PER_REQUEST)]
