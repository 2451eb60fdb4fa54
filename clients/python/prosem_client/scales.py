"""A column's type as a line: where its values and the constants they are compared with lie.

Invariant: for a row's value `v` and a parameter `p`, `place(v) <= constant(p)` exactly when the server finds
`v <= p`. Places are ints, floats or Decimals, which Python compares exactly. A parameter the server would
refuse raises ValueError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, NamedTuple

from prosem_client.terms import Number

Place = int | float | Decimal
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LARGEST = 2**63
_NUMERIC = re.compile(r"numeric\(\s*\d+\s*,\s*(\d+)\s*\)")


class Scale(NamedTuple):
    """`beyond(place, upward)` is a parameter at the place, or the next one outward that the type can hold.

    Of numbers, `operand` reads a parameter within arithmetic, and values have `digits` after the point.
    """

    place: Callable[[Any], Place]
    constant: Callable[[Any], Place]
    beyond: Callable[[float, bool], Any]
    operand: Callable[[Any], Number] | None = None
    digits: int = 0


def scale(type: str) -> Scale | None:
    """The scale of a type; None for one whose values cannot be foretold (text, boolean, bytea, jsonb).

    >>> numbers = scale("numeric(6,2)")
    >>> numbers.place("9.50") < numbers.constant("10"), numbers.beyond(1.234, True)
    (True, '1.24')
    >>> scale("date").beyond(738_886.5, False)
    '2024-01-01'
    """
    if match := _NUMERIC.fullmatch(type):
        digits = int(match[1])
        return Scale(Decimal, _exact_or_text, _decimal_beyond(digits), _fraction, digits)
    return _SCALES.get(type)


# -- numbers -------------------------------------------------------------------------------------------------
def _exact(value: Any) -> Place:
    """A JSON float means the shortest decimal that gives it: 0.1 is a tenth."""
    if type(value) is int:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))
    raise ValueError(f"expected a number, got {value!r}")


def _exact_or_text(value: Any) -> Place:
    if not isinstance(value, str | Decimal):
        return _exact(value)
    try:
        number = Decimal(value.strip()) if isinstance(value, str) else value
    except InvalidOperation:
        raise ValueError(f"expected a number, got {value!r}") from None
    if not number.is_finite():
        raise ValueError(f"expected a finite number, got {value!r}")
    return number


def _double(value: Any) -> Place:
    exact = _exact(value)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _integer_operand(value: Any) -> Number:
    exact = _exact(value)
    return exact if isinstance(exact, int) else Fraction(exact)


def _fraction(value: Any) -> Number:
    return Fraction(_exact_or_text(value))


def _double_operand(value: Any) -> Number:
    return float(_exact(value))


def _rounded(place: float, upward: bool) -> int:
    return math.ceil(place) if upward else math.floor(place)


def _integer_beyond(place: float, upward: bool) -> int:
    return max(-_LARGEST, min(_LARGEST - 1, _rounded(place, upward)))


def _decimal_beyond(digits: int) -> Callable[[float, bool], str]:
    def beyond(place: float, upward: bool) -> str:
        exact = Decimal(place).as_integer_ratio()
        scaled = exact[0] * 10**digits
        units = -(-scaled // exact[1]) if upward else scaled // exact[1]
        return format(Decimal(f"{units}E-{digits}"), "f")

    return beyond


# -- times ---------------------------------------------------------------------------------------------------
def _day(value: Any) -> int:
    if type(value) is date:
        return value.toordinal()
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return date.fromisoformat(value).toordinal()
    raise ValueError(f"expected a date like 2024-12-31, got {value!r}")


def _day_beyond(place: float, upward: bool) -> str:
    day = max(date.min.toordinal(), min(date.max.toordinal(), _rounded(place, upward)))
    return date.fromordinal(day).isoformat()


def _moment(value: Any) -> int:
    text = value.isoformat() if isinstance(value, date) else value
    if not isinstance(text, str) or len(text) < 10 or not text[:4].isdigit():
        raise ValueError(f"expected a moment like 2024-12-31T23:59:59.5Z, got {value!r}")
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


_FIRST, _LAST = _moment("0001-01-01"), _moment("9999-12-31T23:59:59.999999")


def _moment_beyond(place: float, upward: bool) -> str:
    return (_EPOCH + max(_FIRST, min(_LAST, _rounded(place, upward))) * _MICROSECOND).isoformat()


_SCALES = {
    "integer": Scale(int, _exact, _integer_beyond, _integer_operand),
    "bigint": Scale(int, _exact, _integer_beyond, _integer_operand),
    "double precision": Scale(float, _double, lambda place, upward: place, _double_operand),
    "date": Scale(_day, _day, _day_beyond),
    "timestamptz": Scale(_moment, _moment, _moment_beyond),
}
