"""Select-joins on a running server against PostgreSQL: shapes, types, moves, returns, kills, another decomposition."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest

from tests.support.asked import Served, serving
from tests.support.live import Api, Json, Refused, Socket, delete, in_any_order, insert, update, upsert
from tests.support.processes import ServerProcess
from tests.types.test_answers import VALUES, literal, plain

KEYS = 6  # rows of a table
_numbers = count(1)


class Case(NamedTuple):
    """`tables`: name and columns with their types besides the key k; `using` of each table but the first."""

    tables: dict[str, dict[str, str]]
    using: tuple[tuple[str, ...], ...]
    conditions: tuple[str, ...]  # r.a


def chain(*kinds: str) -> Case:
    """r0(a, j1) r1(a, j1, j2) r2(a, j2, j3) …, all range columns of the given types in turn."""
    names = [f"r{at}" for at in range(len(kinds))]
    tables: dict[str, dict[str, str]] = {}
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        joins = [f"j{n}" for n in (at, at + 1) if 0 < n < len(kinds)]
        tables[name] = {"a": kind, **dict.fromkeys(joins, "integer"), "note": "jsonb"}
    return Case(
        tables, tuple((f"j{at}",) for at in range(1, len(kinds))), tuple(f"{name}.a" for name in names)
    )


CASES = {
    "chain of 2": chain("integer", "double precision"),
    "chain of 3": chain("numeric(6,2)", "text", "date"),
    "chain of 6": chain("integer", "bigint", "integer", "boolean", "timestamptz", "numeric(30,10)"),
    "star": Case(
        {
            "f": {"b": "text", "d": "date", "h": "integer", "a": "integer"},
            "s": {"b": "text", "c": "integer"},
            "t": {"d": "date", "c": "double precision"},
            "u": {"h": "integer", "note": "text"},
        },
        (("b",), ("d",), ("h",)),
        ("f.a", "s.c", "t.c"),
    ),
    "cycle": Case(
        {
            "r": {"x": "integer", "y": "integer", "a": "integer"},
            "s": {"y": "integer", "z": "integer", "c": "integer"},
            "t": {"z": "integer", "x": "integer", "e": "integer"},
        },
        (("y",), ("z", "x")),
        ("r.a", "s.c", "t.e"),
    ),
    "one class of three": Case(
        {"r": {"b": "integer", "a": "text"}, "s": {"b": "integer"}, "t": {"b": "integer", "c": "text"}},
        (("b",), ("b",)),
        ("r.a", "t.c", "b"),
    ),
    "composite, several conditions": Case(
        {
            "r": {"b": "text", "g": "timestamptz", "a": "integer", "e": "boolean"},
            "s": {"b": "text", "g": "timestamptz", "c": "numeric(6,2)", "w": "integer"},
        },
        (("b", "g"),),
        ("r.a", "r.e", "s.c", "s.w"),
    ),
    "exact numbers of three types": Case(
        {
            "r": {"b": "integer", "a": "integer"},
            "s": {"b": "numeric(6,2)", "d": "bigint"},
            "t": {"d": "integer"},
        },
        (("b",), ("d",)),
        ("r.a", "s.d"),
    ),
    "doubles and bytes": Case(
        {"r": {"b": "double precision", "a": "bytea"}, "s": {"b": "double precision", "c": "bytea"}},
        (("b",),),
        ("r.a", "s.c"),
    ),
}
SMALL = {
    **VALUES,
    "jsonb": lambda chance: chance.choice([None, 1, "x", {"y": [1, 2]}]),
    "bytea": lambda chance: chance.choice(["", "AA==", "AQ==", "AQI="]),
}


class Population:
    """The tables of one case under names of their own, its subscriptions, and the same questions put to PostgreSQL."""

    def __init__(self, served: Served, case: Case, chance: random.Random) -> None:
        self.api, self.connection = served
        self.case, self.chance = case, chance
        number = next(_numbers)
        self.names = {name: f"j{number}_{name}" for name in case.tables}
        for name, columns in case.tables.items():
            self.api.table({"k": "integer", **columns}, ["k"], self.names[name])
        self.keys: dict[str, set[int]] = {name: set() for name in case.tables}
        self.wheres: dict[str, str] = {}
        joins = [
            f"JOIN {self.names[name]} USING ({', '.join(columns)})"
            for name, columns in zip(list(case.tables)[1:], case.using, strict=True)
        ]
        self.source = " ".join([self.names[next(iter(case.tables))], *joins])

    # -- events ------------------------------------------------------------------------------------------------
    def cell(self, name: str, column: str) -> Any:
        if self.chance.random() < 0.1:
            return None
        kind = self.case.tables[name][column]
        is_join = any(column in names for names in self.case.using)
        if is_join:  # few values, so that rows meet
            return {"text": "ab", "date": ["2024-02-28", "2024-02-29"], "boolean": [True, False],
                    "timestamptz": ["2024-02-28T00:00:00Z", "2024-02-28T01:00:00+01:00", "2024-03-01T00:00:00Z"],
                    "double precision": [0.0, 0.5]}.get(kind, [0, 1])[self.chance.randrange(2)]  # fmt: skip
        return SMALL[kind](self.chance)

    def publish(self, events: int = 1, name: str | None = None) -> int:
        """Events on one table, in one request."""
        name = name or self.chance.choice(list(self.case.tables))
        made: list[Json] = []
        for _ in range(events):
            key, op = (
                self.chance.randrange(KEYS),
                self.chance.choice(["upsert", "upsert", "update", "delete"]),
            )
            cells = {column: self.cell(name, column) for column in self.case.tables[name]}
            if op == "upsert" or key not in self.keys[name]:
                made.append(upsert(k=key, **cells))
                self.keys[name].add(key)
            elif op == "update":
                made.append(update(key, **dict([self.chance.choice(list(cells.items()))])))
            else:
                made.append(delete(key))
                self.keys[name].discard(key)
        seq: int = self.api.publish(self.names[name], made)["last_seq"]
        return seq

    # -- subscriptions -----------------------------------------------------------------------------------------
    def condition(self, place: str) -> tuple[str, str]:
        """A condition and the type of its column, with {} for constants."""
        name, _, column = place.rpartition(".")
        kind = next(
            columns[column] for one, columns in self.case.tables.items() if one == name or column in columns
        )
        if name:
            kind = self.case.tables[name][column]
        written = f"{self.names[name]}.{column}" if name else column
        form = self.chance.choice(["{c} BETWEEN {{}} AND {{}}", "{c} >= {{}}", "{c} < {{}}", "{c} = {{}}"])
        return form.format(c=written), kind

    def subscribe(self) -> str:
        """With constants in the text, or as a template with parameters."""
        places = self.chance.sample(self.case.conditions, self.chance.randint(0, len(self.case.conditions)))
        texts, plain_texts, params = [], [], {}
        for place in places:
            form, kind = self.condition(place)
            values = [SMALL[kind](self.chance) for _ in range(form.count("{}"))]
            names = [f"p{len(params) + at}" for at in range(len(values))]
            params |= dict(zip(names, values, strict=True))
            texts.append(form.format(*(f":{name}" for name in names)))
            plain_texts.append(form.format(*(sql_literal(kind, value) for value in values)))
        where = f" WHERE {' AND '.join(texts)}" if texts else ""
        id: str = self.api.subscribe(f"SELECT * FROM {self.source}{where}", params)["id"]
        self.wheres[id] = f" WHERE {' AND '.join(plain_texts)}" if texts else ""
        return id

    def expected(self, id: str) -> Any:
        """PostgreSQL's answer."""
        columns = [
            (name, column, kind)
            for name, some in self.case.tables.items()
            for column, kind in {"k": "integer", **some}.items()
        ]
        listed = ", ".join(f"{self.names[name]}.{column}" for name, column, _ in columns)
        rows = []
        for values in self.connection.execute(
            f"SELECT {listed} FROM {self.source}{self.wheres[id]}".encode()
        ):
            row: Json = {}
            for (name, column, kind), value in zip(columns, values, strict=True):
                row.setdefault(self.names[name], {})[column] = plain(kind, value)
            rows.append(row)
        return in_any_order({"rows": rows})


def sql_literal(kind: str, value: Any) -> str:
    return f"decode('{value}', 'base64')" if kind == "bytea" else literal(kind, value)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    yield from serving()


def changes(listener: Socket, id: str) -> list[tuple[int, list[str], list[str]]]:
    """The changes of a stream in order, each with its rows in any order."""
    return [
        (frame["seq"], *(in_any_order({"rows": frame["change"][side]}) for side in ("add", "remove")))
        for frame in listener.of(id)
    ]


def check(served: Served, case: Case, seed: str, rounds: int, subscriptions: int) -> None:
    some = Population(served, case, random.Random(seed))
    for name in case.tables:
        some.publish(8, name)
    with some.api.socket() as listener:
        started: dict[str, int] = {}
        for number in range(rounds):
            for _ in range(subscriptions // rounds):
                id = some.subscribe()
                listener.attach(id)
            listener.pong()
            for id in some.wheres.keys() - started.keys():
                started[id] = listener.of(id, "snapshot")[-1]["seq"]
            for _ in range(3):
                seq = some.publish(some.chance.choice([1, 4]))
            listener.progress(seq)
            for id, where in some.wheres.items():
                expected, context = some.expected(id), f"seed {seed}, round {number}: {some.source}{where}"
                assert in_any_order(some.api.result(id)["result"]) == expected, context
                assert in_any_order(listener.answer(id)) == expected, context
        with some.api.socket() as returning:
            after = {id: some.chance.randint(start, seq) for id, start in started.items()}
            for id, since in after.items():
                returning.attach(id, since)
            returning.pong()
            for id, since in after.items():
                missed = [change for change in changes(listener, id) if change[0] > since]
                assert changes(returning, id) == missed, f"seed {seed}, after {since}: {some.wheres[id]}"


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_postgresql(served: Served, name: str) -> None:
    check(served, CASES[name], name, rounds=4, subscriptions=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", CASES)
def test_more_answers(served: Served, name: str, seed: int) -> None:
    check(served, CASES[name], f"{name} {seed}", rounds=12, subscriptions=60)


# -- a life of one subscription ------------------------------------------------------------------------------------
@pytest.fixture
def api(served: Served) -> Api:
    return served[0]


def two_tables(api: Api) -> tuple[str, str]:
    r = api.table({"k": "integer", "a": "integer", "b": "integer", "note": "text"}, ["k"])
    s = api.table({"k": "integer", "b": "integer", "c": "integer"}, ["k"])
    return r, s


def heard(api: Api, id: str, after: int, upto: int) -> list[Any]:
    with api.socket() as listener:
        listener.attach(id, after)
        listener.progress(upto)
        listener.pong()
        assert not listener.of(id, "snapshot")
        return changes(listener, id)


def test_a_subscription_notified_and_resumed_from_every_point(api: Api) -> None:
    """Moves, a suspension with events during it, and a return to each seq of all that."""
    r, s = two_tables(api)
    sql = f"SELECT * FROM {r} JOIN {s} USING (b) WHERE a BETWEEN :lo AND :hi AND c < :c"
    id = api.subscribe(sql, {"lo": 0, "hi": 9, "c": 50})["id"]
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        start = listener.of(id, "snapshot")[0]["seq"]
        api.publish(r, [insert(k=1, a=5, b=1, note="x"), insert(k=2, a=15, b=1, note="y")])
        api.publish(s, [insert(k=1, b=1, c=10), insert(k=2, b=1, c=60), insert(k=3, b=2, c=20)])
        api.publish(r, [update(1, note="z"), update(1, b=2), update(1, a=12)])
        moved = api.patch(id, params={"hi": 20})
        assert len(moved["result"]["rows"]) == 2
        same = api.patch(id, params={"hi": 21})
        assert same["seq"] == moved["seq"], "the answer is the same"
        api.publish(s, [update(1, c=55), update(1, c=11)])
        api.patch(id, active=False)
        api.publish(r, [delete(2)])
        api.patch(id, params={"c": 15})
        api.publish(r, [insert(k=4, a=1, b=1, note="w")])
        resumed = api.patch(id, active=True)
        api.publish(s, [delete(1)])
        nowhere = api.patch(id, params={"hi": -1})
        api.publish(s, [insert(k=1, b=1, c=12)])
        last = api.patch(id, params={"hi": 30})["seq"]
        listener.progress(last)
        received = changes(listener, id)
        assert [seq for seq, *_ in received] == sorted({seq for seq, *_ in received})
        assert resumed["seq"] in [seq for seq, *_ in received]
        assert nowhere["seq"] < last
        assert in_any_order(listener.answer(id)) == in_any_order(api.result(id)["result"])
    for after in range(start, last + 1):
        assert heard(api, id, after, last) == [change for change in received if change[0] > after], after


@pytest.mark.parametrize("per", ["event", "transaction"])
def test_more_moves_than_a_page_are_replayed_in_order(api: Api, per: str) -> None:
    """Also those of other subscriptions of the space, and between the events of which a page is read at once."""
    r, s = two_tables(api)
    sql = f"SELECT * FROM {r} JOIN {s} USING (b) WHERE a BETWEEN :lo AND :hi AND c < :c"
    id, other = (api.subscribe(sql, {"lo": 0, "hi": 9, "c": 50}, per=per)["id"] for _ in range(2))
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        start = listener.of(id, "snapshot")[0]["seq"]
        api.publish(s, [insert(k=1, b=1, c=10)])
        seqs = []
        for number in range(4):
            k = 3 * number
            rows = [insert(k=k + at, a=at, b=1, note="x") for at in range(3)]
            seqs.append(api.publish(r, rows)["first_seq"])
            for hi in (0, 9, 1, 2, 9) * 8:
                api.patch(other, params={"hi": hi})
                last = api.patch(id, params={"hi": hi})["seq"]
                seqs.append(last)
        listener.progress(last)
        received = changes(listener, id)
    assert len(received) > 100
    for after in (start, *seqs[::23]):
        assert heard(api, id, after, last) == [change for change in received if change[0] > after], after


def test_a_row_alone_makes_no_change(api: Api) -> None:
    r, s = two_tables(api)
    id = api.subscribe(f"SELECT * FROM {r} JOIN {s} USING (b)")["id"]
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        api.publish(r, [insert(k=1, a=5, b=1, note="x"), insert(k=2, a=5, b=None, note="x")])
        last = api.publish(s, [insert(k=1, b=2, c=10), insert(k=2, b=None, c=1)])["last_seq"]
        listener.progress(last)
        assert not listener.of(id)
        last = api.publish(s, [insert(k=3, b=1, c=10)])["last_seq"]
        listener.progress(last)
        (frame,) = listener.of(id)
        joined = {r: {"k": 1, "a": 5, "b": 1, "note": "x"}, s: {"k": 3, "b": 1, "c": 10}}
        assert frame == {"id": id, "seq": last, "change": {"add": [joined], "remove": []}}


def test_a_batch_of_one_request_is_notified_event_by_event(api: Api) -> None:
    r, s = two_tables(api)
    id = api.subscribe(f"SELECT * FROM {r} JOIN {s} USING (b) WHERE a > 0")["id"]
    api.publish(s, [insert(k=1, b=1, c=10)])
    with api.socket() as listener:
        listener.attach(id)
        listener.pong()
        events = [
            insert(k=1, a=1, b=1, note=""),
            update(1, note="x"),
            update(1, a=0),
            update(1, a=2),
            delete(1),
        ]
        answer = api.publish(r, events)
        listener.progress(answer["last_seq"])
        assert listener.seqs(id) == list(range(answer["first_seq"], answer["last_seq"] + 1))


def test_rows_of_a_table_that_extends_another(api: Api, served: Served) -> None:
    """A join sees the rows of the tables that extend its own, also when it returns."""
    parent = api.table({"k": "integer", "a": "integer", "b": "integer"}, ["k"])
    other = api.table({"k": "integer", "b": "integer"}, ["k"])
    child = f"{parent}_child"
    body = {"name": child, "extends": parent, "columns": [{"name": "extra", "type": "text"}]}
    api.call("POST", "/v1/tables", json=body)
    both = api.subscribe(f"SELECT * FROM {parent} JOIN {other} USING (b) WHERE a < 9")["id"]
    own = api.subscribe(f"SELECT * FROM {parent} JOIN {child} USING (a)")["id"]
    with api.socket() as listener:
        for id in (both, own):
            listener.attach(id)
        listener.pong()
        start = listener.of(own, "snapshot")[0]["seq"]
        api.publish(other, [insert(k=1, b=1)])
        api.publish(child, [insert(k=1, a=1, b=1, extra="x"), update(1, extra="y"), update(1, a=3)])
        last = api.publish(parent, [insert(k=2, a=3, b=1)])["last_seq"]
        listener.progress(last)
        assert len(listener.of(both)) == 3, "the parent does not see the column extra"
        for id in (both, own):
            assert in_any_order(listener.answer(id)) == in_any_order(api.result(id)["result"])
            assert heard(api, id, start, last) == changes(listener, id)
        assert [len(frame["change"]["add"]) for frame in listener.of(own)] == [1, 1, 1, 1]
        last = api.publish(child, [delete(1)])["last_seq"]
        listener.progress(last)
        assert (listener.answer(own) or {})["rows"] == []
    with pytest.raises(Refused, match="subscriptions use the table"):
        api.call("DELETE", f"/v1/tables/{child}")


def test_many_return_together(served: Served) -> None:
    """More than are asked one by one: an index finds whom a row concerns."""
    some = Population(served, CASES["chain of 3"], random.Random(5))
    with some.api.socket() as listener:
        for _ in range(25):
            listener.attach(some.subscribe())
        listener.pong()
        start = max(listener.of(id, "snapshot")[0]["seq"] for id in some.wheres)
        for _ in range(12):
            seq = some.publish(5)
        listener.progress(seq)
        with some.api.socket() as returning:
            for id in some.wheres:
                returning.attach(id, start)
            returning.pong()
            for id in some.wheres:
                assert changes(returning, id) == changes(listener, id)


# -- kills and other decompositions ----------------------------------------------------------------------------------
def test_subscriptions_outlive_a_kill(own_server: ServerProcess) -> None:
    with Api(own_server.start()) as api:
        r, s = two_tables(api)
        id = api.subscribe(f"SELECT * FROM {r} JOIN {s} USING (b) WHERE a < 9", id="mine")["id"]
        start = api.publish(r, [insert(k=1, a=1, b=1, note="x")])["last_seq"]
        api.publish(s, [insert(k=1, b=1, c=1), insert(k=2, b=1, c=2)])
    own_server.kill()
    with Api(own_server.start()) as api:
        assert len(api.result(id)["result"]["rows"]) == 2
        last = api.publish(s, [delete(1)])["last_seq"]
        received = heard(api, id, start, last)
        assert [(len(added), len(removed)) for _, added, removed in received] == [(1, 0), (1, 0), (0, 1)]
        with pytest.raises(Refused, match="1 subscriptions use the table"):
            api.call("DELETE", f"/v1/tables/{s}")
        api.delete(id)
        api.call("DELETE", f"/v1/tables/{s}")
    own_server.kill()
    with Api(own_server.start()) as api:
        with pytest.raises(Refused, match="there is no table"):
            api.subscribe(f"SELECT * FROM {r} JOIN {s} USING (b)")
        api.table({"k": "integer", "b": "integer", "c": "integer"}, ["k"], s)
        assert api.subscribe(f"SELECT * FROM {r} JOIN {s} USING (b) WHERE a < 9")["result"] == {"rows": []}


def test_another_decomposition_leaves_no_gap() -> None:
    """Events turn from one end of a chain to the other under load: partners change, streams notice nothing."""
    for served in serving("--look-events", "40"):
        some = Population(served, CASES["cycle"], random.Random(11))
        for name in some.case.tables:
            some.publish(10, name)
        with some.api.socket() as listener:
            for _ in range(20):
                listener.attach(some.subscribe())
            listener.pong()
            for turn in range(18):
                for _ in range(8):
                    seq = some.publish(6, list(some.case.tables)[turn // 3 % 3])
            listener.progress(seq)
            assert some.api.metric("prosem_rearranged_total") > 0
            assert some.api.metric("prosem_lagging_total") == 0
            for id, where in some.wheres.items():
                expected = some.expected(id)
                assert in_any_order(listener.answer(id)) == expected, where
                assert in_any_order(some.api.result(id)["result"]) == expected, where
                assert len(listener.of(id, "snapshot")) == 1, "nobody was given a snapshot again"


# -- joins that have two tables in common --------------------------------------------------------------------------
SHARING = ("r JOIN s USING (b)", "r JOIN s USING (b) JOIN t USING (d)", "r JOIN s USING (b) JOIN u USING (d)")


def four_tables(api: Api) -> dict[str, str]:
    columns = {"r": "ab", "s": "bcd", "t": "de", "u": "df"}
    return {name: api.table(dict.fromkeys(f"k{some}", "integer"), ["k"]) for name, some in columns.items()}


def signature(tables: dict[str, str], source: str) -> str:
    """The statement of a join; the condition on s is the same in all."""
    words = [tables.get(word, word) for word in source.split()]
    return f"SELECT * FROM {' '.join(words)} WHERE {tables['r']}.a >= :a AND {tables['s']}.c < :c"


def test_an_insert_sends_one_upsert_whatever_number_of_signatures(api: Api) -> None:
    tables = four_tables(api)
    for name in "tu":
        api.publish(tables[name], [insert(k=1, d=1, **{"ef"["tu".index(name)]: 1})])
    api.publish(tables["s"], [insert(k=1, b=1, c=1, d=1)])
    api.publish(tables["r"], [insert(k=0, a=5, b=1)])
    with api.socket() as listener:
        for number, source in enumerate(SHARING, 1):
            id = api.subscribe(signature(tables, source), {"a": 0, "c": 9}, id=f"{tables['r']}-{number}")[
                "id"
            ]
            listener.attach(id)
            listener.pong()
            before = api.metric("prosem_outbox_messages_total")
            seq = api.publish(tables["r"], [insert(k=number, a=5, b=1)])["last_seq"]
            listener.progress(seq)
            assert api.metric("prosem_outbox_messages_total") - before == 1
            ids = [f"{tables['r']}-{one}" for one in range(1, number + 1)]
            assert [listener.of(one)[-1]["seq"] for one in ids] == [seq] * number
            assert [len((listener.answer(one) or {})["rows"]) for one in ids] == [number + 1] * number
        event = {"table": tables["r"], "event": insert(k=9, a=5, b=1)}
        groups = api.call("POST", "/v1/explain", json=event)["groups"]
        assert len({one["space"] for one in groups}) == 1
        assert len(groups) == 3
        partners = [one["arrangement"]["partners"]["tables"] for one in groups]
        assert [len(some) for some in partners] == [2, 3, 3]
        assert all(some[tables["r"]] == tables["s"] for some in partners)


def test_joins_that_share_outlive_a_kill(own_server: ServerProcess) -> None:
    """With and without a group of the two tables alone, which comes and goes."""
    chance = random.Random(3)
    with Api(own_server.start()) as api:
        tables = four_tables(api)
    own_server.kill()
    letters = {"r": "ab", "s": "bcd", "t": "de", "u": "df"}
    started: dict[str, int] = {}

    def publish(api: Api) -> int:
        for _ in range(12):
            name = chance.choice("rstu")
            row = {column: chance.choice([None, 0, 1, 1]) for column in letters[name]}
            seq: int = api.publish(tables[name], [upsert(k=chance.randrange(4), **row)])["last_seq"]
        return seq

    for turn, sources in enumerate((SHARING[1:], SHARING[:1], SHARING[2:], ())):
        with Api(own_server.start()) as api, api.socket() as listener:
            for source in sources:
                id = api.subscribe(signature(tables, source), {"a": 0, "c": 9})["id"]
                started[id] = api.result(id)["seq"]
            for id in started:
                listener.attach(id)
            listener.pong()
            seq = publish(api)
            listener.progress(seq)
            for id, start in started.items():
                assert in_any_order(listener.answer(id)) == in_any_order(api.result(id)["result"])
                received = changes(listener, id)
                replayed = heard(api, id, start, seq)
                assert replayed[len(replayed) - len(received) :] == received
            if turn == 2:  # the two tables alone have no subscription any more
                (alone,) = [
                    id
                    for id in started
                    if len(api.call("GET", f"/v1/subscriptions/{id}")["sql"].split("JOIN")) == 2
                ]
                api.delete(alone)
                del started[alone]
        own_server.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        "ref-j+",
        *(
            pytest.param(plan, marks=pytest.mark.slow)
            for plan in ("random:5", "enum-j", "rel-sel", "ref-sj-env", "auto:ref-sj-env", "auto:ref-j+")
        ),
    ],
)
def test_other_plans_on_a_server(plan: str) -> None:
    for served in serving("--plan", plan):
        for name in ("chain of 3", "composite, several conditions"):
            check(served, CASES[name], f"{plan} {name}", rounds=2, subscriptions=8)


def test_types_name_the_join(api: Api) -> None:
    (kind,) = [one for one in api.call("GET", "/v1/types")["types"] if one["name"] == "select-join"]
    assert {message["name"] for message in kind["messages"]} == {"upsert", "drop", "lose", "joined"}
    assert json.dumps(kind["sql"]).count("USING") == 1
