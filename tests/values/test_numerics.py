"""Unconstrained numerics: codes keep the order, ends of ranges are exact, sums and averages are those of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prosem_client.exact import exact_average, exact_sum

from prosem.store.embedded import EmbeddedPostgres
from prosem.types.shared.exact import average_value, exact_text, sum_value, units
from prosem.values.codes import value_of
from prosem.values.columns import column_type
from prosem.values.numerics import MAX_NUMERIC_DIGITS, display_scale, unconstrained_numeric
from prosem.values.wire import decode, encode
from tests.support.effort import examples

KIND = unconstrained_numeric(30, 12)


def decimals(digits: int = 30, scale: int = 12) -> st.SearchStrategy[Decimal]:
    """Values with different numbers of decimals, some of them zeros."""

    def at(places: int) -> st.SearchStrategy[Decimal]:
        limit = 10 ** (digits - scale + places) - 1
        whole = st.integers(-limit, limit) | st.integers(-20, 20)
        return whole.map(lambda n: Decimal(f"{n}E-{places}"))

    return st.integers(0, scale).flatmap(at)


@given(decimals(), decimals())
def test_codes_keep_the_order_and_equality_leaves_out_the_scale(a: Decimal, b: Decimal) -> None:
    assert (KIND.code(a) < KIND.code(b)) == (a < b)
    assert (KIND.code(a) == KIND.code(b)) == (a == b)
    assert value_of(KIND, KIND.code(a)) == a
    assert isinstance(KIND.code(a), str)
    assert not KIND.int64


@given(decimals(), st.fractions() | decimals(32, 14).map(Fraction))
def test_ends_admit_what_the_comparison_does(value: Decimal, constant: Fraction) -> None:
    code, exact = KIND.code(value), Fraction(value)
    assert (code >= KIND.low(constant, is_open=False)) == (exact >= constant)  # type: ignore[operator]
    assert (code >= KIND.low(constant, is_open=True)) == (exact > constant)  # type: ignore[operator]
    assert (code <= KIND.high(constant, is_open=False)) == (exact <= constant)  # type: ignore[operator]
    assert (code <= KIND.high(constant, is_open=True)) == (exact < constant)  # type: ignore[operator]
    assert (KIND.exact(constant) == code) == (exact == constant)


@given(decimals())
def test_a_value_is_read_as_it_was_written(value: Decimal) -> None:
    read = KIND.read(decode(encode(value)))
    assert (read, display_scale(read)) == (value, display_scale(value))


@pytest.mark.parametrize("value", [True, 1.5, "x", "NaN", "Infinity", "1e18", "0.0000000000001", None])
def test_what_is_no_such_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        KIND.read(value)


def test_tables_have_no_unconstrained_numerics() -> None:
    with pytest.raises(ValueError, match="unknown type 'numeric'"):
        column_type("numeric")
    with pytest.raises(ValueError, match="4,001 digits"):
        unconstrained_numeric(MAX_NUMERIC_DIGITS + 1, 0)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as made:
        yield made


@settings(max_examples=examples(60))
@given(values=st.lists(decimals(24, 12) | decimals(24, 4), min_size=1, max_size=5))
def test_sums_and_averages_are_those_of_postgresql(
    connection: psycopg.Connection[Any], values: list[Decimal]
) -> None:
    """With the scale of the values, every digit; without it, the same sum, and the average to 16 significant digits."""
    total, scale = sum(units(KIND, value) for value in values), max(map(display_scale, values))
    row = connection.execute(
        "SELECT SUM(v)::text, AVG(v)::text FROM unnest(%s::numeric[]) AS t(v)", [values]
    ).fetchone()
    assert row is not None
    assert format(sum_value(KIND, total, scale), "f") == row[0]
    assert format(average_value(KIND, total, len(values), scale), "f") == row[1]
    assert sum_value(KIND, total) == Decimal(row[0])
    without = average_value(KIND, total, len(values))
    assert isinstance(without, Decimal)
    assert abs(without - Decimal(row[1])) <= abs(without) * Decimal("1e-15")
    sent = exact_text(KIND, total)
    assert Decimal(decode(exact_sum(sent, "numeric").encode())) == sum_value(KIND, total)
    assert Decimal(decode(exact_average(sent, len(values), "numeric").encode())) == without
