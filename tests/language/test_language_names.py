"""Names, lists and what the parser alone can refuse: aliases, joins, list parameters, and statements with their refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prosem.language.evaluate import MAX_LIST, evaluate_list
from prosem.language.joined import over_view
from prosem.language.parse import parse
from prosem.language.qualify import qualify
from prosem.language.resolve import conjunction, extent, normal_form, source_of, tables
from prosem.language.syntax import ColumnName, Grouped, Source, TopK
from prosem.types.registry import recognise
from prosem.values.columns import column_type
from prosem.values.errors import InputError, LanguageError
from prosem.values.model import Column, Table

TYPES = {
    "k": "integer",
    "x": "integer",
    "d": "double precision",
    "name": "text",
    "day": "date",
    "ok": "boolean",
}
T = Table(1, "t", tuple(Column(name, column_type(kind)) for name, kind in TYPES.items()), ("k",))
U = Table(2, "u", (*T.columns, Column("more", column_type("numeric(6,2)"))), ("k",))
CATALOG = {"t": T, "u": U}
LISTED = "SELECT * FROM t WHERE {} IN :some"


def extent_of(column: str, values: Any) -> list[Any]:
    query = parse(LISTED.format(column))
    (atom,) = query.where[0]
    return [
        interval.low for interval in extent(atom, T.columns[T.position[column]], {"some": values}).intervals
    ]


# -- lists -----------------------------------------------------------------------------------------------------------
@given(st.lists(st.one_of(st.integers(-3, 3), st.none()), max_size=6))
def test_a_list_is_the_set_of_its_values_without_null(values: list[int | None]) -> None:
    assert extent_of("x", values) == sorted({value for value in values if value is not None})
    found = normal_form(parse(LISTED.format("x")), T, {"some": values})
    for x in range(-4, 5):
        assert any(x in [i.low for i in one[1].intervals] for one in found) is (x in values)


def test_lists_of_other_types() -> None:
    (written,) = parse("SELECT * FROM t WHERE name IN ('a', 'b')").where[0]
    codes = [interval.low for interval in extent(written, T.columns[T.position["name"]], {}).intervals]
    assert extent_of("name", ["b", "a", "b", None]) == codes
    assert extent_of("day", ["2024-01-02", "2024-01-01"]) == extent_of("day", ["2024-01-01", "2024-01-02"])
    assert extent_of("x", [1.5, 2.0, 2**80]) == [2], "what no integer equals selects nothing"
    assert extent_of("ok", [True, None]) == [1]
    assert extent_of("name", []) == []
    sql = "SELECT * FROM t WHERE x IN :some AND x > 1"
    (found,) = normal_form(parse(sql), T, {"some": [1, 2, 3]})
    assert [interval.low for interval in found[1].intervals] == [2, 3]
    assert conjunction(parse(sql).where[0], T, {"some": [1]}) is None


@pytest.mark.parametrize(
    ("column", "given_", "at"),
    [
        ("x", {}, "/params/some"),
        ("x", {"some": 5}, "/params/some"),
        ("name", {"some": "abc"}, "/params/some"),
        ("x", {"some": None}, "/params/some"),
        ("x", {"some": {"a": 1}}, "/params/some"),
        ("x", {"some": [0] * (MAX_LIST + 1)}, "/params/some"),
        ("name", {"some": ["a", 5]}, "/params/some/1"),
        ("x", {"some": [1, 2, "3"]}, "/params/some/2"),
        ("x", {"some": [[1]]}, "/params/some/0"),
        ("x", {"some": [True]}, "/params/some/0"),
        ("ok", {"some": [True, 1]}, "/params/some/1"),
        ("day", {"some": ["2024-02-30"]}, "/params/some/0"),
        ("name", {"some": [{}]}, "/params/some/0"),
    ],
)
def test_a_list_that_is_none_or_has_a_bad_value(column: str, given_: dict[str, Any], at: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate_list("some", given_, column_type(TYPES[column]))
    assert caught.value.at == at
    with pytest.raises(InputError) as again:
        recognise(parse(LISTED.format(column)), (T,), None).bind(given_)
    assert again.value.at == at


def test_a_list_is_no_value_and_the_longest_list_is_taken() -> None:
    with pytest.raises(InputError) as caught:
        normal_form(parse("SELECT * FROM t WHERE x = :some"), T, {"some": [1]})
    assert caught.value.at == "/params/some"
    assert len(extent_of("x", list(range(MAX_LIST)))) == MAX_LIST


def test_a_list_of_keys_selects_items() -> None:
    form = recognise(parse("SELECT d FROM t WHERE k IN :some"), (T,), None)
    assert form.type == "value"
    bounds = [form.bind({"some": some}) for some in ([2, 1, 2, None], [1, 2])]
    topics = [set(bound.place.topics) for bound in bounds if bound.place is not None]
    assert topics[0] == topics[1]
    assert len(topics[0]) == 2


# -- aliases ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {} WHERE {}x > 1 AND {}name = 'a'",
        "SELECT {}k, d FROM {} WHERE {}x IN (1, 2) OR {}d < 1",
        "SELECT {}d FROM {} WHERE {}k = 3",
        "SELECT MIN({}d) FROM {} WHERE {}x BETWEEN 1 AND 5",
        "SELECT COUNT(*) FROM {} WHERE {}x = 1",
        "SELECT DISTINCT {}name FROM {} WHERE {}x > 1",
    ],
)
def test_an_alias_of_the_only_table_changes_nothing(sql: str) -> None:
    plain, aliased, named = (
        recognise(query, tables(query, CATALOG), None)
        for query in (
            parse(re.sub(r"\{\}(?=[a-z*])", prefix, sql).replace("{}", source))
            for prefix, source in (("", "t"), ("s.", "t AS s"), ("t.", "t"))
        )
    )
    assert plain.label == aliased.label == named.label
    assert plain.bind({}) == aliased.bind({}) == named.bind({})


def test_rows_of_one_table_keep_the_names_of_its_columns() -> None:
    with pytest.raises(LanguageError, match=r"the alias n is not supported here.*select d itself"):
        recognise(parse("SELECT k, d AS n FROM t"), (T,), None)
    with pytest.raises(LanguageError, match="the alias d"):
        recognise(parse("SELECT k AS d FROM t"), (T,), None)
    assert recognise(parse("SELECT k AS k, d FROM t"), (T,), None).type == "filter"
    assert recognise(parse("SELECT d AS n FROM t WHERE k = 1"), (T,), None).type == "value"


def test_sources() -> None:
    sql = 'SELECT COUNT(*) FROM t JOIN u USING (k) LEFT JOIN t AS "A" ON "A".x = t.x AND u.d = "A".d'
    assert parse(sql).sources == (
        Source("t", "t"),
        Source("u", "u", "inner", ("k",)),
        Source(
            "t",
            "A",
            "left",
            (),
            ((ColumnName("x", "t"), ColumnName("x", "A")), (ColumnName("d", "u"), ColumnName("d", "A"))),
        ),
    )


def test_columns_of_a_join_belong_to_sources() -> None:
    query = parse("SELECT a.k, b.k AS n FROM t a JOIN u b USING (x) LEFT JOIN t c ON c.k = b.k")
    found = (T, U, T)
    assert [source_of(query, found, ColumnName(*name)) for name in (("x", "c"), ("more",), ("k", "b"))] == [
        2,
        1,
        1,
    ]
    with pytest.raises(LanguageError, match=r"ambiguous; write one of a\.x, b\.x, c\.x"):
        source_of(query, found, ColumnName("x"))
    with pytest.raises(LanguageError, match="the table t has no column more"):
        source_of(query, found, ColumnName("more", "c"))
    with pytest.raises(LanguageError, match="does not stand in FROM"):
        source_of(query, found, ColumnName("x", "t"))


def test_qualified_names_over_a_join() -> None:
    query = parse(
        "SELECT name, SUM(more) FROM t JOIN u b USING (name) WHERE more > 1 GROUP BY t.name HAVING MIN(b.x) > 1"
    )
    made = qualify(query, (T, U))
    assert isinstance(made.selection, Grouped)
    assert made.selection.by == (ColumnName("name", "t"),)
    assert [item.column for item in made.selection.items] == [
        ColumnName("name", "t"),
        ColumnName("more", "b"),
    ]
    assert made.where[0][0].column == ColumnName("more", "b")
    assert made.sql == query.sql
    first = qualify(parse("SELECT t.k, b.k AS n, more FROM t JOIN u b USING (x) ORDER BY n LIMIT 3"), (T, U))
    assert isinstance(first.selection, TopK)
    assert first.selection.order == ColumnName("k", "b")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT name, COUNT(*) FROM t a LEFT JOIN u b USING (name) GROUP BY b.name", r"b\.name of GROUP BY is not sel"),
        ("SELECT b.name, COUNT(*) FROM t a LEFT JOIN u b USING (name) GROUP BY name", r"a\.name of GROUP BY is not sel"),
        ("SELECT a.k, name FROM t a LEFT JOIN u b USING (name) ORDER BY b.name LIMIT 1", r"b\.name of ORDER BY"),
        ("SELECT COUNT(*), SUM(a.x) FROM t a JOIN u b ON a.x = b.nosuch", "nosuch"),
        ("SELECT SUM(x) FROM t a JOIN u b ON a.k = b.k", r"ambiguous; write one of a\.x, b\.x"),
        ("SELECT COUNT(*) FROM t a JOIN u b ON a.k = b.k JOIN t c USING (x)", "ambiguous: a, b have a column x each"),
        ("SELECT COUNT(*) FROM t a JOIN u b USING (more)", "no column more in a"),
        ("SELECT COUNT(*) FROM u a JOIN t b USING (more)", "no column more in b"),
    ],
)  # fmt: skip
def test_names_over_a_join_that_mean_nothing(sql: str, says: str) -> None:
    query = parse(sql)
    with pytest.raises(LanguageError, match=says) as caught:
        qualify(query, tables(query, CATALOG))
    assert caught.value.line == 1


# -- what the parser alone refuses, and what it says -----------------------------------------------------------------
@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT MIN(x), MIN(d) FROM t", "named min"),
        ("SELECT MIN(x) AS a, MAX(x) AS a FROM t", r"named \ba\b"),
        ("SELECT COUNT(*), k FROM t", "the column k.*GROUP BY k"),
        ("SELECT MIN(x), MEDIAN(x) FROM t", "MEDIAN"),
        ("SELECT COUNT(*) FROM t GROUP BY name", "name of GROUP BY is not selected"),
        ("SELECT x, d, COUNT(*) FROM t GROUP BY x", r"\bd\b is selected and not in GROUP BY"),
        ("SELECT x, COUNT(*) FROM t GROUP BY x HAVING d > 1", r"\bd in HAVING"),
        ("SELECT x, COUNT(*) FROM t GROUP BY nosuch", "nosuch"),
        ("SELECT x AS g, COUNT(*) FROM t GROUP BY g", "the column itself, x"),
        ("SELECT x, COUNT(*) AS x FROM t GROUP BY x", "named x"),
        ("SELECT COUNT(*) FROM t HAVING COUNT(*) > 1", "HAVING without GROUP BY"),
        *((f"SELECT k, x FROM t ORDER BY x LIMIT {n}", "LIMIT takes a constant from 1 to 1000") for n in (0, 1001, -1)),
        ("SELECT k FROM t ORDER BY x LIMIT 3", r"\bx of ORDER BY is not selected"),
        ("SELECT k, x FROM t ORDER BY x LIMIT 3 OFFSET 1", "OFFSET"),
        ("SELECT k, x FROM t ORDER BY nosuch LIMIT 3", "nosuch"),
        ("SELECT a.x, b.x FROM t a JOIN u b ON a.k = b.k", "named x"),
        ("SELECT COUNT(*) FROM t a FULL JOIN u b ON a.x = b.x", "FULL JOIN"),
        ("SELECT COUNT(*) FROM t a JOIN u b ON a.x < b.x", "ON takes equalities"),
        ("SELECT COUNT(*) FROM t JOIN t ON t.x = t.k", "twice.*alias"),
        (
            "SELECT COUNT(*) FROM t a0" + "".join(f" JOIN t a{i} ON a0.k = a{i}.k" for i in range(1, 7)),
            "7 tables are joined; at most 6",
        ),
    ],
)  # fmt: skip
def test_refusals_name_the_construct(sql: str, says: str) -> None:
    with pytest.raises(LanguageError, match=says) as caught:
        parse(sql)
    assert caught.value.at == "/sql"
    assert caught.value.line == 1


# -- over an unnamed view of the join --------------------------------------------------------------------------------
def test_groups_of_a_join_are_the_columns_selected() -> None:
    query = parse("SELECT a.name AS g, name AS h, COUNT(*) FROM t a JOIN u b USING (name) GROUP BY name")
    view, _, over = over_view(query, (T, U))
    assert isinstance(over.selection, Grouped)
    assert over.selection.by == (ColumnName("g"),)
    assert [item.name for item in over.selection.items] == ["g", "h", "count"]
    assert all(item.column in (ColumnName("g"), None) for item in over.selection.items)
    assert [item.name for item in view.items] == ["g", "h", "a.k", "b.k"]
    outer = parse("SELECT b.name, COUNT(*) FROM t a LEFT JOIN u b USING (name) GROUP BY name")
    with pytest.raises(LanguageError, match=r"a\.name of GROUP BY is not selected"):
        over_view(outer, (T, U))
