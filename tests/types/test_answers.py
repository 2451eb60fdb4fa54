"""Whole answers against PostgreSQL's own: random tables, subscriptions and events of every type, end to end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest

from prosem.values.columns import column_type
from prosem.values.wire import encode
from tests.support.asked import Served, serving
from tests.support.live import Api, Json, in_any_order

Chance = random.Random
MOMENT = datetime(2024, 2, 28, 23, 59, 58, tzinfo=UTC)
# A few values of each type, near each other, so that ties, equalities and empty ranges happen all the time.
VALUES: dict[str, Callable[[Chance], Any]] = {
    "boolean": lambda chance: chance.random() < 0.5,
    "integer": lambda chance: chance.choice([-(2**31), 2**31 - 1, *range(-4, 5)]),
    "bigint": lambda chance: chance.choice([-(2**63), 2**63 - 1, 2**53 + 1, *range(-4, 5)]),
    "double precision": lambda chance: chance.choice([0.0, 0.1, 0.5, -0.5, 1e300, -1e300, 5e-324, 3.0, -7.25]),
    "numeric(6,2)": lambda chance: f"{chance.randint(-300, 300) / 100:.2f}",
    "numeric(30,10)": lambda chance: chance.choice(["12345678901234567890.0000000001", f"{chance.randint(-3, 3)}.5", "0"]),
    "text": lambda chance: chance.choice(["", "a", "ab", "abc", "b", "B", "é", "z\x01", "￿", "\U0001f600", "a%", "a_"]),
    "date": lambda chance: str(date(2024, 2, 27) + timedelta(chance.randrange(5))),
    "timestamptz": lambda chance: (MOMENT + timedelta(microseconds=chance.randrange(5))).isoformat(),
}  # fmt: skip
ORDERED = list(VALUES)
PATTERNS = ["a%", "ab%", "a", "%", "é%", r"a\%", r"a\_%"]


def literal(kind: str, value: Any) -> str:
    """A value as a constant of SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if kind in ("integer", "bigint", "double precision"):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


class Population:
    """One table, its subscriptions, and the same questions put to PostgreSQL."""

    def __init__(self, api: Api, connection: psycopg.Connection[Any], chance: Chance) -> None:
        self.api, self.connection, self.chance = api, connection, chance
        kinds = ["integer", *chance.sample(ORDERED, 4), chance.choice(ORDERED)]
        self.kinds = dict(zip(["k", "x", "y", "e", "z", "w"], kinds, strict=True))
        self.table = api.table(self.kinds, ["k"])
        self.keys: set[int] = set()
        self.queries: dict[str, str] = {}  # id → the query with its constants in the text

    # -- events ------------------------------------------------------------------------------------------------
    def publish(self, count: int) -> int:
        events: list[Json] = []
        for _ in range(count):
            key, kind = (
                self.chance.randrange(12),
                self.chance.choice(["upsert", "upsert", "update", "delete"]),
            )
            cells = {name: self.cell(name) for name in self.kinds if name != "k"}
            if kind == "upsert" or key not in self.keys:
                events.append({"op": "upsert", "row": {"k": key} | cells})
                self.keys.add(key)
            elif kind == "update":
                some = dict(self.chance.sample(list(cells.items()), 2))
                events.append({"op": "update", "key": {"k": key}, "set": some})
            else:
                events.append({"op": "delete", "key": {"k": key}})
                self.keys.discard(key)
        seq: int = self.api.publish(self.table, events)["last_seq"]
        return seq

    def cell(self, name: str) -> Any:
        return None if self.chance.random() < 0.15 else VALUES[self.kinds[name]](self.chance)

    # -- conditions --------------------------------------------------------------------------------------------
    def constant(self, name: str) -> str:
        return literal(self.kinds[name], VALUES[self.kinds[name]](self.chance))

    def range(self, name: str) -> str:
        form = self.chance.choice(["between", "pair", "one"])
        if form == "between":
            return f"{name} BETWEEN {self.constant(name)} AND {self.constant(name)}"
        low = f"{name} {self.chance.choice(['>', '>='])} {self.constant(name)}"
        high = f"{name} {self.chance.choice(['<', '<='])} {self.constant(name)}"
        return f"{low} AND {high}" if form == "pair" else self.chance.choice([low, high])

    def atom(self) -> str:
        name = self.chance.choice(list(self.kinds))
        kind = self.chance.choice(["compare", "range", "in", "null", "like", "differ"])
        if kind == "range":
            return self.range(name)
        if kind == "in":
            return f"{name} IN ({', '.join(self.constant(name) for _ in range(3))})"
        if kind == "null":
            return f"{name} IS {self.chance.choice(['', 'NOT '])}NULL"
        if kind == "like" and self.kinds[name] == "text":
            return f"{name} LIKE '{self.chance.choice(PATTERNS)}'"
        if kind == "differ":
            return f"{name} <> {self.constant(name)}"
        return f"{name} {self.chance.choice(['=', '<', '<=', '>', '>='])} {self.constant(name)}"

    def subscribe_extreme(self) -> None:
        parts = [self.range("x")] if self.chance.random() < 0.85 else []
        parts += [f"{name} = {self.constant(name)}" for name in ("e", "z") if self.chance.random() < 0.3]
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        self.subscribe(f"SELECT {self.chance.choice(['MIN', 'MAX'])}(y) FROM {self.table}{where}")

    def subscribe_filter(self) -> None:
        either = [
            " AND ".join(self.atom() for _ in range(self.chance.randint(1, 3)))
            for _ in range(self.chance.choice([1, 1, 2]))
        ]
        columns = self.chance.choice(["*", "k, y", "w, k, e"])
        self.subscribe(
            f"SELECT {columns} FROM {self.table} WHERE {' OR '.join(f'({one})' for one in either)}"
        )

    def subscribe(self, text: str) -> None:
        self.queries[self.api.subscribe(text)["id"]] = text

    # -- PostgreSQL's answer -----------------------------------------------------------------------------------
    def expected(self, id: str) -> Any:
        """By the same SQL on the server's own table; texts in the order of code points, as the contract says."""
        text = self.queries[id]
        if "(y)" in text:
            return extreme(self.connection, text, self.kinds["y"])
        cursor = self.connection.execute(text.encode())
        names = [column.name for column in cursor.description or ()]
        objects = [
            {name: plain(self.kinds[name], value) for name, value in zip(names, row, strict=True)}
            for row in cursor
        ]
        return in_any_order({"rows": objects})


def extreme(connection: psycopg.Connection[Any], text: str, kind: str) -> Any:
    """MIN or MAX as the first row of an order: PostgreSQL has no MIN of booleans."""
    function = text.removeprefix("SELECT ")[:3]
    values = text.replace(f"{function}(y)", "y", 1)
    order = "ASC" if function == "MIN" else "DESC"
    asked = f"SELECT y FROM ({values}) AS chosen WHERE y IS NOT NULL ORDER BY y {order} LIMIT 1"
    row = connection.execute(asked.encode()).fetchone()
    return plain(kind, row[0]) if row else None


def plain(kind: str, value: Any) -> Any:
    """A value of PostgreSQL as it travels."""
    if isinstance(value, Decimal):
        value = column_type(kind).read(str(value))
    return msgspec.json.decode(encode(value.astimezone(UTC) if isinstance(value, datetime) else value))


def values_of(answer: Json | None) -> Any:
    assert answer is not None
    return in_any_order(answer) if "rows" in answer else answer["value"]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    yield from serving()


def check(served: Served, seed: int, rounds: int, subscriptions: int) -> None:
    api, connection = served
    some = Population(api, connection, Chance(seed))
    some.publish(10)
    with api.socket() as listener:
        for number in range(rounds):
            for _ in range(subscriptions // rounds):
                some.subscribe_extreme()
                some.subscribe_filter()
            for id in list(some.queries)[-2 * (subscriptions // rounds) :]:
                listener.attach(id)
            listener.progress(some.publish(some.chance.choice([1, 6])))
            for id, text in some.queries.items():
                expected = some.expected(id)
                context = f"seed {seed}, round {number}: {text}"
                assert values_of(api.result(id)["result"]) == expected, context
                assert values_of(listener.answer(id, "k")) == expected, context


@pytest.mark.parametrize("seed", range(8))
def test_answers_are_those_of_postgresql(served: Served, seed: int) -> None:
    check(served, seed, rounds=5, subscriptions=15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_answers(served: Served, seed: int) -> None:
    check(served, seed, rounds=20, subscriptions=60)


@pytest.mark.parametrize("kind", ORDERED)
def test_ranges_and_extremes_of_every_type(served: Served, kind: str) -> None:
    """x and y both of one type, over parameters instead of constants in the text."""
    api, connection = served
    chance = Chance(kind)
    table = api.table({"k": "integer", "x": kind, "y": kind}, ["k"])
    questions: dict[str, str] = {}
    for _ in range(10):
        low, high = VALUES[kind](chance), VALUES[kind](chance)
        function = chance.choice(["MIN", "MAX"])
        template = f"SELECT {function}(y) FROM {table} WHERE x >= {{}} AND x < {{}}"
        answer = api.subscribe(template.format(":lo", ":hi"), {"lo": low, "hi": high})
        questions[answer["id"]] = template.format(literal(kind, low), literal(kind, high))
    with api.socket() as listener:
        for id in questions:
            listener.attach(id)
        for _ in range(6):
            rows = [
                {"k": chance.randrange(8), "x": VALUES[kind](chance), "y": VALUES[kind](chance)}
                for _ in range(4)
            ]
            listener.progress(api.publish(table, [{"op": "upsert", "row": row} for row in rows])["last_seq"])
            for id, text in questions.items():
                expected = extreme(connection, text, kind)
                assert values_of(api.result(id)["result"]) == expected, text
                assert values_of(listener.answer(id)) == expected, text
