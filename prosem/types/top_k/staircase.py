"""The ranges that have a row among their first k: a staircase of the (lo, hi) space.

They hold the row's x and fewer than k rows of lower rank. With the x of the nearest lower-ranked rows on each side, a range
that holds i of them on the left may hold k - 1 - i on the right: one box for each i, at most k, and fewer where ends are
equal or missing. See docs/explanation.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cn.model.geometry import Box, Code, Interval, Region

_new = tuple.__new__  # a third quicker than calling the class of a named tuple
Step = tuple[Code | None, Code, Code | None]  # outer < lo <= inner, and hi < end (None: no end)
# A piece of the lo axis with the part of the hi axis that belongs to it: outer < lo <= inner, begin <= hi < end.
Strip = tuple[Code | None, Code, Code, Code | None]


@dataclass(frozen=True)
class Staircase:
    """`lefts` and `rights`: the x of the nearest lower-ranked rows at or left of x and right of it, at most `count` each."""

    x: Code
    lefts: Sequence[Code]
    rights: Sequence[Code]
    count: int

    def lower_in(self, low: Code, high: Code) -> int:
        """How many lower-ranked rows a range around x holds; `count` or more: the row is not among its first."""
        return self._left_of(low) + bisect_right(self.rights, high)

    def _left_of(self, low: Code) -> int:
        """How many of the lefts, which descend, are at or after `low`."""
        first, last = 0, len(self.lefts)
        while first < last:
            middle = (first + last) // 2
            if self.lefts[middle] < low:
                last = middle
            else:
                first = middle + 1
        return first

    @property
    def hull(self) -> Box:
        """The box around the staircase."""
        last = self.count - 1
        left = self.lefts[last] if len(self.lefts) > last else None
        return hull(self.x, left, self.rights[last] if len(self.rights) > last else None)

    def holds(self, low: Code, high: Code) -> bool:
        """Whether a range has the row among its first."""
        return low <= self.x <= high and self.lower_in(low, high) < self.count

    @cached_property
    def steps(self) -> list[Step]:
        """The boxes from the narrowest lo outward, each as wide as it can be: ends grow smaller."""
        return self._steps(1)

    def _steps(self, stride: int) -> list[Step]:
        """So many boxes as one: as long as the last of them, and as wide as the first."""
        steps: list[Step] = []
        inner, lefts, rights, count = self.x, self.lefts, self.rights, self.count
        for number in range(0, count, stride):
            last = min(number + stride, count) - 1
            end = rights[count - number - 1] if count - number <= len(rights) else None
            outer = lefts[last] if last < len(lefts) else None
            if outer is not None and not outer < inner:
                continue  # rows at one x: no range holds some of them alone
            if steps and (steps[-1][2] is end or steps[-1][2] == end):
                steps[-1] = outer, steps[-1][1], end
            else:
                steps.append((outer, inner, end))
            if outer is None:
                break
            inner = outer
        return steps

    def region(self, limit: int) -> Region:
        """The staircase as boxes; as a superset of at most `limit` where it may have more."""
        steps = self.steps if self.count <= limit else self._steps(-(-self.count // limit))
        return tuple([_box(outer, inner, self.x, end) for outer, inner, end in steps])


def hull(x: Code, left_end: Code | None, right_end: Code | None) -> Box:
    """The box around a staircase, by the k-th lower-ranked row on each side."""
    return _box(left_end, x, x, right_end)


def without(stairs: Staircase, other: Staircase) -> Region:
    """The ranges of one staircase that are not in the other, as disjoint boxes; O(k)."""
    if stairs == other:
        return ()
    strips: list[Strip] = []
    for strip in _strips_without(stairs, other):
        last = strips[-1] if strips else None
        if last is not None and last[2:] == strip[2:] and last[0] == strip[1]:
            strips[-1] = strip[0], last[1], strip[2], strip[3]
        else:
            strips.append(strip)
    return tuple([_box(*strip) for strip in strips])


def _strips_without(stairs: Staircase, other: Staircase) -> Iterator[Strip]:
    """Outward along lo, over both lists of steps at once."""
    holes, at = other.steps, 0
    for outer, inner, end in stairs.steps:
        lo = inner
        while _is_before(outer, lo):
            while at < len(holes) and not _is_before(holes[at][0], lo):
                at += 1
            if at == len(holes) or not _is_before(outer, holes[at][1]):
                yield outer, lo, stairs.x, end
                break
            hole_outer, hole_inner, hole_end = holes[at]
            if hole_inner < lo:
                yield hole_inner, lo, stairs.x, end
                lo = hole_inner
            bottom = hole_outer if _is_before(outer, hole_outer) else outer
            yield from _hi_left(bottom, lo, stairs.x, end, other.x, hole_end)
            lo = bottom


def _hi_left(
    outer: Code | None, inner: Code, begin: Code, end: Code | None, hole_begin: Code, hole_end: Code | None
) -> Iterator[Strip]:
    """What is left of begin <= hi < end beside the hole: at most a part on each side."""
    if begin < hole_begin:
        yield outer, inner, begin, hole_begin if end is None or hole_begin < end else end
    if hole_end is not None and (end is None or hole_end < end):
        yield outer, inner, hole_end if begin < hole_end else begin, end


def _is_before(outer: Code | None, code: Code | None) -> bool:
    """Whether a code lies after an end on the left (None: there is no end)."""
    if code is None:
        return False
    return outer is None or bool(outer < code)


def _box(outer: Code | None, inner: Code, begin: Code, end: Code | None) -> Box:
    """outer < lo <= inner and begin <= hi < end."""
    lo: Any = _new(Interval, (outer, inner, True, False))
    return lo, _new(Interval, (begin, end, False, True))
