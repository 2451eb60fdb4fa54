"""Names, terms and extents against tables."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from cn.model.geometry import EVERYTHING, Extent, Interval
from prosem.language.extents import prefix, successor
from prosem.language.parse import parse
from prosem.language.resolve import (
    check_parameters,
    column,
    conjunction,
    evaluate,
    extent,
    normal_form,
    owner,
    tables,
)
from prosem.language.syntax import Atom, ColumnName, Term
from prosem.values.columns import INT64_MAX, INT64_MIN, column_type
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import Column, Table

TYPES = {
    "x": "integer",
    "d": "double precision",
    "y": "numeric(6,2)",
    "name": "text",
    "day": "date",
    "big": "bigint",
    "at": "timestamptz",
    "ok": "boolean",
    "j": "jsonb",
    "b": "bytea",
    "wide": "numeric(1000,0)",
}
T = Table(1, "t", tuple(Column(name, column_type(kind)) for name, kind in TYPES.items()), ("x",))
U = Table(2, "u", (Column("x", column_type("integer")), Column("z", column_type("text"))), ("x",))
WIDE = column_type("numeric(1000,0)")
FROM = "SELECT * FROM t WHERE "


# -- names -------------------------------------------------------------------------------------------------
def test_names() -> None:
    query = parse("SELECT * FROM t JOIN u USING (x) WHERE z > 'a' AND t.d > 1 AND x > 1 AND nosuch = 1")
    assert tables(query, {"t": T, "u": U}) == (T, U)
    owners = [
        owner(query, (T, U), ColumnName(*name)).name for name in (("z",), ("d", "t"), ("x",), ("x", "u"))
    ]
    assert owners == ["u", "t", "t", "u"]
    assert column(query, U, ColumnName("z")).type.name == "text"
    nosuch = query.where[0][-1].column
    for resolve in (lambda: column(query, T, nosuch), lambda: owner(query, (T, U), nosuch)):
        with pytest.raises(LanguageError, match="no column nosuch") as caught:
            resolve()
        assert caught.value.highlight.split("\n")[1].count("^") == len("nosuch")
    with pytest.raises(LanguageError, match="its columns are x, z"):
        column(query, U, ColumnName("d"))
    with pytest.raises(LanguageError, match=r"v\.x"):
        owner(query, (T, U), ColumnName("x", "v"))
    with pytest.raises(LanguageError, match=r"u\.x is no column of the table t"):
        column(query, T, ColumnName("x", "u"))
    with pytest.raises(LanguageError, match="there is no table u; the tables are t") as caught:
        tables(query, {"t": T})
    assert caught.value.column == query.sql.index("u USING") + 1


def test_a_column_of_two_tables_is_ambiguous_without_using() -> None:
    other = Table(3, "v", (Column("z", column_type("text")), Column("x", column_type("integer"))), ("x",))
    query = parse("SELECT * FROM u JOIN v USING (x) WHERE z > 'a'")
    with pytest.raises(LanguageError, match=r"ambiguous; write one of u\.z, v\.z"):
        owner(query, (U, other), query.where[0][0].column)


def test_parameters() -> None:
    query = parse(FROM + "x BETWEEN :lo AND :hi")
    check_parameters(query, {"lo": 1, "hi": 2})
    for params, at in [
        ({"lo": 1}, "/params/hi"),
        ({}, "/params/hi"),
        ({"lo": 1, "hi": 2, "z/": 3}, "/params/z~1"),
    ]:
        with pytest.raises(InputError) as caught:
            check_parameters(query, params)
        assert caught.value.at == at


# -- terms -------------------------------------------------------------------------------------------------
def term_of(text: str) -> Term:
    return parse(f"{FROM}x = {text}").where[0][0].args[0]


@pytest.mark.parametrize(
    ("text", "params", "kind", "value"),
    [
        ("7 / 2", {}, "integer", 3),
        ("-7 / 2", {}, "integer", -3),
        ("7 / -2", {}, "bigint", -3),
        ("7 / 2", {}, "numeric(6,2)", 3),
        ("7 / 2.0", {}, "integer", Fraction(7, 2)),
        (":a / 2", {"a": 7}, "integer", 3),
        (":a / 2", {"a": 7}, "numeric(6,2)", Fraction(7, 2)),
        (":a / 2", {"a": "7.1"}, "numeric(6,2)", Fraction(71, 20)),
        (":a / 2", {"a": 7}, "double precision", 3.5),
        (":a + :b", {"a": 0.1, "b": 0.2}, "double precision", 0.1 + 0.2),
        (":a + :b", {"a": 0.1, "b": 0.2}, "numeric(6,2)", Fraction(3, 10)),
        ("0.1 + 0.2", {}, "double precision", Fraction(3, 10)),
        (":a - :b", {"a": 5, "b": 1.5}, "integer", Fraction(7, 2)),
        ("2 * (3 + :a)", {"a": -5}, "integer", -4),
        ("'7' / 2", {}, "integer", 3),
        ("1 + NULL", {}, "integer", None),
        (":a / 0", {"a": None}, "integer", None),
        ("-:a", {"a": 3}, "integer", -3),
        (":a", {"a": None}, "date", None),
        (":a", {"a": 5}, "integer", 5),
        ("'5.5'", {}, "integer", "5.5"),
        (":a", {"a": "5.5"}, "numeric(6,2)", "5.5"),
        (":a", {"a": 0.1}, "numeric(6,2)", Decimal("0.1")),
        (":a", {"a": 0.1}, "double precision", 0.1),
        (":a", {"a": "x"}, "text", "x"),
        (":a", {"a": True}, "boolean", True),
        (":a", {"a": "2024-01-01"}, "date", "2024-01-01"),
        ("1e400", {}, "numeric(1000,0)", Fraction(10**400)),
    ],
)
def test_the_value_of_a_term(text: str, params: dict[str, Any], kind: str, value: Any) -> None:
    found = evaluate(term_of(text), params, column_type(kind))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "params", "kind", "at"),
    [
        ("1 / 0", {}, "integer", "/sql"),
        ("1.5 / 0", {}, "double precision", "/sql"),
        (":a / :b", {"a": 1, "b": 0}, "integer", "/params/a"),
        (":a / :b", {"a": 1, "b": 0}, "double precision", "/params/a"),
        (":a * :a", {"a": 1e200}, "double precision", "/params/a"),
        ("1 + :b", {"b": "z"}, "numeric(6,2)", "/params/b"),
        ("1 + :b", {"b": "1"}, "integer", "/params/b"),
        ("1 + :b", {"b": True}, "integer", "/params/b"),
        ("1 + :b", {"b": [1]}, "integer", "/params/b"),
        ("1 + :b", {"b": 10**400}, "double precision", "/params/b"),
        ("1 + :b", {}, "integer", "/params/b"),
        ("1 + TRUE", {}, "integer", "/sql"),
        ("1 + 'x'", {}, "integer", "/sql"),
        ("1 + 1", {}, "text", "/sql"),
        ("1 + 1", {}, "date", "/sql"),
        ("1e4000 * 1e4000", {}, "integer", "/sql"),
        (":a", {"a": "5"}, "integer", "/params/a"),
        (":a", {"a": "5"}, "bigint", "/params/a"),
        (":a", {"a": "5"}, "double precision", "/params/a"),
        (":a", {"a": "true"}, "boolean", "/params/a"),
        (":a", {"a": 1}, "boolean", "/params/a"),
        (":a", {"a": True}, "integer", "/params/a"),
        (":a", {"a": {}}, "text", "/params/a"),
        (":a", {"a": 5}, "date", "/params/a"),
        (":a", {"a": "noon"}, "timestamptz", "/params/a"),
        (":a", {"a": "***"}, "bytea", "/params/a"),
        (":a", {"a": float("inf")}, "integer", "/params/a"),
        ("1 + :a", {"a": float("nan")}, "double precision", "/params/a"),
        (":a", {"a": float("nan")}, "double precision", "/params/a"),
        (":a", {"a": 10**20_000}, "integer", "/params/a"),
        (":a", {"a": "1e20000"}, "numeric(6,2)", "/params/a"),
        ("5", {}, "text", "/sql"),
        ("TRUE", {}, "integer", "/sql"),
        ("'x'", {}, "integer", "/sql"),
        ("1", {}, "boolean", "/sql"),
        ("'2024-02-30'", {}, "date", "/sql"),
    ],
)
def test_a_wrong_term(text: str, params: dict[str, Any], kind: str, at: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate(term_of(text), params, column_type(kind))
    assert caught.value.at == at
    assert isinstance(caught.value, LanguageError) is (at == "/sql")


# -- extents -----------------------------------------------------------------------------------------------
def extent_of(condition: str, params: dict[str, Any] | None = None) -> Extent:
    (atom,) = parse(FROM + condition).where[0]
    return extent(atom, T.columns[T.position[atom.column.name]], params or {})


@pytest.mark.parametrize(
    ("condition", "intervals"),
    [
        ("x > 1.5", [(2, None)]),
        ("x <= -1.5", [(None, -2)]),
        ("x <> 5", [(None, 4), (6, None)]),
        ("x <> 1.5", [(None, None)]),
        ("x = 1.5", []),
        ("x IN (3, 1, 1.5, NULL, 3)", [(1, 1), (3, 3)]),
        ("x = NULL", []),
        ("x <> NULL", []),
        ("y >= 1.005", [(101, None)]),
        ("y < 1.005", [(None, 100)]),
        ("x IS NOT NULL", [(None, None)]),
        ("ok", [(1, 1)]),
        ("name LIKE '%'", [(None, None)]),
        ("name NOT LIKE '%%'", []),
        ("name = 'a'", [("a\0\1", "a\0\1")]),
        ("name > 'a'", [("a\0\2", None)]),
        ("name LIKE 'a\\%'", [("a%\0\1", "a%\0\1")]),
        ("day = '2024-01-01'", [(738886, 738886)]),
        ("x > 99999999999999999999", []),
        ("x < 99999999999999999999", [(None, None)]),
        ("x >= -99999999999999999999", [(None, None)]),
        ("x <> 99999999999999999999", [(None, None)]),
        ("x = 99999999999999999999", []),
        ("wide > 99999999999999999999", [(WIDE.code(Decimal(10**20)), None)]),
        ("wide <> 1e2000", [(None, None)]),
        ("x < " + "9" * 5000, [(None, None)]),
        (f"big > {INT64_MAX}", []),
        (f"big >= {INT64_MAX}", [(INT64_MAX, None)]),
        (f"big < {INT64_MIN}", []),
    ],
)
def test_extents(condition: str, intervals: list[tuple[Any, Any]]) -> None:
    assert extent_of(condition) == Extent(tuple(Interval(low, high) for low, high in intervals))


def test_extents_of_null_and_of_prefixes() -> None:
    assert extent_of("j IS NULL") == Extent((), True)
    assert extent_of("j IS NOT NULL") == Extent((EVERYTHING,))
    assert extent_of("name LIKE 'ab%'") == Extent((Interval("ab", "ac", False, True),))
    assert extent_of("name NOT LIKE :p", {"p": "ab%"}) == Extent(
        (Interval(None, "ab", False, True), Interval("ac", None))
    )
    assert extent_of("name LIKE '\U0010ffff%'") == Extent((Interval("\U0010ffff", None),))
    assert extent_of("name LIKE :p", {"p": None}) == Extent(())
    assert (prefix("a\\_b%"), successor("a\U0010ffff\U0010ffff")) == (("a_b", True), "b")


@pytest.mark.parametrize(
    ("condition", "params", "at", "says"),
    [
        ("name > 5", {}, "/sql", "name is of type text.*expected a text"),
        ("name LIKE '%a'", {}, "/sql", "prefix"),
        ("name LIKE 'a_'", {}, "/sql", "prefix"),
        ("name LIKE 'a%b%'", {}, "/sql", "prefix"),
        ("name LIKE 'a\\'", {}, "/sql", "escape"),
        ("name LIKE :p", {"p": "%a"}, "/params/p", "prefix"),
        ("name LIKE :p", {"p": 5}, "/params/p", "text"),
        ("x LIKE '1%'", {}, "/sql", "LIKE applies to text"),
        ("j = 'a'", {}, "/sql", "cannot be compared"),
        ("j IN ('a', 'b')", {}, "/sql", "cannot be compared"),
        ("j LIKE 'a%'", {}, "/sql", "cannot be compared"),
        ("x = TRUE", {}, "/sql", "expected a number"),
        ("x < :a", {"a": "z"}, "/params/a", "expected a number"),
    ],
)
def test_wrong_conditions(condition: str, params: dict[str, Any], at: str, says: str) -> None:
    query = parse(f"{FROM}\n  {condition}")
    with pytest.raises(InputError, match=says) as caught:
        normal_form(query, T, params)
    assert caught.value.at == at
    if isinstance(caught.value, LanguageError):
        assert (caught.value.line, caught.value.column) == (2, 3)


def test_conjunctions() -> None:
    def of(where: str) -> dict[int, Extent] | None:
        return conjunction(parse(FROM + where).where[0], T, {})

    assert of("x > 1 AND x < 2") is None
    assert of("name > 'a' AND name < 'a'") is None
    assert of("x = 1 AND x IS NULL") is None
    assert of("x BETWEEN 1 AND 5 AND y = 1 AND x <> 3") == {
        0: Extent((Interval(1, 2), Interval(4, 5))),
        2: Extent((Interval(100, 100),)),
    }
    assert of("TRUE") == {}
    assert normal_form(parse(FROM + "FALSE"), T, {}) == ()
    assert normal_form(parse("SELECT * FROM t"), T, {}) == ({},)
    assert len(normal_form(parse(FROM + "x > 1 OR x >= 2 OR (x > 5 AND x < 3)"), T, {})) == 1
    with pytest.raises(LanguageError, match="no column nosuch"):
        conjunction((Atom(ColumnName("nosuch"), "is null"),), T, {})


def test_many_exceptions_of_one_column() -> None:
    """Quadratic work would take minutes here."""
    numbers = [2 * n for n in range(8_000)]
    query = parse(FROM + f"x NOT IN ({', '.join(map(str, numbers))}) AND x > 10")
    (found,) = normal_form(query, T, {})
    assert found[0].intervals[:2] == (Interval(11, 11), Interval(13, 13))
    assert len(found[0].intervals) == 8_000 - 5
