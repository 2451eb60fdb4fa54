"""The parser: pairs of fixtures (query and what becomes of it), the limits, and a fuzz.

`python -m tests.language.test_language` rewrites the expected halves; read the difference before keeping it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.language.parse import MAX_LENGTH, parse
from prosem.language.syntax import (
    Aggregate,
    Aggregates,
    Arithmetic,
    Atom,
    ColumnName,
    Columns,
    Constant,
    Distinct,
    Grouped,
    Parameter,
    Query,
    SelectedColumn,
    Selection,
    Source,
    Star,
    Term,
)
from prosem.values.errors import LanguageError
from tests.support.effort import examples

FIXTURES = Path(__file__).parents[1] / "fixtures" / "language"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.sql"))
FROM = "SELECT * FROM t WHERE "
SELECTIONS = (
    "star",
    "columns",
    "distinct",
    "min",
    "max",
    "sum",
    "count",
    "avg",
    "aggregates",
    "groups",
    "first",
)
LIST = ", ".join(map(str, range(300)))


def paragraphs(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")


def show_name(name: ColumnName) -> str:
    return name.name if name.table is None else f"{name.table}.{name.name}"


def show_term(term: Term) -> str:
    if isinstance(term, Arithmetic):
        return f"({show_term(term.left)} {term.op} {show_term(term.right)})"
    return f":{term.name}" if isinstance(term, Parameter) else repr(term.value)


def show_atom(atom: Atom) -> str:
    if atom.list_name is not None:
        return f"{show_name(atom.column)} {atom.op} list :{atom.list_name}"
    return " ".join([show_name(atom.column), atom.op, ", ".join(map(show_term, atom.args))]).rstrip()


def show_item(item: SelectedColumn | Aggregate) -> str:
    alias = "" if item.alias is None else f" as {item.alias}"
    if isinstance(item, SelectedColumn):
        return show_name(item.column) + alias
    return f"{item.function} " + (show_name(item.column) if item.column else "*") + alias


def show_items(items: Sequence[SelectedColumn | Aggregate]) -> str:
    return ", ".join(map(show_item, items))


def show_selection(chosen: Selection) -> list[str]:
    if isinstance(chosen, Star):
        return ["star"]
    if isinstance(chosen, Columns):
        return ["columns " + show_items(chosen.items)]
    if isinstance(chosen, Distinct):
        return ["distinct " + show_name(chosen.column)]
    if isinstance(chosen, Aggregate):
        return [show_item(chosen)]
    if isinstance(chosen, Aggregates):
        return ["aggregates " + show_items(chosen.items)]
    if isinstance(chosen, Grouped):
        having = [f"having {show_item(h.aggregate)} {h.op} {show_term(h.term)}" for h in chosen.having]
        return [f"groups {show_items(chosen.items)} by {', '.join(map(show_name, chosen.by))}", *having]
    way = ("desc" if chosen.is_descending else "asc") + (" nulls first" if chosen.nulls_first else "")
    return [f"first {chosen.limit} of {show_items(chosen.items)} by {show_name(chosen.order)} {way}"]


def show_source(source: Source) -> str:
    name = source.table if source.alias == source.table else f"{source.table} as {source.alias}"
    on = [f"{show_name(left)} = {show_name(right)}" for left, right in source.on]
    if source.join:
        join = "join" if source.join == "inner" else f"{source.join} join"
        return f"{join} {name} " + (f"on {' and '.join(on)}" if on else f"by {', '.join(source.using)}")
    return f"from {name}"


def show(query: Query) -> str:
    """One line per part; conjunctions are lines that begin with `or`."""
    lines = [*show_selection(query.selection), *map(show_source, query.sources)]
    if query.where != ((),):
        lines += ["or " + " and ".join(map(show_atom, atoms)) for atoms in query.where] or ["never"]
    if query.parameters:
        lines.append("parameters " + ", ".join(sorted(query.parameters)))
    return "\n".join(lines)


def outcome(sql: str) -> str:
    try:
        return show(parse(sql))
    except LanguageError as error:
        return f"{error.detail}\n{error.line}:{error.column}\n{error.highlight}"


@pytest.mark.parametrize("name", NAMES)
def test_fixtures(name: str) -> None:
    queries, wanted = paragraphs(FIXTURES / f"{name}.sql"), paragraphs(FIXTURES / f"{name}.expected")
    assert len(queries) == len(wanted)
    for sql, expected in zip(queries, wanted, strict=True):
        assert outcome(sql) == expected, sql


def test_the_fixtures_hold_what_their_names_say() -> None:
    assert NAMES == ["queries", "refused"]
    for sql in paragraphs(FIXTURES / "queries.sql"):
        parse(sql)
    for sql in paragraphs(FIXTURES / "refused.sql"):
        with pytest.raises(LanguageError):
            parse(sql)


def refusal(sql: str) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        parse(sql)
    return caught.value


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("", "empty"),
        ("  -- nothing\n ;", "empty"),
        (FROM + "(" * 10_000 + "x = 1" + ")" * 10_000, "nested too deeply"),
        (FROM + "NOT " * 5_000 + "x = 1", "nested too deeply"),
        (FROM + "x = " + "- " * 5_000 + "1", "nested too deeply"),
        (FROM + "x = " + "1 + " * 5_000 + "1", "nested too deeply"),
        (FROM + " AND ".join(["(x > 1 OR y > 1)"] * 500), "too complex.*simplify"),
        (FROM + " OR ".join(f"(x > {i} AND y > {i})" for i in range(1_001)), "too complex.*1,001"),
        (
            FROM + f"({' OR '.join(f'x > {i}' for i in range(100))}) AND y NOT IN ({LIST})",
            "too complex.*30,100",
        ),
        (FROM + " " * MAX_LENGTH + "x = 1", "longer than 100,000"),
        (FROM + "name = 'a\0b'", "NUL"),
        (FROM + "name = '\ud800'", "surrogate"),
        (FROM + "x = 1e400000", "digits"),
        (FROM + "x = " + "array[" * 40 + "1" + "]" * 40, "arrays"),
    ],
)
def test_extremes_are_refused(sql: str, says: str) -> None:
    assert re.search(says, refusal(sql).detail)


def test_large_queries_within_the_limits() -> None:
    numbers = range(10_000)
    listed = parse(FROM + f"x IN ({', '.join(map(str, numbers))})")
    assert listed.where == ((Atom(ColumnName("x"), "in", tuple(map(Constant, numbers))),),)
    assert parse(FROM + " OR ".join(["x = 1"] * 10_000)).where == (
        (Atom(ColumnName("x"), "=", (Constant(1),)),),
    )
    chosen = parse(FROM + " OR ".join(f"x={i}" for i in range(9_000)))
    assert [len(atom.args) for atoms in chosen.where for atom in atoms] == [9_000]
    assert len(parse(FROM + f"x NOT IN ({', '.join(map(str, numbers))})").where[0]) == 10_000
    (atom,) = parse(FROM + "x > " + "9" * 5_000).where[0]
    assert isinstance(atom.args[0], Constant)
    assert atom.args[0].value == 10**5_000 - 1
    assert "9999" in repr(atom)  # an int of this size could not be shown


def test_a_long_line_is_cut_around_the_place() -> None:
    error = refusal(FROM + "x = 1 AND " * 50 + "x ~ 'a'" + " AND x = 1" * 50)
    line, marker = error.highlight.split("\n")
    assert len(line) <= 100
    assert line[marker.index("^") : len(marker)] == "x ~ 'a'"
    assert error.column == len(FROM) + 500 + 1


def test_the_same_text_is_parsed_once() -> None:
    sql = "SELECT * FROM t WHERE x = 77"
    assert parse(sql) is parse(sql)
    assert parse(sql).sql == sql


def test_constants_of_different_types_are_kept_apart() -> None:
    where = parse(FROM + "x = 1 OR x = 1.0 OR x = TRUE OR x = 1 / 2 OR x = 1.0 / 2 OR x = 1").where
    assert len(where[0][0].args) == 5


def test_an_aggregate_is_lower_case() -> None:
    assert parse("select Count(*) from T").selection == Aggregate("count", None)


PIECES = re.findall(
    r"\S+",
    r"""
    SELECT * FROM t WHERE x = 1 AND y BETWEEN :lo AND :hi OR NOT ( name LIKE 'a%' ) IN ( 1 , 2.5e3 ) IS NULL
    MIN(y) DISTINCT COUNT(*) JOIN u USING (x) - + * / < >= <> :: date 'x' "Q" "a""b" ; -- /* */ ' " [ ] { } $$
    $1 ? :1 @ # % ^ ~ GROUP BY ORDER BY LIMIT 1 UNION WITH w AS CASE WHEN THEN END CAST( AS int) INTERVAL TRUE
    FALSE NULL , . .. t.* e'\n' OVER () FILTER EXISTS ANY(array[1]) LATERAL VALUES 0x1F 1_0 .5 5. U&'x' \ ` é
    == != && || -> ->> @> <=> :from""",
)
WHOLE = [*paragraphs(FIXTURES / "queries.sql"), *paragraphs(FIXTURES / "refused.sql")]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A query of the fixtures with pieces cut out and put in."""
    text = draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, 8))
        text = text[:start] + draw(st.sampled_from(["", " ", *PIECES])) + text[end:]
    return text


TEXTS = st.one_of(
    mutated(), st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join), st.text(max_size=40)
)


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS)
def test_nothing_but_a_language_error(sql: str) -> None:
    check_robust(sql)


@pytest.mark.slow
@settings(max_examples=examples(20_000), deadline=None)
@given(TEXTS)
def test_nothing_but_a_language_error_at_length(sql: str) -> None:
    check_robust(sql)


def check_robust(sql: str) -> None:
    for text in (sql, FROM + sql):
        answer = outcome(text)
        if answer.startswith(SELECTIONS):
            assert parse(text).sql == text
        else:
            error = refusal(text)
            assert error.at == "/sql"
            assert error.line is not None
            assert error.highlight.count("\n") == 1


if __name__ == "__main__":
    for stem in NAMES:
        answers = "\n\n".join(outcome(sql) for sql in paragraphs(FIXTURES / f"{stem}.sql"))
        (FIXTURES / f"{stem}.expected").write_text(answers + "\n", encoding="utf-8")
