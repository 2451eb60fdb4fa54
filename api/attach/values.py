"""Types of the source in the server's types, and values from PostgreSQL's text to JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

# format_type() of the source without what is in parentheses → type of the server
_TYPES = {
    "boolean": "boolean",
    "smallint": "integer",
    "integer": "integer",
    "bigint": "bigint",
    "real": "double precision",
    "double precision": "double precision",
    "text": "text",
    "character varying": "text",
    "character": "text",
    "uuid": "text",
    "date": "date",
    "timestamp with time zone": "timestamptz",
    "timestamp without time zone": "timestamptz",  # read as UTC
    "json": "jsonb",
    "jsonb": "jsonb",
    "bytea": "bytea",
}


NUMERIC_OID = 1700
WIDE_NUMERIC = "numeric(76,38)"  # for a numeric without precision; every value is checked to fit as it is


def server_type(name: str, is_enum: bool = False) -> str | None:
    """The server's type for a type of the source, as format_type() writes it; None if there is none.

    >>> server_type("character varying(20)"), server_type("numeric(12,2)"), server_type("point")
    ('text', 'numeric(12,2)', None)
    >>> server_type("timestamp(3) with time zone"), server_type("numeric")
    ('timestamptz', 'numeric(76,38)')
    """
    if is_enum:
        return "text"
    if name == "numeric":
        return WIDE_NUMERIC
    if name.startswith("numeric("):
        precision, _, scale = name[8:-1].partition(",")
        return name if 0 <= int(scale) <= int(precision) else None
    start, opened, rest = name.partition("(")
    return _TYPES.get(start.rstrip() + rest.partition(")")[2] if opened else name)


def _double(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _numeric(precision: int, scale: int) -> Callable[[str], str]:
    """The value as it is, or an error: the server would round it."""

    def read(text: str) -> str:
        number = Decimal(text)
        if not number.is_finite():
            raise ValueError(f"{text} is no finite number")
        if number:
            _, digits, exponent = number.as_tuple()
            assert isinstance(exponent, int)
            least = exponent + next(at for at, digit in enumerate(reversed(digits)) if digit)
            if least < -scale or number.adjusted() >= precision - scale:
                shown = text if len(text) <= 60 else text[:57] + "..."
                raise ValueError(f"{shown} does not fit numeric({precision},{scale}) without rounding")
        return text

    return read


# A value is read by the server as any other; here it only gets its form in JSON.
_READERS: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text == "t",
    "integer": int,
    "bigint": int,
    "double precision": _double,
    "jsonb": lambda text: msgspec.Raw(text.encode()),
    "bytea": lambda text: bytes.fromhex(text[2:]),
}


def reader(server_type: str) -> Callable[[str], Any]:
    """From the text of a value to what is sent as JSON (bytes travel as base64, numerics as text)."""
    if server_type.startswith("numeric("):
        precision, _, scale = server_type[8:-1].partition(",")
        return _numeric(int(precision), int(scale))
    return _READERS.get(server_type, str)
