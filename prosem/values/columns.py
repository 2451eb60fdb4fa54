"""Column types: how a value is read from JSON, and its order-preserving code.

All indexes and all geometry work on *codes*: `code(a) < code(b)` exactly when PostgreSQL orders `a < b`
(text by code point). Codes of one type are mutually comparable: 64-bit integers for every type that fits
(`int64` is true), strings for text, bytea and wide numerics. They are never floats.

The ends of a range are codes too, always inclusive: `low` and `high` round a constant inward, so `x >= 1.5` on
an integer is `x >= 2`, and an open end moves to the neighbouring code (for text: to a side of the value, which
no value's own code has).
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any

from prosem.values.jsonb import read_jsonb
from prosem.values.texts import check_text as check_text

Value = Any  # int, float, Decimal, str, bool, date, datetime, bytes, a JSON value, or None
Code = int | str

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE, _EXACT, _AFTER = (
    "\0\0",
    "\0\1",
    "\0\2",
)  # no text value holds a NUL, so a side sorts next to its value
_NUMERIC = re.compile(r"numeric\(\s*(\d+)\s*,\s*(\d+)\s*\)")
MAX_PRECISION = 1000
_WIDE = Context(prec=20_000)  # more digits than a value has


@dataclass(frozen=True, slots=True)
class ColumnType:
    """One SQL type. `read` turns a JSON value into a Python value or raises ValueError with a sentence."""

    name: str
    read: Callable[[Any], Value]
    encode: Callable[[Value], Code] | None
    constant: Callable[[Any], Any]
    numeric: bool = False
    int64: bool = True
    scale: int = 0
    digits: int = 0  # of a numeric too wide for 64 bits, whose codes are texts of this many digits

    @property
    def ordered(self) -> bool:
        """Whether the type may stand in a comparison or a range (jsonb may not)."""
        return self.encode is not None

    def code(self, value: Value) -> Code:
        """The code of a value that is not NULL."""
        assert self.encode is not None, f"{self.name} has no order"
        return self.encode(value)

    def low(self, constant: Any, *, is_open: bool) -> Code:
        """The smallest code that satisfies `x >= constant` (or `>` if open)."""
        return self._end(constant, is_open, lower=True)

    def high(self, constant: Any, *, is_open: bool) -> Code:
        """The largest code that satisfies `x <= constant` (or `<` if open)."""
        return self._end(constant, is_open, lower=False)

    def exact(self, constant: Any) -> Code | None:
        """The code of the constant, or None if no value of the type equals it (`x = 1.5` on an integer)."""
        low, high = self.low(constant, is_open=False), self.high(constant, is_open=False)
        return low if low == high else None

    def _end(self, constant: Any, is_open: bool, *, lower: bool) -> Code:
        if type(constant) is int and self.constant is number and not self.scale and not self.digits:
            return constant + (is_open if lower else -is_open)
        value = self.constant(constant)
        if isinstance(value, Fraction):
            scaled = value * 10**self.scale
            if lower:
                end = math.floor(scaled) + 1 if is_open else math.ceil(scaled)
            else:
                end = math.ceil(scaled) - 1 if is_open else math.floor(scaled)
            return wide_code(end, self.digits) if self.digits else end
        code = self.code(value)
        if not is_open:
            return code
        if isinstance(code, str):
            return code[: -len(_EXACT)] + (_AFTER if lower else _BEFORE)
        return code + (1 if lower else -1)


# -- reading JSON ------------------------------------------------------------------------------------------------
def _read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {_show(value)}")
    return value


def _read_integer(bits: int) -> Callable[[Any], int]:
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    name = "integer" if bits == 32 else "bigint"

    def read(value: Any) -> int:
        if type(value) is not int:
            raise ValueError(f"expected a whole number, got {_show(value)}")
        if not least <= value <= greatest:
            raise ValueError(f"{_show(value)} is out of range for {name} ({least} to {greatest})")
        return value

    return read


def _read_double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected a number, got {_show(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{_show(value)} is not a finite double precision number")
    return number


def _read_numeric(precision: int, scale: int) -> Callable[[Any], Decimal]:
    unit, limit = Decimal(1).scaleb(-scale), Decimal(1).scaleb(precision - scale)

    def read(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise ValueError(f"expected a number or a numeric string, got {_show(value)}")
        try:
            number = Decimal(repr(value) if isinstance(value, float) else value)
        except InvalidOperation:
            raise ValueError(f"{_show(value)} is not a number") from None
        if not number.is_finite():
            raise ValueError(f"{_show(value)} is not a finite number")
        if number.copy_abs() >= limit:  # abs() would round; also keeps the quantize below within bounds
            raise ValueError(f"{_show(value)} does not fit numeric({precision},{scale})")
        with localcontext(prec=precision + 2):
            number = number.quantize(unit, rounding=ROUND_HALF_UP)
        if number.copy_abs() >= limit:
            raise ValueError(f"{_show(value)} does not fit numeric({precision},{scale})")
        return number if number else number.copy_abs()  # no minus zero, as in PostgreSQL

    return read


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {_show(value)}")
    check_text(value)
    return value


def _read_date(value: Any) -> date:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError(f"expected a date like 2024-12-31, got {_show(value)}")


def _read_timestamp(value: Any) -> datetime:
    if isinstance(value, str) and len(value) >= 10 and value[:4].isdigit():
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError(f"expected a moment like 2024-12-31T23:59:59.5Z, got {_show(value)}")


def _read_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise ValueError(f"expected base64, got {_show(value)}")


def _show(value: Any) -> str:
    text = (
        str(value)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        else repr(value)
    )
    return text if len(text) <= 60 else text[:57] + "..."


# -- constants of a query ------------------------------------------------------------------------------------------
def number(constant: Any) -> Fraction:
    """The exact value of a numeric constant; a text is read as PostgreSQL reads a quoted number."""
    if isinstance(constant, bool) or not isinstance(constant, int | float | Decimal | Fraction | str):
        raise ValueError(f"expected a number, got {_show(constant)}")
    if isinstance(constant, str):
        try:
            constant = Decimal(constant.strip())
        except InvalidOperation:
            raise ValueError(f"expected a number, got {_show(constant)}") from None
    if isinstance(constant, float | Decimal) and not Decimal(constant).is_finite():
        raise ValueError(f"{_show(constant)} is not a finite number")
    if isinstance(constant, Decimal) and abs(constant.adjusted()) > 100_000:
        raise ValueError("the number has too many digits")
    return Fraction(constant)


def _double_constant(constant: Any) -> float:
    exact = number(constant)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _bool_constant(constant: Any) -> bool:
    if isinstance(constant, str) and constant.strip().lower() in ("true", "t", "false", "f"):
        return constant.strip().lower()[0] == "t"
    return _read_bool(constant)


def _date_constant(constant: Any) -> date:
    return constant if type(constant) is date else _read_date(constant)


def _timestamp_constant(constant: Any) -> datetime:
    return constant if isinstance(constant, datetime) else _read_timestamp(constant)


def _bytes_constant(constant: Any) -> bytes:
    if isinstance(constant, str) and constant.startswith("\\x"):
        try:
            return bytes.fromhex(constant[2:])
        except ValueError:
            pass
    return constant if isinstance(constant, bytes) else _read_bytes(constant)


def _no_constant(constant: Any) -> Any:
    raise ValueError("a jsonb column cannot be compared; only IS NULL and IS NOT NULL apply to it")


# -- codes ---------------------------------------------------------------------------------------------------------
def _double_code(value: float) -> int:
    """The bits of a double as a signed integer in the order of the numbers (minus zero equals zero)."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else INT64_MIN - bits


def _numeric_code(scale: int) -> Callable[[Decimal], int]:
    return lambda value: int(value.scaleb(scale))


def _wide_numeric_code(digits: int, scale: int) -> Callable[[Decimal], str]:
    return lambda value: wide_code(scaled(value, scale), digits)


def scaled(value: Decimal, scale: int) -> int:
    """The value as a number of 10⁻ˢ; exact, whatever the context's precision."""
    return int(_WIDE.scaleb(value, scale))


def wide_code(value: int, digits: int) -> str:
    """A text that orders as the number does; what lies outside the type sorts outside all of its values.

    >>> sorted([wide_code(n, 2) for n in (5, -7, 99, -99, 10**9, 0)]) == [
    ...     wide_code(n, 2) for n in (-99, -7, 0, 5, 99, 10**9)]
    True
    """
    limit = 10**digits
    return str(max(-limit, min(limit, value)) + limit).zfill(digits + 1)


def _timestamp_code(value: datetime) -> int:
    span = value - _EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


_SIMPLE = {
    "boolean": ColumnType("boolean", _read_bool, int, _bool_constant),
    "integer": ColumnType("integer", _read_integer(32), int, number, numeric=True),
    "bigint": ColumnType("bigint", _read_integer(64), int, number, numeric=True),
    "double precision": ColumnType(
        "double precision", _read_double, _double_code, _double_constant, numeric=True
    ),
    "text": ColumnType("text", _read_text, lambda v: v + _EXACT, _read_text, int64=False),
    "date": ColumnType("date", _read_date, date.toordinal, _date_constant),
    "timestamptz": ColumnType("timestamptz", _read_timestamp, _timestamp_code, _timestamp_constant),
    "jsonb": ColumnType("jsonb", read_jsonb, None, _no_constant, int64=False),
    "bytea": ColumnType("bytea", _read_bytes, lambda v: v.hex() + _EXACT, _bytes_constant, int64=False),
}


@functools.cache
def column_type(name: str) -> ColumnType:
    """The type of this name; ValueError says which there are.

    >>> column_type("numeric(12,2)").low(Decimal("1.005"), is_open=False)
    101
    >>> column_type("integer").high(2, is_open=True)
    1
    """
    if name in _SIMPLE:
        return _SIMPLE[name]
    match = _NUMERIC.fullmatch(name)
    if match:
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= MAX_PRECISION and scale <= precision:
            return ColumnType(
                f"numeric({precision},{scale})",
                _read_numeric(precision, scale),
                _numeric_code(scale) if precision <= 18 else _wide_numeric_code(precision, scale),
                number,
                numeric=True,
                int64=precision <= 18,
                scale=scale,
                digits=0 if precision <= 18 else precision,
            )
        raise ValueError(
            f"numeric takes a precision from 1 to {MAX_PRECISION} and a scale from 0 to it, got {name}"
        )
    raise ValueError(f"unknown type {name!r}; the types are {', '.join(_SIMPLE)} and numeric(p,s)")
