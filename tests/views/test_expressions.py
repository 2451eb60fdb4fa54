"""Compiled expressions against PostgreSQL: the same type, value and decimals, or an error of both."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import LanguageError
from tests.support.compiled import ALL, Connection, check, check_value, compiled, connect, type_name
from tests.support.effort import examples
from tests.support.expressions import ROWS, expressions


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[Connection]:
    with connect(postgres) as made:
        yield made


IDS = st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=6)


@settings(max_examples=examples(300))
@given(text=expressions(), ids=IDS)
@example(text="abs(i)", ids=list(range(60)))
@example(text="i * j", ids=list(range(60)))
@example(text="b - i", ids=list(range(60)))
@example(text="n * m", ids=list(range(60)))
@example(text="n * -2", ids=list(range(60)))
@example(text="m * n * -2", ids=list(range(60)))
@example(text="n - n * 2", ids=list(range(60)))
@example(text="m * n * m", ids=list(range(60)))
@example(text="d * e", ids=list(range(60)))
@example(text="d / e", ids=list(range(60)))
@example(text="CAST(d AS integer)", ids=list(range(60)))
@example(text="CAST(d AS numeric)", ids=list(range(60)))
@example(text="CAST(d AS numeric(5,1))", ids=list(range(60)))
@example(text="CAST(m AS bigint)", ids=list(range(60)))
@example(text="CAST(n AS numeric)", ids=list(range(20)))
@example(text="b = d", ids=list(range(60)))
@example(text="CAST(b AS bigint) = d + 0", ids=list(range(200)))
@example(text="b < CAST(b AS double precision)", ids=list(range(200)))
@example(text="CASE WHEN f THEN n END", ids=[0])
@example(text="COALESCE(n, NULL)", ids=[0])
@example(text="COALESCE(n, n)", ids=[0])
@example(text="m < d", ids=list(range(60)))
def test_values_and_types_are_those_of_postgresql(connection: Connection, text: str, ids: list[int]) -> None:
    check(connection, text, ids)


@pytest.mark.slow
@settings(max_examples=examples(3_000))
@given(text=expressions(4), ids=IDS)
def test_more_expressions(connection: Connection, text: str, ids: list[int]) -> None:
    check(connection, text, ids)


ILL_TYPED = [  # refused by PostgreSQL too
    "t + 1",
    "t + u",
    "'1' + '2'",
    "f + 1",
    "t || i || f = 1",
    "t > 5",
    "i = t",
    "f = i",
    "day = at || 'a'",
    "i AND f",
    "NOT i",
    "i IS TRUE",
    "CASE WHEN i THEN 1 END",
    "CASE WHEN f THEN 1 ELSE t END",
    "CASE i WHEN 'a' THEN 1 END",
    "COALESCE(i, t)",
    "COALESCE(i, '1.5')",
    "abs(t)",
    "lower(i)",
    "i = 'a'",
    "i > '1.5'",
    "d > 'x'",
    "day > 'yesterday or so'",
    "f = 'maybe'",
    "t LIKE 5",
    "i LIKE 'a'",
    "raw = '\\xzz'",
    "CAST(t AS numeric(2000,1))",
    "CAST('1.5' AS integer)",
    "CAST('10' AS numeric(2,1))",
    "CAST('3000000000' AS integer)",
    "i IN (1, 'a')",
    "i BETWEEN t AND 5",
    "-t",
]
NOT_SERVED = [  # PostgreSQL has them, the contract leaves them out
    "i / j",
    "n / 2",
    "CAST(i AS text)",
    "CAST(t AS integer)",
    "CAST(f AS integer)",
    "day + 1",
    "day < at",
    "t || i",
    "raw || raw",
    "CAST('{}' AS jsonb) = CAST('{}' AS jsonb)",
    "d = 'infinity'",
]


@pytest.mark.parametrize("text", ILL_TYPED)
def test_what_postgresql_refuses_is_refused(connection: Connection, text: str) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(f"SELECT {text} AS v FROM t".encode())
    with pytest.raises(LanguageError) as raised:
        compiled(text)
    assert raised.value.column is not None


@pytest.mark.parametrize("text", NOT_SERVED)
def test_what_is_not_served_is_refused(connection: Connection, text: str) -> None:
    connection.execute(f"SELECT {text} AS v FROM t WHERE id < 0".encode())
    with pytest.raises(LanguageError) as raised:
        compiled(text)
    assert raised.value.column is not None


QUOTED = {
    "integer": ["5", " -7 ", "+3", "2147483648", "", "1.0", "1e2", "x"],
    "bigint": ["9223372036854775807", "9223372036854775808", " 1"],
    "numeric": ["1.50", " .5 ", "1e3", "-2.50e-3", "5.", "-0.00", "1e-20", "", ".", "e5", "1e"],
    "numeric(4,1)": ["1.25", "-1.25", "999.95", "1e2", "0.04", "-0.04"],
    "double precision": ["1.5", "1e400", "1e-400", "4.9e-324", " -0 ", "1e308", "0e999"],
    "boolean": ["t", "TRUE", " yes ", "y", "on", "o", "of", "off", "1", "0", "n", "", "tru", "truex", "2"],
    "text": ["", "a", "it's", "\\x"],
    "date": ["2024-02-29", "2023-02-29", "2024-13-01"],
    "timestamptz": ["2024-02-29T12:00:00Z", "2024-02-29 12:00:00.000001+02:00", "2024-02-30 12:00:00Z"],
    "bytea": ["\\x", "\\x00ff", "\\xg0", "\\x0"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in QUOTED.items() for text in texts])
def test_quoted_constants_are_read_as_postgresql_does(connection: Connection, kind: str, text: str) -> None:
    written = "CAST('" + text.replace("'", "''") + f"' AS {kind})"
    try:
        row = connection.execute(f"SELECT {written}".encode()).fetchone()
    except psycopg.Error:
        with pytest.raises(LanguageError):
            compiled(written)
        return
    made = compiled(written)
    assert row is not None
    assert made.type.name == type_name(connection, f"SELECT {written} AS v")
    check_value(made, made.evaluate([ALL[0]]), row[0])
