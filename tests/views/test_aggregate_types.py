"""Aggregates of expressions and HAVING: types, bounds and comparisons as PostgreSQL has them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from prosem.language.view_parse import parse_view
from prosem.language.view_syntax import AggregateCall
from prosem.store.embedded import EmbeddedPostgres
from prosem.types.shared.exact import average_value, sum_value, units
from prosem.values.errors import LanguageError
from prosem.values.numerics import display_scale
from prosem.views.aggregate_types import CompiledAggregate, compile_aggregate, compile_having
from prosem.views.expressions import EvaluationError
from tests.support.compiled import ALL, Connection, connect, type_name
from tests.support.effort import examples
from tests.support.expressions import ROWS, expressions, numbers, resolve

FUNCTIONS = st.sampled_from(["COUNT", "SUM", "AVG", "MIN", "MAX"])
IDS = st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=8, unique=True)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[Connection]:
    with connect(postgres) as made:
        yield made


def compiled(text: str) -> CompiledAggregate:
    sql = f"SELECT id, {text} AS v FROM t GROUP BY id"
    call = parse_view(sql).items[1].expression
    assert isinstance(call, AggregateCall)
    return compile_aggregate(call, resolve, sql)


def computed(made: CompiledAggregate, ids: list[int]) -> Any:
    """The aggregate of the rows by the exact arithmetic of the server."""
    if made.argument is None:
        return len(ids)
    found = [made.argument.evaluate([ALL[id]]) for id in ids]
    values, kind = [value for value in found if value is not None], made.argument.type
    if made.function == "count":
        return len(values)
    if not values:
        return None
    if made.function in ("min", "max"):
        return (min if made.function == "min" else max)(values)
    total = sum(units(kind, value) for value in values)
    scale = max(map(display_scale, values)) if kind.name == "numeric" else None
    if made.function == "sum":
        return sum_value(kind, total, scale)
    return average_value(kind, total, len(values), scale)


@settings(max_examples=examples(150))
@given(text=numbers(2), function=FUNCTIONS, ids=IDS)
@example(text="i", function="SUM", ids=[1, 2, 3])
@example(text="b", function="SUM", ids=[1, 2, 3])
@example(text="n", function="MIN", ids=[1, 2, 3])
@example(text="m", function="AVG", ids=list(range(9)))
@example(text="CASE WHEN f THEN n ELSE m END", function="AVG", ids=list(range(9)))
@example(text="CAST(d AS numeric)", function="SUM", ids=list(range(9)))
def test_aggregates_of_numbers(connection: Connection, text: str, function: str, ids: list[int]) -> None:
    call = f"{function}({text})"
    made = compiled(call)
    sql = f"SELECT {call} AS v FROM t WHERE id = ANY('{{{', '.join(map(str, ids))}}}')"
    assert made.type.name == type_name(connection, sql)
    assert made.nullable == (function != "COUNT" and made.argument is not None and made.argument.nullable)
    try:
        value = computed(made, ids)
    except EvaluationError:
        with pytest.raises(psycopg.DataError):
            connection.execute(sql.encode())
        return
    try:
        row = connection.execute(sql.encode()).fetchone()
    except psycopg.DataError:  # of doubles PostgreSQL adds up one after the other
        assert made.type.name == "double precision"
        return
    assert row is not None
    if isinstance(value, Decimal) and function in ("MIN", "MAX"):
        assert value == row[0]  # equal values with other decimals: any of them is the least
    elif isinstance(value, Decimal):
        assert str(value) == str(row[0])
    elif not isinstance(value, float) or function in (
        "MIN",
        "MAX",
    ):  # PostgreSQL rounds sums of doubles at each step
        assert value == row[0]
    if isinstance(value, Decimal):
        assert made.type.read(str(value)) == value


@settings(max_examples=examples(50))
@given(text=expressions(2), function=st.sampled_from(["COUNT", "MIN", "MAX"]), ids=IDS)
def test_aggregates_of_anything(connection: Connection, text: str, function: str, ids: list[int]) -> None:
    made = compiled(f"{function}({text})")
    assert made.argument is not None
    assume(function == "COUNT" or made.argument.type.name != "boolean")  # PostgreSQL has no MIN of booleans
    sql = f"SELECT {function}({text}) AS v FROM t WHERE id = ANY('{{{', '.join(map(str, ids))}}}')"
    assert made.type.name == type_name(connection, sql)
    try:
        row = connection.execute(sql.encode()).fetchone()
    except psycopg.DataError:
        with pytest.raises(EvaluationError):
            computed(made, ids)
        return
    assert row is not None
    assert computed(made, ids) == row[0]


@pytest.mark.parametrize("call", ["SUM(t)", "AVG(f)", "SUM(day)", "AVG(t || u)", "SUM('1'::text)"])
def test_aggregates_that_postgresql_does_not_have(connection: Connection, call: str) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(f"SELECT {call} FROM t".encode())
    with pytest.raises(LanguageError, match="takes numbers"):
        compiled(call)


@pytest.mark.parametrize("function", ["MIN", "MAX"])
def test_jsonb_has_no_order(function: str) -> None:
    with pytest.raises(LanguageError, match="jsonb"):
        compiled(f"{function}(CAST('[]' AS jsonb))")
    assert compiled("COUNT(CAST('[]' AS jsonb))").type.name == "bigint"


CONSTANTS = [
    "0",
    "1",
    "-2.5",
    "0.1",
    "'3'",
    "NULL",
    "1e400",
    "9223372036854775808",
    "CAST('1' AS numeric) + 1",
]


@settings(max_examples=examples(150))
@given(
    text=st.sampled_from(
        ["COUNT(*)", "COUNT(i)", "SUM(i)", "SUM(b)", "AVG(j)", "MIN(m)", "MAX(d)", "SUM(n * 2)"]
    ),
    op=st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    constant=st.sampled_from(CONSTANTS),
    is_turned=st.booleans(),
    ids=IDS,
)
def test_having(
    connection: Connection, text: str, op: str, constant: str, is_turned: bool, ids: list[int]
) -> None:
    condition = f"{constant} {op} {text}" if is_turned else f"{text} {op} {constant}"
    rows = f"FROM t WHERE id = ANY('{{{', '.join(map(str, ids))}}}')"
    try:
        row = connection.execute(f"SELECT ({condition}) IS TRUE {rows}".encode()).fetchone()
    except psycopg.Error:
        row = None
    sql = f"SELECT id FROM t GROUP BY id HAVING {condition}"
    (having,) = parse_view(sql).having
    if row is None:
        with pytest.raises(LanguageError):
            compile_having(having, resolve, sql)
        return
    made = compile_having(having, resolve, sql)
    assert made.is_true(computed(made.aggregate, ids)) is row[0]
