"""The stabbing-set index: few points such that every interval holds one of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import Code
from prosem.index.joins.interval_blocks import Ends, IntervalBlocks, interval_blocks

BULK = 20  # a batch of at least a twentieth of what is there is taken in at once


class StabbingSet:
    """Anchors for a changing multiset of closed intervals: each interval holds an anchor, and there are at most twice as
    many anchors as the least possible number. [ProSem thesis] 5.3.1.

    The proof is kept with them. *Witnesses* are some of the intervals, pairwise disjoint, so no set of anchors is smaller
    than they are many. Anchors are upper ends of all witnesses and lower ends of some. No interval lies strictly
    inside a witness or between two of them (it would be one); so any other holds an end of a witness, and if that is
    a lower end that is no anchor yet, it becomes one. When a witness goes, or an interval comes to lie inside one, at
    most three are chosen anew in its place, always the interval that ends first.

    Where the source rebuilds its clusters now and then, nothing here is amortised: a change costs O(log N) where it
    touches no witness, which is the rule, and else a few questions to `IntervalBlocks`. A batch into an empty index has
    the least number of anchors.

    >>> anchors = StabbingSet(int64=True)
    >>> anchors.add_many([(1, 4), (3, 8), (6, 9), (20, 30)], [1, 2, 3, 4])
    >>> anchors.anchors
    [4, 9, 30]
    >>> anchors.remove(20, 30, 4)
    >>> anchors.any_between(5, 9), anchors.any_between(5, 10), anchors.between(5, 10, 8)
    (False, True, [3])
    """

    __slots__ = ("_highs", "_lows", "anchors", "intervals")

    def __init__(self, int64: bool, *, intervals: IntervalBlocks | None = None) -> None:
        self.intervals = interval_blocks(int64) if intervals is None else intervals
        self._lows: list[Code] = []  # of the witnesses, in order
        self._highs: list[Code] = []
        self.anchors: list[Code] = []  # in order

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self.intervals)

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, low: Code, high: Code, ref: int) -> None:
        """Take in an interval of `ref`."""
        self.intervals.add(low, high, ref)
        anchors = self.anchors
        at = bisect_left(anchors, low)
        if at < len(anchors) and anchors[at] <= high:
            return
        at = bisect_left(self._highs, low)  # the first witness that may reach into it; it ends behind it
        if at == len(self._highs) or high < self._lows[at]:
            self._lows.insert(at, low)
            self._highs.insert(at, high)
            insort(anchors, high)
        elif low <= self._lows[at]:
            insort(anchors, self._lows[at])
        else:
            self._drop(at)

    def add_many(self, intervals: Sequence[Ends] | NDArray[np.int64], refs: Sequence[int]) -> None:
        if len(intervals) * BULK < len(self.intervals):
            for (low, high), ref in zip(intervals, refs, strict=True):
                self.add(low, high, ref)
            return
        self.intervals.add_many(intervals, refs)
        self._lows, self._highs, self.anchors = [], [], []
        self._choose(0)

    def remove(self, low: Code, high: Code, ref: int) -> None:
        """Take an interval out; KeyError if it is not there."""
        self.intervals.remove(low, high, ref)
        at = bisect_left(self._lows, low)
        if at < len(self._lows) and self._lows[at] == low and self._highs[at] == high:
            self._drop(at)

    # -- questions -----------------------------------------------------------------------------------------
    def any_between(self, low: Code, high: Code) -> bool:
        """Whether an interval lies strictly between two codes as a whole. Without an anchor there, none does: O(log)."""
        at = bisect_right(self.anchors, low)
        if at == len(self.anchors) or not self.anchors[at] < high:
            return False
        found = self.intervals.first_end(low, high)
        return found is not None and bool(found[1] < high)

    def between(self, low: Code, high: Code, limit: int) -> list[int] | None:
        """Whose intervals lie strictly between two codes, if that is soon known; None: many, perhaps."""
        return self.intervals.inside(low, high, limit)

    # -- witnesses -----------------------------------------------------------------------------------------
    def _drop(self, at: int) -> None:
        """A witness ceases to be one."""
        low, high = self._lows.pop(at), self._highs.pop(at)
        start, stop = bisect_left(self.anchors, low), bisect_right(self.anchors, high)
        del self.anchors[start:stop]  # its own ends; no anchor lies inside
        self._choose(at)

    def _choose(self, at: int) -> None:
        """Choose witnesses behind the one before place `at`, as long as they end before the one that stands there."""
        lows, highs = self._lows, self._highs
        after = highs[at - 1] if at else None
        while (found := self.intervals.first_end(after)) is not None:
            low, high = found
            if at < len(lows) and lows[at] <= high:
                self._set_lower_anchor(at, high < highs[at])
                return
            lows.insert(at, low)
            highs.insert(at, high)
            insort(self.anchors, high)
            at, after = at + 1, high

    def _set_lower_anchor(self, at: int, needed: bool) -> None:
        low, high = self._lows[at], self._highs[at]
        place = bisect_left(self.anchors, low)
        stands = low == high or self.anchors[place] == low
        if needed and not stands:
            self.anchors.insert(place, low)
        elif stands and not needed and low != high:
            del self.anchors[place]

    def check(self) -> None:
        """Assert the promise and what it rests on; O(N log N)."""
        self.intervals.check()
        intervals = [(low, high) for low, high, _ in self.intervals]
        witnesses = list(zip(self._lows, self._highs, strict=True))
        assert all(before[1] < after[0] for before, after in pairwise(witnesses)), "witnesses are disjoint"
        assert set(witnesses) <= set(intervals), "witnesses are intervals that are there"
        assert all(a < b for a, b in pairwise(self.anchors)), "anchors ascend"
        assert set(self._highs) <= set(self.anchors) <= {*self._lows, *self._highs}, (
            "anchors are their ends, all upper ones among them"
        )
        for low, high in intervals:
            at = bisect_left(self.anchors, low)
            assert at < len(self.anchors), "every interval holds an anchor"
            assert self.anchors[at] <= high, "every interval holds an anchor"
