"""Views in the engine's order: defined, built aside while events go on, put into place, dropped."""

from __future__ import annotations

import pytest

from optimizer.choose import chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.values.errors import ConflictError, RecoveringError

TABLE = {
    "name": "t",
    "columns": [{"name": "k", "type": "integer"}, {"name": "x", "type": "integer"}],
    "primary_key": ["k"],
}
HIGH = "SELECT k, x FROM t WHERE x > 10"


@pytest.fixture
def state() -> EngineState:
    made = EngineState(chooser("auto"), Metrics())
    made.execute(c.CreateTable(TABLE))
    publish(made, *({"op": "insert", "row": {"k": k, "x": 5 * k}} for k in range(6)))
    return made


def publish(state: EngineState, *events: dict[str, object]) -> None:
    state.execute(c.Publish("t", list(events)))
    state.begin()


def define(state: EngineState, name: str = "high", sql: str = HIGH) -> None:
    prepared = state.execute(c.PrepareView(name, sql))
    prepared.build.fill()
    prepared.build.catch_up()
    state.execute(c.InstallView(prepared.build))
    state.begin()


def rows(state: EngineState, name: str = "high") -> list[dict[str, int]]:
    answer = state.execute(c.Subscribe(parse(f"SELECT * FROM {name}"), None, [(None, {})]))
    state.execute(c.Delete(answer["id"]))
    state.begin()
    found: list[dict[str, int]] = answer["result"]["rows"]
    return sorted(found, key=lambda row: row["k"])


def test_events_go_on_while_a_view_is_built(state: EngineState) -> None:
    prepared = state.execute(c.PrepareView("high", HIGH))
    publish(state, {"op": "update", "key": {"k": 1}, "set": {"x": 11}}, {"op": "delete", "key": {"k": 5}})
    prepared.build.fill()
    publish(state, {"op": "insert", "row": {"k": 9, "x": 99}})
    prepared.build.catch_up()
    publish(state, {"op": "update", "key": {"k": 9}, "set": {"x": 98}})
    state.execute(c.InstallView(prepared.build))
    state.begin()
    assert [(row["k"], row["x"]) for row in rows(state)] == [(1, 11), (3, 15), (4, 20), (9, 98)]


def test_an_abandoned_view_takes_no_events(state: EngineState) -> None:
    build = state.execute(c.PrepareView("high", HIGH)).build
    publish(state, {"op": "insert", "row": {"k": 9, "x": 99}})
    assert build.queue
    build.queue.clear()
    build.is_abandoned = True
    publish(state, {"op": "insert", "row": {"k": 10, "x": 99}})
    assert not build.queue
    state.execute(c.DropTable("t"))  # nothing uses it


def test_a_name_is_taken_while_its_view_is_built(state: EngineState) -> None:
    prepared = state.execute(c.PrepareView("high", HIGH))
    for sql in (HIGH, "SELECT k FROM t"):
        with pytest.raises(ConflictError, match="'high' is being built"):
            state.execute(c.PrepareView("high", sql))
    prepared.build.is_abandoned = True
    with pytest.raises(RecoveringError):
        state.execute(c.InstallView(prepared.build))
    define(state)
    assert state.execute(c.PrepareView("high", HIGH)).build is None, "an identical one exists"
    with pytest.raises(ConflictError, match="a different view 'high' exists"):
        state.execute(c.PrepareView("high", "SELECT k FROM t"))
    with pytest.raises(ConflictError, match="a table 't' exists"):
        state.execute(c.PrepareView("t", HIGH))


def test_what_uses_a_view_keeps_it(state: EngineState) -> None:
    define(state)
    define(state, "higher", "SELECT k, x FROM high WHERE x > 20")
    with pytest.raises(ConflictError, match="used by the view higher"):
        state.execute(c.DropView("high"))
    with pytest.raises(ConflictError, match="used by the view high"):
        state.execute(c.DropTable("t"))
    made = state.execute(c.Subscribe(parse("SELECT MIN(x) FROM higher"), None, [(None, {})]))
    with pytest.raises(
        ConflictError, match=r"1 subscriptions use the view 'higher' \(those of the group range-min"
    ):
        state.execute(c.DropView("higher"))
    state.execute(c.Delete(made["id"]))
    for name in ("higher", "high"):
        state.execute(c.DropView(name))
        state.begin()
    state.execute(c.DropTable("t"))
