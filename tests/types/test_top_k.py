"""Top-k end to end: answers against PostgreSQL's own, refusals, resumption, moves, brokers; and a large k in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cn.model.geometry import BOTTOM, TOP
from prosem.language.parse import parse
from prosem.types.base import Bound
from prosem.types.registry import recognise
from prosem.types.top_k.form import TopKForm
from prosem.values.columns import INT64_MIN, column_type
from prosem.values.equality import is_equal
from prosem.values.model import Column, View
from prosem.values.wire import decode, encode
from tests.support.asked import Served, serving
from tests.support.deployed import Deployed
from tests.support.live import Api, Json, Refused, delete, upsert
from tests.support.top_k import Events, World, query, table
from tests.types.test_answers import Population, plain


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    yield from serving()


class FirstRows(Population):
    """The same table with questions for first rows."""

    def ask(self) -> None:
        order = self.chance.choice(["y", "y", "x", "k"])
        select = list(dict.fromkeys(["k", order, *self.chance.sample(["x", "z", "w", "e"], 2)]))
        self.chance.shuffle(select)
        parts = [self.range(self.chance.choice(["x", "y"]))] if self.chance.random() < 0.8 else []
        if self.chance.random() < 0.4:
            several = f"IN ({self.constant('e')}, {self.constant('e')}, NULL)"
            parts.append(f"e {self.chance.choice([several, '= ' + self.constant('e')])}")
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        way = self.chance.choice(["", " ASC", " DESC"])
        way += self.chance.choice(["", "", " NULLS FIRST", " NULLS LAST"])
        count = self.chance.randint(1, 6)
        self.subscribe(
            f"SELECT {', '.join(select)} FROM {self.table}{where} ORDER BY {order}{way} LIMIT {count}"
        )

    def expected(self, id: str) -> Any:
        text = self.queries[id].replace(" LIMIT", ", k LIMIT")
        cursor = self.connection.execute(text.encode())
        names = [column.name for column in cursor.description or ()]
        return [
            {name: plain(self.kinds[name], value) for name, value in zip(names, row, strict=True)}
            for row in cursor
        ]


def check(served: Served, seed: int, rounds: int, subscriptions: int) -> None:
    api, connection = served
    some = FirstRows(api, connection, random.Random(seed))
    some.publish(12)
    with api.socket() as listener:
        for number in range(rounds):
            for _ in range(subscriptions // rounds):
                some.ask()
            for id in list(some.queries)[-(subscriptions // rounds) :]:
                listener.attach(id)
            listener.progress(some.publish(some.chance.choice([1, 6])))
            for id, text in some.queries.items():
                expected, context = some.expected(id), f"seed {seed}, round {number}: {text}"
                assert api.result(id)["result"] == {"rows": expected}, context
                folded = listener.answer(id, "k")
                assert folded is not None
                assert sorted(map(encode, folded["rows"])) == sorted(map(encode, expected)), context


@pytest.mark.parametrize("seed", range(8))
def test_first_rows_are_those_of_postgresql(served: Served, seed: int) -> None:
    check(served, seed, rounds=5, subscriptions=20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_first_rows_are_those_of_postgresql_at_length(served: Served, seed: int) -> None:
    check(served, seed, rounds=12, subscriptions=60)


# -- subscriptions over time -----------------------------------------------------------------------------------------
SQL = "SELECT k, y, x FROM {} WHERE x BETWEEN :lo AND :hi ORDER BY y DESC LIMIT 3"


IN_SQL = "SELECT k, y, x FROM {} WHERE x BETWEEN :lo AND :hi AND e IN :some ORDER BY y DESC LIMIT 3"


class History:
    """A table by brute force: the answer of every range after every seq. `some`: the values of IN."""

    def __init__(self, api: Api, seed: int, some: str) -> None:
        self.api, self.chance, self.some = api, random.Random(seed), some
        self.name = api.table({"k": "integer", "x": "integer", "y": "integer", "e": "text"}, ["k"])
        self.rows: dict[int, Json] = {}
        self.past: dict[int, list[Json]] = {}

    def publish(self, count: int) -> int:
        events, states = [], []
        for _ in range(count):
            k = self.chance.randrange(9)
            if k in self.rows and self.chance.random() < 0.25:
                events.append(delete(k))
                del self.rows[k]
            else:
                cells = {"y": self.chance.choice([None, 1, 2, 3]), "x": self.chance.randrange(8)}
                self.rows[k] = {"k": k, **cells, "e": self.chance.choice("pqr")}
                events.append(upsert(**self.rows[k]))
            states.append(list(self.rows.values()))
        done = self.api.publish(self.name, events)
        self.past |= dict(enumerate(states, done["first_seq"]))
        return int(done["last_seq"])

    def answer(self, low: int, high: int, seq: int | None = None) -> list[Json]:
        rows = list(self.rows.values()) if seq is None else self.past[seq]
        inside = [row for row in rows if low <= row["x"] <= high and row["e"] in self.some]
        ordered = sorted(inside, key=lambda row: (-(row["y"] or 9), row["k"]))
        return [{name: row[name] for name in ("k", "y", "x")} for row in ordered[:3]]

    def changed(self, low: int, high: int, before: list[Json], seqs: range) -> dict[int, list[Json]]:
        """The seqs at which the answer changes, with what it is then."""
        found = {}
        for seq in seqs:
            if seq in self.past and (after := self.answer(low, high, seq)) != before:
                found[seq] = before = after
        return found


def rows_after(frames: list[Json], rows: list[Json]) -> dict[int, list[Json]]:
    """The answers that the changes of a stream lead to."""
    found = {}
    for frame in frames:
        change = frame["change"]
        held = {row["k"]: row for row in rows}
        for key in change["remove"]:
            del held[key["k"]]
        held |= {row["k"]: row for row in (*change["update"], *change["add"])}
        rows = sorted(held.values(), key=lambda row: (-(row["y"] or 9), row["k"]))
        found[frame["seq"]] = rows
    return found


@pytest.mark.parametrize("some", [pytest.param("pqr", marks=pytest.mark.slow), "pq"])
def test_moves_resumption_brokers_and_a_kill(some: str) -> None:
    with Deployed(brokers=1) as deployed, Api(deployed.server.url) as api:
        world = History(api, 4, some)
        world.publish(12)
        sql, listed = (SQL, {}) if some == "pqr" else (IN_SQL, {"some": [*some]})
        made = api.subscribe(sql.format(world.name), {"lo": 1, "hi": 6, **listed})
        id, created, first = made["id"], made["seq"], world.answer(1, 6)
        assert (made["type"], made["result"]) == ("top-k", {"rows": first})
        listeners = []
        for url in deployed.urls:
            listener = Api(url).socket()
            listener.attach(id)
            listener.pong()
            listeners.append(listener)
        moved = world.publish(30)
        patched = api.patch(id, params={"lo": 0, "hi": 3, **listed})
        assert patched["result"] == {"rows": world.answer(0, 3)}
        last = world.publish(30)
        answers = world.changed(1, 6, first, range(created + 1, moved + 1))
        before = answers[max(answers)]
        if before != patched["result"]["rows"]:
            answers[patched["seq"]] = patched["result"]["rows"]
        answers |= world.changed(0, 3, patched["result"]["rows"], range(patched["seq"] + 1, last + 1))
        for listener in listeners:
            listener.progress(last)
            assert rows_after(listener.of(id), first) == answers
            listener.close()

        deployed.server.kill()
        deployed.server.start()
        assert api.result(id)["result"] == {"rows": world.answer(0, 3)}
        for url in deployed.urls:
            for after in range(created, last + 1, 9):
                start = next((answers[seq] for seq in sorted(answers, reverse=True) if seq <= after), first)
                with Api(url) as other, other.socket() as again:
                    again.attach(id, after)
                    again.pong()
                    assert not again.of(id, "snapshot")
                    expected = {seq: rows for seq, rows in answers.items() if seq > after}
                    assert rows_after(again.of(id), start) == expected

        api.patch(id, active=False)
        frozen = world.answer(0, 3)
        world.publish(20)
        with api.socket() as listener:
            listener.attach(id)
            resumed = api.patch(id, active=True)
            listener.progress(resumed["seq"])
            answers = rows_after(listener.of(id), frozen)
            assert answers.get(resumed["seq"], frozen) == world.answer(0, 3) == resumed["result"]["rows"]


def test_explain_and_describe(served: Served) -> None:
    api, _ = served
    name = api.table({"k": "integer", "x": "integer", "y": "integer"}, ["k"])
    api.publish(name, [upsert(k=k, x=k, y=k) for k in range(50)])
    for low in range(20):
        api.subscribe(SQL.format(name), {"lo": low, "hi": low + 20})
    event = {"table": name, "event": upsert(k=10, x=10, y=90), "analyze": True}
    (group,) = api.call("POST", "/v1/explain", json=event)["groups"]
    assert group["type"] == "top-k"
    assert {plan["plan"]: plan["measured"]["affected"] for plan in group["plans"]} == {
        "reformulate": 11,
        "enumerate": 11,
    }
    described = api.call("POST", "/v1/describe", json={"sql": SQL.format(name), "params": {"lo": 3, "hi": 7}})
    assert described["place"] == {"equal": {}, "point": {"x": [3, 7]}}


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT y, x FROM {} ORDER BY y LIMIT 3", "key column k"),
        ("SELECT k, x FROM {} ORDER BY y LIMIT 3", "the column y"),
        ("SELECT k, y, y AS z FROM {} ORDER BY y LIMIT 3", "twice"),
        (
            "SELECT k, y FROM {} WHERE x > 1 AND y < 3 ORDER BY y LIMIT 3",
            "one range, not one on each of x, y",
        ),
        ("SELECT k, y FROM {} WHERE x > 1 OR x = 3 ORDER BY y LIMIT 3", "OR"),
        ("SELECT k, j FROM {} ORDER BY j LIMIT 3", "ordered column"),
        ("SELECT k, nosuch FROM {} ORDER BY k LIMIT 3", "nosuch"),
    ],
)
def test_what_is_refused(served: Served, sql: str, says: str) -> None:
    api, _ = served
    name = api.table({"k": "integer", "x": "integer", "y": "integer", "j": "jsonb"}, ["k"])
    with pytest.raises(Refused) as refused:
        api.subscribe(sql.format(name))
    problem = refused.value.problem
    assert (problem["status"], problem["errors"][0]["at"]) == (422, "/sql")
    assert says in problem["detail"]


def test_notify_is_refused(served: Served) -> None:
    api, _ = served
    name = api.table({"k": "integer", "y": "integer"}, ["k"])
    with pytest.raises(Refused) as refused:
        api.subscribe(f"SELECT k, y FROM {name} ORDER BY y LIMIT 2", notify={"change": 1})
    assert refused.value.problem["errors"][0]["at"] == "/notify"


# -- in memory -------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("plan", ["reformulate", "enumerate"])
def test_a_thousand_rows(plan: str) -> None:
    own = table()
    rows = {(k,): (k, "m", k % 50, (k * 7919) % 1000, "p", None) for k in range(2500)}
    world = World(query(["k", "y", "x"], "y", 1000), own, rows, plan)
    world.subscribe([Bound(b"", place) for place in ((0, 49), (10, 40), (20, 25), (INT64_MIN, 30), (3, 3))])
    some = Events(own, 1, keys=2500, width=50, heights=1000)
    kinds = {kind for _ in range(150) for kind in world.take(some.changes(world.rows))}
    assert kinds == {"put", "take"}


def test_ends_of_texts() -> None:
    own = table("text", "text")
    world = World(query(["k", "y"], "y", 2), own, {}, "enumerate")
    world.subscribe([Bound(b"", place) for place in ((BOTTOM, TOP), ("c", TOP), (BOTTOM, "c"))])
    some = Events(own, 2)
    for _ in range(80):
        world.take(some.changes(world.rows), is_exact=True)


ORDERS: dict[str, Callable[[random.Random], Any]] = {
    "integer": lambda chance: chance.choice([-(2**31), -1, 0, 7]),
    "bigint": lambda chance: chance.choice([-(2**63), -1, 0, 2**63 - 1]),
    "text": lambda chance: chance.choice(["", "a", "ab", "b", "é", "\U0001f600", "\uffff", "a\x01"]),
    "bytea": lambda chance: chance.choice(["", "AA==", "AP8=", "/w=="]),
    "numeric(30,4)": lambda chance: chance.choice(["-12345678901234567890.5", "0", "0.0001", "3"]),
    "double precision": lambda chance: chance.choice([-1e300, -0.5, 0.0, 5e-324, 2.0]),
    "boolean": lambda chance: chance.random() < 0.5,
}


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_ranks_order_as_postgresql_does(kind: str, is_descending: bool, nulls_first: bool) -> None:
    own = table(y=kind, key=("k", "m"))
    form = recognise(
        query(["m", "y", "k"], "y", 3, is_descending=is_descending, nulls_first=nulls_first), [own], None
    )
    assert isinstance(form, TopKForm)
    chance, read = random.Random(kind), column_type(kind).read
    keys = [(k, m) for k in (-3, 0, 5) for m in ("", "a", "b")]
    rows = [(m, None if chance.random() < 0.2 else read(ORDERS[kind](chance)), k) for k, m in keys * 3]
    ranked = sorted(set(rows), key=form.top.rank)
    plainly = sorted(sorted(set(rows), key=lambda row: (row[2], row[0])), key=lambda row: row[1] is not None)
    nulls = [row for row in plainly if row[1] is None]
    others = sorted(
        [row for row in plainly if row[1] is not None], key=lambda row: row[1], reverse=is_descending
    )
    assert ranked == (nulls + others if nulls_first else others + nulls)


def test_keys_of_views_may_be_null_and_sort_last() -> None:
    columns = (Column("a", column_type("text")), Column("b", column_type("integer")))
    own = View(99, "v", columns, ("a", "b"))
    form = recognise(parse("SELECT a, b FROM v ORDER BY b LIMIT 3"), [own], None)
    assert isinstance(form, TopKForm)
    rows: list[tuple[str | None, int | None]] = [(None, 1), ("b", 1), ("", 1), (None, None), ("z", None)]
    assert sorted(rows, key=form.top.rank) == [("", 1), ("b", 1), (None, 1), ("z", None), (None, None)]
    before, after = ({"rows": [{"a": a, "b": b} for a, b in some]} for some in (rows[:1], rows[:2]))
    assert decode(encode(form.difference(before, after))) == {
        "add": after["rows"][1:],
        "update": [],
        "remove": [],
    }
    assert form.difference(after, after) is None


def test_columns_under_other_names() -> None:
    own = table()
    form = recognise(parse("SELECT k AS id, y AS z FROM t ORDER BY y LIMIT 2"), [own], None)
    assert isinstance(form, TopKForm)
    before, after = {"rows": [{"id": 1, "z": 5}]}, {"rows": [{"id": 2, "z": 4}]}
    assert decode(encode(form.difference(before, after))) == {
        "add": [{"id": 2, "z": 4}],
        "update": [],
        "remove": [{"id": 1}],
    }


def test_equal_values() -> None:
    assert is_equal({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert not is_equal({"a": 1}, {"a": True})
    assert not is_equal({"a": 1}, {"b": 1})
    assert not is_equal([1], [1, 2])
    assert not is_equal(None, 0)
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    other: Any = []
    for _ in range(5000):
        other = [other]
    assert is_equal(deep, other)
