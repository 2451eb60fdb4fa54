"""Before anything was measured: columns of a run with the constants in memory decide about groups that it has not seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from cn.model.message import Message
from optimizer.choose import Chooser, NamedPlan
from prosem.engine import commands as c
from prosem.engine import constants
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.values.statistics import ColumnStatistics, PointStatistics, RunFigures
from prosem.values.wire import pack
from tests.support.join_forms import bounds, hot

DOMAIN, WIDE, NARROW = 1_000, 500, 5
Given = list[tuple[str | None, dict[str, Any]]]


def made(plan: str = "reformulate", **more: Any) -> EngineState:
    return EngineState(Chooser(NamedPlan(plan), share=0), Metrics(), plan=plan, **more)


def create(state: EngineState, name: str, *columns: str) -> int:
    described = [{"name": one, "type": "integer"} for one in columns]
    number: int = state.execute(
        c.CreateTable({"name": name, "columns": described, "primary_key": [columns[0]]})
    ).table.id
    state.begin()
    return number


def subscribe(state: EngineState, sql: str, params: Given) -> None:
    state.execute(c.Subscribe(parse(sql), None, params, batch=True))
    state.begin()


def publish(state: EngineState, name: str, rows: Sequence[dict[str, Any]]) -> list[Message]:
    state.execute(c.Publish(name, [{"op": "upsert", "row": row} for row in rows]))
    return [frame for frame in state.begin().frames if isinstance(frame, Message)]


def column(position: int, name: str, values: Sequence[int]) -> ColumnStatistics:
    known = list(values)
    found = float(len(set(known)))
    return ColumnStatistics(position, name, "integer", 1_000, 0, found, 0, bounds(known), 0.0, hot(known))


def adopt(state: EngineState, figures: RunFigures, run: int = 5) -> None:
    state.execute(c.Adopt({"run": run}, state.chooser.prepare({}, run), figures))
    state.begin()


# -- the order of evaluation ---------------------------------------------------------------------------------------
def ranges(width: int, count: int = 40) -> Given:
    chance = random.Random(width)
    return [(None, {"lo": low, "hi": low + width}) for low in (chance.randrange(900) for _ in range(count))]


def equals(among: int, count: int = 40) -> Given:
    return [(None, {"g": at % among}) for at in range(count)]


class Groups:
    """Two groups of a table that take the same events; the first one is affected less."""

    def __init__(self, conditions: tuple[str, str], params: tuple[Given, Given]) -> None:
        self.state, self.chance = made(), random.Random(3)
        self.table = create(self.state, "t", "k", "x", "g", "h", "y")
        for what, where, some in zip(("COUNT(*)", "SUM(y)"), conditions, params, strict=True):
            subscribe(self.state, f"SELECT {what} FROM t WHERE {where}", some)

    def columns(self) -> dict[int, list[ColumnStatistics]]:
        values = {"x": range(DOMAIN), "g": range(40), "h": range(4)}
        return {self.table: [column(at, name, some) for at, (name, some) in enumerate(values.items(), 1)]}

    def order(self) -> list[tuple[str, str]]:
        """The groups as they are evaluated, each with the statistic that says so."""
        event = {"op": "insert", "row": self.row(10_000)}
        found = self.state.execute(c.Explain("t", event))["groups"]
        kinds = [self.state.group_store._of_name[one["group"]].type for one in found]
        return [(kind, one["order"]["statistic"]) for kind, one in zip(kinds, found, strict=True)]

    def row(self, k: int) -> dict[str, int]:
        limits = {"x": DOMAIN, "g": 40, "h": 4, "y": 9}
        return {"k": k} | {name: self.chance.randrange(limit) for name, limit in limits.items()}

    def waited(self) -> float:
        """Bytes that are made until a subscription's message is: those of all messages of the event before, and its own."""
        self.chance.seed(7)
        waited = 0
        for k in range(60):
            size_bytes = 0
            for message in publish(self.state, "t", [self.row(k)]):
                size_bytes += len(pack(message))
                points: Any = self.state.spaces[message.space]
                waited += size_bytes * points.points.count(message.topic, message.region)
        publish_deletes(self.state, range(60))
        return waited


def publish_deletes(state: EngineState, keys: Sequence[int]) -> None:
    state.execute(c.Publish("t", [{"op": "delete", "key": {"k": k}} for k in keys]))
    state.begin()


RANGED = "x BETWEEN :lo AND :hi"


@pytest.mark.parametrize("is_seen", [True, False])
def test_column_histograms_flip_the_order_of_groups_that_nothing_was_measured_in(is_seen: bool) -> None:
    """By the constants of the run or, of groups that it has not seen, by those in memory."""
    work = Groups((RANGED, RANGED), (ranges(NARROW), ranges(WIDE)))
    first = [kind for kind, _ in work.order()]
    before = work.waited()
    figures = RunFigures(work.columns())
    if is_seen:
        known = {
            number: [
                PointStatistics(f"x {op}", 40, 40.0, bounds([float(one[key]) for _, one in some]), 0.0)
                for op, key in ((">=", "lo"), ("<=", "hi"))
            ]
            for number, some in ((1, ranges(NARROW)), (2, ranges(WIDE)))
        }
        figures = RunFigures(work.columns(), points=known)
    adopt(work.state, figures)
    by = "point and column histograms" if is_seen else "constants in memory, column histograms"
    assert work.order() == [(kind, f"{by} of run 5") for kind in reversed(first)]
    assert work.waited() < 0.9 * before


@pytest.mark.parametrize("reads", [constants.READ_GROUPS, 0])
def test_distinct_values_flip_the_order_of_groups_with_equal_constants(
    reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 40 values is equal to one of 40 constants, one of 4 to a quarter of them; also where constants are not read."""
    monkeypatch.setattr(constants, "READ_GROUPS", reads)
    work = Groups(("g = :g", "h = :g"), (equals(40), equals(4)))
    first = [kind for kind, _ in work.order()]
    before = work.waited()
    adopt(work.state, RunFigures(work.columns()))
    by = f"{'constants in memory, column histograms' if reads else 'distinct values, hot keys'} of run 5"
    assert work.order() == [(kind, by) for kind in reversed(first)]
    assert work.waited() < 0.9 * before
    if not reads:
        same = [one._replace(distinct=40.0) for one in work.columns()[work.table]]
        adopt(work.state, RunFigures({work.table: same}), 6)
        assert [kind for kind, _ in work.order()] == first


def test_groups_of_which_the_columns_say_nothing_are_in_no_order() -> None:
    work = Groups((RANGED, "y = :g"), (ranges(WIDE), equals(9)))
    adopt(work.state, RunFigures(work.columns()))
    assert {statistic for _, statistic in work.order()} == {
        "not measured yet",
        "constants in memory, column histograms of run 5",
    }


# -- joins ---------------------------------------------------------------------------------------------------------
JOIN = "SELECT * FROM r JOIN s USING (b) WHERE s.x BETWEEN :x AND :x2 AND s.y BETWEEN :y AND :y2"


class Joined:
    """Most rows of s have the same y; ranges on it are narrow and spread evenly, those on x are wide."""

    def __init__(self) -> None:
        self.state, self.chance = made("ref-sj-clu+", look_events=40), random.Random(5)
        self.r, self.s = create(self.state, "r", "k", "b", "a"), create(self.state, "s", "k", "b", "x", "y")
        publish(self.state, "r", [{"k": k, "b": k % 5, "a": 0} for k in range(40)])
        self.rows = [self.row(k) for k in range(60)]
        publish(self.state, "s", self.rows)

    def row(self, k: int) -> dict[str, int]:
        chance = self.chance
        y = 400 if chance.random() < 0.9 else chance.randrange(DOMAIN)
        return {"k": k, "b": k % 5, "x": chance.randrange(DOMAIN), "y": y}

    def figures(self) -> RunFigures:
        columns = [
            column(at, name, [row[name] for row in self.rows])
            for at, name in enumerate("kbxy")
            if name != "k"
        ]
        return RunFigures({self.s: columns})

    def come(self, count: int) -> None:
        found: Given = []
        for _ in range(count):
            x, y = self.chance.randrange(800), self.chance.randrange(980)
            found.append((None, {"x": x, "x2": x + 200, "y": y, "y2": y + 20}))
        subscribe(self.state, JOIN, found)

    def spent(self) -> tuple[int, int]:
        """Messages, and subscriptions that they reach, of events that change join keys and leave rows as they were."""
        events = [row | {"b": (row["b"] + turn) % 5} for turn in range(1, 5) for row in self.rows] + self.rows
        (space,) = self.state.spaces.values()
        messages = reached = 0
        for event in events:
            for message in publish(self.state, "s", [event]):
                messages += 1
                reached += self.reached(space, message)
        return messages, reached

    def reached(self, space: Any, message: Message) -> int:
        named = message.targets
        return space.points.count(message.topic, message.region) if named is None else len(named)

    def arrangement(self) -> Any:
        (space,) = self.state.spaces.values()
        return space.arrangement()["routing"]  # type: ignore[attr-defined]


def test_constants_in_memory_flip_the_routing_column_of_a_new_group() -> None:
    """It is opened by its first subscription, so that nothing is known of its constants then."""
    work = Joined()
    adopt(work.state, work.figures())
    work.state.look_events = 10**9
    work.come(60)
    assert work.arrangement()["columns"] == {"s": "x"}, "as if constants were spread as the rows are"
    before = work.spent()
    work.state.look_events = 40
    publish(work.state, "r", [{"k": k, "b": k % 5, "a": 1} for k in range(40)])
    assert work.arrangement() == {
        "columns": {"s": "y"},
        "statistic": "constants in memory, column histograms, update rates and join frequencies of the run",
    }
    after = work.spent()
    assert after[0] < before[0]
    assert after[1] < 0.3 * before[1]
    work.state.spaces[1].check()


def test_constants_are_read_again_when_a_group_has_four_times_as_many_subscriptions() -> None:
    work = Joined()
    adopt(work.state, work.figures())
    known = work.state.constants
    work.come(15)
    assert known.grown() is None, "too few"
    work.come(1)
    found = known.grown()
    assert found is not None
    assert {one.dimension: one.subscriptions for one in found.points[1]} == {
        f"s.{name} {op}": 16 for name in "xy" for op in (">=", "<=")
    }
    work.come(47)
    assert known.grown() is None
    work.come(1)
    assert known.grown() is not None
    adopt(work.state, RunFigures(work.figures().columns, points=found.points), 6)
    work.come(1)
    assert known.grown() is None, "the run has seen it"


def test_a_run_that_has_not_seen_a_group_leaves_it_as_its_constants_have_arranged_it() -> None:
    work = Joined()
    adopt(work.state, work.figures())
    work.come(60)
    publish(work.state, "r", [{"k": k, "b": k % 5, "a": 1} for k in range(40)])
    assert work.arrangement()["columns"] == {"s": "y"}
    rearranged = work.state.metrics.rearranged
    adopt(work.state, work.figures(), 6)
    assert work.arrangement()["columns"] == {"s": "y"}
    assert work.state.metrics.rearranged == rearranged
