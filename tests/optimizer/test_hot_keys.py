"""Hot keys decide between enumeration and reformulation before anything was measured in a space: the server counts them."""

from __future__ import annotations

from typing import Any

from optimizer.choose import chooser
from optimizer.plan import Estimate
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics

SQL = "SELECT MIN(y) FROM t WHERE g = :g AND x BETWEEN :lo AND :hi"
HOT, OTHER = 0, 7


def subscribed() -> EngineState:
    """Nearly all of 500 subscriptions are to one value of g."""
    state = EngineState(chooser("auto"), Metrics())
    columns = [{"name": name, "type": "integer"} for name in ("k", "g", "x", "y")]
    state.execute(c.CreateTable({"name": "t", "columns": columns, "primary_key": ["k"]}))
    state.begin()
    rows: list[tuple[str | None, Any]] = [
        (None, {"g": HOT if at % 50 else at // 50, "lo": at % 9, "hi": 10 + at % 9}) for at in range(500)
    ]
    state.execute(c.Subscribe(parse(SQL), None, rows, batch=True))
    state.begin()
    return state


def explained(state: EngineState, key: int) -> Any:
    event = {"op": "insert", "row": {"k": 1, "g": key, "x": 9, "y": 1}}
    (group,) = state.execute(c.Explain("t", event))["groups"]
    return group


def test_a_hot_key_is_reformulated_and_others_are_enumerated() -> None:
    """A run that has measured other groups says that naming one subscription is cheaper here than making a region."""
    state = subscribed()
    assert [explained(state, key)["chosen"] for key in (HOT, OTHER)] == ["reformulate", "reformulate"]
    measured = {
        "reformulate": [((1, 1), Estimate(14.0, 14.0, 350.0, 0.0, 3.0))],
        "enumerate": [((1, 1), Estimate(10.9, 10.9, 177.0, 0.0, 3.0))],
    }
    state.chooser.adopt(state.chooser.prepare({99: measured}, run=5))
    found = {key: explained(state, key) for key in (HOT, OTHER)}
    assert {key: one["chosen"] for key, one in found.items()} == {HOT: "reformulate", OTHER: "enumerate"}
    for key, about in ((HOT, 491), (OTHER, 1)):
        plans = found[key]["plans"]
        assert {one["statistic"] for one in plans} == {"sample of the group's points, priced by run 5"}
        assert {one["affected"] for one in plans} == {about}, "counted, not estimated"
    for key, one in found.items():
        event = {"op": "insert", "row": {"k": 1, "g": key, "x": 9, "y": 1}}
        (group,) = state.execute(c.Explain("t", event, analyze=True))["groups"]
        sizes = {plan["plan"]: plan["measured"]["server_stress"] for plan in group["plans"]}
        assert min(sizes, key=sizes.__getitem__) == one["chosen"], "its messages are the smaller ones"
