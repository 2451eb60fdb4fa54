"""What compiled expressions compute with: PostgreSQL's checks, casts between types of numbers, and texts.

Numerics are Decimals that are never rounded but by a cast: the bounds of their types say that a result has at most 4,000
digits. No numeric is minus zero, as in PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
GREATEST = 1.7976931348623157e308
EXACT = Context(prec=20_000)
_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER = {small: large for large, small in ((letter.upper(), ord(letter)) for letter in _LOWER.values())}


class EvaluationError(Exception):
    """An expression has no value for a row, in PostgreSQL's words: "integer out of range", "division by zero"."""


# -- numerics --------------------------------------------------------------------------------------------------------
def multiply(one: Any, other: Any) -> Decimal:
    """The product of two numerics, of which one may be an integer."""
    product = EXACT.multiply(one, other)
    return product if product else product.copy_abs()


def rounded(value: Decimal) -> int:
    """Half away from zero, as PostgreSQL casts a numeric to an integer.

    >>> rounded(Decimal("2.5")), rounded(Decimal("-2.5"))
    (3, -3)
    """
    return int(value.to_integral_value(ROUND_HALF_UP))


def fitted(precision: int, scale: int) -> Callable[[Any], Decimal]:
    """The cast of a numeric or an integer to numeric(precision,scale).

    >>> fitted(4, 1)(Decimal("12.25"))
    Decimal('12.3')
    """
    unit, limit = Decimal(1).scaleb(-scale), 10 ** (precision - scale)

    def fit(value: Any) -> Decimal:
        exact = EXACT.quantize(Decimal(value), unit)
        if exact.copy_abs() >= limit:
            raise EvaluationError("numeric field overflow")
        return exact if exact else exact.copy_abs()

    return fit


EXACT.rounding = ROUND_HALF_UP  # only `quantize` in `fitted` rounds


# -- doubles ---------------------------------------------------------------------------------------------------------
def double_of(value: Decimal) -> float:
    """The nearest double of a numeric."""
    number = float(value)
    if not -GREATEST <= number <= GREATEST or (number == 0.0 and value):
        raise EvaluationError(f'"{value:.20e}" is out of range for type double precision')
    return number


def numeric_of(value: float) -> Decimal:
    """A double with 15 significant digits, as PostgreSQL casts it.

    >>> numeric_of(0.1 + 0.2), numeric_of(1e20), numeric_of(-0.0)
    (Decimal('0.3'), Decimal('100000000000000000000'), Decimal('0'))
    """
    number = Decimal(f"{value:.15g}")
    if number == number.to_integral_value():
        return Decimal(int(number))
    return number


# -- texts -----------------------------------------------------------------------------------------------------------
def lower(text: str) -> str:
    """ASCII letters alone, as in PostgreSQL's C locale.

    >>> lower("ÄB"), upper("äb")
    ('Äb', 'äB')
    """
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def like(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches a LIKE pattern; ValueError if the pattern ends with the escape character.

    >>> [like("a_c%")(text) for text in ("abcd", "a%c", "ac")], like("100\\\\%")("100%")
    ([True, True, False], True)
    """
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            following = next(characters, None)
            if following is None:
                raise ValueError("LIKE pattern must not end with escape character")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    match = re.compile("".join(parts), re.DOTALL).fullmatch
    return lambda text: match(text) is not None
