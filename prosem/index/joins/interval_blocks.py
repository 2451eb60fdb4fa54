"""Intervals in order of their lower ends, with the least upper end of every block of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cn.match import kernels
from cn.model.geometry import Code

BLOCK_SIZE = 1024
NEAR = 4  # blocks that are looked through for intervals between two codes
Ends = tuple[Code, Code]  # (low, high) of a closed interval
Held = tuple[Code, Code, int]  # an interval and whose it is


class IntervalBlocks:
    """Intervals (low, high, ref) as blocks of three parallel columns, in their order.

    `minima[i]` is the least upper end in block i; `fences[i] <= every interval of block i < fences[i + 1]` (equal ones may
    stand on both sides). No block is empty, none holds more than `block_size`. 64-bit integers take 24 bytes an interval.
    A change costs O(log N + block), `first_end` O(N / block + block) of plain array scans, 40 µs among a million; with
    `before` close behind `after` it looks at a block or two.

    >>> blocks = IntervalBlocks(int64=True)
    >>> blocks.add_many([(1, 9), (3, 4), (6, 7)], [10, 11, 12])
    >>> blocks.first_end(None), blocks.first_end(3), blocks.first_end(6)
    ((3, 4), (6, 7), None)
    >>> blocks.inside(2, 8, 5), blocks.inside(2, 8, 1)
    ([11, 12], None)
    """

    __slots__ = ("_count", "_fences", "_highs", "_lows", "_minima", "_refs", "block_size", "int64")

    def __init__(self, int64: bool, *, block_size: int = BLOCK_SIZE) -> None:
        self.int64, self.block_size = int64, block_size
        self._count = 0
        self._lows: list[Any] = []
        self._highs: list[Any] = []
        self._refs: list[array[int]] = []
        self._minima: list[Code] = []
        self._fences: list[Held] = []

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Held]:
        for columns in zip(self._lows, self._highs, self._refs, strict=True):
            yield from zip(*columns, strict=True)

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, low: Code, high: Code, ref: int) -> None:
        held = low, high, ref
        if not self._fences:
            self._put(0, 0, [held])
        else:
            at = max(bisect_right(self._fences, held) - 1, 0)
            place = self._place(at, held)
            for column, value in zip((self._lows[at], self._highs[at], self._refs[at]), held, strict=True):
                column.insert(place, value)
            if high < self._minima[at]:
                self._minima[at] = high
            if not place:
                self._fences[at] = held
            if len(self._lows[at]) > self.block_size:
                self._put(at, 1, self._items(at))
        self._count += 1

    def add_many(self, intervals: Sequence[Ends] | NDArray[np.int64], refs: Sequence[int]) -> None:
        """Add a batch, sorted once; O((n + N) log (n + N))."""
        if self.int64:
            new = np.asarray(intervals, np.int64).reshape(-1, 2)
            lows = np.concatenate([*map(_vector, self._lows), new[:, 0]])
            highs = np.concatenate([*map(_vector, self._highs), new[:, 1]])
            owners = np.concatenate([*map(_vector, self._refs), np.asarray(refs, np.int64)])
            order = np.lexsort((owners, highs, lows))
            self._fill(*(array("q", column[order].tobytes()) for column in (lows, highs, owners)))
        else:
            fresh = ((low, high, ref) for (low, high), ref in zip(intervals, refs, strict=True))
            ordered = sorted([*self, *fresh])
            owners_of = array("q", [ref for _, _, ref in ordered])
            self._fill([low for low, _, _ in ordered], [high for _, high, _ in ordered], owners_of)

    def remove(self, low: Code, high: Code, ref: int) -> None:
        """Take an interval out; KeyError if it is not there."""
        held = low, high, ref
        if not self._fences:
            raise KeyError(held)
        at = max(bisect_right(self._fences, held) - 1, 0)
        lows, highs, refs = self._lows[at], self._highs[at], self._refs[at]
        place = self._place(at, held)
        if place == len(lows) or (lows[place], highs[place], refs[place]) != held:
            raise KeyError(held)
        del lows[place], highs[place], refs[place]
        self._count -= 1
        if not lows:
            del self._lows[at], self._highs[at], self._refs[at], self._minima[at], self._fences[at]
            return
        self._fences[at] = lows[0], highs[0], refs[0]
        if high == self._minima[at]:
            self._minima[at] = min(highs)
        if len(lows) < self.block_size // 4:
            self._merge(at)

    # -- questions -----------------------------------------------------------------------------------------
    def first_end(self, after: Code | None, before: Code | None = None) -> Ends | None:
        """Of the intervals with `after < low < before` (None: no end) one with the least upper end; None: there are none."""
        first = 0 if after is None else max(bisect_right(self._fences, after, key=_low) - 1, 0)
        stop = len(self._fences) if before is None else bisect_left(self._fences, before, first, key=_low)
        if first >= stop:
            return None
        lows, highs = self._lows[first], self._highs[first]
        place = 0 if after is None else bisect_right(lows, after)
        found = _least(lows, highs, place, self._end_of(first, before))
        if stop - first > 2:
            least = min(self._minima[first + 1 : stop - 1])
            if found is None or least < found[1]:
                where = self._minima.index(least, first + 1)
                found = self._lows[where][self._highs[where].index(least)], least
        if stop - first > 1:
            last = stop - 1
            behind = _least(self._lows[last], self._highs[last], 0, self._end_of(last, before))
            if behind is not None and (found is None or behind[1] < found[1]):
                found = behind
        return found

    def inside(self, after: Code, before: Code, limit: int) -> list[int] | None:
        """Whose intervals lie strictly between two codes, if they are at most `limit`; None if more, or far apart."""
        first = max(bisect_right(self._fences, after, key=_low) - 1, 0)
        stop = bisect_left(self._fences, before, first, key=_low)
        if stop - first > NEAR:
            return None
        found: list[int] = []
        for at in range(first, stop):
            start, end = bisect_right(self._lows[at], after), self._end_of(at, before)
            highs, refs = self._highs[at], self._refs[at]
            if self.int64 and end - start > limit:
                places = np.flatnonzero(_vector(highs)[start:end] < before).tolist()
            else:
                places = [place for place in range(end - start) if highs[start + place] < before]
            found += [refs[start + place] for place in places]
            if len(found) > limit:
                return None
        return found

    def _end_of(self, block: int, before: Code | None) -> int:
        """How many intervals of a block start before a code."""
        lows = self._lows[block]
        return len(lows) if before is None else bisect_left(lows, before)

    # -- blocks --------------------------------------------------------------------------------------------
    def _place(self, at: int, held: Held) -> int:
        """Where an interval stands, or would, in its block."""
        low, high, ref = held
        lows, highs = self._lows[at], self._highs[at]
        start = bisect_left(lows, low)
        stop = bisect_right(lows, low, start)
        start, stop = bisect_left(highs, high, start, stop), bisect_right(highs, high, start, stop)
        return bisect_left(self._refs[at], ref, start, stop)

    def _items(self, at: int) -> list[Held]:
        return list(zip(self._lows[at], self._highs[at], self._refs[at], strict=True))

    def _fill(self, lows: Any, highs: Any, refs: Any) -> None:
        size = max(1, self.block_size * 3 // 4)
        starts = range(0, len(lows), size)
        self._count = len(lows)
        self._lows = [lows[at : at + size] for at in starts]
        self._highs = [highs[at : at + size] for at in starts]
        self._refs = [refs[at : at + size] for at in starts]
        self._minima = [min(some) for some in self._highs]
        self._fences = [(lows[at], highs[at], refs[at]) for at in starts]

    def _put(self, at: int, count: int, intervals: list[Held]) -> None:
        """Put these, in order, in the place of `count` blocks: in two halves if they are too many for one."""
        middle = len(intervals) // 2
        parts = [intervals] if len(intervals) <= self.block_size else [intervals[:middle], intervals[middle:]]
        here = slice(at, at + count)
        column = (lambda codes: array("q", codes)) if self.int64 else list
        self._lows[here] = [column([low for low, _, _ in part]) for part in parts]
        self._highs[here] = [column([high for _, high, _ in part]) for part in parts]
        self._refs[here] = [array("q", [ref for _, _, ref in part]) for part in parts]
        self._minima[here] = [min(high for _, high, _ in part) for part in parts]
        self._fences[here] = [part[0] for part in parts]

    def _merge(self, at: int) -> None:
        """Join a sparse block with a neighbour if they are half a block together."""
        for left in (at, at - 1):
            if 0 <= left < len(self._lows) - 1:
                count = len(self._lows[left]) + len(self._lows[left + 1])
                if count <= self.block_size // 2:
                    self._put(left, 2, self._items(left) + self._items(left + 1))
                    return

    @property
    def nbytes(self) -> int:
        """Bytes held, without the codes themselves where they are objects."""
        return 24 * self._count + 320 * len(self._fences)

    def check(self) -> None:
        """Assert the order of intervals and blocks, the sizes and the minima."""
        everything = list(self)
        assert all(a <= b for a, b in pairwise(everything)), "intervals ascend"
        assert len(everything) == self._count, "the count is kept"
        columns = self._lows, self._highs, self._refs, self._minima, self._fences
        assert len({*map(len, columns)}) == 1, "the columns are parallel"
        for lows, highs, refs, least, fence in zip(*columns, strict=True):
            assert 0 < len(lows) == len(highs) == len(refs) <= self.block_size, (
                "no block is empty or too large"
            )
            assert least == min(highs), "the least upper end of a block is known"
            assert fence == (lows[0], highs[0], refs[0]), "a fence is the first interval of its block"


def interval_blocks(int64: bool) -> IntervalBlocks:
    """An empty index of intervals; both implementations pass the tests of `IntervalBlocks`."""
    module = kernels.compiled()
    if module is None or not int64:
        return IntervalBlocks(int64)
    return cast(IntervalBlocks, module.IntervalBlocks(int64))


def _vector(column: Any) -> NDArray[np.int64]:
    return np.frombuffer(column, np.int64)


def _least(lows: Any, highs: Any, start: int, stop: int) -> Ends | None:
    """The interval with the least upper end between two places of a block."""
    if start >= stop:
        return None
    least = min(highs[start:stop])
    return lows[highs.index(least, start)], least


def _low(fence: Held) -> Code:
    return fence[0]
