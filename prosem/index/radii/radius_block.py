"""The radii of one data item: a sorted set in blocks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import chain, pairwise
from typing import Self

from prosem.index.radii.ba_tree_ends import Radius

BLOCK = 512  # radii of a block when it is split in two


class RadiusBlocks:
    """Distinct radii in ascending order: blocks of up to BLOCK of them, and the first radius of each block.

    Neighbours are found in O(log N); a change shifts one block, and seldom the list of blocks.

    >>> radii = RadiusBlocks([2, 4, 6])
    >>> radii.around(4), radii.around(1), radii.next(4), radii.previous(2), 5 in radii
    ((4, 6), (None, 2), 6, None, False)
    """

    __slots__ = ("_blocks", "_count", "_firsts")

    def __init__(self, radii: Iterable[Radius] = ()) -> None:
        ordered = sorted(radii)
        step = BLOCK * 3 // 4
        self._blocks = [ordered[at : at + step] for at in range(0, len(ordered), step)]
        self._firsts = [block[0] for block in self._blocks]
        self._count = len(ordered)
        self._renewed(0, 0, len(self._blocks))

    def _renewed(self, at: int, before: int, after: int) -> None:
        """So many blocks from a place on have become so many others: subclasses that keep figures of blocks count anew."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Radius]:
        return chain.from_iterable(self._blocks)

    def __contains__(self, radius: Radius) -> bool:
        at = bisect_right(self._firsts, radius) - 1
        if at < 0:
            return False
        block = self._blocks[at]
        place = bisect_left(block, radius)
        return place < len(block) and bool(block[place] == radius)

    @property
    def first(self) -> Radius:
        return self._firsts[0]

    @property
    def last(self) -> Radius:
        return self._blocks[-1][-1]

    def around(self, radius: Radius) -> tuple[Radius | None, Radius | None]:
        """The largest radius up to the given one, and the smallest above it."""
        at = bisect_right(self._firsts, radius) - 1
        if at < 0:
            return None, self._firsts[0] if self._firsts else None
        block = self._blocks[at]
        place = bisect_right(block, radius)
        if place < len(block):
            return block[place - 1], block[place]
        return block[-1], self._firsts[at + 1] if at + 1 < len(self._firsts) else None

    def next(self, radius: Radius) -> Radius | None:
        """The smallest radius above the given one."""
        return self.around(radius)[1]

    def previous(self, radius: Radius) -> Radius | None:
        """The largest radius below the given one."""
        at = bisect_left(self._firsts, radius) - 1
        return None if at < 0 else self._blocks[at][bisect_left(self._blocks[at], radius) - 1]

    def cut(self, past: Callable[[Radius], bool]) -> tuple[Radius | None, Radius | None]:
        """The last radius that is not past a point, and the first that is; `past` holds from one radius on."""
        at = bisect_left(self._firsts, True, key=past) - 1
        if at < 0:
            return None, self._firsts[0] if self._firsts else None
        block = self._blocks[at]
        place = bisect_left(block, True, key=past)
        if place < len(block):
            return block[place - 1], block[place]
        return block[-1], self._firsts[at + 1] if at + 1 < len(self._firsts) else None

    def shared(self, radius: Radius) -> Self:
        """A copy to which this radius can be added; all blocks are shared but the one where it goes."""
        copied = copy(self)
        copied._blocks, copied._firsts = list(self._blocks), list(self._firsts)
        if copied._blocks:
            at = max(0, bisect_right(self._firsts, radius) - 1)
            copied._blocks[at] = list(self._blocks[at])
        return copied

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, radius: Radius) -> None:
        """Put a radius in that is not there."""
        self._count += 1
        if not self._blocks:
            self._blocks, self._firsts = [[radius]], [radius]
            self._renewed(0, 0, 1)
            return
        at = max(0, bisect_right(self._firsts, radius) - 1)
        block = self._blocks[at]
        block.insert(bisect_left(block, radius), radius)
        self._firsts[at] = block[0]
        if len(block) > BLOCK:
            half = len(block) // 2
            self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._firsts.insert(at + 1, block[half])
            self._renewed(at, 1, 2)
        else:
            self._renewed(at, 1, 1)

    def remove(self, radius: Radius) -> None:
        """Take a radius out that is there."""
        self._count -= 1
        at = bisect_right(self._firsts, radius) - 1
        block = self._blocks[at]
        del block[bisect_left(block, radius)]
        if not block:
            del self._blocks[at], self._firsts[at]
            self._renewed(at, 1, 0)
            return
        self._firsts[at] = block[0]
        self._renewed(at, 1, 1)
        if len(block) < BLOCK // 4 and len(self._blocks) > 1:
            left = max(0, at - 1)
            both = self._blocks[left] + self._blocks[left + 1]
            if len(both) <= BLOCK * 3 // 4:
                self._blocks[left : left + 2] = [both]
                del self._firsts[left + 1]
                self._renewed(left, 2, 1)

    def check(self) -> None:
        """The invariants, in O(N)."""
        assert all(0 < len(block) <= BLOCK for block in self._blocks), "no block is empty or too long"
        assert self._firsts == [block[0] for block in self._blocks], "the first radius of each block is known"
        assert all(a < b for a, b in pairwise(self)), "radii ascend strictly"
        assert sum(map(len, self._blocks)) == self._count, "the count is kept"
