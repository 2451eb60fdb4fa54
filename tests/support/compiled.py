"""Compiled expressions over the table of `tests.support.expressions`, and the same asked of PostgreSQL."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest

from prosem.language.view_parse import parse_view
from prosem.language.view_syntax import AggregateCall
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.codes import value_of
from prosem.views.expressions import Compiled, EvaluationError, compile_expression
from tests.support.expressions import NAMES, TABLE, resolve, rows

Connection = psycopg.Connection[Any]
ALL = rows()


def connect(postgres: EmbeddedPostgres) -> Connection:
    """A session with the table and its rows."""
    made = psycopg.connect(postgres.url, autocommit=True)
    made.execute(TABLE.encode())
    made.execute("SET timezone = 'UTC'")
    with made.cursor() as cursor:
        cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(NAMES))})".encode(), ALL)
    return made


def compiled(text: str) -> Compiled:
    sql = f"SELECT id, {text} AS v FROM t"
    expression = parse_view(sql).items[1].expression
    assert not isinstance(expression, AggregateCall)
    return compile_expression(expression, resolve, sql)


def type_name(connection: Connection, sql: str) -> str:
    """The type of a query's first column, as the server names types and PostgreSQL knows it before it plans."""
    connection.pgconn.prepare(b"", sql.encode())
    found = connection.pgconn.describe_prepared(b"")
    name = connection.adapters.types[found.ftype(0)].regtype
    modifier = found.fmod(0) - 4
    if name == "numeric" and modifier >= 0:
        return f"numeric({modifier >> 16},{modifier & 0xFFFF})"
    return {"timestamp with time zone": "timestamptz"}.get(name, name)


def check(connection: Connection, text: str, ids: list[int]) -> None:
    made = compiled(text)
    assert made.type.name == type_name(connection, f"SELECT {text} AS v FROM t")
    for id in ids:
        try:
            expected: Any = connection.execute(
                f"SELECT {text} AS v FROM t WHERE id = {id}".encode()
            ).fetchone()
        except psycopg.DataError as error:
            with pytest.raises(EvaluationError) as raised:
                made.evaluate([ALL[id]])
            words = error.diag.message_primary or ""
            assert str(raised.value) == words or (
                "double precision" in str(raised.value) and "double precision" in words
            )
            continue
        check_value(made, made.evaluate([ALL[id]]), expected[0])


def check_value(made: Compiled, value: Any, expected: Any) -> None:
    assert (value is None) == (expected is None)
    if value is None:
        assert made.nullable
        return
    assert type(value) is type(expected)
    if isinstance(value, Decimal):  # decimals and bounds too
        assert str(value) == str(expected)
        assert made.type.read(str(value)) == value
        assert value_of(made.type, made.type.code(value)) == value
    else:
        assert value == expected
