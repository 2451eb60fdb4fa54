"""Joins by the key of a table with a column of another type, over the rows as the engine holds them."""

from __future__ import annotations

import pytest

from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics


@pytest.mark.parametrize("join", ["FROM s JOIN p ON s.y = p.x", "FROM p JOIN s ON p.x = s.y"])
@pytest.mark.parametrize(
    ("column", "key"),
    [
        ("integer", "bigint"),
        ("bigint", "integer"),
        ("numeric(30,10)", "bigint"),
        ("numeric(6,2)", "integer"),
        ("bigint", "numeric(12,4)"),
        ("numeric(6,2)", "numeric(30,10)"),
        ("numeric(30,10)", "numeric(6,2)"),
        ("numeric(6,2)", "numeric(6,2)"),
    ],
)
def test_equal_numbers_of_different_types_join(column: str, key: str, join: str) -> None:
    state = EngineState(chooser("auto"), Metrics())
    for name, columns in (("s", {"k": "integer", "y": column}), ("p", {"x": key})):
        described = [{"name": one, "type": kind} for one, kind in columns.items()]
        state.execute(c.CreateTable({"name": name, "columns": described, "primary_key": [next(iter(columns))]}))
        state.begin()
    query = parse(f"SELECT s.k, p.x {join}")
    watched = state.execute(c.Subscribe(query, None, [(None, {})]))["id"]
    state.begin()

    def publish(table: str, **event: object) -> list[int]:
        state.execute(c.Publish(table, [event]))
        state.begin()
        return sorted(row["k"] for row in state.execute(c.Result(watched))["result"]["rows"])

    assert publish("s", op="insert", row={"k": 1, "y": "4" if "numeric" in column else 4}) == []
    assert publish("p", op="insert", row={"x": "4" if "numeric" in key else 4}) == [1]
    assert publish("s", op="insert", row={"k": 2, "y": "4.0" if "numeric" in column else 4}) == [1, 2]
    assert publish("s", op="delete", key={"k": 1}) == [2]
    assert publish("p", op="delete", key={"x": "4.00" if "numeric" in key else 4}) == []
