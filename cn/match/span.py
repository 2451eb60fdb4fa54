"""Intervals as closed spans `low <= code <= high`: the one form that bisection and comparison need.

A span is `(low, high, ceiling)`, a plain tuple because some are made for every search. `ceiling` parts the
codes up to `high` from all others; it is None if there are no others.
"""

from __future__ import annotations

from typing import Any

from cn.model.geometry import BOTTOM, INT64_MAX, INT64_MIN, TOP, Code, Interval

Span = tuple[Code, Code, Code | None]


class Edge:
    """The gap just before or just after a code: an open end that compares with codes and equals none.

    >>> Edge("b", after=True) <= "b", Edge("b", after=False) <= "b", "c" >= Edge("b", after=True)
    (False, True, True)
    """

    __slots__ = ("after", "code")

    def __init__(self, code: Code, *, after: bool) -> None:
        self.code = code
        self.after = after

    def __lt__(self, other: Any) -> bool:
        return bool(self.code < other) or (not self.after and bool(self.code == other))

    def __gt__(self, other: Any) -> bool:
        return not self < other

    __le__, __ge__ = __lt__, __gt__


def integer_span(interval: Interval) -> Span | None:
    """The 64-bit integers of an interval, whose ends may be any integers; None if there are none.

    >>> integer_span(Interval(3, 2**70, low_open=True))
    (4, 9223372036854775807, 9223372036854775808)
    """
    low, high, low_open, high_open = interval
    if low is None or low < INT64_MIN:
        low = INT64_MIN
    elif low_open:
        low += 1
    if high is None or high > INT64_MAX:
        high = INT64_MAX
    elif high_open:
        high -= 1
    return (low, high, high + 1) if low <= high else None


def object_span(interval: Interval) -> Span | None:
    """The codes of any ordered kind in an interval; None if it is seen to be empty."""
    low, high, low_open, high_open = interval
    if interval.is_empty() or (low is TOP and low_open) or (high is BOTTOM and high_open):
        return None
    if low is None:
        low = BOTTOM
    elif low_open:
        low = Edge(low, after=True)
    if high is None:
        high = TOP
    elif high_open:
        high = Edge(high, after=False)
        return low, high, high
    return low, high, (None if high is TOP else Edge(high, after=True))
