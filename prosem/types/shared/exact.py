"""Exact sums: every value of a column as an integer number of units, so that no order of events can matter.

Integers count ones, numeric(p,s) counts 10⁻ˢ, doubles count 2⁻¹⁰⁷⁴ (the smallest double), so a sum is a Python integer and
becomes a double, correctly rounded, only when it is sent.

The decimals that PostgreSQL shows in a SUM, and to which it rounds an AVG, are those of the values with most of them. Values
of one numeric(p,s) all have s. Those of `numeric` differ: pass the greatest `display_scale` of the values where it is known.
Without it the total's own decimals are taken, which gives another value only for an AVG of values with more decimals than
PostgreSQL computes anyway (about 16 significant digits).
"""

from __future__ import annotations

from decimal import Decimal, localcontext

from prosem.values.codes import reduced
from prosem.values.columns import ColumnType, Value, column_type, scaled
from prosem.values.numerics import display_scale, is_unconstrained, unconstrained_numeric

_DOUBLE_UNIT = 1074
_BASE_DIGITS = 4  # PostgreSQL's numeric computes in base 10000
_MIN_SIGNIFICANT = 16
_MAX_DISPLAY_SCALE = 1000
_PLAIN = 10**27  # what the context that every thread begins with has digits for
_GREATEST = 1.7976931348623157e308
BIGINT = column_type("bigint")
NUMERIC = unconstrained_numeric(40, 20)  # no value is read or written with it: its bounds do not matter


def units(kind: ColumnType, value: Value) -> int:
    """The value as a number of units."""
    if kind.name == "double precision":
        numerator, denominator = value.as_integer_ratio()
        shift: int = _DOUBLE_UNIT + 1 - denominator.bit_length()
        return int(numerator) << shift
    if kind.digits:  # more than a decimal context has
        return scaled(value, kind.scale)
    return int(value.scaleb(kind.scale)) if kind.scale else int(value)


def are_int64(kind: ColumnType) -> bool:
    """Whether the values of a column, in units, are 64-bit integers.

    >>> [are_int64(column_type(name)) for name in ("bigint", "numeric(18,2)", "numeric(19,2)", "double precision")]
    [True, True, False, False]
    """
    return kind.int64 and kind.name != "double precision"


def aggregate_type(function: str, kind: ColumnType) -> ColumnType:
    """The type that PostgreSQL gives an aggregate of a column, as far as comparisons go.

    >>> [aggregate_type(function, column_type("integer")).name for function in ("MIN", "COUNT", "SUM", "AVG")]
    ['integer', 'bigint', 'bigint', 'numeric']
    """
    if function in ("MIN", "MAX") or (function != "COUNT" and kind.name == "double precision"):
        return kind
    return BIGINT if function == "COUNT" or (function, kind.name) == ("SUM", "integer") else NUMERIC


def units_of_one(kind: ColumnType) -> int:
    """How many units make one."""
    return 1 << _DOUBLE_UNIT if kind.name == "double precision" else 10**kind.scale


def sum_value(kind: ColumnType, total: int, scale: int | None = None) -> int | float | Decimal:
    """SUM as PostgreSQL types it: bigint for integer, numeric for bigint and numeric, double for double."""
    if kind.name == "double precision":
        return _double(total, 1)
    if kind.name == "integer":
        return total
    return _decimal(*_shown(kind, total, scale))


def average_value(kind: ColumnType, total: int, count: int, scale: int | None = None) -> float | Decimal:
    """AVG: correctly rounded for doubles, with the digits PostgreSQL gives for the others.

    >>> from prosem.values.columns import column_type
    >>> average_value(column_type("integer"), 10, 3)
    Decimal('3.3333333333333333')
    """
    if kind.name == "double precision":
        return _double(total, count)
    total, own = _shown(kind, total, scale)
    scale = _quotient_scale(total, own, count)
    numerator, denominator = abs(total) * 10**scale * 2 + count * 10**own, 2 * count * 10**own
    quotient = numerator // denominator  # half away from zero
    return _decimal(quotient if total >= 0 else -quotient, scale)


def written(value: int | float | Decimal | None) -> int | float | str | None:
    """A sum or an average as it travels: PostgreSQL's digits, where Python would write an exponent.

    >>> written(Decimal("0E-8")), written(Decimal("1.50E-7")), written(3)
    ('0.00000000', '0.000000150', 3)
    """
    return format(value, "f") if isinstance(value, Decimal) else value


def _shown(kind: ColumnType, total: int, scale: int | None) -> tuple[int, int]:
    """The total as a number of 10⁻ˢ, with the s of the values."""
    if not is_unconstrained(kind):
        return total, kind.scale
    if scale is None:
        scale = display_scale(reduced(total, kind.scale))
    return total // 10 ** (kind.scale - scale), scale


def _double(total: int, count: int) -> float:
    try:
        return total / (count << _DOUBLE_UNIT)
    except OverflowError:
        return _GREATEST if total > 0 else -_GREATEST


def _decimal(units_: int, scale: int) -> Decimal:
    if -_PLAIN < units_ < _PLAIN:
        return Decimal(units_).scaleb(-scale)
    with localcontext(prec=max(28, len(str(abs(units_))) + 2)):
        return Decimal(units_).scaleb(-scale)


def _quotient_scale(total: int, scale: int, count: int) -> int:
    """How many digits PostgreSQL's numeric division keeps: at least 16 significant ones (its select_div_scale)."""
    weight, first = _leading(total, scale)
    other_weight, other_first = _leading(count, 0)
    quotient_weight = weight - other_weight - (first <= other_first)
    return min(max(_MIN_SIGNIFICANT - quotient_weight * _BASE_DIGITS, scale, 0), _MAX_DISPLAY_SCALE)


def _leading(units_: int, scale: int) -> tuple[int, int]:
    """Weight and value of the first base-10000 digit of units / 10**scale; (0, 0) for zero."""
    if units_ == 0:
        return 0, 0
    padded = -scale % _BASE_DIGITS
    digits = str(abs(units_) * 10**padded)
    places = (scale + padded) // _BASE_DIGITS
    count = -(-len(digits) // _BASE_DIGITS)
    return count - 1 - places, int(digits[: len(digits) - (count - 1) * _BASE_DIGITS])


def exact_text(kind: ColumnType, total: int) -> str:
    """Units as the decimal number they are, with every digit.

    >>> from prosem.values.columns import column_type
    >>> exact_text(column_type("numeric(6,2)"), 1250)
    '12.50'
    >>> double = column_type("double precision")
    >>> exact_text(double, units(double, 0.1))
    '0.1000000000000000055511151231257827021181583404541015625'
    """
    if kind.name != "double precision":
        return str(_decimal(*_shown(kind, total, None)))
    if not total:
        return "0"
    zeros = min((total & -total).bit_length() - 1, _DOUBLE_UNIT)
    places = _DOUBLE_UNIT - zeros
    return str(_decimal((total >> zeros) * 5**places, places))


# -- on the wire ---------------------------------------------------------------------------------------------------
def pack_units(total: int) -> str:
    """A short text for an integer that may have a thousand bits, most of them zero at the end.

    >>> pack_units(-5 << 1000), unpack_units("-5~3e8") == -5 << 1000
    ('-5~3e8', True)
    """
    if not total:
        return "0"
    zeros = (total & -total).bit_length() - 1
    return f"{total >> zeros:x}~{zeros:x}"


def unpack_units(text: str) -> int:
    number, _, zeros = text.partition("~")
    return int(number, 16) << int(zeros or "0", 16)
