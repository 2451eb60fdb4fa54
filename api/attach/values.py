"""Types of the source in the server's types, and values from PostgreSQL's text to JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

# format_type() of the source without what stands in parentheses → type of the server
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


def server_type(name: str, is_enum: bool = False) -> str | None:
    """The server's type for a type of the source, as format_type() writes it; None if there is none.

    >>> server_type("character varying(20)"), server_type("numeric(12,2)"), server_type("point")
    ('text', 'numeric(12,2)', None)
    >>> server_type("timestamp(3) with time zone")
    'timestamptz'
    """
    if is_enum:
        return "text"
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
    return _READERS.get(server_type, str)
