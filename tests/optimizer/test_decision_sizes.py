"""The size of a decision's messages is that of all they carry, also where a replay makes them again from the log."""

from __future__ import annotations

from typing import Any

from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics

NOTE = "x" * 5_000  # what no condition looks at
SQL = "SELECT * FROM r JOIN s USING (g) WHERE r.x BETWEEN :lo AND :hi"


def test_the_contents_of_a_join_count() -> None:
    state = EngineState(chooser("auto"), Metrics())
    columns = [{"name": name, "type": "integer"} for name in ("k", "g", "x")]
    for table in ("r", "s"):
        described = [*columns, {"name": "note", "type": "text"}]
        state.execute(c.CreateTable({"name": table, "columns": described, "primary_key": ["k"]}))
        state.begin()
    row: dict[str, Any] = {"k": 1, "g": 1, "x": 5, "note": NOTE}
    state.execute(c.Publish("s", [{"op": "insert", "row": row}]))
    state.execute(c.Subscribe(parse(SQL), None, [(None, {"lo": 1, "hi": 9})], batch=True))
    state.begin()
    state.execute(c.Publish("r", [{"op": "insert", "row": row}]))
    (decision,) = state.chooser.decisions.last(1)
    assert decision.messages
    assert decision.size_bytes > 2 * len(NOTE), "the row of each table"
