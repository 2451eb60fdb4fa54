"""Intervals, boxes and extents over ordered codes. The only thing asked of a code is `<` and `==`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Code = Any
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class _Extreme:
    """A code below or above all others; it is used for a missing end where codes are no 64-bit integers."""

    __slots__ = ("_above", "_name")

    def __init__(self, name: str, *, above: bool) -> None:
        self._name, self._above = name, above

    def __repr__(self) -> str:
        return self._name

    def __lt__(self, other: object) -> bool:
        return not self._above and other is not self

    def __le__(self, other: object) -> bool:
        return not self._above or other is self

    def __gt__(self, other: object) -> bool:
        return self._above and other is not self

    def __ge__(self, other: object) -> bool:
        return self._above or other is self


BOTTOM, TOP = _Extreme("BOTTOM", above=False), _Extreme("TOP", above=True)


class Interval(NamedTuple):
    """All codes between two ends; None is no end. `low_open` and `high_open` exclude the end itself.

    >>> 3 in Interval(3, 5, low_open=True), 5 in Interval(3, 5)
    (False, True)
    """

    low: Code = None
    high: Code = None
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, code: object) -> bool:
        low, high, low_open, high_open = self
        if low is not None and (code <= low if low_open else code < low):
            return False
        return high is None or bool(code < high if high_open else code <= high)

    def is_empty(self) -> bool:
        """Whether no code can lie between the ends (two open ends at neighbouring codes are not noticed)."""
        low, high = self.low, self.high
        if low is None or high is None:
            return False
        return bool(high < low) or (low == high and (self.low_open or self.high_open))

    def meets(self, other: Interval) -> bool:
        """Whether `self & other` is not empty, without making it: networks ask that of every zone that a message may go to.

        >>> Interval(1, 3).meets(Interval(3, 5)), Interval(1, 3).meets(Interval(3, 5, low_open=True))
        (True, False)
        """
        low, high, low_open, high_open = self
        if other.low is not None and (
            low is None or other.low > low or (other.low_open and other.low == low)
        ):
            low, low_open = other.low, other.low_open
        if other.high is not None and (
            high is None or other.high < high or (other.high_open and other.high == high)
        ):
            high, high_open = other.high, other.high_open
        if low is None or high is None:
            return True
        return bool(low < high) or bool(low == high and not low_open and not high_open)

    def __and__(self, other: Interval) -> Interval:
        low, low_open, high, high_open = self.low, self.low_open, self.high, self.high_open
        if other.low is not None and (low is None or (other.low, other.low_open) > (low, low_open)):
            low, low_open = other.low, other.low_open
        if other.high is not None and (
            high is None or (other.high, not other.high_open) < (high, not high_open)
        ):
            high, high_open = other.high, other.high_open
        return Interval(low, high, low_open, high_open)


EVERYTHING = Interval()
Point = tuple[Code, ...]
Box = tuple[Interval, ...]
Region = tuple[Box, ...]  # disjoint boxes


def contains(region: Region, point: Point) -> bool:
    """Whether one of the boxes holds the point."""
    return any(all(code in side for code, side in zip(point, box, strict=True)) for box in region)


def difference(box: Box, hole: Box) -> Iterator[Box]:
    """`box` without `hole` as disjoint boxes, at most two per dimension.

    >>> for (side,) in difference((Interval(0, 9),), (Interval(3, 4),)):
    ...     print(side)
    Interval(low=0, high=3, low_open=False, high_open=True)
    Interval(low=4, high=9, low_open=True, high_open=False)
    """
    common = [a if a is b or a == b else a & b for a, b in zip(box, hole, strict=True)]
    if any(side.is_empty() for side in common):
        if not any(side.is_empty() for side in box):
            yield box
        return
    rest = list(box)
    for at, (side, inner) in enumerate(zip(box, common, strict=True)):
        if inner is side:
            continue
        below = Interval(side.low, inner.low, side.low_open, not inner.low_open)
        above = Interval(inner.high, side.high, not inner.high_open, side.high_open)
        if (
            inner.low is not None
            and (inner.low, inner.low_open) != (side.low, side.low_open)
            and not below.is_empty()
        ):
            yield (*rest[:at], below, *rest[at + 1 :])
        if (
            inner.high is not None
            and (inner.high, inner.high_open) != (side.high, side.high_open)
            and not above.is_empty()
        ):
            yield (*rest[:at], above, *rest[at + 1 :])
        rest[at] = inner


class Extent(NamedTuple):
    """A set of codes of one attribute: disjoint intervals in ascending order, and whether NULL belongs to it.

    [Beretta]'s normal form allows one interval or one set an attribute; this holds both, and `<>` too.
    """

    intervals: tuple[Interval, ...]
    null: bool = False

    def __contains__(self, code: object) -> bool:
        if code is None:
            return self.null
        return any(code in interval for interval in self.intervals)

    def is_empty(self) -> bool:
        return not self.intervals and not self.null

    def __and__(self, other: Extent) -> Extent:
        both = (a & b for a in self.intervals for b in other.intervals)
        return Extent(tuple(i for i in both if not i.is_empty()), self.null and other.null)


Filter = Mapping[int, Extent]  # attribute → extent; an attribute that is not named is not constrained
Filters = tuple[Filter, ...]  # one of them must hold; without any, none does
