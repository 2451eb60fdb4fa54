"""Several aggregates, groups and IN against PostgreSQL, digit by digit, through a server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tests.support.asked import Served, serving
from tests.support.live import Json
from tests.types.test_answers import VALUES, Population, literal, plain

NUMBERS = ("integer", "bigint", "numeric(6,2)", "numeric(30,10)", "double precision")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Several(Population):
    """A table with questions of several columns. `asked` has the parts of each."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: dict[str, tuple[list[str], list[str]]] = {}  # id → columns of GROUP BY, aggregates

    def aggregate(self) -> str:
        name = self.chance.choice(["x", "y", "z", "w"])
        functions = ["COUNT"]
        if self.kinds[name] != "boolean":  # PostgreSQL has no MIN of them
            functions += ["MIN", "MAX"]
        if self.kinds[name] in NUMBERS and self.kinds[name] != "double precision":
            functions += ["SUM", "AVG"]
        return self.chance.choice(["COUNT(*)", f"{self.chance.choice(functions)}({name})"])

    def where(self) -> tuple[str, Json]:
        parts = [self.range(name) for name in self.chance.choice([["x"], ["x"], ["x", "z"], []])]
        params: Json = {}
        dice = self.chance.random()
        if dice < 0.3:
            parts.append(f"e IN ({', '.join(self.constant('e') for _ in range(3))})")
        elif dice < 0.6:
            values = [VALUES[self.kinds["e"]](self.chance) for _ in range(self.chance.randint(0, 3))]
            parts.append("e IN :some")
            params["some"] = [*values, None]
        return (f" WHERE {' AND '.join(parts)}" if parts else ""), params

    def ask(self) -> None:
        where, params = self.where()
        aggregates = [self.aggregate() for _ in range(self.chance.randint(2, 4))]
        named = [f"{text} AS c{number}" for number, text in enumerate(aggregates)]
        by = self.chance.choice([[], ["e"], ["w"], ["e", "z"]])
        tail = f" GROUP BY {', '.join(by)}" if by else ""
        if by and self.chance.random() < 0.6:
            one = self.aggregate()
            tail += f" HAVING {one} {self.chance.choice(COMPARISONS)} {self.compared(one)}"
        text = f"SELECT {', '.join([*by, *named])} FROM {self.table}{where}{tail}"
        made = self.api.subscribe(text, params)
        spelt = [literal(self.kinds["e"], value) for value in params.get("some", ()) if value is not None]
        self.queries[made["id"]] = text.replace(":some", f"({', '.join(spelt) or 'NULL'})")
        self.asked[made["id"]] = by, aggregates

    def compared(self, aggregate: str) -> str:
        function, name = aggregate[:-1].split("(")
        return self.constant(name) if function in ("MIN", "MAX") else str(self.chance.randint(-2, 3))

    def expected(self, id: str) -> list[Json]:
        by, aggregates = self.asked[id]
        kinds = [*(self.kinds[name] for name in by), *(None for _ in aggregates)]
        found = []
        for row in self.connection.execute(self.queries[id].encode()):
            values = []
            for kind, value, text in zip(kinds, row, [*by, *aggregates], strict=True):
                function, _, name = text.rstrip(")").partition("(")
                if kind is not None:
                    values.append(plain(kind, value))
                elif function in ("MIN", "MAX"):
                    values.append(plain(self.kinds[name], value))
                else:
                    values.append(f"{value:f}" if isinstance(value, Decimal) else value)
            found.append(
                dict(zip([*by, *(f"c{number}" for number in range(len(aggregates)))], values, strict=True))
            )
        return found


def rows_of(answer: Json | None) -> list[Json]:
    assert answer is not None
    found: list[Json] = answer["groups"] if "groups" in answer else [answer["columns"]]
    return found


def texts(rows: list[Json]) -> list[str]:
    return sorted(map(repr, rows))


def numbers(rows: list[Json]) -> list[str]:
    """A change of digits alone is not notified: 1.50 stays 1.5 until the number changes."""
    return texts([{name: _number(value) for name, value in row.items()} for row in rows])


def _number(value: Any) -> Any:
    is_decimal = isinstance(value, str) and value.replace(".", "", 1).lstrip("-").isdigit()
    return Fraction(value) if is_decimal else value


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    yield from serving()


def check(served: Served, seed: int, rounds: int, subscriptions: int) -> None:
    api, connection = served
    some = Several(api, connection, random.Random(seed))
    some.publish(12)
    with api.socket() as listener:
        for number in range(rounds):
            for _ in range(subscriptions // rounds):
                some.ask()
            for id in list(some.queries)[-(subscriptions // rounds) :]:
                listener.attach(id)
            listener.progress(some.publish(some.chance.choice([1, 6])))
            for id, text in some.queries.items():
                context = f"seed {seed}, round {number}: {text}"
                expected = some.expected(id)
                assert texts(rows_of(api.result(id)["result"])) == texts(expected), context
                folded = listener.answer(id, some.asked[id][0])
                assert numbers(rows_of(folded)) == numbers(expected), context


@pytest.mark.parametrize("seed", range(8))
def test_columns_and_groups_are_those_of_postgresql(served: Served, seed: int) -> None:
    check(served, seed, rounds=5, subscriptions=20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_columns_and_groups_at_length(served: Served, seed: int) -> None:
    check(served, seed, rounds=12, subscriptions=60)
