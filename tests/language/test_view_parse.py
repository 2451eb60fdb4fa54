"""The SELECT of views: what is read, and that everything else is refused by name, with its place."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from prosem.language.syntax import ColumnName, Source
from prosem.language.view_parse import parse_view
from prosem.language.view_syntax import (
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expression,
    HavingCondition,
    Literal,
    Operation,
    ViewItem,
)
from prosem.values.errors import LanguageError

X, Y = ColumnRef(ColumnName("x")), ColumnRef(ColumnName("y"))


def read(text: str) -> Any:
    """The expression that a text is read as."""
    return parse_view(f"SELECT {text} AS v FROM t").items[0].expression


def op(name: str, *args: Expression) -> Operation:
    return Operation(name, args)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.x", ColumnRef(ColumnName("x", "t"))),
        ('"X"', ColumnRef(ColumnName("X"))),
        ("X", X),
        ("1", Literal(1)),
        ("-1", Literal(-1)),
        ("- (2147483648)", Literal(-2147483648)),
        ("1.50", Literal(Decimal("1.50"))),
        ("1e3", Literal(Decimal("1000"))),
        ("-.5", Literal(Decimal("-.5"))),
        ("'it''s'", Literal("it's")),
        ("TRUE", Literal(True)),
        ("NULL", Literal(None)),
        ("x + y * 2", op("+", X, op("*", Y, Literal(2)))),
        ("x - y - 1", op("-", op("-", X, Y), Literal(1))),
        ("x / y", op("/", X, Y)),
        ("-x * y", op("*", op("neg", X), Y)),
        ("x || y || 'a'", op("||", op("||", X, Y), Literal("a"))),
        ("x || y = 'a'", op("=", op("||", X, Y), Literal("a"))),
        ("x <> y", op("<>", X, Y)),
        ("x != y", op("<>", X, Y)),
        ("NOT x = y", op("not", op("=", X, Y))),
        ("x AND y AND NOT x", op("and", X, Y, op("not", X))),
        ("x OR y AND x", op("or", X, op("and", Y, X))),
        ("x IS NULL", op("is null", X)),
        ("x IS NOT NULL", op("is not null", X)),
        ("x = y IS NULL", op("is null", op("=", X, Y))),
        ("x IS TRUE", op("is true", X)),
        ("x IS NOT FALSE", op("not", op("is false", X))),
        ("x BETWEEN 1 AND y", op("between", X, Literal(1), Y)),
        ("x NOT BETWEEN 1 AND y", op("not between", X, Literal(1), Y)),
        ("x IN (1, NULL)", op("in", X, Literal(1), Literal(None))),
        ("x NOT IN (1, y)", op("not in", X, Literal(1), Y)),
        ("x LIKE 'a%'", op("like", X, Literal("a%"))),
        ("x NOT LIKE 'a%'", op("not like", X, Literal("a%"))),
        ("abs(x)", Call("abs", (X,))),
        ("UPPER(Lower(x))", Call("upper", (Call("lower", (X,)),))),
        ("COALESCE(x, y, 0)", Call("coalesce", (X, Y, Literal(0)))),
        ("CASE WHEN x THEN y END", Case(((X, Y),))),
        ("CASE x WHEN 1 THEN y ELSE 2 END", Case(((Literal(1), Y),), Literal(2), X)),
        ("CAST(x AS double precision)", Cast(X, "double precision")),
        ("x::numeric", Cast(X, "numeric")),
        ("x::numeric(5)", Cast(X, "numeric(5,0)")),
        ("-x::decimal(12, 2)", op("neg", Cast(X, "numeric(12,2)"))),
        ("date '2024-02-29'", Cast(Literal("2024-02-29"), "date")),
        ("x::int8", Cast(X, "bigint")),
    ],
)
def test_expressions(text: str, expected: Expression) -> None:
    assert read(text) == expected


def test_a_chain_may_be_long() -> None:
    """AND and OR do not count as nested, so that no list of conditions is too long."""
    assert len(read(" AND ".join(["x > 1"] * 2_000)).args) == 2_000
    assert len(read(f"x IN ({', '.join(map(str, range(5_000)))})").args) == 5_001


def test_a_whole_view() -> None:
    text = (
        "SELECT a.g, COUNT(*), SUM(a.x * b.y) AS total FROM t AS a LEFT JOIN u b ON a.k = b.k WHERE b.y > 0 "
        "GROUP BY a.g HAVING COUNT(*) >= 2 AND 5 > MIN(y) AND SUM(x) BETWEEN -1 AND 1.5;"
    )
    query = parse_view(text)
    a, b = (lambda name: ColumnName(name, "a")), (lambda name: ColumnName(name, "b"))
    product = op("*", ColumnRef(a("x")), ColumnRef(b("y")))
    count, sum_x = AggregateCall("count", None), AggregateCall("sum", X)
    assert query.items == (
        ViewItem("g", ColumnRef(a("g"))),
        ViewItem("count", count),
        ViewItem("total", AggregateCall("sum", product)),
    )
    assert query.sources == (Source("t", "a"), Source("u", "b", "left", (), ((a("k"), b("k")),)))
    assert query.where == op(">", ColumnRef(b("y")), Literal(0))
    assert query.by == (a("g"),)
    assert query.having == (
        HavingCondition(count, ">=", Literal(2)),
        HavingCondition(AggregateCall("min", Y), "<", Literal(5)),
        HavingCondition(sum_x, ">=", Literal(-1)),
        HavingCondition(sum_x, "<=", Literal(Decimal("1.5"))),
    )


def test_places() -> None:
    """Nodes know where they are written."""
    text = "SELECT k, x + 1 AS n FROM t WHERE lower(name) = 'a'"
    query = parse_view(text)
    item = query.items[1]
    assert text[slice(*item.place)] == "x + 1"
    assert query.where is not None
    assert isinstance(query.where, Operation)
    assert [text[slice(*part.place)] for part in query.where.args] == ["lower(name)", "'a'"]


REFUSED = [  # the text; what the message names; what is marked
    ("SELECT k, x, d AS x FROM t", "named x", "d"),
    ("SELECT g, COUNT(*), COUNT(d) FROM t GROUP BY g", "named count", "COUNT(d)"),
    ("SELECT k, x + 1 FROM t", "no name", "x + 1"),
    ("SELECT k, x::bigint FROM t", "no name", "x"),
    ("SELECT * FROM t", "name the columns", None),
    ("SELECT t.* FROM t", "name the columns", None),
    ("SELECT k FROM t WHERE x > :lo", "parameter :lo", ":lo"),
    ("SELECT k FROM t WHERE x IN :some", "parameter :some", ":some"),
    ("SELECT k FROM t ORDER BY k", "ORDER BY", "ORDER"),
    ("SELECT k FROM t LIMIT 3", "LIMIT", "LIMIT"),
    ("SELECT k FROM t OFFSET 3", "OFFSET", "OFFSET"),
    ("SELECT DISTINCT k FROM t", "DISTINCT", "DISTINCT"),
    ("SELECT k FROM t WHERE x IN (SELECT x FROM u)", "subquery", None),
    ("SELECT k FROM t WHERE x = (SELECT MIN(x) FROM u)", "subquery", None),
    ("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u)", "EXISTS", None),
    ("SELECT k FROM (SELECT k FROM t) AS s", "subquery", None),
    ("WITH s AS (SELECT 1) SELECT k FROM s", "WITH", None),
    ("SELECT k FROM t UNION SELECT k FROM u", "UNION", None),
    ("SELECT k, SUM(x) OVER () AS s FROM t", "OVER", None),
    ("SELECT g, SUM(x) FILTER (WHERE x > 1) AS s FROM t GROUP BY g", "FILTER", None),
    ("SELECT k, random() AS r FROM t", "RANDOM", "random"),
    ("SELECT k, nvl(x, 1) AS r FROM t", "NVL", "nvl(x, 1)"),
    ("SELECT k, nullif(x, 1) AS r FROM t", "NULLIF", None),
    ("SELECT k, concat(x, 'a') AS r FROM t", "concatenation", None),
    ("SELECT k, now() AS r FROM t", "NOW", None),
    ("SELECT k, x % 2 AS r FROM t", "%", None),
    ("SELECT k, x ~ 'a' AS r FROM t", "regular expression", None),
    ("SELECT k, x IS DISTINCT FROM 1 AS r FROM t", "IS DISTINCT FROM", None),
    ("SELECT k, x LIKE y AS r FROM t", "quoted pattern", None),
    ("SELECT k, x BETWEEN SYMMETRIC 1 AND 2 AS r FROM t", "SYMMETRIC", None),
    ("SELECT k, a < b < c AS r FROM t", "parentheses", "a < b < c"),
    ("SELECT k, x::smallint AS r FROM t", "smallint", None),
    ("SELECT k, x::real AS r FROM t", "real", None),
    ("SELECT k, x::varchar(5) AS r FROM t", "varchar", None),
    ("SELECT k, 1_000 AS r FROM t", "number", "_000"),
    ("SELECT k, 5x AS r FROM t", "number", "x"),
    ("SELECT a.k FROM t a FULL JOIN u b ON a.x = b.x", "FULL", None),
    ("SELECT a.k FROM t a CROSS JOIN u b", "CROSS", None),
    ("SELECT COUNT(*) AS n FROM t", "GROUP BY", "COUNT(*)"),
    ("SELECT k FROM t HAVING COUNT(*) > 1", "HAVING", None),
    ("SELECT COUNT(*) AS n FROM t GROUP BY x", "x of GROUP BY", "x"),
    ("SELECT x, d, COUNT(*) FROM t GROUP BY x", "column d", "d"),
    ("SELECT x, x + 1 AS y, COUNT(*) FROM t GROUP BY x", "y is an expression", "x + 1"),
    ("SELECT x, COUNT(*) FROM t GROUP BY x + 1", "GROUP BY", None),
    ("SELECT x, COUNT(*) FROM t GROUP BY ROLLUP (x)", "ROLLUP", None),
    ("SELECT x, COUNT(DISTINCT d) FROM t GROUP BY x", "DISTINCT in COUNT", None),
    ("SELECT x, SUM(d) + 1 AS s FROM t GROUP BY x", "SUM within", "SUM(d)"),
    ("SELECT x, SUM(MIN(d)) AS s FROM t GROUP BY x", "MIN within SUM", None),
    ("SELECT x, MEDIAN(d) AS s FROM t GROUP BY x", "MEDIAN", None),
    ("SELECT x, SUM(*) AS s FROM t GROUP BY x", "*", None),
    ("SELECT k FROM t WHERE COUNT(*) > 1", "COUNT within", None),
    ("SELECT x, COUNT(*) FROM t GROUP BY x HAVING x > 1", "HAVING", None),
    ("SELECT x, COUNT(*) FROM t GROUP BY x HAVING COUNT(*) > x", "not a constant", None),
    ("SELECT x, COUNT(*) FROM t GROUP BY x HAVING COUNT(*) > MIN(d)", "not a constant", None),
    ("SELECT x, COUNT(*) FROM t GROUP BY x HAVING COUNT(*) > 1 OR MIN(d) > 1", "HAVING", None),
    ("SELECT x, COUNT(*) FROM t GROUP BY x HAVING COUNT(*) > :n", "parameter :n", ":n"),
    ("DELETE FROM t", "a view is a SELECT", "DELETE"),
    ("SELECT k FROM t; SELECT k FROM u", "one single statement", ";"),
    ("SELEKT", "a view is a SELECT", "SELEKT"),
    ("", "empty", None),
    ("SELECT k", "FROM", None),
    ("SELECT k, FROM t", "comma", ","),
    ("SELECT k, CASE WHEN x THEN 1 FROM t", "syntax error", None),
]


@pytest.mark.parametrize(("text", "named", "marked"), REFUSED)
def test_what_is_not_served_is_named_and_marked(text: str, named: str, marked: str | None) -> None:
    with pytest.raises(LanguageError) as raised:
        parse_view(text)
    error = raised.value
    assert named.lower() in error.detail.lower()
    assert (error.at, error.line) == ("/sql", 1)
    assert error.column is not None
    if marked is not None:
        length = error.highlight.split("\n")[1].count("^")
        assert text[error.column - 1 : error.column - 1 + length] == marked


DEEP = [
    "(" * 40 + "x" + ")" * 40,
    "- " * 3_000 + "x",
    "NOT " * 3_000 + "x",
    "CASE WHEN x THEN " * 150 + "1" + " END" * 150,
    " + ".join(["x"] * 500),
]


@pytest.mark.parametrize("text", DEEP)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(LanguageError, match="nested"):
        parse_view(f"SELECT {text} AS v FROM t")
