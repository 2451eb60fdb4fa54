"""Notify on an aggregate in memory: state, network and edge against a brute force that keeps every last notified value."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.engine import commands as c
from prosem.language.notify import check_notify
from prosem.language.parse import parse
from prosem.types.notified.condition import Condition
from prosem.types.notified.slack import Slack
from prosem.types.notified.space import NotifiedSpace
from prosem.types.shared.exact import average_value, sum_value, units, written
from prosem.types.sums.form import SumState
from prosem.values.columns import column_type
from prosem.values.errors import InputError
from tests.support.effort import examples
from tests.types.test_value import World, by_name, is_due

Draw = Callable[[random.Random], Any]
MOMENT = datetime(2024, 2, 28, 23, 59, 58, tzinfo=UTC)
VALUES: dict[str, Draw] = {
    "integer": lambda chance: chance.randint(-9, 20),
    "bigint": lambda chance: chance.choice([-(2**63), 2**63 - 1, *range(-5, 6)]),
    "double precision": lambda chance: chance.choice([0.1, 0.2, 0.3, 1e-9, -0.5, 3.0, 7.25, 1e16, -1e16]),
    "numeric(6,2)": lambda chance: f"{chance.randint(-300, 900) / 100:.2f}",
    "numeric(30,10)": lambda chance: f"{chance.choice([0, 10**19])}.{chance.randint(0, 9)}000000001",
    "date": lambda chance: str(date(2024, 2, 20) + timedelta(chance.randrange(20))),
    "timestamptz": lambda chance: (MOMENT + timedelta(microseconds=chance.randrange(20))).isoformat(),
}
RADII: dict[str, list[Any]] = {
    "integer": [1, 2.5, 7, "20", 60],
    "bigint": [1, 2, 2**63, 2**64 - 1, 2**70],
    "double precision": [0.1, 0.25, 3, 1e16],
    "numeric(6,2)": [0.05, 0.333, 5, "20.70"],
    "numeric(30,10)": [1, "0.0000000002", 10**19],
    "date": ["P1D", "P3D", "PT36H"],
    "timestamptz": ["PT0.000001S", "PT0.000003S", "PT1S"],
}
RELATIVE = {"percent": [12.5, "33.333333333", 150], "factor": [1.25, "1.00000000000000000001", 4]}
WHERE = {
    "": [],
    " WHERE x BETWEEN :lo AND :hi": ["lo", "hi"],
    " WHERE x >= :lo AND e = :e": ["lo", "e"],
    " WHERE x BETWEEN :lo AND :hi AND w <= :w": ["lo", "hi", "w"],
    " WHERE x <= :hi AND e IN :es": ["hi", "es"],
    " WHERE x >= :lo AND w <= :w AND e IN :es": ["lo", "w", "es"],
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Sub:
    function: str
    where: str
    params: Row
    notify: Any
    named: bool
    per: str
    last_notified: Any
    rows: tuple[Any, ...] = ()  # of MIN and MAX: those that attained that value when it was notified or since

    def holds(self, row: Row | None) -> bool:
        ends = self.params.get("lo", -99), self.params.get("hi", 99)
        if row is None or (ends != (-99, 99) and row["x"] is None):
            return False
        return (
            (ends == (-99, 99) or ends[0] <= row["x"] <= ends[1])
            and ("e" not in self.params or row["e"] == self.params["e"])
            and ("es" not in self.params or row["e"] in self.params["es"])
            and ("w" not in self.params or (row["w"] is not None and row["w"] <= self.params["w"]))
        )


class NotifiedWorld(World):
    """`table` has the rows as they are, `asked` the subscriptions with what each should have been notified of."""

    def __init__(self, kind: str, functions: list[str]) -> None:
        self.asked: dict[str, Sub] = {}
        self.table: dict[int, Row] = {}
        self.functions = functions
        super().__init__(kind)
        self.sizes = RADII[kind]

    @property
    def definition(self) -> Any:
        kinds = {
            "k": "integer",
            "x": "integer",
            "w": "numeric(20,1)",
            "e": "text",
            "y": self.kind,
            "z": "boolean",
        }
        columns = [{"name": name, "type": kind} for name, kind in kinds.items()]
        return {"name": "t", "columns": columns, "primary_key": ["k"]}

    # -- the oracle ----------------------------------------------------------------------------------------------
    def value(self, sub: Sub) -> tuple[Any, tuple[Any, ...]]:
        """The present value, and for MIN and MAX the rows that attain it."""
        rows = [row for row in self.table.values() if sub.holds(row)]
        if sub.function == "COUNT(*)":
            return len(rows), ()
        values = [row["y"] for row in rows if row["y"] is not None]
        if sub.function == "COUNT(y)":
            return len(values), ()
        if not values:
            return None, ()
        if sub.function in ("MIN(y)", "MAX(y)"):
            best = (min if sub.function == "MIN(y)" else max)(values)
            return best, tuple(self.plain(row) for row in rows if row["y"] == best)
        total = sum(units(self.type, value) for value in values)
        if sub.function == "SUM(y)":
            return sum_value(self.type, total), ()
        return average_value(self.type, total, len(values)), ()

    def _kind_of(self, sub: Sub) -> str:
        return "bigint" if sub.function.startswith("COUNT") else self.kind

    def _look(self, id: str, seq: int, *, at_all: bool = False) -> list[tuple[str, int, Any, Any]]:
        """A subscription that an event concerns is notified if it must be; `at_all`: if the value differs at all."""
        sub = self.asked[id]
        now, rows = self.value(sub)
        last = sub.last_notified
        if not (last != now if at_all else is_due(self._kind_of(sub), sub.notify, last, now)):
            if now == last:
                self.asked[id] = replace(sub, rows=sub.rows + rows)
            return []
        self.asked[id] = replace(sub, last_notified=now, rows=rows)
        return [(id, seq, last, now)]

    # -- what happens --------------------------------------------------------------------------------------------
    def expect_all(self, wanted: list[tuple[str, int, Any, Any]]) -> None:
        frames, self.sink.frames = self.sink.frames, []
        assert all(kind == "change" for _, kind, _, _ in frames)
        heard = sorted((id, seq, self._alike(body)) for id, _, seq, body in frames)
        assert heard == sorted(
            (id, seq, self._alike({"value": self._written(now), "previous": self._written(before)}))
            for id, seq, before, now in wanted
        )
        last = {id: (seq, body) for id, _, seq, body in frames}
        for id, (_, body) in last.items():
            self._check_row(id, body)

    def _alike(self, body: Row) -> str:
        """A change without its row, numbers as they compare."""
        sides = [body["value"], body["previous"]]
        return repr([Decimal(one).normalize() if _is_number(one) else one for one in sides])

    def _written(self, value: Any) -> Any:
        return self.plain(written(value))

    def _check_row(self, id: str, body: Row) -> None:
        sub = self.asked[id]
        if sub.function in ("MIN(y)", "MAX(y)"):
            assert body["row"] in (sub.rows or (None,))
        else:
            assert "row" not in body

    def publish(self, changes: list[tuple[int, Row | None]]) -> None:
        """One request: rows by key, None to delete."""
        events = [
            {"op": "delete", "key": {"k": k}} if row is None else {"op": "upsert", "row": {"k": k} | row}
            for k, row in changes
        ]
        before = dict(self.table)
        first = self.run(c.Publish("t", events))["first_seq"]
        wanted = []
        for seq, (k, row) in enumerate(changes, first):
            old = self.table.pop(k, None)
            if row is not None:
                self.table[k] = self._read(k, row)
            if self.plain(old) != self.plain(self.table.get(k)):
                for id, sub in self.asked.items():
                    if sub.per == "event" and (sub.holds(old) or sub.holds(self.table.get(k))):
                        wanted += self._look(id, seq)
        changed = [
            (before.get(k), self.table.get(k))
            for k in before | self.table
            if self.plain(before.get(k)) != self.plain(self.table.get(k))
        ]
        for id, sub in self.asked.items():
            if sub.per != "event" and any(sub.holds(old) or sub.holds(new) for old, new in changed):
                wanted += self._look(id, first + len(changes) - 1)
        self.expect_all(wanted)

    def _read(self, k: int, row: Row) -> Row:
        y = None if row["y"] is None else self.type.read(row["y"])
        w = None if row["w"] is None else column_type("numeric(20,1)").read(row["w"])
        return {"k": k, "x": row["x"], "w": w, "e": row["e"], "y": y, "z": row["z"]}

    def ask(self, chance: random.Random) -> None:
        function, where = chance.choice(self.functions), chance.choice(list(WHERE))
        params, notify = self.draw(chance, where), self.draw_notify(chance, function)
        named = chance.random() < 0.6
        sub = Sub(function, where, params, notify, named, chance.choice(["event", "transaction"]), None)
        sub = replace(sub, last_notified=self.value(sub)[0], rows=self.value(sub)[1])
        asked, radii = by_name(notify) if named else (notify, {})
        query = replace(parse(f"SELECT {function} FROM t{where}"), per=sub.per)
        answer = self.run(c.Subscribe(query, check_notify(asked), [(None, params | radii)]))
        assert answer["type"] == "notified-aggregate"
        self.asked[answer["id"]] = sub
        self._check_result(answer["id"], answer["result"])
        self.attach(answer["id"])

    def draw(self, chance: random.Random, where: str) -> Row:
        lo = chance.randint(0, 5)
        drawn: Row = {"lo": lo, "hi": lo + chance.randint(-1, 5), "w": chance.randint(0, 3)}
        lists = [[], ["a"], ["b", "a"], ["c", "b"], ["a", "a"]]
        drawn |= {"e": chance.choice("ab"), "es": chance.choice(lists)}
        return {name: drawn[name] for name in WHERE[where]}

    def draw_notify(self, chance: random.Random, function: str, form: str = "") -> Any:
        form = form or chance.choice(
            ["change"] if self.kind in ("date", "timestamptz") else ["change", "change", "percent", "factor"]
        )
        sizes = RADII["integer"] if function.startswith("COUNT") else self.sizes
        return {form: chance.choice(sizes if form == "change" else RELATIVE[form])}

    def move(self, chance: random.Random, id: str) -> None:
        """Other conditions, other radii, or both."""
        sub = self.asked[id]
        params = self.draw(chance, sub.where) if chance.random() < 0.5 else {}
        (form,) = sub.notify
        notify = (
            self.draw_notify(chance, sub.function, form)
            if sub.named and chance.random() < 0.7
            else sub.notify
        )
        given = params | (by_name(notify)[1] if sub.named else {})
        if not given:
            return
        answer = self.run(c.Patch(id, given))
        self.asked[id] = replace(sub, params=sub.params | params, notify=notify)
        moved = [name for name, value in params.items() if value != sub.params[name]]
        if moved:
            now, rows = self.value(self.asked[id])
            if now == sub.last_notified:
                self.asked[id] = replace(self.asked[id], rows=rows)
        self.expect_all(self._look(id, answer["seq"], at_all=True) if moved else [])
        self._check_result(id, answer["result"])

    def pause(self, chance: random.Random, id: str, changes: list[tuple[int, Row | None]]) -> None:
        self.run(c.Patch(id, None, active=False))
        sub = self.asked.pop(id)
        self.publish(changes)
        self.asked[id] = sub
        assert self._alike({"previous": None} | self.plain(self.run(c.Result(id))["result"])) == self._alike(
            {"value": self._written(sub.last_notified), "previous": None}
        )
        answer = self.run(c.Patch(id, None, active=True))
        now, rows = self.value(sub)
        if now == sub.last_notified:
            self.asked[id] = replace(sub, rows=rows)
        self.expect_all(self._look(id, answer["seq"], at_all=True))

    def _check_result(self, id: str, result: Row) -> None:
        sub, plain = self.asked[id], self.plain(result)
        assert self._alike(plain | {"previous": None}) == self._alike(
            {"value": self._written(sub.last_notified), "previous": None}
        )
        self._check_row(id, plain)

    def check(self) -> None:
        for id in self.asked:
            self._check_result(id, self.run(c.Result(id))["result"])
        for space in self.state.spaces.values():
            assert isinstance(space, NotifiedSpace)
            space.check()


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        try:
            Decimal(value)
        except ArithmeticError:
            return False
    return value is not None


def draw_row(chance: random.Random, draw: Draw) -> Row:
    return {
        "x": None if chance.random() < 0.05 else chance.randint(0, 9),
        "w": None if chance.random() < 0.05 else chance.randint(0, 4),
        "e": chance.choice("abc"),
        "y": None if chance.random() < 0.1 else draw(chance),
        "z": chance.random() < 0.5,
    }


def draw_changes(chance: random.Random, world: NotifiedWorld, draw: Draw) -> list[tuple[int, Row | None]]:
    held, changes = dict(world.table), []
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        k = chance.randint(1, 8)
        row: Row | None = None
        if k not in held or chance.random() < 0.75:
            row = draw_row(chance, draw)
        if row is not None and held.get(k) and chance.random() < 0.3:  # another column alone
            row |= {name: world.plain(held[k][name]) for name in ("x", "w", "e", "y")} | {
                "z": not held[k]["z"]
            }
        changes.append((k, row))
        held.pop(k, None)
        if row is not None:
            held[k] = world._read(k, row)
    return changes


def functions_of(kind: str) -> list[str]:
    extremes = ["MIN(y)", "MAX(y)"]
    return (
        extremes
        if kind in ("date", "timestamptz")
        else [*extremes, "SUM(y)", "AVG(y)", "COUNT(*)", "COUNT(y)"]
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", VALUES)
def test_exactly_those_are_notified_whose_aggregate_moved_far_enough(kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    functions = functions_of(kind)
    if seed % 2:
        functions = [chance.choice(functions)]
    world, draw = NotifiedWorld(kind, functions), VALUES[kind]
    for step in range(120):
        dice, ids = chance.random(), list(world.asked)
        if dice < 0.6:
            world.publish(draw_changes(chance, world, draw))
        elif dice < 0.75 or not ids:
            world.ask(chance)
        elif dice < 0.9:
            world.move(chance, chance.choice(ids))
        elif dice < 0.94:
            world.pause(chance, chance.choice(ids), draw_changes(chance, world, draw))
        elif dice < 0.96:
            id = chance.choice(ids)
            world.run(c.Delete(id))
            del world.asked[id]
        elif dice < 0.98:
            world.recover()
        if step % 6 == 0:
            world.check()


# -- slack ---------------------------------------------------------------------------------------------------------
class Sums:
    """Some subscriptions that all see every row: their exact sum, the last notified value of each, and their slack."""

    def __init__(self, kind: str, function: str, form: str, radii: list[Any]) -> None:
        self.kind, self.function = column_type(kind), function
        self.condition = Condition(form, 1, kind == "double precision" and function != "COUNT")
        self.slack = Slack(self.condition, None if function == "COUNT" else self.kind, function == "AVG")
        self.radii = [float(r) if self.condition.is_double else Fraction(str(r)) for r in radii]
        self.slack.grow(len(radii))
        self.slots = np.arange(len(radii))
        self.state, self.looks = SumState(), 0
        self.last_notified = [self.value()] * len(radii)
        for slot in range(len(radii)):
            self.renew(slot)

    def value(self) -> Any:
        if self.function == "COUNT":
            return self.state.number
        if not self.state.number:
            return None
        if self.function == "SUM":
            found: Any = sum_value(self.kind, self.state.total)
        else:
            found = average_value(self.kind, self.state.total, self.state.number)
        return found if isinstance(found, float) else Fraction(found)

    def renew(self, slot: int) -> None:
        self.slack.renew(slot, self.radii[slot], self.last_notified[slot], self.value(), self.state)

    def add(self, number: int, value: Any) -> None:
        more = number * units(self.kind, value)
        self.state = SumState(self.state.number + number, self.state.total + more)
        looked_at = set(self.slack.spent(self.slots, number, more).tolist())
        self.looks += len(looked_at)
        for slot, radius in enumerate(self.radii):
            is_far = self.condition.is_far(radius, self.last_notified[slot], self.value())
            assert not is_far or slot in looked_at, "none is missed"
            if is_far:
                self.last_notified[slot] = self.value()
            if slot in looked_at:
                self.renew(slot)


DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, 0.1, -0.1, 0.3, 5e-324, 1e308]
)
DRAWN: dict[str, Any] = {
    "integer": st.integers(-20, 20),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "numeric(1000,3)": st.integers(-(10**400), 10**400) | st.decimals(-2, 2, places=3),
    "double precision": DOUBLES,
}
SIZES = {
    "change": [0.1, 1, 3, 50, "1e30", "1e400"],
    "percent": [1, 12.5, 100, "1e30"],
    "factor": ["1.0000000001", 1.5, 10],
}


@pytest.mark.parametrize("form", SIZES)
@pytest.mark.parametrize("function", ["COUNT", "SUM", "AVG"])
@pytest.mark.parametrize("kind", DRAWN)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_no_notification_is_missed_by_slack(kind: str, function: str, form: str, data: st.DataObject) -> None:
    sums, held = Sums(kind, function, form, SIZES[form]), list[Any]()
    values = data.draw(st.lists(st.tuples(st.booleans(), DRAWN[kind]), max_size=25))
    for goes, drawn in values:
        if goes and held:
            sums.add(-1, held.pop(len(held) // 2))
        else:
            value = sums.kind.read(drawn)
            sums.add(1, value)
            held.append(value)


@pytest.mark.parametrize("kind", ["integer", "double precision"])
@pytest.mark.parametrize("function", ["COUNT", "SUM", "AVG"])
def test_slack_spares_most_looks(kind: str, function: str) -> None:
    """A thousand rows that come one by one, and radii that few of them use up."""
    chance, sums = random.Random(1), Sums(kind, function, "change", [500, 1000, 2000])
    for _ in range(1000):
        sums.add(1, sums.kind.read(chance.randint(0, 3)))
    assert sums.looks < 100


def test_conditions_at_their_ends() -> None:
    condition = Condition("percent", 25)
    assert [condition.is_far(Fraction(25), 7, now) for now in (5, 6, 7, 8, 9)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert condition.is_far(Fraction(25), 0, Fraction(1, 10**20)), "every change is notified from zero on"
    assert not condition.is_far(Fraction(25), 0, 0)
    double = Condition("change", 0.2, is_double=True)
    assert double.is_far(0.2, 0.1, 0.1 + 0.2), "IEEE as written"
    assert not double.is_far(0.2, 0.1, 0.3), "0.1 + 0.2 is a little more"
    factor = Condition("factor", 2)
    far = [factor.is_far(Fraction(2), -4, now) for now in (-4, -3, 5)]
    assert far == [False, True, True], "a factor of what is not positive: every change is notified"
    assert factor.is_far(Fraction(2), 4, 0)
    assert condition.is_far(Fraction(25), None, 0)
    assert condition.is_far(Fraction(25), 0, None)
    assert not condition.is_far(Fraction(25), None, None)
    assert math.isinf(Condition("factor", 9, is_double=True).ends(1e308, 9.0)[1])


# -- refusals ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "notify", "params", "at"),
    [
        ("MIN(y)", {"may": 1, "must": 2}, {}, "/notify"),
        ("MIN(e)", {"change": 1}, {}, "/notify"),
        ("MAX(z)", {"change": 1}, {}, "/notify"),
        ("MIN(d)", {"change": 1}, {}, "/notify/change"),
        ("MIN(d)", {"percent": 5}, {}, "/notify/percent"),
        ("MIN(d)", {"percent": ":r"}, {"r": 5}, "/notify/percent"),
        ("MIN(d)", {"change": ":r"}, {"r": 5}, "/params/r"),
        ("SUM(y)", {"change": "P1D"}, {}, "/notify/change"),
        ("SUM(y)", {"change": ":r"}, {"r": "P1D"}, "/params/r"),
        ("COUNT(*)", {"change": ":r"}, {}, "/params/r"),
        ("COUNT(*)", {"change": ":r"}, {"r": 0}, "/params/r"),
        ("AVG(y)", {"factor": ":r"}, {"r": 1}, "/params/r"),
        ("AVG(y)", {"change": 1}, {"r": 1}, "/params/r"),
        ("DISTINCT y", {"change": 1}, {}, "/notify"),
    ],
)
def test_refused(function: str, notify: Any, params: Any, at: str) -> None:
    world = World("integer")
    kinds = {"k": "integer", "y": "integer", "e": "text", "z": "boolean", "d": "date"}
    columns = [{"name": name, "type": kind} for name, kind in kinds.items()]
    world.run(c.CreateTable({"name": "u", "columns": columns, "primary_key": ["k"]}))
    with pytest.raises(InputError) as caught:
        world.run(c.Subscribe(parse(f"SELECT {function} FROM u"), check_notify(notify), [(None, params)]))
    assert caught.value.at == at


def test_an_event_is_explained_and_none_is_notified() -> None:
    chance = random.Random(5)
    world = NotifiedWorld("integer", ["SUM(y)", "MIN(y)", "AVG(y)"])
    for _ in range(6):
        world.publish(draw_changes(chance, world, VALUES["integer"]))
        for _ in range(3):
            world.ask(chance)
        for k in (1, 5, 9):
            event = {"op": "upsert", "row": {"k": k} | draw_row(chance, VALUES["integer"])}
            plans = world.run(c.Explain("t", event, True))
            assert all(group["type"] == "notified-aggregate" for group in plans["groups"])
            world.expect_all([])
            world.check()
