"""What the joins of one server share: row indexes, and semijoins of two tables with their messages."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.message import Message
from cn.networks.local import LocalNetwork
from optimizer.choose import chooser
from prosem.delivery.edge import Edge
from prosem.engine import commands as c
from prosem.engine import groups
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.clock import ManualClock
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.types.join.parted import PartedJoinSpace
from prosem.types.join.space import JoinSpace
from prosem.values.statistics import (
    ColumnStatistics,
    JoinStatistics,
    PointStatistics,
    RunFigures,
    SideStatistics,
)
from prosem.values.wire import decode, encode
from tests.support.effort import examples, seeds
from tests.support.heard import Heard
from tests.support.live import fold, in_any_order
from tests.support.makers import kernels_used as kernels_used

pytestmark = pytest.mark.usefixtures("kernels_used")
COLUMNS = {"r": "abd", "s": "bc", "t": "de", "u": "bf"}  # besides the key k; integers
HEIR = "x"  # of r, with a column z
VIEW = "high", "SELECT k, a, b FROM r WHERE a > 1"
Rows = dict[str, dict[int, dict[str, Any]]]


class Template(NamedTuple):
    """`conditions`: a table, a column and its operator; the constant is the parameter of the column's name."""

    source: str
    joined: tuple[tuple[str, str, str], ...]  # two tables and the column that they share
    conditions: tuple[tuple[str, str, str], ...]
    per: str = "event"

    @property
    def tables(self) -> list[str]:
        return parse(f"SELECT * FROM {self.source}").tables

    @property
    def sql(self) -> str:
        where = " AND ".join(f"{table}.{column} {op} :{column}" for table, column, op in self.conditions)
        return f"SELECT * FROM {self.source}" + (f" WHERE {where}" if where else "")


RS, RT, RU = ("r", "s", "b"), ("r", "t", "d"), ("r", "u", "b")
A, C, E, F = ("r", "a", ">="), ("s", "c", "<"), ("t", "e", "<="), ("u", "f", ">")
TEMPLATES = (
    Template("r JOIN s USING (b)", (RS,), (A, C)),
    Template("r JOIN s USING (b) JOIN t USING (d)", (RS, RT), (A, C, E)),
    Template("r JOIN s USING (b) JOIN u USING (b)", (RS, RU), (A, C, F)),
    Template("r JOIN t USING (d)", (RT,), (A, E)),
    Template("r JOIN s USING (b)", (RS,), (C,)),
    Template("r JOIN s USING (b)", (RS,), (A, C), "transaction"),
    Template("high JOIN s USING (b)", (("high", "s", "b"),), (C,)),
    Template("s JOIN r USING (b)", (RS,), (A, ("r", "d", "<="), C)),
    Template("u JOIN high USING (b) JOIN s USING (b)", (("u", "high", "b"), ("u", "s", "b")), (C, F)),
    Template("x JOIN s USING (b)", (("x", "s", "b"),), (("x", "a", ">="), C)),
)
WIDE = (
    Template("r JOIN s USING (b)", (RS,), (A, ("r", "d", "<="), C)),
    Template("r JOIN s USING (b) JOIN t USING (d)", (RS, RT), (A, ("r", "d", "<="), C, E)),
)  # two columns of one table
HOLDS = {">=": int.__ge__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__}


def answer(rows: Rows, template: Template, params: dict[str, int]) -> Any:
    """By nested loops."""
    seen = dict(rows)
    seen["high"] = {
        k: {name: row[name] for name in "kab"} for k, row in rows["r"].items() if (row["a"] or 0) > 1
    }
    found = []
    for some in product(*(seen[name].values() for name in template.tables)):
        one = dict(zip(template.tables, some, strict=True))
        if all(one[p][column] is not None and one[p][column] == one[q][column] for p, q, column in template.joined) and all(
            one[name][column] is not None and HOLDS[op](one[name][column], params[column])
            for name, column, op in template.conditions
        ):  # fmt: skip
            found.append(one)
    return in_any_order({"rows": found})


class World:
    """A server in memory with streams, and the same rows by hand. Nothing idles: an empty space is closed at once."""

    def __init__(self, plan: str = "auto") -> None:
        self.state = EngineState(chooser(plan), Metrics(), plan=plan, clock=ManualClock())
        self.edge = Edge(Metrics(), LocalNetwork, lambda stream, frame: None, lambda sid: None)
        self.sink = Heard()
        self.rows: Rows = {name: {} for name in (*COLUMNS, HEIR)}
        self.subscriptions: dict[str, tuple[Template, dict[str, int]]] = {}
        self.answers: dict[str, Any] = {}
        for name, columns in COLUMNS.items():
            made = [{"name": one, "type": "integer"} for one in ("k", *columns)]
            self.run(c.CreateTable({"name": name, "columns": made, "primary_key": ["k"]}))
        extended = [{"name": "z", "type": "integer"}]
        self.run(c.CreateTable({"name": HEIR, "extends": "r", "columns": extended}))
        prepared = self.run(c.PrepareView(*VIEW))
        prepared.build.fill()
        self.run(c.InstallView(prepared.build))

    def run(self, command: c.Command) -> Any:
        """Carry a command out, commit it and deliver."""
        found = self.state.execute(command)
        complete(self.edge.release(self.state.begin().frames, self.state.seq))
        for id, kind, _, body in self.sink.frames:
            self.answers[id] = body if kind == "snapshot" else fold(self.answers[id], body, ())
        self.sink.frames.clear()
        renewed, self.sink.renewed = self.sink.renewed, []
        for stream in renewed:
            self.run(c.Attach(stream.id, self.state.seq, self.sink))
        return found

    def refuse(self, command: c.Command, is_begun: bool) -> None:
        """Carry a command out and take it back: in the open batch, or after the next one was begun."""
        self.state.execute(command)
        refused = self.state.begin() if is_begun else None
        self.state.take_back(refused)

    def subscribe(self, template: Template, params: dict[str, int]) -> str:
        query = replace(parse(template.sql), per=template.per)
        id: str = self.run(c.Subscribe(query, None, [(None, params)]))["id"]
        self.subscriptions[id] = template, params
        self.run(c.Attach(id, None, self.sink))
        return id

    def delete(self, id: str) -> None:
        self.run(c.Delete(id))
        del self.subscriptions[id], self.answers[id]

    def change(self, events: list[dict[str, Any]]) -> None:
        """What events do, by hand. A row of the heir is one of r too."""
        for event in events:
            name, key = event["table"], (event.get("key") or event["row"])["k"]
            seen = [name, "r"] if name == HEIR else [name]
            if event["op"] == "delete":
                for one in seen:
                    self.rows[one].pop(key, None)
                continue
            row = event["row"]
            self.rows[name][key] = row
            if name == HEIR:
                self.rows["r"][key] = {column: row[column] for column in ("k", *COLUMNS["r"])}

    @property
    def spaces(self) -> list[JoinSpace]:
        return [space for space in self.state.spaces.values() if isinstance(space, JoinSpace)]

    @property
    def wholes(self) -> list[PartedJoinSpace]:
        return [space for space in self.state.spaces.values() if isinstance(space, PartedJoinSpace)]

    def end(self) -> None:
        """All subscriptions go, and nothing stays."""
        for sub in list(self.subscriptions):
            self.delete(sub)
        self.state.begin()  # a part that had subscriptions of its own goes after what it was a part of
        assert not self.state.spaces
        assert not len(self.state.group_store.row_indexes), "the indexes go with the last template"
        assert not self.state.group_store._parts
        assert not self.state.group_store._wholes

    def check(self) -> None:
        for sub, (template, params) in self.subscriptions.items():
            expected = answer(self.rows, template, params)
            assert in_any_order(self.answers[sub]) == expected, template
            result = self.state.execute(c.Result(sub))["result"]
            assert in_any_order(decode(encode(result))) == expected, template
        for whole in self.wholes:
            whole.check()
        used: dict[Any, list[Any]] = {}
        for space in self.spaces:
            space.check()
            for table in space.model.tables:
                for order in table._orders.values():
                    used.setdefault(order.name, []).append(order.rows)
        held = self.state.group_store.row_indexes
        assert {*held} == used.keys(), "an index is held while a space uses it"
        for name, some in used.items():
            assert len({*map(id, some)}) == 1, "all use the same one"
            assert held.users(name) == len(some)
            rows = {entry[2] for key in some[0] for entry in some[0].at(key)}
            visible = {*self.state.table_store.visible[name[1]].values()}
            _, _, columns, routing = name
            needed = columns if routing is None else (*columns, routing)
            assert rows == {row for row in visible if None not in [row[at] for at in needed]}


@pytest.fixture(autouse=True)
def nothing_idles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "IDLE_SPACES", 0)


values = st.sampled_from([None, 0, 0, 1, 1, 2, 3])


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some of one request, of several tables; it has r or the heir, which have keys of their own."""
    made: list[dict[str, Any]] = []
    r = draw(st.sampled_from(["r", "r", HEIR]))
    for _ in range(draw(st.sampled_from([1, 1, 2, 3, 5]))):
        name, key = draw(st.sampled_from([r, r, "s", "s", "t", "u"])), draw(st.integers(0, 3))
        key += 10 if name == HEIR else 0
        columns = COLUMNS["r"] + "z" if name == HEIR else COLUMNS[name]
        row = {"k": key, **{column: draw(values) for column in columns}}
        made.append({"table": name, "op": "upsert", "row": row})
        if draw(st.integers(0, 4)) == 0:
            made.append({"table": name, "op": "delete", "key": {"k": key}})
    return made


def params(chance: random.Random) -> dict[str, int]:
    return {"a": chance.randint(0, 2), "c": chance.randint(1, 4), "e": chance.randint(0, 3),
            "f": chance.randint(-1, 2), "d": chance.randint(0, 3)}  # fmt: skip


def statistics(world: World, chance: random.Random) -> c.Adopt:
    """Any run: what it says need not be so."""
    tables = world.state.tables()
    columns = {
        table.id: [
            ColumnStatistics(
                at, name, "integer", 100, 0, chance.randint(1, 50), chance.randrange(100), [0, 3], 0.0
            )
            for at, name in enumerate(table.names)
        ]
        for table in tables.values()
    }
    share, rows = (lambda: chance.random() ** 4), (lambda: chance.choice([1.0, 9.0]))
    joins = [
        JoinStatistics(
            *(
                SideStatistics(tables[one].id, (by,), share(), rows(), chance.randint(1, 9), 1.0)
                for one in pair
            )
        )
        for *pair, by in (RS, RT, RU, ("u", "high", "b"))
    ]
    points = {
        group: [
            PointStatistics(f"{name} {op}", 9, 9, sorted(chance.choices(range(4), k=5)), 0.0)
            for name in ("r.a", "r.d", "s.c")
            for op in (">=", "<=")
        ]
        for group in world.state.groups
        if chance.random() < 0.5
    }
    number = chance.randrange(99)
    prepared = world.state.chooser.prepare({}, number)
    return c.Adopt({"run": number}, prepared, RunFigures(columns, joins, points))


def commands(world: World, chance: random.Random, some: list[list[dict[str, Any]]]) -> Iterator[None]:
    """A request, and now and then a subscription that comes, moves or goes, each also refused at times."""
    for request in some:
        template = chance.choice(TEMPLATES)
        wanted = {column: value for column, value in params(chance).items() if f":{column}" in template.sql}
        if chance.random() < 0.4:
            query = replace(parse(template.sql), per=template.per)
            if chance.random() < 0.4:
                world.refuse(c.Subscribe(query, None, [(None, wanted)]), chance.random() < 0.5)
            else:
                world.subscribe(template, wanted)
        ids = list(world.subscriptions)
        if ids and chance.random() < 0.3:
            id = chance.choice(ids)
            if chance.random() < 0.4:
                world.refuse(c.Delete(id), chance.random() < 0.5)
            else:
                world.delete(id)
        if chance.random() < 0.4:
            world.refuse(c.Transact(request), chance.random() < 0.5)
            world.check()
        if chance.random() < 0.3:
            taken = statistics(world, chance)
            if chance.random() < 0.5:
                world.refuse(taken, chance.random() < 0.5)
                world.check()
            world.run(taken)
        if chance.random() < 0.2:
            first = {name: value for name, value in request[0].items() if name != "table"}
            world.state.execute(c.Explain(request[0]["table"], first, analyze=True))
            world.check()
        world.run(c.Transact(request))
        world.change(request)
        yield


@settings(max_examples=examples(40))
@given(
    st.lists(events(), min_size=4, max_size=14),
    st.integers(0, 99),
    st.sampled_from(["auto", "random:3", "ref-j", "rel-sel", "ref-sj-env"]),
)
def test_templates_that_share_rows_answer_as_if_each_had_its_own(
    some: list[list[dict[str, Any]]], seed: int, plan: str
) -> None:  # fmt: skip
    world = World(plan)
    for _ in commands(world, random.Random(seed), some):
        world.check()
    world.end()


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_runs_that_come_into_force_leave_no_gap(seed: int) -> None:
    """Routing columns and partners change under streams, alone and together, also where that is refused."""
    world, chance = World(), random.Random(seed)
    for template in (TEMPLATES[0], TEMPLATES[1], TEMPLATES[7], *WIDE):
        for _ in range(3):
            wanted = params(chance)
            world.subscribe(template, {name: wanted[name] for name in wanted if f":{name}" in template.sql})
    seen: set[str] = set()
    for _ in range(40):
        requests = [
            put(name, k=chance.randrange(4), **{one: chance.randrange(4) for one in COLUMNS[name]})
            for name in chance.choices("rst", k=2)
        ]
        taken = statistics(world, chance)
        if chance.random() < 0.3:
            world.state.execute(c.Transact(requests))
            world.refuse(taken, chance.random() < 0.5)
        world.run(taken)
        world.check()
        world.run(c.Transact(requests))
        world.change(requests)
        world.check()
        spaces = [*world.spaces, *world.wholes]
        seen |= {json.dumps([one.network.id, one.arrangement()], sort_keys=True) for one in spaces}
    assert len(seen) > 12, "the runs have arranged them in many ways"
    assert world.state.metrics.rearranged > 12
    world.end()


def test_a_refusal_of_several_requests_at_once() -> None:
    """Requests, and templates that open and close between them, are taken back together."""
    chance, world = random.Random(5), World()
    wanted = {"a": 0, "c": 4, "e": 3, "f": -1, "d": 3}
    some = {
        template: {column: wanted[column] for column in wanted if f":{column}" in template.sql}
        for template in TEMPLATES
    }
    world.subscribe(TEMPLATES[0], some[TEMPLATES[0]])
    for at in range(3):
        rows = [
            {"table": name, "op": "upsert", "row": {"k": at, **dict.fromkeys(columns, 1)}}
            for name, columns in COLUMNS.items()
        ]
        world.run(c.Transact(rows))
        world.change(rows)
    for _ in range(30):
        world.check()
        closing = world.subscribe(TEMPLATES[1], some[TEMPLATES[1]])
        for number in range(2):
            for template in chance.sample(TEMPLATES, 3):
                query = replace(parse(template.sql), per=template.per)
                world.state.execute(c.Subscribe(query, None, [(None, some[template])]))
            at = chance.randrange(4)
            moved = {"k": at, "a": chance.randrange(3), "b": chance.randrange(2), "d": chance.randrange(2)}
            world.state.execute(
                c.Publish(
                    "r",
                    [
                        *({"op": "upsert", "row": row} for row in (moved, {**moved, "k": 2})),
                        {"op": "delete", "key": {"k": 2}},
                    ],
                )
            )
            world.state.execute(
                c.Publish("s", [{"op": "upsert", "row": {"k": at, "b": 1, "c": chance.randrange(5)}}])
            )
            if number == 0:
                world.state.execute(c.Delete(closing))
                refused = world.state.begin()  # spaces without subscriptions are closed in the next batch
        world.state.take_back(refused)
        world.check()
        world.delete(closing)
    world.end()


def test_rows_are_held_once_whatever_number_of_templates() -> None:
    """Conditions on other tables, and other tables, add an order at most; entries and rows are the same objects."""
    world = World()
    rows = [
        {"table": "r", "op": "upsert", "row": {"k": k, "a": 1000 + k, "b": k % 7, "d": k % 3}}
        for k in range(50)
    ]
    world.run(c.Transact(rows))
    world.change(rows)
    world.subscribe(TEMPLATES[0], {"a": 0, "c": 4})
    first = {entry[1]: entry for entry in world.spaces[0].model.tables[0].entries()}
    assert len(first) == 50
    one_template = len(world.state.group_store.row_indexes)
    world.subscribe(TEMPLATES[1], {"a": 0, "c": 4, "e": 3})
    world.subscribe(TEMPLATES[2], {"a": 0, "c": 4, "f": 0})
    r = world.state.tables()["r"]
    names: list[Any] = [*world.state.group_store.row_indexes]
    assert sorted(columns for _, table, columns, _ in names if table == r.id) == [(), (2,), (3,)], (
        "of r all rows, by b and by d, with one routing column"
    )
    assert len(names) == one_template + 5, "r by d, and two orders of t and of u"
    of_r = [table for space in world.spaces for table in space.model.tables if table._table is r]
    assert len(of_r) == 3
    for table in of_r:
        for order in table._orders.values():
            assert all(first[entry[1]] is entry for key in order.rows for entry in order.rows.at(key))
    world.subscribe(TEMPLATES[4], {"c": 4})  # no condition on r: another routing, the same rows
    routed = world.spaces[-1].model.tables[0]
    assert all(first[entry[1]][2] is entry[2] for entry in routed.entries())
    world.check()


def sent(world: World, events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The messages of a request: kind, and number of the space."""
    world.state.execute(c.Transact(events))
    batch = world.state.begin()
    found = [(one.kind, one.space) for one in batch.frames if isinstance(one, Message)]
    complete(world.edge.release(batch.frames, world.state.seq))
    for id, _, _, body in world.sink.frames:
        world.answers[id] = fold(world.answers[id], body, ())
    world.sink.frames.clear()
    world.change(events)
    world.check()
    return found


def put(table: str, **row: int) -> dict[str, Any]:
    return {"table": table, "op": "upsert", "row": row}


def test_an_insert_sends_one_upsert_whatever_number_of_signatures() -> None:
    """R^S serves r ⋈ s, r ⋈ s ⋈ t and r ⋈ s ⋈ u."""
    world = World()
    world.run(
        c.Transact(stored := [put("s", k=1, b=1, c=1), put("t", k=1, d=1, e=1), put("u", k=1, b=1, f=1)])
    )
    world.change(stored)
    three = [world.subscribe(TEMPLATES[at], wanted) for at, wanted in enumerate(
        [{"a": 0, "c": 4}, {"a": 0, "c": 4, "e": 3}, {"a": 0, "c": 4, "f": 0}]
    )]  # fmt: skip
    for whole in world.wholes:
        whole.redecompose(tuple(whole.shape.parts[0].tables[1 - at] if at < 2 else 0 for at in range(3)))
        for id in three[1:]:
            world.run(c.Attach(id, None, world.sink))  # with the partners that the tables have now
    shared = world.state.spaces[world.state.groups[1].space]
    assert [message for message in sent(world, [put("r", k=1, a=1, b=1, d=1)]) if message[0] == "upsert"][
        :1
    ] == [("upsert", shared.network.id)]
    assert all(world.answers[id]["rows"] for id in three)
    quiet = [put("r", k=1, a=2, b=1, d=1)]  # what joins stays the same
    assert sent(world, quiet) == [("drop", shared.network.id), ("upsert", shared.network.id)]
    assert sent(world, [{"table": "r", "op": "delete", "key": {"k": 1}}])[0] == ("drop", shared.network.id)
    assert not any(world.answers[id]["rows"] for id in three)
    world.delete(three[0])  # the two others still have it as a part
    assert ("upsert", shared.network.id) in sent(world, [put("r", k=1, a=1, b=1, d=1)])
    world.end()


def test_a_semijoin_that_no_subscription_holds_sends_nothing() -> None:
    """Of a join of r, s and t, where r is reduced by s, no subscription needs the rows of r that join with t."""
    world = World()
    world.run(c.Transact(stored := [put("s", k=1, b=1, c=1), put("t", k=1, d=1, e=1)]))
    world.change(stored)
    id = world.subscribe(TEMPLATES[1], {"a": 0, "c": 4, "e": 3})
    (whole,) = world.wholes
    whole.redecompose((1, 0, 0))
    world.run(c.Attach(id, None, world.sink))
    rs, rt = (part.space.id for part in whole.parts)
    first = sent(world, [put("r", k=1, a=1, b=1, d=1)])
    assert sorted(first) == sorted([("upsert", rs), ("upsert", rs), ("upsert", rt)]), (
        "r and s by one, t by the other"
    )
    whole.redecompose((2, 0, 0))
    world.run(c.Attach(id, None, world.sink))
    assert sent(world, [put("r", k=1, a=2, b=1, d=1)]) == [("drop", rt), ("upsert", rt)]
    world.end()
