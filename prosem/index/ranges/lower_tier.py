"""The lower tier of the A2B-tree: all tuples at one x by y; small for two of them, fast for a million."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any

from sortedcontainers import SortedList

from cn.model.geometry import Code

Ref = Hashable
LONG_LIST = 2048  # from here on shifting a plain list costs more than a sorted list of lists


class Ties:
    """The references at one (x, y). Removal swaps in the last one: O(1), without holes, in a fixed order."""

    __slots__ = ("place", "refs")

    def __init__(self, first: Ref) -> None:
        self.refs = [first]
        self.place: dict[Ref, int] = {first: 0}

    def add(self, ref: Ref) -> None:
        if ref in self.place:
            raise ValueError(f"{ref!r} is already there")
        self.place[ref] = len(self.refs)
        self.refs.append(ref)

    def remove(self, ref: Ref) -> None:
        at = self.place.pop(ref)
        last = self.refs.pop()
        if at < len(self.refs):
            self.refs[at] = last
            self.place[last] = at


class LowerTier:
    """Tuples of one x as the distinct y in ascending order, and for each its reference or its `Ties`.

    `heights[0]` is the minimum; every y of `heights` is a key of `held` and the other way round.
    Adding and removing take O(log n); references need not be comparable. [ProSem thesis] 3.3.1.

    >>> tier = LowerTier([(7, "b"), (3, "a"), (3, "c")])
    >>> tier.lowest(), len(tier)
    ((3, 'a'), 3)
    """

    __slots__ = ("_count", "heights", "held")

    def __init__(self, entries: list[tuple[Code, Ref]]) -> None:
        self.held: dict[Code, Any] = {}
        for y, ref in entries:
            self._hold(y, ref)
        ordered = sorted(self.held)
        self.heights: Any = ordered if len(ordered) < LONG_LIST else SortedList(ordered)
        self._count = len(entries)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Code, Ref]]:
        for y in self.heights:
            held = self.held[y]
            yield from ((y, ref) for ref in (held.refs if type(held) is Ties else (held,)))

    def ref(self) -> Ref:
        """One reference that attains the minimum."""
        held = self.held[self.heights[0]]
        lowest: Ref = held.refs[0] if type(held) is Ties else held
        return lowest

    def lowest(self) -> tuple[Code, Ref]:
        return self.heights[0], self.ref()

    def add(self, y: Code, ref: Ref) -> None:
        if not self._hold(y, ref):
            heights = self.heights
            if type(heights) is not list:
                heights.add(y)
            else:
                insort(heights, y)
                if len(heights) >= LONG_LIST:
                    self.heights = SortedList(heights)
        self._count += 1

    def remove(self, y: Code, ref: Ref) -> None:
        """Take one tuple out; KeyError if it is not there."""
        held = self.held[y]
        if type(held) is Ties:
            held.remove(ref)
            if len(held.refs) == 1:
                self.held[y] = held.refs[0]
        else:
            if held != ref:
                raise KeyError((y, ref))
            del self.held[y]
            heights = self.heights
            if type(heights) is list:
                del heights[bisect_left(heights, y)]
            else:
                heights.remove(y)
                if len(heights) < LONG_LIST // 4:
                    self.heights = list(heights)
        self._count -= 1

    def _hold(self, y: Code, ref: Ref) -> bool:
        """Note the reference; whether y was there before."""
        held = self.held
        if y not in held:
            held[y] = ref
            return False
        ties = held[y]
        if type(ties) is not Ties:
            ties = Ties(ties)
            ties.add(ref)
            held[y] = ties
        else:
            ties.add(ref)
        return True

    def check(self) -> None:
        """The invariants, in O(n)."""
        heights = list(self.heights)
        assert all(a < b for a, b in pairwise(heights)), "heights ascend strictly"
        assert set(heights) == set(self.held), "one entry a height"
        assert type(self.heights) is not list or len(heights) < LONG_LIST, "a plain list is short"
        count = 0
        for held in self.held.values():
            if type(held) is Ties:
                assert len(held.refs) >= 2, "ties hold two or more"
                assert held.place == {ref: at for at, ref in enumerate(held.refs)}, "places follow the list"
                count += len(held.refs)
            else:
                count += 1
        assert count == self._count, "the count is kept"
