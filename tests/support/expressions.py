"""Random expressions of views as SQL text, the table they are over, and its rows."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from prosem.language.syntax import ColumnName
from prosem.values.columns import column_type
from prosem.values.model import Row
from prosem.views.expressions import Field

Sql = st.SearchStrategy[str]
COLUMNS = {
    "id": "integer",
    "i": "integer",
    "j": "integer",
    "b": "bigint",
    "n": "numeric(6,2)",
    "m": "numeric(24,10)",
    "d": "double precision",
    "e": "double precision",
    "t": "text",
    "u": "text",
    "f": "boolean",
    "g": "boolean",
    "day": "date",
    "at": "timestamptz",
    "raw": "bytea",
}
NAMES = list(COLUMNS)
ROWS = 400
TABLE = f"CREATE TEMP TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})"
_VALUES: dict[str, list[Any]] = {
    "integer": [0, 1, -1, 2, 3, 7, 100, 46341, -(2**31), 2**31 - 1],
    "bigint": [0, 1, -1, 5, 2**31, 2**53 + 1, 3037000500, -(2**63), 2**63 - 1],
    "numeric(6,2)": [Decimal(text) for text in ("0.00", "0.01", "-0.01", "0.50", "2.50", "-3.50", "9999.99", "-12.34")],
    "numeric(24,10)": [
        Decimal(text)
        for text in ("0.0000000000", "0.0000000001", "0.5000000000", "-1.5000000000", "99999999999999.9999999999")
    ],
    "double precision": [0.0, -0.0, 0.1, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-200, 1e200, -1e308, 5e-324, 1e15, 123456789.125],
    "text": ["", "a", "ab", "aB", "Äb", "é", "z", "a%", "a_c", "A\nB", "\U0001f600", "￿"],
    "boolean": [True, False],
    "date": [date(2024, 2, 27) + timedelta(days) for days in range(4)],
    "timestamptz": [datetime(2024, 2, 28, 23, 59, 59, tzinfo=UTC) + timedelta(microseconds=at) for at in range(3)],
    "bytea": [b"", b"\0", b"a", b"\xff"],
}  # fmt: skip


def rows() -> list[Row]:
    """The same rows in every run; a sixth of the values are NULL."""
    chance = random.Random(7)
    return [
        (
            number,
            *(
                None if chance.random() < 0.17 else chance.choice(_VALUES[COLUMNS[name]])
                for name in NAMES[1:]
            ),
        )
        for number in range(ROWS)
    ]


def resolve(name: ColumnName) -> Field:
    position = NAMES.index(name.name)
    return Field(0, position, column_type(COLUMNS[name.name]), nullable=name.name != "id")


# -- expressions ---------------------------------------------------------------------------------------------------
# Every operator has a column on one side at least: PostgreSQL computes what is constant when it plans, also in a branch of
# CASE that is never taken.
NUMBERS = st.sampled_from(["i", "j", "b", "n", "m", "d", "e"])
INTEGER_CONSTANTS = ["0", "1", "-2", "3", "2147483647", "-2147483648", "3000000000", "9223372036854775808"]
NUMBER_CONSTANTS = st.sampled_from(
    [*INTEGER_CONSTANTS, "0.5", "1.50", "-0.25", "1e3", "2.5e-3", "'4'", "NULL", "0.1", "100.00"]
)
TEXTS = st.sampled_from(["t", "u"])
TEXT_CONSTANTS = st.sampled_from(["''", "'a'", "'Ab'", "'é'", "NULL", "'it''s'"])
NUMBER_TYPES = st.sampled_from(
    ["integer", "bigint", "numeric", "double precision", "numeric(5,1)", "numeric(30,12)"]
)
COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def expressions(depth: int = 3) -> Sql:
    return numbers(depth) | texts(depth) | conditions(depth)


def numbers(depth: int) -> Sql:
    if not depth:
        return NUMBERS
    inner = numbers(depth - 1)
    other = inner | NUMBER_CONSTANTS
    return st.one_of(
        inner,
        _either("({} {} {})", inner, st.sampled_from("+-*"), other),
        _written("(CAST({} AS double precision) / {})", inner, other),
        _written("({} / CAST({} AS double precision))", inner, inner),
        _written("(- {})", inner),
        _written("abs({})", inner),
        _written("CAST({} AS {})", inner, NUMBER_TYPES),
        _written("({})::{}", inner, NUMBER_TYPES),
        _chosen(depth, inner, other),
    )


def texts(depth: int) -> Sql:
    if not depth:
        return TEXTS
    inner = texts(depth - 1)
    other = inner | TEXT_CONSTANTS
    return st.one_of(
        inner,
        _either("({} {} {})", inner, st.just("||"), other),
        _written("{}({})", st.sampled_from(["lower", "upper", "UPPER"]), inner),
        _chosen(depth, inner, other),
    )


def conditions(depth: int) -> Sql:
    flags = st.sampled_from(["f", "g"])
    if not depth:
        return flags
    inner, number, text = conditions(depth - 1), numbers(depth - 1), texts(depth - 1)
    some_number, some_text = number | NUMBER_CONSTANTS, text | TEXT_CONSTANTS
    days = st.sampled_from(["day", "'2024-02-28'", "'2024-02-29'::date", "NULL"])
    times = st.sampled_from(["at", "'2024-02-28T23:59:59Z'", "'2024-02-28 23:59:59.000001+00'"])
    patterns = st.sampled_from(["'a%'", "'%'", "'_b'", r"'a\_c'", "'%B'", "''", "'A_B'"])
    no = st.sampled_from(["", "NOT "])
    return st.one_of(
        inner,
        _either("({} {} {})", number, COMPARISONS, some_number),
        _either("({} {} {})", text, COMPARISONS, some_text),
        _either("({} {} {})", st.just("day"), COMPARISONS, days),
        _either("({} {} {})", st.just("at"), COMPARISONS, times),
        _either("({} {} {})", st.just("raw"), COMPARISONS, st.sampled_from(["raw", r"'\x61'"])),
        _either("({} {} {})", flags, COMPARISONS, flags | st.sampled_from(["TRUE", "'no'"])),
        _written("({} {} {})", inner, st.sampled_from(["AND", "OR"]), inner),
        _written("({} {} {} {} {})", inner, st.sampled_from(["AND", "OR"]), inner, st.sampled_from(["AND", "OR"]), inner),
        _written("(NOT {})", inner),
        _written("({} IS {}NULL)", number | text | inner | st.sampled_from(["day", "raw"]), no),
        _written("({} IS {}{})", inner, no, st.sampled_from(["TRUE", "FALSE", "NULL"])),
        _written("({} {}BETWEEN {} AND {})", number, no, some_number, some_number),
        _written("({} {}IN ({}, {}))", number, no, st.sampled_from(["1", "0.5"]), st.sampled_from(["3", "NULL", "2.50"])),
        _written("({} {}IN ({}, {}))", text, no, some_text, some_text),
        _written("({} {}LIKE {})", text, no, patterns),
        _chosen(depth, inner, inner),
    )  # fmt: skip


def _chosen(depth: int, inner: Sql, other: Sql) -> Sql:
    """CASE and COALESCE over results of one kind."""
    return st.deferred(
        lambda: st.one_of(
            _written("COALESCE({}, {})", inner, other),
            _written("COALESCE({}, {}, {})", inner, inner, other),
            _written("CASE WHEN {} THEN {} END", conditions(depth - 1), inner),
            _written("CASE WHEN {} THEN {} ELSE {} END", conditions(depth - 1), other, inner),
            _written(
                "CASE WHEN {} THEN {} WHEN {} THEN {} END", conditions(depth - 1), inner, conditions(0), other
            ),
            _written("CASE i WHEN 1 THEN {} WHEN j THEN {} ELSE {} END", inner, other, inner),
        )
    )


def _written(form: str, *parts: Sql) -> Sql:
    return st.tuples(*parts).map(lambda texts: form.format(*texts))


def _either(form: str, one: Sql, sign: Sql, other: Sql) -> Sql:
    """An operator with its operands in either order."""
    return _written(form, one, sign, other) | _written(form, other, sign, one)
