"""Columns: codes keep the order of the values, ends of ranges admit exactly what the comparison does."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prosem.values.columns import INT64_MAX, INT64_MIN, column_type, number
from prosem.values.wire import decode_exact, encode

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(INT64_MIN, INT64_MAX)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=6)
NEAR_TEXTS = st.text(st.sampled_from("\x01a\x7fbé\U0010ffff"), max_size=3)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    whole = st.integers(-limit, limit) | st.integers(-20, 20)
    return whole.map(lambda n: Decimal(f"{n}E-{scale}"))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": INT32 | st.integers(-3, 3),
    "bigint": INT64 | st.integers(-3, 3),
    "double precision": DOUBLES | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.5, math.pi]),
    "numeric(6,2)": decimals(6, 2),
    "numeric(18,0)": decimals(18, 0),
    "numeric(18,18)": decimals(18, 18),
    "numeric(30,10)": decimals(30, 10),
    "numeric(200,60)": decimals(200, 60),
    "text": TEXTS | NEAR_TEXTS,
    "date": st.dates(),
    "timestamptz": MOMENTS,
    "bytea": st.binary(max_size=4),
}
NUMERIC = [name for name in VALUES if column_type(name).numeric and name != "double precision"]
TYPES = st.sampled_from(list(VALUES))


@given(TYPES.flatmap(lambda name: st.tuples(st.just(name), VALUES[name], VALUES[name])))
@example(("double precision", -0.0, 0.0))
@example(("text", "a", "a\x01"))
@example(("text", "", "\x01"))
@example(("text", "￿", "\U00010000"))  # by code point, not by UTF-16 unit
@example(("bytea", b"\x00", b""))
def test_codes_keep_the_order(drawn: tuple[str, Any, Any]) -> None:
    name, a, b = drawn
    kind = column_type(name)
    assert (kind.code(a) < kind.code(b)) == (a < b)
    assert (kind.code(a) == kind.code(b)) == (a == b)
    if kind.int64:
        assert INT64_MIN <= kind.code(a) <= INT64_MAX  # type: ignore[operator]
    else:
        assert isinstance(kind.code(a), str)


def check_ends(name: str, value: Any, constant: Any, exact_constant: Any) -> None:
    kind = column_type(name)
    code = kind.code(value)
    assert (code >= kind.low(constant, is_open=False)) == (value >= exact_constant)  # type: ignore[operator]
    assert (code >= kind.low(constant, is_open=True)) == (value > exact_constant)  # type: ignore[operator]
    assert (code <= kind.high(constant, is_open=False)) == (value <= exact_constant)  # type: ignore[operator]
    assert (code <= kind.high(constant, is_open=True)) == (value < exact_constant)  # type: ignore[operator]
    assert (kind.exact(constant) == code) == (value == exact_constant)


@given(TYPES.flatmap(lambda name: st.tuples(st.just(name), VALUES[name], VALUES[name])))
@example(("double precision", -0.0, 0.0))
@example(("text", "ab", "a"))
def test_ends_at_a_value_of_the_type(drawn: tuple[str, Any, Any]) -> None:
    name, value, constant = drawn
    check_ends(name, value, constant, constant)


FRACTIONS = st.one_of(
    st.integers(-(10**25), 10**25),
    st.fractions(-5, 5, max_denominator=1000),
    st.decimals(-(10**12), 10**12, allow_nan=False, places=6),
    st.floats(-1e6, 1e6),
    st.sampled_from([Decimal("1e300"), Decimal("-1e300"), Decimal("1e-300"), -Decimal("1e-300"), 10**400]),
)


@given(st.sampled_from(NUMERIC).flatmap(lambda name: st.tuples(st.just(name), VALUES[name])), FRACTIONS)
@example(("integer", 1), Fraction(3, 2))
@example(("integer", 2), Fraction(3, 2))
@example(("integer", -(2**31)), -(10**400))
@example(("numeric(30,10)", Decimal("99999999999999999999.9999999999")), Decimal("1e20"))
@example(("numeric(30,10)", Decimal("-99999999999999999999.9999999999")), Decimal("-1e20"))
def test_ends_between_and_beyond_the_values(drawn: tuple[str, Any], constant: Any) -> None:
    name, value = drawn
    check_ends(name, Fraction(value) if not isinstance(value, Decimal) else value, constant, number(constant))


@given(DOUBLES, FRACTIONS | INT64)
@example(0.1, Decimal("0.1"))
@example(9007199254740992.0, 9007199254740993)
@example(math.inf, 10**400)
def test_a_constant_of_a_double_column_is_rounded_to_a_double(value: float, constant: Any) -> None:
    exact = number(constant)
    if abs(exact) > Fraction(1.7976931348623157e308):
        rounded = math.inf if exact > 0 else -math.inf
    else:
        rounded = float(exact)
    if math.isfinite(value):
        check_ends("double precision", value, constant, rounded)


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("integer", Fraction(1, 3)),
        ("bigint", "0.5"),
        ("numeric(6,2)", Decimal("0.001")),
        ("numeric(30,10)", "1e-11"),
    ],
)
def test_no_value_equals_what_lies_between_two(name: str, constant: Any) -> None:
    assert column_type(name).exact(constant) is None


def test_sides_of_a_text_are_no_values() -> None:
    kind = column_type("text")
    above, below = kind.low("ab", is_open=True), kind.high("ab", is_open=True)
    assert below < kind.code("ab") < above  # type: ignore[operator]
    assert kind.code("aa\U0010ffff") < below  # type: ignore[operator]
    assert above < kind.code("ab\x01")  # type: ignore[operator]


# -- reading ---------------------------------------------------------------------------------------------
@given(TYPES.flatmap(lambda name: st.tuples(st.just(name), VALUES[name])))
def test_values_travel_there_and_back(drawn: tuple[str, Any]) -> None:
    name, value = drawn
    kind = column_type(name)
    back = kind.read(decode_exact(encode(value)))
    assert back == value
    assert type(back) is type(value)
    assert kind.code(back) == kind.code(value)
    assert encode(back) == encode(value) or value == 0  # a minus zero may lose its sign


BAD: dict[str, list[Any]] = {
    "boolean": [1, "true"],
    "integer": [2**31, -(2**31) - 1, 1.0, "1", Decimal("1.0"), True, []],
    "bigint": [2**63, -(2**63) - 1, True, {}],
    "double precision": [math.inf, math.nan, "1", Decimal("1e309"), 10**400, True, []],
    "numeric(6,2)": ["10000", "9999.995", "NaN", "Infinity", "ten", math.nan, True, Decimal("1e999999"), []],
    "text": ["a\0b", "\ud800", 1, True, []],
    "date": ["2024-02-30", "2024-1-1", "20240101", "2024-01-01T00:00:00", 0, True, {}],
    "timestamptz": ["yesterday", 0, "2024-13-01T00:00:00Z", "0001-01-01T00:00:00+10:00"],
    "bytea": ["%%%", 1],
    "jsonb": [{"a": "\0"}, ["\ud800"], {"\0": 1}, [[Decimal("1e400")]], "\0", Decimal("1e400")],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, some in BAD.items() for value in ([] if name == "jsonb" else [None]) + some],
)
def test_what_is_no_value_is_refused_with_a_sentence(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w+ .*\w+"):
        column_type(name).read(value)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("numeric(6,2)", 1.005, Decimal("1.01")),  # by its decimal digits, half away from zero, as PostgreSQL
        ("numeric(6,2)", "-1.005", Decimal("-1.01")),
        ("numeric(6,2)", "-0.001", Decimal("0.00")),
        ("numeric(6,2)", "9999.994", Decimal("9999.99")),
        ("double precision", 1, 1.0),
        ("double precision", Decimal("0.1"), 0.1),
        ("timestamptz", "2024-12-31T23:59:59.5+01:00", datetime(2024, 12, 31, 22, 59, 59, 500_000, UTC)),
        ("timestamptz", "2024-12-31T23:59:59", datetime(2024, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("date", "0001-01-01", date(1, 1, 1)),
        ("bytea", base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
        ("jsonb", {"a": [Decimal("0.5"), None]}, {"a": [0.5, None]}),
    ],
)
def test_reading(name: str, given: Any, value: Any) -> None:
    assert column_type(name).read(given) == value


def test_a_moment_is_kept_in_utc_whatever_its_offset() -> None:
    kind = column_type("timestamptz")
    moment = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5)))
    assert str(kind.read("2024-01-01T00:00:00-05:00")) == "2024-01-01 05:00:00+00:00"
    assert kind.code(kind.read("2024-01-01T00:00:00-05:00")) == kind.code(moment)


def test_jsonb_of_any_depth() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert column_type("jsonb").read(deep) is deep
    while deep:
        deep = deep.pop()  # its own end must not recurse either


# -- names -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["int", "varchar", "numeric", "numeric(0,0)", "numeric(3,4)", "numeric(1001,0)", ""]
)
def test_unknown_types_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="numeric"):
        column_type(name)


def test_names_are_normal() -> None:
    assert column_type("numeric( 30 , 10 )").name == "numeric(30,10)"
    assert [name for name in (*VALUES, "jsonb") if not column_type(name).ordered] == ["jsonb"]
    with pytest.raises(ValueError, match="IS NULL"):
        column_type("jsonb").low(1, is_open=False)
