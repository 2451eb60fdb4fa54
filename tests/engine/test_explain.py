"""EXPLAIN of an event: every plan of every group it touches, and no trace of it afterwards."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cn.model.message import Message
from optimizer.choose import chooser
from optimizer.plan import METRICS
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics
from prosem.types.base import MarkedSpace
from prosem.types.value.items import MOST_COPIED, on_a_copy
from prosem.values.errors import ConflictError, InputError, NotFoundError

TABLE = {
    "name": "t",
    "columns": [
        {"name": "k", "type": "integer"},
        {"name": "x", "type": "integer"},
        {"name": "z", "type": "integer"},
        {"name": "y", "type": "double precision"},
    ],
    "primary_key": ["k"],
}
OTHER = {
    "name": "s",
    "columns": [
        {"name": "s", "type": "integer"},
        {"name": "z", "type": "integer"},
        {"name": "w", "type": "integer"},
    ],
    "primary_key": ["s"],
}
RANGE = "WHERE x BETWEEN :lo AND :hi"
QUERIES: list[tuple[str, Any]] = [
    (f"SELECT MIN(y) FROM t {RANGE}", None),
    (f"SELECT MAX(y) FROM t {RANGE} AND z BETWEEN :lo AND :hi", None),
    (f"SELECT COUNT(*) FROM t {RANGE}", None),
    (f"SELECT SUM(y) FROM t {RANGE} AND z BETWEEN :lo AND :hi", None),
    (f"SELECT AVG(y) FROM t {RANGE}", None),
    (f"SELECT DISTINCT z FROM t {RANGE}", None),
    (f"SELECT * FROM t {RANGE}", None),
    ("SELECT y FROM t WHERE k = :k", {"change": 7}),
    ("SELECT y FROM t WHERE k = :k", {"percent": 20}),
    ("SELECT y FROM t WHERE k IN (:k, :lo)", {"change": 3}),
    ("SELECT y FROM t", {"percent": 10}),
    ("SELECT * FROM t JOIN s USING (z) WHERE x BETWEEN :lo AND :hi AND w BETWEEN :lo AND :hi", None),
]


class World:
    """A state with subscriptions of every kind, and all the messages it has made."""

    def __init__(self, seed: int, plan: str = "reformulate") -> None:
        self.chance = random.Random(seed)
        self.state = EngineState(chooser(plan, share=0), Metrics())
        self.messages: list[Message] = []
        self.run(c.CreateTable(TABLE))
        self.run(c.CreateTable(OTHER))
        self.ids: list[str] = []
        for _ in range(12):
            self.event()
        for sql, notify in QUERIES:
            for _ in range(8):
                lo = self.chance.randrange(12)
                given = {"lo": lo, "hi": lo + self.chance.randrange(8), "k": self.chance.randrange(10)}
                query = parse(sql)
                params = {name: given[name] for name in query.parameters}
                self.ids.append(self.run(c.Subscribe(query, notify, [(None, params)]))["id"])

    def run(self, command: Any) -> Any:
        answer = self.state.execute(command)
        batch = self.state.begin()
        self.messages += [frame for frame in batch.frames if isinstance(frame, Message)]
        return answer

    def some_event(self, chance: random.Random) -> dict[str, Any]:
        known = sorted(self.state.rows[1])
        if known and chance.random() < 0.2:
            return {"op": "delete", "key": {"k": chance.choice(known)[0]}}
        numbers = {name: chance.choice([None, *range(16)]) for name in ("x", "z")}
        return {"op": "upsert", "row": {"k": chance.randrange(10), **numbers, "y": chance.randrange(40) / 2}}

    def event(self) -> None:
        self.run(c.Publish("t", [self.some_event(self.chance)]))
        row = {name: self.chance.randrange(16) for name in ("s", "z", "w")}
        self.run(c.Publish("s", [{"op": "upsert", "row": row}]))

    def fingerprint(self) -> Any:
        """All that could ever be noticed: answers, rows, and every notification."""
        state = self.state
        marks = [
            space.mark(sid)
            for space in state.spaces.values()
            if isinstance(space, MarkedSpace)
            for sid in range(1, state.registry.next_sid)
            if state.groups[state.registry.group(sid)].space == space.network.id  # type: ignore[attr-defined]
        ]
        answers = [self.run(c.Result(id)) for id in self.ids]
        return answers, sorted(state.rows[1].items()), marks, state.seq

    def check(self) -> None:
        for space in self.state.spaces.values():
            getattr(space, "check", lambda: None)()
            trees = getattr(space, "_trees", {})
            if hasattr(trees, "check"):
                trees.check()
                continue
            for tree in getattr(trees, "_trees", trees).values():  # of a component, or the space's own
                tree.check()


def by_answer(fingerprint: Any) -> Any:
    """Rows and ties in no order: SQL has none either."""
    answers, *rest = fingerprint
    shown = []
    for answer in answers:
        result = dict(answer["result"])
        result.pop("row", None)
        shown.append({name: sorted(map(str, v)) if isinstance(v, list) else v for name, v in result.items()})
    return shown, *rest


@pytest.mark.parametrize("seed", range(4))
def test_explaining_leaves_no_trace(seed: int) -> None:
    """Two servers get the same events, one of them is asked to explain others in between: they stay alike."""
    quiet, asked = World(seed), World(seed)
    chance = random.Random(seed + 100)
    touched: set[str] = set()
    for _ in range(60):
        before = by_answer(asked.fingerprint())
        for analyze in (False, True):
            explained = asked.run(c.Explain("t", asked.some_event(chance), analyze))
            touched |= {group["type"] for group in explained["groups"]}
            row = {name: chance.randrange(16) for name in ("s", "z", "w")}
            asked.run(c.Explain("s", {"op": "upsert", "row": row}, analyze))
        assert by_answer(asked.fingerprint()) == before
        asked.check()
        quiet.event()
        asked.event()
        assert asked.messages == quiet.messages, "the same messages to the same regions"
    assert touched >= {
        "range-min",
        "range-max",
        "range-count",
        "range-sum",
        "distinct",
        "filter",
        "value",
        "select-join",
    }


def test_every_plan_of_every_group_that_is_touched() -> None:
    world = World(1, "auto")
    explained = world.run(c.Explain("t", {"op": "upsert", "row": {"k": 3, "x": 5, "z": 5, "y": -1.0}}, True))
    assert explained["weights"].keys() == set(METRICS)
    costs = [group["order"]["server_cost"] for group in explained["groups"]]
    assert costs == sorted(costs), "in the order of evaluation"
    names = {group["group"] for group in explained["groups"]}
    known = {group.name for group in world.state.groups.values()}
    assert names <= known
    assert {group["type"] for group in explained["groups"]} >= {"range-min", "range-count", "filter", "value"}
    for group in explained["groups"]:
        assert [row["plan"] for row in group["plans"] if row["chosen"]] == [group["chosen"]]
        for row in group["plans"]:
            assert {*METRICS, "affected", "cost"} <= row.keys()
            assert row["measured"].keys() == {*METRICS, "affected", "cost"}
            assert row["measured"]["server_time"] > 0
            words = {"counts": "messages", "histogram": "sample of the group's points"}
            assert row["statistic"] == words[row["source"]]
        if group["type"] != "filter":
            assert min(row["cost"] for row in group["plans"]) == next(
                row["cost"] for row in group["plans"] if row["chosen"]
            )
            assert len({row["measured"]["affected"] for row in group["plans"]}) == 1
    ((some, *_), *_) = world.state.rows[1]
    explained = world.run(c.Explain("t", {"op": "update", "key": {"k": some}, "set": {}}))
    assert explained["groups"] == [], "nothing changes, so no group is touched"


@pytest.mark.parametrize("plan", ["auto", "enumerate", "random:4"])
def test_what_is_explained_is_what_happens(plan: str) -> None:
    """The measured number of affected subscriptions is how many the event then addresses."""
    world = World(7, plan)
    world.state.chooser._pick = None
    seen = 0
    for _ in range(80):
        event = world.some_event(world.chance)
        explained = world.run(c.Explain("t", event, True))
        world.state.chooser._pick = chooser("enumerate")._pick
        world.messages.clear()
        world.run(c.Publish("t", [event]))
        world.state.chooser._pick = None
        for group in explained["groups"]:
            if group["type"] in ("range-min", "range-count"):
                sent = [message for message in world.messages if message.space == group["space"]]
                assert sum(len(m.targets or ()) for m in sent) == group["plans"][0]["measured"]["affected"]
                seen += len(sent)
    assert seen > 20


@pytest.mark.parametrize(
    ("table", "event", "error", "at"),
    [
        ("nowhere", {"op": "delete", "key": {"k": 1}}, NotFoundError, None),
        ("t", {"op": "insert", "row": {"k": "one"}}, InputError, "/event/row/k"),
        ("t", {"op": "fold"}, InputError, "/event/op"),
        ("t", {"op": "delete", "key": {"k": 77}}, ConflictError, "/event"),
        ("t", 5, InputError, "/event"),
    ],
)
def test_bad_events_are_refused(table: str, event: Any, error: type[Exception], at: str | None) -> None:
    world = World(2)
    with pytest.raises(error) as caught:
        world.run(c.Explain(table, event))
    assert caught.value.at == at  # type: ignore[attr-defined]


def test_an_item_with_many_subscriptions_is_not_copied_to_be_explained() -> None:
    items = {b"item": list(range(MOST_COPIED + 1))}
    with pytest.raises(InputError, match=str(MOST_COPIED)), on_a_copy(items, b"item"):
        pass
    items[b"item"].pop()
    with on_a_copy(items, b"item"):
        items[b"item"].clear()
    assert len(items[b"item"]) == MOST_COPIED
