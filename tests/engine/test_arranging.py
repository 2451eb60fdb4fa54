"""A join with many rows is arranged bit by bit while events go on: as if all its rows had been indexed at once."""

from __future__ import annotations

from typing import Any

import pytest

from cn.model.message import Message
from prosem.engine import commands as c
from prosem.types.join import preparation
from prosem.values.statistics import RunFigures
from tests.engine.test_constants import Joined, adopt, publish

SLICE = 7


class Prepared(Joined):
    """The constants in memory have another routing column prepared; some rows have no value in it."""

    def __init__(self) -> None:
        super().__init__()
        adopt(self.state, self.figures())
        self.state.look_events = 10**9
        self.come(60)
        publish(self.state, "s", [row | {"y": None} for row in self.rows[::9]])

    def look(self) -> None:
        self.state.look_events = 0
        self.state.begin()
        self.state.look_events = 10**9

    @property
    def space(self) -> Any:
        (space,) = self.state.spaces.values()
        return space

    def event(self) -> tuple[str, dict[str, Any]]:
        chance, k = self.chance, self.chance.randrange(70)
        if chance.random() < 0.3:
            return "delete", {"k": k}
        return "upsert", self.row(k) | {"b": chance.randrange(6)} | (
            {"y": None} if chance.random() < 0.2 else {}
        )

    def apply(self, events: list[tuple[str, dict[str, Any]]]) -> list[Message]:
        """Events of rows that are there, as one request."""
        (rows,) = [rows for table, rows in self.state.rows.items() if table == self.s]
        keys, found = {key[0] for key in rows}, []
        for op, row in events:
            if op == "upsert":
                found.append({"op": op, "row": row})
                keys.add(row["k"])
            elif row["k"] in keys:
                found.append({"op": op, "key": row})
                keys.remove(row["k"])
        if found:
            self.state.execute(c.Publish("s", found))
        return [frame for frame in self.state.begin().frames if isinstance(frame, Message)]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Prepared, Prepared]:
    """The same, once arranged at once and once bit by bit."""
    at_once = Prepared()
    at_once.look()
    assert at_once.arrangement()["columns"] == {"s": "y"}
    monkeypatch.setattr(preparation, "SLICE_ROWS", SLICE)
    monkeypatch.setattr("prosem.types.join.space.SLICE_ROWS", SLICE)
    monkeypatch.setattr(preparation.Preparation.go_on, "__defaults__", (SLICE,))
    bit_by_bit = Prepared()
    bit_by_bit.chance.setstate(at_once.chance.getstate())
    bit_by_bit.look()
    assert bit_by_bit.space.is_preparing
    return at_once, bit_by_bit


def messages(found: list[Message]) -> list[Any]:
    return [(one.seq, one.kind, one.topic, one.region, one.attributes, one.payload) for one in found]


def test_events_meanwhile_are_in_the_orders_that_are_prepared(both: tuple[Prepared, Prepared]) -> None:
    at_once, work = both
    turns = 0
    while work.space.is_preparing:
        assert work.arrangement()["columns"] == {"s": "x"}
        events = [work.event() for _ in range(work.chance.randrange(5))]
        at_once.apply(events)
        work.apply(events)
        turns += 1
        assert turns < 100
    assert turns > 5, "some rows per batch"
    assert work.arrangement()["columns"] == {"s": "y"}
    work.space.check()
    held = [
        sorted(str(one) for one in space.model.tables[1].entries()) for space in (at_once.space, work.space)
    ]
    assert held[0] == held[1]
    for _ in range(40):
        events = [work.event()]
        assert messages(work.apply(events)) == messages(at_once.apply(events))
    work.space.check()


def test_a_refused_batch_is_taken_back_from_the_orders_that_are_prepared(
    both: tuple[Prepared, Prepared],
) -> None:
    at_once, work = both
    while work.space.is_preparing:
        events = [work.event() for _ in range(4)]
        for one in (at_once, work):
            one.apply(events)
        refused = [work.event() for _ in range(4)]
        rows = {key[0] for key in work.state.rows[work.s]}
        puts = [{"op": "upsert", "row": row} for op, row in refused if op == "upsert"]
        deletes = [
            {"op": "delete", "key": {"k": k}} for k in sorted(rows - {put["row"]["k"] for put in puts})[:2]
        ]
        work.state.execute(c.Publish("s", puts + deletes))
        work.state.take_back(None)
    work.space.check()
    held = [
        sorted(str(one) for one in space.model.tables[1].entries()) for space in (at_once.space, work.space)
    ]
    assert held[0] == held[1]


def test_a_join_that_is_arranged_otherwise_meanwhile_or_closed_prepares_no_more(
    both: tuple[Prepared, Prepared],
) -> None:
    _, work = both
    space, shared = work.space, work.state.group_store.row_indexes
    names = {*shared}
    adopt(work.state, RunFigures(), 6)
    assert not space.is_preparing, "a run that knows nothing leaves the first column by position"
    adopt(work.state, work.figures(), 7)
    assert space.is_preparing
    for sid in list(work.state.registry.sids()):
        work.state.execute(c.Delete(work.state.registry.id(sid)))
    work.state.group_store._close(space.network.id)
    work.state.begin()
    assert not space.is_preparing
    assert names
    assert not {*shared}
