"""Exact sums and averages, as PostgreSQL rounds them: functions that the rules of raw mode call in SQLite.

A sum travels and is kept as a decimal number with every digit, so no order of events can matter; it becomes a double,
correctly rounded, or a numeric with PostgreSQL's digits only in the answer.
"""

from __future__ import annotations

import json
import sqlite3
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

_EXACT = Context(prec=5000, Emax=MAX_EMAX, Emin=MIN_EMIN)  # the sum of doubles has at most about 2,100 digits
_GREATEST = 1.7976931348623157e308
_BASE_DIGITS = 4  # PostgreSQL's numeric computes in base 10000
_MIN_SIGNIFICANT = 16


def install(database: sqlite3.Connection) -> None:
    """Give a database the functions of the rules."""
    for function, arguments in ((decimal_add, 2), (exact_sum, 2), (exact_average, 3)):
        database.create_function(function.__name__, arguments, function, deterministic=True)


def decimal_add(one: str, other: str) -> str:
    """
    >>> decimal_add("0.1000000000000000055511151231257827021181583404541015625", "1e22")
    '10000000000000000000000.1000000000000000055511151231257827021181583404541015625'
    """
    return f"{_EXACT.add(Decimal(one), Decimal(other)):f}"


def exact_sum(total: str, kind: str) -> str:
    """The answer of SUM over a column of this type, as JSON: bigint for integer, numeric for bigint and numeric.

    >>> exact_sum("12.50", "numeric(6,2)"), exact_sum("12", "integer"), exact_sum("0.25", "double precision")
    ('"12.50"', '12', '0.25')
    """
    if kind == "double precision":
        return json.dumps(_double(Fraction(total)))
    if kind == "integer":
        return str(int(total))
    return json.dumps(_fixed(Fraction(total), _scale(kind, total)))


def exact_average(total: str, count: int, kind: str) -> str:
    """The answer of AVG, as JSON: a double of doubles, else a numeric with at least 16 significant digits.

    >>> exact_average("10", 3, "integer"), exact_average("1", 3, "double precision")
    ('"3.3333333333333333"', '0.3333333333333333')
    """
    quotient = Fraction(total) / count
    if kind == "double precision":
        return json.dumps(_double(quotient))
    scale = _scale(kind, total)
    return json.dumps(_fixed(quotient, _quotient_scale(int(Fraction(total) * 10**scale), scale, count)))


def _scale(kind: str, total: str) -> int:
    """The decimals of the values; of the total, without zeros at its end, where the type does not say it."""
    if kind == "numeric":
        return len(f"{Decimal(total):f}".partition(".")[2].rstrip("0"))
    return int(kind.rstrip(")").split(",")[1]) if kind.startswith("numeric") else 0


def _double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return _GREATEST if value > 0 else -_GREATEST


def _fixed(value: Fraction, scale: int) -> str:
    """With so many decimals, half away from zero."""
    whole, rest = divmod(abs(value) * 10**scale, 1)
    digits = str(int(whole) + (rest * 2 >= 1)).zfill(scale + 1)
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return "-" + text if value < 0 and text.strip("0.") else text


def _quotient_scale(total: int, scale: int, count: int) -> int:
    """How many digits PostgreSQL's numeric division keeps (its select_div_scale)."""
    weight, first = _leading(total, scale)
    other_weight, other_first = _leading(count, 0)
    quotient_weight = weight - other_weight - (first <= other_first)
    return max(_MIN_SIGNIFICANT - quotient_weight * _BASE_DIGITS, scale, 0)


def _leading(units: int, scale: int) -> tuple[int, int]:
    """Weight and value of the first base-10000 digit of units / 10**scale; (0, 0) for zero."""
    if units == 0:
        return 0, 0
    padded = -scale % _BASE_DIGITS
    digits = str(abs(units) * 10**padded)
    places = (scale + padded) // _BASE_DIGITS
    count = -(-len(digits) // _BASE_DIGITS)
    return count - 1 - places, int(digits[: len(digits) - (count - 1) * _BASE_DIGITS])
