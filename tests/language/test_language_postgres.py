"""Names against PostgreSQL: a query that is taken means what PostgreSQL takes it for, and its result has the same names.

Random queries over two small tables, right and wrong ones: aliases that hide columns, columns of USING, GROUP BY and
ORDER BY with and without qualifiers. Each one that the parser and `qualify` take is written again from what they made of
it, with every name qualified, and both texts are put to PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from prosem.language.parse import parse
from prosem.language.qualify import qualify
from prosem.language.resolve import tables
from prosem.language.syntax import (
    Aggregate,
    Aggregates,
    Atom,
    ColumnName,
    Columns,
    Constant,
    Distinct,
    Grouped,
    Query,
    SelectedColumn,
    Source,
    Star,
    Term,
    TopK,
)
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.columns import column_type
from prosem.values.errors import LanguageError
from prosem.values.model import Column, Table

EXAMPLES = 200
COLUMNS = {"r": ("k", "g", "x", "y"), "s": ("k", "g", "x", "z")}
CATALOG = {
    name: Table(number, name, tuple(Column(column, column_type("integer")) for column in columns), ("k",))
    for number, (name, columns) in enumerate(COLUMNS.items(), 1)
}
ROWS = {
    "r": ((1, 1, 3, 30), (2, 1, None, 10), (3, 2, 5, None), (4, None, 7, 20)),
    "s": ((1, 1, 3, 5), (2, 2, 7, 6), (5, 1, None, None), (6, None, 7, 7)),
}


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as made:
        for name, columns in COLUMNS.items():
            made.execute(f"CREATE TEMPORARY TABLE {name} ({', '.join(f'{c} integer' for c in columns)})")  # type: ignore[call-overload]
            for row in ROWS[name]:
                made.execute(
                    sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s)").format(sql.Identifier(name)), row
                )
        yield made


# -- a query written again -------------------------------------------------------------------------------------------
def name_of(name: ColumnName) -> str:
    assert name.table is not None
    return f'"{name.table}"."{name.name}"'


def item_of(item: SelectedColumn | Aggregate) -> str:
    if isinstance(item, SelectedColumn):
        return f'{name_of(item.column)} AS "{item.name}"'
    return f'{aggregate_of(item)} AS "{item.name}"'


def aggregate_of(item: Aggregate) -> str:
    return f"{item.function}({'*' if item.column is None else name_of(item.column)})"


def term_of(term: Term) -> str:
    assert isinstance(term, Constant)
    return str(term.value)


def atom_of(atom: Atom) -> str:
    args = [term_of(term) for term in atom.args]
    if atom.op == "in":
        return f"{name_of(atom.column)} IN ({', '.join(args)})"
    return f"{name_of(atom.column)} {atom.op} {''.join(args)}"


def source_of(source: Source) -> str:
    text = f'"{source.table}" AS "{source.alias}"'
    if not source.join:
        return text
    on = " AND ".join(f"{name_of(left)} = {name_of(right)}" for left, right in source.on)
    how = f"ON {on}" if on else "USING (" + ", ".join(f'"{name}"' for name in source.using) + ")"
    return f"{'LEFT' if source.join == 'left' else 'INNER'} JOIN {text} {how}"


def items_of(items: Sequence[SelectedColumn | Aggregate]) -> str:
    return ", ".join(map(item_of, items))


def written(query: Query) -> str:
    """The text of a qualified query, with everything spelt out that the language leaves to PostgreSQL's rules."""
    chosen, tail = query.selection, ""
    if isinstance(chosen, Star):
        what = "*"
    elif isinstance(chosen, Distinct):
        what = f"DISTINCT {name_of(chosen.column)}"
    elif isinstance(chosen, Aggregate):
        what = item_of(chosen)
    elif isinstance(chosen, Columns | Aggregates):
        what = items_of(chosen.items)
    elif isinstance(chosen, TopK):
        what = items_of(chosen.items)
        way = "DESC" if chosen.is_descending else "ASC"
        nulls = "FIRST" if chosen.nulls_first else "LAST"
        tail = f" ORDER BY {name_of(chosen.order)} {way} NULLS {nulls} LIMIT {chosen.limit}"
    else:
        assert isinstance(chosen, Grouped)
        what = items_of(chosen.items)
        having = [f"{aggregate_of(one.aggregate)} {one.op} {term_of(one.term)}" for one in chosen.having]
        tail = f" GROUP BY {', '.join(map(name_of, chosen.by))}" + (
            f" HAVING {' AND '.join(having)}" if having else ""
        )
    alternatives = [" AND ".join(map(atom_of, atoms)) or "TRUE" for atoms in query.where]
    where = " OR ".join(f"({one})" for one in alternatives) or "FALSE"
    return f"SELECT {what} FROM {' '.join(map(source_of, query.sources))} WHERE {where}{tail}"


# -- random queries --------------------------------------------------------------------------------------------------
ALIAS = st.sampled_from(["", "", "", " AS n", " AS x", " y", " AS k", ' AS "limit"', " AS limit"])
SOURCES = {  # with the tables by what they are called
    "r": {"r": "r"},
    "r a": {"a": "r"},
    "s AS b": {"b": "s"},
    "r AS s": {"s": "r"},
    "r JOIN s USING (k)": {"r": "r", "s": "s"},
    "r a LEFT JOIN s b USING (g, x)": {"a": "r", "b": "s"},
    "r a INNER JOIN r AS b ON a.k = b.k": {"a": "r", "b": "r"},
    "s AS a LEFT OUTER JOIN r b ON b.x = a.x AND a.g = b.g": {"a": "s", "b": "r"},
    "r JOIN s ON r.x = s.z": {"r": "r", "s": "s"},
    "r a JOIN s b USING (k) LEFT JOIN r c USING (k, y)": {"a": "r", "b": "s", "c": "r"},
    "r a LEFT JOIN s b ON a.x = b.x JOIN r ON r.k = b.k": {"a": "r", "b": "s", "r": "r"},
    "r JOIN s USING (z)": {"r": "r", "s": "s"},
    "r a JOIN s a USING (k)": {"a": "r"},
    "r a JOIN s b ON a.x = b.x JOIN r c USING (g)": {"a": "r", "b": "s", "c": "r"},
}
WAYS = ["", " ASC", " DESC", " NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    source = draw(st.sampled_from([*SOURCES]))
    called = SOURCES[source].items()
    qualified = [f"{alias}.{name}" for alias, table in called for name in COLUMNS[table]]
    names = [name.split(".")[1] for name in qualified]
    common = [name for name in names if names.count(name) == 1] or names
    column = st.sampled_from(qualified * 4 + common * 6 + names + ["r.x", "nosuch"])
    aggregate = st.one_of(
        st.just("COUNT(*)"),
        st.builds("{}({})".format, st.sampled_from(["MIN", "MAX", "SUM", "COUNT"]), column),
    )
    first, second = draw(column), draw(column)
    condition = draw(
        st.one_of(
            st.just(""),
            st.builds(" WHERE {} > 1 AND {} < 30".format, column, column),
            st.builds(" WHERE {0} IN (1, 5) OR {0} = 7 OR {1} IS NULL".format, column, column),
        )
    )
    origin = f"FROM {source}{condition}"
    kind = draw(st.sampled_from(["groups", "first", "first", "columns", "aggregates", "distinct", "mixed"]))
    if kind == "groups":
        by = draw(st.sampled_from([first, first, f"{first}, {second}", first.split(".")[-1], second]))
        what = f"{first}{draw(ALIAS)}, {draw(aggregate)}{draw(ALIAS)}"
        having = draw(st.sampled_from(["", f" HAVING {draw(aggregate)} > 1"]))
        return f"SELECT {what} {origin} GROUP BY {by}{having}"
    if kind == "first":
        order = draw(st.sampled_from([first, second, first, first.split(".")[-1], "n", "x", "y"]))
        way = draw(st.sampled_from(WAYS))
        return f"SELECT {first}{draw(ALIAS)}, {second}{draw(ALIAS)} {origin} ORDER BY {order}{way} LIMIT 3"
    if kind == "distinct":
        return f"SELECT DISTINCT {first} {origin}"
    some = {"columns": column, "aggregates": aggregate, "mixed": st.one_of(column, aggregate)}[kind]
    items = draw(st.lists(st.builds("{}{}".format, some, ALIAS), min_size=1, max_size=3))
    return f"SELECT {', '.join(items)} {origin}"


@example("SELECT a.g, COUNT(*) FROM r a LEFT JOIN s b USING (g, x) GROUP BY g")
@example("SELECT b.g, COUNT(*) FROM r a LEFT JOIN s b USING (g, x) GROUP BY g")
@example("SELECT g, COUNT(*) FROM r a LEFT JOIN s b USING (g, x) GROUP BY b.g")
@example("SELECT a.k, b.k AS n, x FROM r a LEFT JOIN s b USING (g, x) ORDER BY k LIMIT 3")
@example("SELECT x AS y, y AS x FROM r ORDER BY x DESC LIMIT 3")
@example("SELECT x AS y, y AS x FROM r ORDER BY r.x DESC NULLS LAST LIMIT 3")
@example("SELECT k, z FROM r JOIN s USING (k) LEFT JOIN r AS b USING (k, g) ORDER BY z LIMIT 3")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts())
def test_a_query_means_what_postgresql_takes_it_for(connection: psycopg.Connection[Any], text: str) -> None:
    try:
        query = parse(text)
        qualified = qualify(query, tables(query, CATALOG))
    except LanguageError:
        event("refused")
        return
    event(type(query.selection).__name__)
    names, rows = asked(connection, text)
    again, same = asked(connection, written(qualified))
    assert names == again == names_of(query)
    if isinstance(qualified.selection, TopK):  # ties may come in any order
        items = qualified.selection.items
        at = next(number for number, item in enumerate(items) if item.column == qualified.selection.order)
        assert [row[at] for row in rows] == [row[at] for row in same]
    else:
        assert sorted(map(repr, rows)) == sorted(map(repr, same))


def names_of(query: Query) -> list[str]:
    chosen = query.selection
    if isinstance(chosen, Distinct):
        return [chosen.column.name]
    if isinstance(chosen, Aggregate):
        return [chosen.name]
    assert not isinstance(chosen, Star)
    return [item.name for item in chosen.items]


def asked(connection: psycopg.Connection[Any], text: str) -> tuple[list[str], list[Any]]:
    cursor = connection.execute(text)  # type: ignore[call-overload]
    return [column.name for column in cursor.description or ()], cursor.fetchall()
