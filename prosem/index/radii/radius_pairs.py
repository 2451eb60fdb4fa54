"""Pairs of radii (may, must) of one data item: a sorted set in blocks that knows the least `must` of each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Self

from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.radius_block import RadiusBlocks

_must = itemgetter(1)


class RadiusPairs(RadiusBlocks):
    """Ordered by `may`, then by `must` ([ProSem thesis] 4.6.1). A change looks through one block for its least `must`.

    >>> pairs = RadiusPairs([(1, 9), (2, 5), (3, 7)])
    >>> pairs.least_must((1, 9), (3, 7)), pairs.least_must((3, 7), (3, 7))
    (5, 7)
    """

    __slots__ = ("_leasts",)

    def __init__(self, radii: Iterable[Radius] = ()) -> None:
        self._leasts: list[Radius] = []
        super().__init__(radii)

    def _renewed(self, at: int, before: int, after: int) -> None:
        self._leasts[at : at + before] = [min(map(_must, block)) for block in self._blocks[at : at + after]]

    def shared(self, radius: Radius) -> Self:
        copied = super().shared(radius)
        copied._leasts = list(self._leasts)
        return copied

    def least_must(self, low: Radius, high: Radius) -> Radius:
        """The least `must` from one pair to another; O(block + blocks)."""
        if low is high:
            return low[1]
        first, last = bisect_right(self._firsts, low) - 1, bisect_right(self._firsts, high) - 1
        block = self._blocks[first]
        start = bisect_left(block, low)
        if first == last:
            return min(map(_must, block[start : bisect_right(block, high)]))
        end = self._blocks[last]
        found = [min(map(_must, block[start:])), min(map(_must, end[: bisect_right(end, high)]))]
        return min(found + self._leasts[first + 1 : last])

    def check(self) -> None:
        super().check()
        assert self._leasts == [min(map(_must, block)) for block in self._blocks], "the least of each block"
