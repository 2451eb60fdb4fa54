"""COUNT, SUM, AVG, DISTINCT and several ranges against PostgreSQL, digit by digit; and tables that extend others."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from prosem.language.parse import parse
from prosem.types.shared.exact import average_value, pack_units, sum_value, units, unpack_units, written
from prosem.types.shared.ranges import Ranges
from prosem.types.sums.form import Contribution, SumForm
from prosem.types.sums.trees import Gain, SumTrees
from prosem.values.columns import column_type
from tests.support.live import Api, Json, Refused
from tests.types.test_answers import Population, plain, served  # noqa: F401  (a fixture)

Served = tuple[Api, psycopg.Connection[Any]]
NUMBERS = ("integer", "bigint", "numeric(6,2)", "numeric(30,10)", "double precision")


class Aggregates(Population):
    """The same table with questions that count and add up."""

    def ask(self) -> None:
        function = self.chance.choice(
            ["COUNT(*)", "COUNT(y)", "SUM(y)", "AVG(y)", "MIN(y)", "MAX(y)", "DISTINCT y"]
        )
        if function[:3] in ("SUM", "AVG") and self.kinds["y"] not in NUMBERS:
            function = "COUNT(y)"
        ranges = (
            ["x"]
            if function == "DISTINCT y"
            else self.chance.choice([["x"], ["x", "z"], ["x", "z", "w"], []])
        )
        parts = [self.range(name) for name in ranges]
        if self.chance.random() < 0.3:
            parts.append(f"e = {self.constant('e')}")
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        self.subscribe(f"SELECT {function} FROM {self.table}{where}")

    def expected(self, id: str) -> Any:
        text = self.queries[id]
        kind = self.kinds["y"]
        if "MIN(" in text or "MAX(" in text:
            return super().expected(id)
        if "DISTINCT" in text:
            ordered = text.replace("SELECT DISTINCT y", "SELECT DISTINCT y AS v", 1) + " ORDER BY v"
            return [plain(kind, row[0]) for row in self.connection.execute(ordered.encode())]
        if kind == "double precision" and "COUNT" not in text:
            return self._doubles(text)
        row = self.connection.execute(text.encode()).fetchone()
        assert row is not None
        if row[0] is None:
            return None
        return (
            f"{row[0]:f}" if isinstance(row[0], Decimal) else str(row[0])
        )  # as PostgreSQL writes it, 0E-20 or not

    def _doubles(self, text: str) -> Any:
        """Correctly rounded, which PostgreSQL's own sum need not be."""
        chosen = text.replace("SUM(y)", "y", 1).replace("AVG(y)", "y", 1)
        values = [row[0] for row in self.connection.execute(chosen.encode()) if row[0] is not None]
        if not values:
            return None
        exact = sum(map(Fraction, values)) / (len(values) if "AVG" in text else 1)
        return float(exact)


def answer_of(query: str, answer: Json | None) -> Any:
    assert answer is not None
    if "DISTINCT" in query:
        return answer["values"]
    value = answer["value"]
    return (
        value
        if value is None or isinstance(value, float) or "MIN(" in query or "MAX(" in query
        else str(value)
    )


def check(served: Served, seed: int, rounds: int, subscriptions: int) -> None:  # noqa: F811
    api, connection = served
    some = Aggregates(api, connection, random.Random(seed))
    some.publish(12)
    with api.socket() as listener:
        for number in range(rounds):
            for _ in range(subscriptions // rounds):
                some.ask()
            for id in list(some.queries)[-(subscriptions // rounds) :]:
                listener.attach(id)
            listener.progress(some.publish(some.chance.choice([1, 6])))
            for id, text in some.queries.items():
                expected = some.expected(id)
                context = f"seed {seed}, round {number}: {text}"
                assert answer_of(text, api.result(id)["result"]) == expected, context
                folded = answer_of(text, listener.answer(id, "k"))
                if "DISTINCT" in text:
                    folded, expected = sorted(map(repr, folded)), sorted(map(repr, expected))
                assert folded == expected, context


@pytest.mark.parametrize("seed", range(8))
def test_aggregates_are_those_of_postgresql(served: Served, seed: int) -> None:  # noqa: F811
    check(served, seed, rounds=5, subscriptions=20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_aggregates_are_those_of_postgresql_at_length(served: Served, seed: int) -> None:  # noqa: F811
    check(served, seed, rounds=12, subscriptions=60)


# -- exact sums ----------------------------------------------------------------------------------------------------
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.randoms())
def test_sums_of_doubles_are_correctly_rounded_in_any_order(
    values: list[float], chance: random.Random
) -> None:
    kind = column_type("double precision")
    chance.shuffle(values)
    total = sum(units(kind, value) for value in values)
    try:
        expected = float(sum(map(Fraction, values)))
    except OverflowError:
        expected = 1.7976931348623157e308 if total > 0 else -1.7976931348623157e308
    assert sum_value(kind, total) == expected
    assert unpack_units(pack_units(total)) == total
    for value in values:
        total -= units(kind, value)
    assert total == 0


@given(st.integers(), st.integers(1, 10**6))
def test_averages_have_sixteen_digits_at_least(total: int, count: int) -> None:
    value = average_value(column_type("bigint"), total, count)
    assert abs(Fraction(value) - Fraction(total, count)) <= abs(Fraction(total, count)) / 10**15


def test_averages_have_the_digits_of_postgresql(served: Served) -> None:  # noqa: F811
    _, connection = served
    chance = random.Random(1)
    for scale in (0, 2, 7):
        kind = column_type(f"numeric(30,{scale})")
        for _ in range(150):
            values = [
                chance.randint(-(10 ** chance.randint(1, 15)), 10**6) for _ in range(chance.randint(1, 7))
            ]
            rows = ", ".join(f"({value}::numeric(30,0) / 10^{scale})" for value in values)
            asked = f"SELECT avg(v::numeric(30,{scale}))::text FROM (VALUES {rows}) AS t(v)"
            row = connection.execute(asked.encode()).fetchone()
            assert row is not None
            assert format(average_value(kind, sum(values), len(values)), "f") == row[0], values


codes = st.integers(0, 4)
contributions = st.none() | st.builds(
    Contribution, st.sampled_from([b"", b"t"]), st.tuples(codes, codes), st.integers(0, 1), st.integers(-3, 3)
)


ENDS = [(low, high) for low in range(5) for high in range(5)]
EVERYWHERE = PointIndex(4, True)
EVERYWHERE.insert_many(
    range(2 * 625), [b"", b"t"] * 625, [(*x, *z) for x in ENDS for z in ENDS for _ in "ab"]
)


def gains(old: Contribution | None, new: Contribution | None) -> list[Gain]:
    trees = SumTrees(EVERYWHERE, 2)
    if old is not None:
        trees.step(old.topic, old.topic, None, old[1:])
    if old is not None and new is not None and old.topic == new.topic:
        return trees.step(old.topic, old.topic, old[1:], new[1:])
    found = [] if old is None else trees.step(old.topic, old.topic, old[1:], None)
    return found if new is None else found + trees.step(new.topic, new.topic, None, new[1:])


@given(contributions, contributions)
def test_every_range_gains_what_the_rows_in_it_gained(
    old: Contribution | None, new: Contribution | None
) -> None:
    """By brute force over all subscriptions of a small domain of two ranges."""
    pieces = gains(old, new)
    for topic in (b"", b"t"):
        for x, z in ((x, z) for x in ENDS for z in ENDS):
            expected = [0, 0]
            for row, sign in ((old, -1), (new, 1)):
                if (
                    row is not None
                    and row.topic == topic
                    and x[0] <= row.point[0] <= x[1]
                    and z[0] <= row.point[1] <= z[1]
                ):
                    expected = [expected[0] + sign * row.number, expected[1] + sign * row.total]
            found = [
                (number, total)
                for piece_topic, region, number, total in pieces
                for box in region
                if piece_topic == topic
                and all(code in side for code, side in zip((*x, *z), box, strict=True))
            ]
            assert len(found) <= 1
            assert list(found[0] if found else (0, 0)) == expected


# -- tables that extend others -------------------------------------------------------------------------------------
def test_a_parent_sees_the_rows_of_its_children(served: Served) -> None:  # noqa: F811
    api, connection = served
    parent = api.table({"k": "integer", "x": "integer"}, ["k"])
    child, grandchild = f"{parent}_c", f"{parent}_g"
    for name, above, column in ((child, parent, "a"), (grandchild, child, "b")):
        body = {"name": name, "extends": above, "columns": [{"name": column, "type": "text"}]}
        definition = api.call("POST", "/v1/tables", json=body)
        assert api.call("POST", "/v1/tables", json=definition) == definition, "the same definition again"
    assert [column["name"] for column in definition["columns"]] == ["k", "x", "a", "b"]
    queries = [
        f"SELECT * FROM {parent} WHERE x > 2",
        f"SELECT SUM(x) FROM {parent}",
        f"SELECT k, a FROM {child} WHERE x > 2",
    ]
    first = [api.subscribe(query) for query in queries]
    start = api.publish(grandchild, [{"op": "insert", "row": {"k": 1, "x": 5, "a": "q", "b": "r"}}])[
        "last_seq"
    ]
    api.publish(child, [{"op": "insert", "row": {"k": 2, "x": 1, "a": "s"}}])
    api.publish(parent, [{"op": "insert", "row": {"k": 3, "x": 9}}])
    api.publish(
        grandchild, [{"op": "update", "key": {"k": 1}, "set": {"b": "only the grandchild sees this"}}]
    )
    for table, key in ((parent, 1), (child, 3), (grandchild, 2)):
        with pytest.raises(Refused) as refused:
            api.publish(table, [{"op": "insert", "row": {"k": key}}])
        assert refused.value.status == 409
    for query, made in zip(queries, first, strict=True):
        got = api.result(made["id"])["result"]
        rows = connection.execute(query.encode()).fetchall()
        answer = [tuple(row.values()) for row in got["rows"]] if "rows" in got else [(got["value"],)]
        assert sorted(answer) == sorted(rows)
    with api.socket() as listener:
        listener.attach(first[0]["id"], start - 1)
        listener.pong()
        assert [frame["change"]["add"] for frame in listener.of(first[0]["id"], "change")] == [
            [{"k": 1, "x": 5}],
            [{"k": 3, "x": 9}],
        ]
    for table in (parent, child, grandchild):
        with pytest.raises(Refused):
            api.call("DELETE", f"/v1/tables/{table}")
    for made in first:
        api.call("DELETE", f"/v1/subscriptions/{made['id']}")
    with pytest.raises(Refused, match="is extended by"):
        api.call("DELETE", f"/v1/tables/{child}")
    for table in (grandchild, child, parent):
        api.call("DELETE", f"/v1/tables/{table}")


def test_averages_of_the_same_number_with_other_digits_are_the_same() -> None:
    """15000 / 10000 has more digits than 3 / 2: one that moves from one to the other is not notified."""
    form = SumForm("avg", "AVG", parse("SELECT AVG(y) FROM t"), cast(Ranges, None), 1)
    many = {"value": written(average_value(column_type("integer"), 15_000, 10_000))}
    few = {"value": written(average_value(column_type("integer"), 3, 2))}
    assert many != few
    assert form.difference(many, few) is None
    assert form.difference(many, {"value": None}) == {"value": None}
    assert form.difference(few, {"value": "1.6"}) == {"value": "1.6"}
