"""A view's SELECT against tables: columns, types, NULLs, the key, and what is refused by which words."""

from __future__ import annotations

import pytest

from prosem.language.view_parse import parse_view
from prosem.values.errors import LanguageError
from prosem.values.model import Table
from prosem.views.definition import ViewDefinition, define
from tests.support.view_world import table

T = table(
    1,
    "t",
    {
        "k": "integer",
        "x": "integer",
        "d": "double precision",
        "name": "text",
        "doc": "jsonb",
        "n": "numeric(8,2)",
    },
    ["k"],
)
U = table(2, "u", {"k": "integer", "x": "bigint", "g": "text"}, ["k"])
W = table(3, "w", {"a": "integer", "b": "text", "x": "numeric(6,1)", "day": "date"}, ["a", "b"])
TABLES: dict[str, Table] = {one.name: one for one in (T, U, W)}


def defined(sql: str, **more: Table) -> ViewDefinition:
    return define(parse_view(sql), TABLES | more, 9, "v", "default")


def shown(sql: str, **more: Table) -> tuple[list[tuple[str, str, bool]], tuple[str, ...]]:
    view = defined(sql, **more).view
    return [(column.name, column.type.name, column.nullable) for column in view.columns], view.primary_key


def test_columns_have_names_types_and_nulls() -> None:
    columns, key = shown("SELECT k, x + 1 AS next, d, doc, n * 2 AS n2, k IS NULL AS no FROM t WHERE x > 0")
    assert columns == [
        ("k", "integer", False),
        ("next", "integer", True),
        ("d", "double precision", True),
        ("doc", "jsonb", True),
        ("n2", "numeric", True),
        ("no", "boolean", False),
    ]
    assert key == ("k",)


def test_the_right_side_of_a_left_join_may_be_null() -> None:
    columns, key = shown("SELECT t.k, u.k AS other, COALESCE(u.x, 0) AS x FROM t LEFT JOIN u ON t.x = u.x")
    assert columns == [("k", "integer", False), ("other", "integer", True), ("x", "bigint", False)]
    assert key == ("k", "other")


def test_a_view_is_a_table_of_its_tenant_that_names_its_inputs() -> None:
    sql = "SELECT a.k, b.k AS k2, w.a, w.b FROM t a JOIN t b ON a.x = b.k JOIN w ON w.x = a.x"
    view = define(parse_view(sql), TABLES, 12, "pairs", "acme").view
    assert (view.id, view.name, view.tenant, view.sql, view.parent) == (12, "pairs", "acme", sql, None)
    assert view.inputs == (T, W)
    assert view.definition()["primary_key"] == ["k", "k2", "a", "b"]


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT k, t.x, u.x AS y FROM t JOIN u USING (k)", ("k",)),
        ("SELECT t.k, t.x FROM t JOIN u USING (k)", ("k",)),
        ("SELECT u.k, t.x FROM t JOIN u USING (k)", ("k",)),
        ("SELECT k, t.x FROM t LEFT JOIN u USING (k)", ("k",)),
        ("SELECT t.k, u.k AS right_one FROM t LEFT JOIN u USING (k)", ("k",)),
        ("SELECT t.k, u.k AS uk, x FROM t JOIN u USING (x)", ("k", "uk")),
        ("SELECT k AS again, k FROM t", ("again",)),
        ("SELECT b.k, w.b, w.a FROM w JOIN t b ON b.x = w.a", ("a", "b", "k")),
        ("SELECT x, name, COUNT(*) FROM t GROUP BY name, x", ("name", "x")),
        ("SELECT t.x AS y, COUNT(*) FROM t GROUP BY x, t.x", ("y",)),
        ("SELECT x, COUNT(*) FROM t JOIN u USING (x) GROUP BY x", ("x",)),
    ],
)
def test_keys(sql: str, key: tuple[str, ...]) -> None:
    assert defined(sql).view.primary_key == key


def test_a_merged_column_has_the_common_type() -> None:
    assert shown("SELECT t.k, u.k AS k2, x, t.x AS own, u.x AS other FROM t LEFT JOIN u USING (x)")[0][
        2:
    ] == [
        ("x", "bigint", True),
        ("own", "integer", True),
        ("other", "bigint", True),
    ]
    chain = "SELECT t.k, u.k AS k2, w.a, w.b, x, x + 1 AS y FROM t JOIN u USING (x) JOIN w USING (x)"
    assert shown(chain)[0][4:] == [("x", "numeric", True), ("y", "numeric", True)]


def test_types_of_aggregates() -> None:
    columns, _ = shown(
        "SELECT name, COUNT(*), COUNT(d) AS ds, SUM(x), SUM(k * 1.5) AS s2, AVG(x), AVG(d) AS ad, MIN(n), MAX(k) AS top"
        " FROM t GROUP BY name HAVING SUM(x) > 3"
    )
    assert columns == [
        ("name", "text", True),
        ("count", "bigint", False),
        ("ds", "bigint", False),
        ("sum", "bigint", True),
        ("s2", "numeric", False),
        ("avg", "numeric", True),
        ("ad", "double precision", True),
        ("min", "numeric", True),
        ("top", "integer", False),
    ]


def test_a_view_of_a_view() -> None:
    inner = define(parse_view("SELECT x, COUNT(*) AS n FROM t GROUP BY x"), TABLES, 7, "g", "default").view
    columns, key = shown("SELECT u.k, g.x, n FROM u LEFT JOIN g ON g.x = u.x", g=inner)
    assert columns == [("k", "integer", False), ("x", "integer", True), ("n", "bigint", True)]
    assert key == ("k", "x")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT k FROM nosuch", "there is no table or view nosuch; the tables and views are t, u, w"),
        ("SELECT k, nosuch FROM t", "there is no column nosuch in t"),
        ("SELECT t.nosuch, k FROM t", "t has no column nosuch; its columns are k, x"),
        ("SELECT z.k FROM t", "z of z.k does not stand in FROM"),
        ("SELECT t.k FROM t AS a", "t of t.k does not stand in FROM, which has a"),
        ("SELECT x FROM t", "the key column t.k is not selected"),
        ("SELECT k + 0 AS k FROM t", "the key column t.k is not selected"),
        ("SELECT a.k, b.x FROM t a JOIN u b ON a.x = b.x", "the key column b.k is not selected.*a.k, b.k"),
        ("SELECT u.k, t.x FROM t LEFT JOIN u USING (k)", "the key column t.k is not selected"),
        ("SELECT k FROM t JOIN u ON t.x = u.x", "the column k is ambiguous; write one of t.k, u.k"),
        ("SELECT t.k FROM t JOIN t ON t.x = t.k", "alias"),
        ("SELECT t.k, u.k AS k2 FROM t JOIN u USING (name)", "there is no column name in u"),
        ("SELECT t.k, u.k AS k2 FROM t JOIN u USING (g)", "there is no column g in t"),
        (
            "SELECT t.k, u.k AS k2, w.a FROM t JOIN u ON t.k = u.k JOIN w USING (x)",
            "USING .x. is ambiguous: t, u",
        ),
        ("SELECT t.k, u.k AS k2 FROM t JOIN u ON t.name = u.x", "t.name is text, u.x is bigint"),
        ("SELECT t.k, u.k AS k2 FROM t JOIN u ON t.d = u.x", "t.d is double precision, u.x is bigint"),
        ("SELECT a.k, b.k AS k2 FROM t a JOIN t b USING (doc)", "the jsonb column a.doc cannot be compared"),
        ("SELECT a.k, b.k AS k2 FROM t a JOIN t b ON a.x = a.k", "ON compares a column of b with"),
        (
            "SELECT a.k, b.k AS k2, c.k AS k3 FROM t a JOIN t b ON a.x = b.x JOIN t c ON a.x = b.x",
            "of c with",
        ),
        ("SELECT k FROM t WHERE x", "WHERE"),
        ("SELECT doc, COUNT(*) FROM t GROUP BY doc", "doc is of the type jsonb, which cannot be grouped by"),
        ("SELECT x, COUNT(*), d FROM t GROUP BY x", "d "),
        ("SELECT x, COUNT(*) FROM t GROUP BY x, d", "d of GROUP BY is not selected"),
        ("SELECT u.x, COUNT(*) FROM t JOIN u USING (x) GROUP BY x", "x must be a column of GROUP BY"),
        ("SELECT x, COUNT(*) FROM t JOIN u USING (k) GROUP BY x", "x is ambiguous"),
        ("SELECT COUNT(*) FROM t", "GROUP BY"),
        ("SELECT x, SUM(name) FROM t GROUP BY x", "SUM takes numbers"),
    ],
)
def test_what_cannot_be_served_is_named(sql: str, words: str) -> None:
    with pytest.raises(LanguageError, match=words) as error:
        defined(sql)
    assert error.value.at == "/sql"


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("SELECT k, nosuch FROM t", "nosuch"),
        ("SELECT k FROM nosuch", "nosuch"),
        ("SELECT t.k, u.k AS k2 FROM t JOIN u USING (g)", "g"),
        ("SELECT t.k, u.k AS k2 FROM t JOIN u ON t.name = u.x", "t.name"),
        ("SELECT doc, COUNT(*) FROM t GROUP BY doc", "doc"),
    ],
)
def test_errors_show_the_place(sql: str, marked: str) -> None:
    with pytest.raises(LanguageError) as error:
        defined(sql)
    line, marker = error.value.highlight.split("\n")
    start = marker.index("^")
    assert line[start:].startswith(marked)
