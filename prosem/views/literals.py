"""Quoted constants: read as the type that their context asks for, as far as PostgreSQL and this server agree on the form."""

from __future__ import annotations

import re
from decimal import Decimal

from prosem.values.columns import ColumnType, Value, check_text, column_type
from prosem.values.numerics import display_scale, unconstrained_numeric
from prosem.values.wire import decode_exact
from prosem.views.arithmetic import GREATEST, INT32, INT64

_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,5})?\s*", re.ASCII | re.IGNORECASE)
_WORDS = {True: ("true", "yes", "on", "1"), False: ("false", "no", "off", "0")}
_SHOWN = 60


def read_quoted(text: str, kind: ColumnType) -> Value:
    """The value of the type that a quoted constant stands for; ValueError says why there is none.

    >>> read_quoted(" 7 ", column_type("integer")), read_quoted("1e2", column_type("numeric(6,2)"))
    (7, Decimal('100'))
    """
    name = kind.name
    if name in ("integer", "bigint"):
        return _integer(text, name, *(INT32 if name == "integer" else INT64))
    if name.startswith("numeric"):
        return number(text, name)
    if name == "double precision":
        return _double(text)
    if name == "text":
        check_text(text)
        return text
    if name == "boolean":
        return _boolean(text)
    if name == "jsonb":
        try:
            return kind.read(decode_exact(text))
        except ValueError:
            raise ValueError(f"{_show(text)} is no JSON") from None
    if name == "bytea" and not text.startswith("\\x"):
        raise ValueError("a constant of type bytea is written in hexadecimal, like '\\x00ff'")
    return kind.constant(text)


def number(text: str, name: str = "numeric") -> Decimal:
    """The exact number, with the decimals as written and no exponent."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{_show(text)} is not a number of type {name}")
    exact = Decimal(text.strip())
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    if abs(exact.adjusted()) > 10_000 or len(digits) > 10_000:
        raise ValueError("the number has too many digits")
    if exponent > 0:
        exact = Decimal((sign, digits + (0,) * exponent, 0))
    return exact if exact else exact.copy_abs()


def exact_type(value: int | Decimal) -> ColumnType:
    """The type of a number that is written without quotes: integer, bigint or numeric.

    >>> [exact_type(value).name for value in (5, 2**31, 2**63, Decimal("1.5"))]
    ['integer', 'bigint', 'numeric', 'numeric']
    """
    if isinstance(value, int):
        for name, (least, greatest) in (("integer", INT32), ("bigint", INT64)):
            if least <= value <= greatest:
                return column_type(name)
    return numeric_type(Decimal(value))


def numeric_type(value: Decimal) -> ColumnType:
    """`numeric` with room for this value."""
    scale = display_scale(value)
    return unconstrained_numeric(max(value.adjusted() + 1, 0) + scale, scale)


def _integer(text: str, name: str, least: int, greatest: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{_show(text)} is not a whole number of type {name}")
    if len(text) > 100 or not least <= int(text) <= greatest:
        raise ValueError(f"{_show(text)} is out of range for type {name}")
    return int(text)


def _double(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{_show(text)} is not a finite number of type double precision")
    value = float(text)
    if not -GREATEST <= value <= GREATEST or (value == 0.0 and number(text)):
        raise ValueError(f"{_show(text)} is out of range for type double precision")
    return value


def _boolean(text: str) -> bool:
    """As PostgreSQL reads it: any beginning of true, false, yes or no; of on and off at least two letters."""
    word = text.strip().lower()
    for value, words in _WORDS.items():
        if word and any(
            whole.startswith(word) and (len(word) > 1 or not whole.startswith("o")) for whole in words
        ):
            return value
    raise ValueError(f"{_show(text)} is not a boolean; write TRUE or FALSE")


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
