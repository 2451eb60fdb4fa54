"""From a code back to a value: to show it, and for conditions that PostgreSQL is asked to check."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from cn.model.geometry import BOTTOM, TOP
from prosem.values.columns import INT64_MAX, INT64_MIN, ColumnType, Value
from prosem.values.errors import LanguageError
from prosem.values.numerics import is_unconstrained

Span = tuple[Value, Value]  # least and greatest value, None without such an end
Boxes = Sequence[Mapping[int, Span]]  # column position → span; a row must lie in one of them
_SIDE = 2  # characters at the end of a text's code
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value_at(kind: ColumnType, code: Any) -> Value:
    """The value of a code, or for a code between two values one of them; None if it is no end or has no value.

    So a range of codes lies within the range of values from `value_at(low)` to `value_at(high)`.

    >>> from prosem.values.columns import column_type
    >>> value_at(column_type("numeric(8,2)"), 1050), value_at(column_type("date"), INT64_MIN)
    (Decimal('10.50'), None)
    """
    if code is BOTTOM or code is TOP or code in (INT64_MIN, INT64_MAX):
        return None
    decode = _DECODERS.get(kind.name.partition("(")[0])
    if decode is None or kind.digits:
        return None
    try:
        return decode(kind, code)
    except (OverflowError, ValueError):
        return None


def _double(kind: ColumnType, code: int) -> float | None:
    value: float = struct.unpack("<d", struct.pack("<q", code if code >= 0 else INT64_MIN - code))[0]
    return value if math.isfinite(value) else None


_DECODERS: dict[str, Callable[[ColumnType, Any], Value]] = {
    "integer": lambda kind, code: code,
    "bigint": lambda kind, code: code,
    "numeric": lambda kind, code: Decimal(code).scaleb(-kind.scale),
    "double precision": _double,
    "text": lambda kind, code: code[:-_SIDE],
    "date": lambda kind, code: date.fromordinal(code),
    "timestamptz": lambda kind, code: _EPOCH + timedelta(microseconds=code),
    "bytea": lambda kind, code: bytes.fromhex(code[:-_SIDE]),
}


def value_of(kind: ColumnType, code: Any) -> Value:
    """The value that has this code.

    >>> from prosem.values.columns import column_type
    >>> [value_of(column_type(name), column_type(name).code(value)) for name, value in (
    ...     ("text", "é"), ("double precision", -0.5), ("date", date(2024, 2, 29)), ("bytea", b"a"))]
    ['é', -0.5, datetime.date(2024, 2, 29), b'a']
    """
    match kind.name.partition("(")[0]:
        case "boolean":
            return bool(code)
        case "integer" | "bigint":
            return code
        case "double precision":
            bits = code if code >= 0 else -(2**63) - code
            return struct.unpack("<d", struct.pack("<q", bits))[0]
        case "numeric":
            units = int(code) - 10**kind.digits if kind.digits else code
            return reduced(units, kind.scale) if is_unconstrained(kind) else decimal_of(units, kind.scale)
        case "text":
            return code[:-2]
        case "bytea":
            return bytes.fromhex(code[:-2])
        case "date":
            return date.fromordinal(code)
        case "timestamptz":
            return _EPOCH + timedelta(microseconds=code)
    raise LanguageError(f"{kind.name} has no codes")


def reduced(units: int, scale: int) -> Decimal:
    """So many 10⁻ˢ without zeros at the end of the decimals.

    >>> reduced(15000, 4), reduced(-1000, 2), reduced(0, 2)
    (Decimal('1.5'), Decimal('-10'), Decimal('0'))
    """
    whole = str(abs(units))
    zeros = min(scale, len(whole) - len(whole.rstrip("0"))) if units else scale
    return decimal_of(units // 10**zeros, scale - zeros)


def decimal_of(units: int, scale: int) -> Decimal:
    """So many 10⁻ˢ, with all its decimals, whatever the context's precision."""
    digits = tuple(map(int, str(abs(units))))
    return Decimal((int(units < 0), digits, -scale))
