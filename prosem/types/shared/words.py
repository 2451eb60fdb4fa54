"""Places in the values of their columns, for people: what a topic and a point stand for."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from cn.model.geometry import BOTTOM, INT64_MAX, INT64_MIN, TOP
from prosem.values.codes import value_of
from prosem.values.columns import ColumnType
from prosem.values.model import JsonObject, Table
from prosem.values.wire import decode


def range_ends(ranged: Sequence[tuple[Table, int, str]], place: Sequence[Any]) -> JsonObject:
    """Both ends of each range by its name; a place holds them in pairs."""
    return {
        name: [end_value(table.columns[at].type, code) for code in place[2 * number : 2 * number + 2]]
        for number, (table, at, name) in enumerate(ranged)
    }


def equal_values(table: Table, equal: tuple[int, ...], topic: bytes) -> JsonObject:
    """The values of the equality conditions that a topic stands for."""
    codes = decode(topic) if equal else []
    return {
        table.names[at]: value_of(table.columns[at].type, code) for at, code in zip(equal, codes, strict=True)
    }


def end_value(kind: ColumnType, code: Any) -> Any:
    """The value at an end of a range; None where the range has no end, or it lies beyond all values of the type."""
    if code is BOTTOM or code is TOP or code is None or (kind.int64 and code in (INT64_MIN, INT64_MAX)):
        return None
    try:
        value = value_of(kind, code)
    except (ValueError, ArithmeticError, struct.error):
        return None
    return value if not isinstance(value, float) or math.isfinite(value) else None
