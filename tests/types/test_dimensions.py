"""Every type names the dimensions in which its subscriptions differ, and gives the constants of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prosem.language.dimensions import compared, radii
from prosem.language.parse import parse
from prosem.types import registry
from prosem.types.registry import TYPES
from prosem.values.columns import column_type
from prosem.values.model import Column, Table


def table(number: int, name: str, **columns: str) -> Table:
    made = tuple(Column(column, column_type(kind)) for column, kind in columns.items())
    return Table(number, name, made, primary_key=("k",))


T = table(1, "t", k="integer", x="integer", y="numeric(8,2)", e="text", m="timestamptz")
S = table(2, "s", k="bigint", x="integer", z="double precision")
PARAMS = {"lo": 3, "hi": 9, "e": "a", "some": ["b", None, "c"], "r": "2.5", "n": 4}
WHERE = "WHERE x BETWEEN :lo AND :hi AND e IN :some"
RANGE = [("x >=", [3]), ("x <=", [9]), ("e =", ["b", "c"])]
CASES: dict[str, tuple[str, Any, list[tuple[str, list[Any]]]]] = {
    "range-min": (f"SELECT MIN(y) FROM t {WHERE}", None, RANGE),
    "range-max": (f"SELECT MAX(y) FROM t {WHERE}", None, RANGE),
    "range-count": (f"SELECT COUNT(*) FROM t {WHERE}", None, RANGE),
    "range-sum": (f"SELECT SUM(y) FROM t {WHERE}", None, RANGE),
    "range-avg": (f"SELECT AVG(y) FROM t {WHERE}", None, RANGE),
    "distinct": ("SELECT DISTINCT y FROM t WHERE x >= :lo AND e = :e", None, [("x >=", [3]), ("e =", ["a"])]),
    "aggregates": (f"SELECT MIN(y), MAX(y) FROM t {WHERE}", None, RANGE),
    "top-k": (f"SELECT k, y FROM t {WHERE} ORDER BY y LIMIT 5", None, RANGE),  # the limit is the group's
    "filter": (
        "SELECT * FROM t WHERE NOT x > :lo AND e LIKE 'a%' OR e <> :e AND x <= :lo OR y IS NULL",
        None,
        [("x <=", [3]), ("e <>", ["a"])],
    ),
    "value": (
        "SELECT y FROM t WHERE k = :n", {"may": "0.5", "must": ":r"},
        [("k =", [4]), ("NOTIFY may", [0.5]), ("NOTIFY must", [2.5])],
    ),
    "notified-aggregate": (
        f"SELECT AVG(y) FROM t {WHERE}", {"percent": ":r"}, [*RANGE, ("NOTIFY percent", [2.5])],
    ),
    "group-by": (
        "SELECT e, COUNT(*), MIN(y) FROM t WHERE x >= :lo GROUP BY e HAVING COUNT(*) > :n AND MAX(y) <> 2 * :n",
        None,
        [("x >=", [3]), ("HAVING COUNT(*) >=", [4]), ("HAVING MAX('y') <>", [8])],
    ),
    "select-join": (
        "SELECT * FROM t JOIN s USING (k) WHERE t.x >= :lo AND s.x = :hi AND z < 5",
        None,
        [("t.x >=", [3]), ("s.x =", [9]), ("s.z <=", [5])],
    ),
}  # fmt: skip


def dimensions(sql: str, notify: Any) -> list[tuple[str, list[Any]]]:
    query = parse(sql)
    form = registry.recognise(query, [{"t": T, "s": S}[name] for name in query.tables], notify)
    return [(one.name, one.constants(PARAMS)) for one in registry.dimensions(form)]


@pytest.mark.parametrize("name", sorted(kind.name for kind in TYPES))
def test_the_dimensions_of_each_type(name: str) -> None:
    sql, notify, expected = CASES[name]
    assert dimensions(sql, notify) == expected


def test_a_value_without_radius_has_its_key_alone_and_durations_are_seconds() -> None:
    assert dimensions("SELECT y FROM t WHERE k = :n", None) == [("k =", [4])]
    assert dimensions("SELECT m FROM t", {"change": "PT1M30S"}) == [("NOTIFY change", [90.0])]


def test_what_has_no_value_is_none() -> None:
    query = parse("SELECT * FROM t WHERE x < :lo / 0 AND k IN :some AND y > NULL")
    assert [one.constants(PARAMS) for one in compared(query, [T])] == [[None]] * 3
    (radius,) = radii({"change": ":r"})
    assert radius.constants({}) == radius.constants({"r": True}) == [None]
    assert radii(None) == ()


@given(
    st.lists(st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.integers(-9, 9)), max_size=8)
)
def test_every_comparison_counts_once(terms: list[tuple[str, int]]) -> None:
    """Against the text: each different comparison of an OR is one dimension with its constant."""
    text = " OR ".join(f"x {op} {number}" for op, number in terms)
    query = parse(f"SELECT * FROM t WHERE {text}" if terms else "SELECT * FROM t")
    ends = {"<": "<=", ">": ">="}
    expected = [(f"x {ends.get(op, op)}", number) for op, number in dict.fromkeys(terms)]
    found = [(one.name, *one.constants({})) for one in compared(replace(query, per="transaction"), [T])]
    assert sorted(found) == sorted(expected)
