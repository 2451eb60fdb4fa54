"""Joins by the key of a table with a column of another type, over the rows as the engine holds them."""

from __future__ import annotations

import msgspec
import pytest

from cn.match.kernels import select
from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.values.wire import encode


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
        state.execute(
            c.CreateTable({"name": name, "columns": described, "primary_key": [next(iter(columns))]})
        )
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


@pytest.mark.parametrize("kernels", ["auto", "off"])
def test_views_with_null_in_their_key_are_joined(kernels: str) -> None:
    """Rows of a join are in the order of their keys, and one group of a nullable column has NULL there."""
    select(kernels)
    try:
        _joined_groups()
    finally:
        select("auto")


def _joined_groups() -> None:
    state = EngineState(chooser("auto"), Metrics())
    for name, columns in (("s", ("k", "g", "x")), ("q", ("i", "g", "z"))):
        described = [
            {"name": one, "type": "double precision" if one == "x" else "integer", "nullable": one == "x"}
            for one in columns
        ]
        state.execute(c.CreateTable({"name": name, "columns": described, "primary_key": [columns[0]]}))
        state.begin()

    def publish(table: str, *rows: dict[str, object]) -> None:
        state.execute(c.Publish(table, [{"op": "upsert", "row": row} for row in rows]))
        state.begin()

    prepared = state.execute(c.PrepareView("v", "SELECT x, g, COUNT(*) AS n FROM s GROUP BY x, g"))
    prepared.build.fill()
    prepared.build.catch_up()
    state.execute(c.InstallView(prepared.build))
    publish("s", *({"k": k, "g": 7, "x": None if k % 4 == 0 else k / 2} for k in range(6)))
    publish("q", {"i": 1, "g": 7, "z": 5})
    query = parse("SELECT * FROM v JOIN q USING (g) WHERE q.z BETWEEN :low AND :high")
    subscription = state.execute(c.Subscribe(query, None, [(None, {"low": 0, "high": 9})]))["id"]
    state.begin()
    publish("s", {"k": 6, "g": 7, "x": 9.5}, {"k": 1, "g": 7, "x": None})
    publish("s", {"k": 2, "g": 7, "x": None})
    found = msgspec.json.decode(encode(state.execute(c.Result(subscription))["result"]["rows"]))
    state.spaces[max(state.spaces)].check()  # type: ignore[attr-defined]
    groups = {row["v"]["x"]: row["v"]["n"] for row in found}
    assert groups == {None: 4, 1.5: 1, 2.5: 1, 9.5: 1}
