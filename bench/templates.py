"""Many templates on one table: what an update costs that concerns ten of them, and one that concerns none.

The table has a hundred columns of prices; each is watched by ten templates (five functions, each over ranges of two other
columns), so that an update of one price concerns ten templates however many there are. The engine's state is driven, in
requests of a hundred events and of one.
"""

from __future__ import annotations

import random
import time
from typing import Any

from bench.common import Report, progress
from optimizer.choose import Chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics

DOMAIN = 10_000
COLUMNS = 100
ROWS = 2_000
_FUNCTIONS = (
    "SELECT MIN({y}) FROM prices WHERE {x} BETWEEN :lo AND :hi",
    "SELECT MAX({y}) FROM prices WHERE {x} BETWEEN :lo AND :hi",
    "SELECT SUM({y}) FROM prices WHERE {x} BETWEEN :lo AND :hi",
    "SELECT DISTINCT {y} FROM prices WHERE {x} BETWEEN :lo AND :hi",
    "SELECT k, {y} FROM prices WHERE {x} BETWEEN :lo AND :hi ORDER BY {y} LIMIT 3",
)
_TEMPLATES = tuple(
    text.replace("{y}", f"p{at}").replace("{x}", x)
    for at in range(COLUMNS)
    for x in ("risk", "size")
    for text in _FUNCTIONS
)


def run(quick: bool) -> Report:
    sizes = (1, 10, 100) if quick else (1, 10, 100, 1_000)
    rows, subscriptions, events = (200, 20, 200) if quick else (ROWS, 100, 2_000)
    report = Report("templates", {"quick": quick, "rows": rows, "events": events, "columns": COLUMNS + 3})
    found = [measure(size, rows, subscriptions, events) for size in sizes]
    report.figures = {"by_templates": found}
    report.tables = [("µs of CPU time an update, by the number of templates", found)]
    ten = next(one for one in found if one["templates"] == 10)
    report.notes = [
        f"{found[-1]['templates']:,} templates cost {found[-1][name] / ten[name]:.2f} × ten templates ({name})"
        for name in ("ten concerned", "ten concerned, one by one", "none concerned")
    ]
    return report


def measure(templates: int, rows: int, subscriptions: int, events: int) -> dict[str, Any]:
    """Figures per event; the first templates watch the columns that are updated."""
    progress(f"templates: {templates:,} templates, {subscriptions:,} subscriptions each")
    chance = random.Random(3)
    state = EngineState(Chooser(), Metrics())
    names = ["k", "risk", "size", "note", *(f"p{at}" for at in range(COLUMNS))]
    columns = [{"name": name, "type": "integer"} for name in names]
    state.execute(c.CreateTable({"name": "prices", "columns": columns, "primary_key": ["k"]}))
    state.begin()
    made = [{name: chance.randrange(DOMAIN) for name in names} | {"k": k} for k in range(rows)]
    state.execute(c.Publish("prices", [{"op": "insert", "row": row} for row in made]))
    state.begin()
    for sql in _TEMPLATES[:templates]:
        wanted: list[tuple[str | None, dict[str, Any]]] = []
        for _ in range(subscriptions):
            low = chance.randrange(DOMAIN)
            wanted.append((None, {"lo": low, "hi": low + abs(round(chance.gauss(1_000, 1_000)))}))
        state.execute(c.Subscribe(parse(sql), None, wanted, batch=True))
        state.begin()
    watched = max(1, templates // 10)

    def update(name: str) -> dict[str, Any]:
        key = {"k": chance.randrange(rows)}
        return {"op": "update", "key": key, "set": {name: chance.randrange(DOMAIN)}}

    def timed(columns: int, size: int) -> float:
        """µs per event; each updates one of so many watched columns, or one that no group reads."""
        requests = [
            [update(f"p{chance.randrange(columns)}" if columns else "note") for _ in range(size)]
            for _ in range(max(2, events // size))
        ]
        for request in requests[: len(requests) // 2]:  # what is made at the first time is not counted
            state.execute(c.Publish("prices", request))
            state.begin()
        start = time.process_time()
        for request in requests[len(requests) // 2 :]:
            state.execute(c.Publish("prices", request))
            state.begin()
        counted = size * (len(requests) - len(requests) // 2)
        return round((time.process_time() - start) / counted * 1e6, 1)

    return {
        "templates": templates,
        "ten concerned": timed(watched, 100),
        "ten concerned, one by one": timed(watched, 1),
        "none concerned": timed(0, 100),
    }
