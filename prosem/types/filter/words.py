"""The conditions of a filter in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cn.model.geometry import Extent
from prosem.types.shared.words import end_value
from prosem.values.columns import ColumnType

_MOST_VALUES = 8  # of an IN that are shown


def in_words(extent: Extent, kind: ColumnType) -> str:
    """An extent as people write it.

    >>> from cn.model.geometry import Interval
    >>> from prosem.values.columns import column_type
    >>> in_words(Extent((Interval(None, 3), Interval(7, 7)), null=True), column_type("integer"))
    '≤ 3 or = 7 or NULL'
    """
    parts = list(_parts(extent, kind))
    shown = (
        parts if len(parts) <= _MOST_VALUES else [*parts[:_MOST_VALUES], f"{len(parts) - _MOST_VALUES} more"]
    )
    return " or ".join(shown) or "nothing"


def _parts(extent: Extent, kind: ColumnType) -> Iterator[str]:
    for interval in extent.intervals:
        low, high = interval.low, interval.high
        if low is None and high is None:
            yield "any value"
        elif low == high:
            yield f"= {_shown(kind, low)}"
        elif low is None:
            yield f"{'<' if interval.high_open else '≤'} {_shown(kind, high)}"
        elif high is None:
            yield f"{'>' if interval.low_open else '≥'} {_shown(kind, low)}"
        else:
            left, right = ("<" if is_open else "≤" for is_open in (interval.low_open, interval.high_open))
            yield f"{_shown(kind, low)} {left} … {right} {_shown(kind, high)}"
    if extent.null:
        yield "NULL"


def _shown(kind: ColumnType, code: Any) -> str:
    value = end_value(kind, code)
    return "…" if value is None else repr(value) if isinstance(value, str) else str(value)
