"""`numeric` without precision and scale: the type of results of arithmetic over numerics, which only views have.

Values are Decimals with the decimals that PostgreSQL shows; equality leaves them out, so 1.5 and 1.50 are one value with one
code. PostgreSQL's type has no bounds, but each expression does: a product has at most the digits of both factors. With these
bounds codes are texts of a fixed length, like those of numeric(p,s), and sums are whole numbers of units.
"""

from __future__ import annotations

import functools
from decimal import Decimal, InvalidOperation
from typing import Any

from prosem.values.columns import ColumnType, number, scaled, wide_code

MAX_NUMERIC_DIGITS = 4_000  # Python refuses to print an int of more than 4,300

_WHOLE_DIGITS = {"integer": 10, "bigint": 19}


@functools.cache
def unconstrained_numeric(digits: int, scale: int) -> ColumnType:
    """`numeric` whose values have at most this many digits, of which `scale` are decimals; ValueError beyond the limit.

    >>> kind = unconstrained_numeric(7, 3)
    >>> kind.name, kind.code(Decimal("1.5")) == kind.code(Decimal("1.500")) < kind.code(Decimal("10"))
    ('numeric', True)
    """
    if digits > MAX_NUMERIC_DIGITS:
        raise ValueError(
            f"the result may have {digits:,} digits, and at most {MAX_NUMERIC_DIGITS:,} are supported; cast a part "
            "of it to numeric(p,s) or double precision"
        )
    limit = 10 ** (digits - scale)

    def read(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise ValueError(f"expected a number or a numeric string, got {value!r:.60}")
        try:
            exact = Decimal(value)
        except InvalidOperation:
            raise ValueError(f"{value!r:.60} is not a number") from None
        if not exact.is_finite() or exact.copy_abs() >= limit or display_scale(exact) > scale:
            raise ValueError(
                f"{value!r:.60} has more than {digits - scale} digits before the point or {scale} after it"
            )
        return exact if exact else exact.copy_abs()

    return ColumnType(
        "numeric",
        read,
        lambda value: wide_code(scaled(value, scale), digits),
        number,
        numeric=True,
        int64=False,
        scale=scale,
        digits=digits,
    )


def display_scale(value: Decimal) -> int:
    """The decimals that PostgreSQL shows.

    >>> display_scale(Decimal("1.50")), display_scale(Decimal("1e3"))
    (2, 0)
    """
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def bounds(kind: ColumnType) -> tuple[int, int]:
    """Digits before and after the point that values of an exact type of numbers have at most.

    >>> from prosem.values.columns import column_type
    >>> [bounds(column_type(name)) for name in ("integer", "bigint", "numeric(12,2)")]
    [(10, 0), (19, 0), (10, 2)]
    """
    if kind.name in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[kind.name], 0
    if is_unconstrained(kind):
        return kind.digits - kind.scale, kind.scale
    precision = int(kind.name.partition("(")[2].partition(",")[0])
    return precision - kind.scale, kind.scale


def is_unconstrained(kind: ColumnType) -> bool:
    return kind.name == "numeric"


def numeric_bounds(kind: ColumnType) -> tuple[int, int] | None:
    """The arguments of `unconstrained_numeric` that make the type; None of any other type."""
    return (kind.digits, kind.scale) if is_unconstrained(kind) else None
