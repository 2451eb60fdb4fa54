"""The blocks of a point index, in order, and the bounds by which a search skips them."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cn.match.block import (
    FIRST,
    ID,
    TOPIC,
    Block,
    Column,
    Entry,
    Fence,
    Ids,
    as_vector,
    cut,
    joined,
    lexicographic,
)
from cn.match.span import Span

NARROW = 6  # up to so many blocks are looked at without asking first which of them can be skipped


class Slabs:
    """Blocks of at most `block_size` points in the lexicographic order of (topic, c0, c1, ..., id).

    `fences[i] <= every key of blocks[i] < fences[i + 1]`, and the first fence is (). No block is empty; two
    neighbours hold more than half a block together. The bounds of a block hold all its points, and are made
    exact again when an eighth of them has left. A change costs O(log N + block): at times it splits or merges
    one block.
    """

    __slots__ = ("_bounds", "block_size", "blocks", "fences", "highs", "int64", "lows", "sorting", "visits")

    def __init__(self, dimensions: int, int64: bool, block_size: int) -> None:
        self.int64, self.block_size = int64, block_size
        self.sorting = FIRST + min(1, dimensions - 1)
        self.visits = 0
        self.blocks: list[Block] = []
        self.fences: list[Fence] = []
        self.lows: list[Column] = [array("q") if int64 else [] for _ in range(dimensions)]
        self.highs: list[Column] = [array("q") if int64 else [] for _ in range(dimensions)]
        bounds = enumerate(zip(self.lows, self.highs, strict=True), FIRST)
        self._bounds = [(column, *both) for column, both in bounds if column != self.sorting]

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, entry: Entry) -> None:
        """Add a point that is not there yet."""
        if not self.blocks:
            codes = [array("q", [code]) if self.int64 else [code] for code in entry[FIRST:]]
            self._replace(0, 0, [((), Block([array("q", [entry[ID]]), array("q", [entry[TOPIC]]), *codes]))])
            return
        at = self._block_of(entry)
        block = self.blocks[at]
        block.insert(entry, self.sorting)
        if len(block) > self.block_size:
            self._replace(at, 1, [*cut(lexicographic(block.columns), self.block_size, self.sorting)])
        else:
            self._widen(at, entry)

    def take(self, entry: Entry) -> bool:
        """Take a point out and say whether it was there."""
        if not self.blocks:
            return False
        at = self._block_of(entry)
        block = self.blocks[at]
        position = block.position(entry, self.sorting)
        if position is None:
            return False
        block.pop(position)
        if len(block) > self.block_size // 2 or not self._merge_sparse(at):
            self._loosen(at, entry)
        return True

    def exchange(self, old: Entry, new: Entry) -> bool:
        """Put one point in the place of another and say whether the other was there."""
        if not self.blocks:
            return False
        at = self._block_of(old)
        if self._block_of(new) != at:
            if not self.take(old):
                return False
            self.add(new)
            return True
        block = self.blocks[at]
        position = block.position(old, self.sorting)
        if position is None:
            return False
        block.pop(position)
        block.insert(new, self.sorting)
        self._widen(at, new)
        self._loosen(at, old)
        return True

    def merge(self, columns: list[Column]) -> None:
        """Add many points to the blocks they belong to, all at once.

        O(n log n + N) moves; the blocks that get points are sorted again.
        """
        columns = lexicographic(columns)
        ids, rest, length = columns[ID], columns[TOPIC:], len(columns[ID])
        key = lambda at: (*[column[at] for column in rest], ids[at])
        if not self.blocks:
            self._replace(0, 0, [*cut(columns, self.block_size * 3 // 4, self.sorting)])
            return
        ends = [bisect_left(range(length), fence, key=key) for fence in self.fences[1:]]
        fresh: list[tuple[Fence, Block]] = []
        start = 0
        for fence, block, end in zip(self.fences, self.blocks, [*ends, length], strict=True):
            part = [column[start:end] for column in columns]
            if start == end:
                fresh.append((fence, block))
            elif len(block) + end - start <= self.block_size:
                fresh.append((fence, joined(block.columns, part, self.sorting)))
            else:
                both = lexicographic([old + new for old, new in zip(block.columns, part, strict=True)])
                (_, first), *others = cut(both, self.block_size * 3 // 4, self.sorting)
                fresh += [(fence, first), *others]
            start = end
        self._replace(0, len(self.blocks), fresh)

    # -- search --------------------------------------------------------------------------------------------
    def collect(
        self,
        spans: Sequence[Span],
        few: list[Any],
        many: list[Ids],
        *,
        first_only: bool = False,
        selected: int = ID,
    ) -> bool:
        """Add the ids (or another column) of the points within all spans to the two lists; whether there are any.

        `spans` has one span a column (that of the ids is not looked at). With `first_only` the search ends
        with the first block that has such a point.
        """
        (topic, _, _), (low, _, ceiling) = spans[TOPIC], spans[FIRST]
        fences, sorting, found = self.fences, self.sorting, False
        first = max(bisect_right(fences, (topic, low)) - 1, 0)
        last = bisect_left(fences, (topic + 1,) if ceiling is None else (topic, ceiling), first)
        reachable: Sequence[int] = range(first, last)
        if last - first > NARROW:
            reachable = self._reachable(range(first, last), spans)
        for at in reachable:
            self.visits += 1
            outside = []
            for column, lows, highs in self._bounds:
                low, high, _ = spans[column]
                if lows[at] < low or highs[at] > high:
                    outside.append(column)
            if self.blocks[at].select(spans, outside, sorting, few, many, selected):
                found = True
                if first_only:
                    break
        return found

    def _reachable(self, blocks: range, spans: Sequence[Span]) -> Sequence[int]:
        """Those of the blocks whose bounds meet the spans of all dimensions but the first."""
        start, stop = blocks.start, blocks.stop
        sides = list(zip(spans[FIRST:], self.lows, self.highs, strict=True))[1:]
        if not sides:
            return blocks
        if not self.int64:
            reachable: Sequence[int] = blocks
            for (low, high, _), lows, highs in sides:
                reachable = [at for at in reachable if lows[at] <= high and highs[at] >= low]
            return reachable
        mask = np.ones(len(blocks), np.bool_)
        for (low, high, _), lows, highs in sides:
            mask &= as_vector(lows)[start:stop] <= high
            mask &= as_vector(highs)[start:stop] >= low
        found: list[int] = (np.flatnonzero(mask) + start).tolist()
        return found

    # -- blocks and bounds ---------------------------------------------------------------------------------
    def _block_of(self, entry: Entry) -> int:
        return bisect_right(self.fences, (*entry[TOPIC:], entry[ID])) - 1

    def _merge_sparse(self, at: int) -> bool:
        """Merge a block with a neighbour, if they are half a block together, and drop it when it is empty."""
        if not len(self.blocks[at]):
            self._replace(at, 1, [])
            return True
        for left in (at, at - 1):
            if 0 <= left < len(self.blocks) - 1:
                first, second = self.blocks[left : left + 2]
                if len(first) + len(second) <= self.block_size // 2:
                    merged = joined(first.columns, second.columns, self.sorting)
                    self._replace(left, 2, [(self.fences[left], merged)])
                    return True
        return False

    def _widen(self, at: int, entry: Entry) -> None:
        """Let the bounds of a block hold a point."""
        for value, lows, highs in zip(entry[FIRST:], self.lows, self.highs, strict=True):
            if value < lows[at]:
                lows[at] = value
            if value > highs[at]:
                highs[at] = value

    def _loosen(self, at: int, entry: Entry) -> None:
        """Note that a point has left a block; make the bounds exact when too many have left at a bound."""
        block = self.blocks[at]
        for value, lows, highs in zip(entry[FIRST:], self.lows, self.highs, strict=True):
            if value == lows[at] or value == highs[at]:
                block.loose += 1
                break
        if block.loose * 8 > len(block):
            block.loose = 0
            for (low, high), lows, highs in zip(block.bounds(), self.lows, self.highs, strict=True):
                lows[at], highs[at] = low, high

    def _replace(self, at: int, count: int, fresh: list[tuple[Fence, Block]]) -> None:
        """Put other blocks in the place of `count` blocks."""
        if count and fresh:
            fresh[0] = (self.fences[at], fresh[0][1])
        here = slice(at, at + count)
        self.fences[here] = [fence for fence, _ in fresh]
        self.blocks[here] = [block for _, block in fresh]
        if self.fences:
            self.fences[0] = ()
        bounds = [list(block.bounds()) for _, block in fresh]
        for column, (lows, highs) in enumerate(zip(self.lows, self.highs, strict=True)):
            for ends, side in ((lows, 0), (highs, 1)):
                values = [bound[column][side] for bound in bounds]
                ends[here] = array("q", values) if isinstance(ends, array) else values

    @property
    def nbytes(self) -> int:
        """Bytes held, without the codes themselves where they are objects."""
        tables = sum(map(sys.getsizeof, (self.blocks, self.fences, *self.lows, *self.highs)))
        fences = sum(sys.getsizeof(fence) + 32 * len(fence) for fence in self.fences)
        return tables + fences + sum(block.nbytes for block in self.blocks)

    def check(self) -> None:
        """Assert the order of keys and blocks, the sizes and the bounds."""
        assert len(self.fences) == len(self.blocks)
        assert all(len(bound) == len(self.blocks) for bound in (*self.lows, *self.highs))
        assert self.fences[:1] in ([], [()])
        sizes = [len(block) for block in self.blocks]
        assert all(0 < size <= self.block_size for size in sizes)
        assert all(sum(sizes[at : at + 2]) > self.block_size // 2 for at in range(len(sizes) - 1))
        for at, block in enumerate(self.blocks):
            ids, *values = block.columns
            assert all(len(column) == len(block) for column in block.columns)
            order = list(zip(values[0], block.columns[self.sorting], ids, strict=True))
            assert order == sorted(order)
            keys = sorted(zip(*values, ids, strict=True))
            assert all(first != second for first, second in pairwise(keys)), "a point twice"
            assert self.fences[at] <= keys[0]
            assert at + 1 == len(self.blocks) or keys[-1] < self.fences[at + 1]
            for (low, high), lows, highs in zip(block.bounds(), self.lows, self.highs, strict=True):
                assert lows[at] <= low
                assert high <= highs[at]
                assert block.loose or (lows[at], highs[at]) == (low, high)
