"""The places of one value: a sorted multiset of x, small for one place, fast for a million."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from sortedcontainers import SortedList

from cn.model.geometry import Code

LONG_LIST = 1024  # from here on shifting a plain list costs more than a sorted list of lists
Neighbours = tuple[Code | None, Code | None]


class Positions:
    """Where one value stands: every x as often as rows have it there. Codes are never lists or None.

    None, one bare code, a sorted list, or a `SortedList`, by size: most values of a column with many of them
    stand in one row. Everything takes O(log n). See docs/explanation.md.

    >>> places = Positions([30, 10, 30])
    >>> places.neighbours(20), places.neighbours(30), places.any_in(11, 29)
    ((10, 30), None, False)
    """

    __slots__ = ("_held",)

    def __init__(self, xs: Iterable[Code] = ()) -> None:
        ordered = sorted(xs)
        self._held: Any = ordered
        if len(ordered) < 2:
            self._held = ordered[0] if ordered else None
        elif len(ordered) >= LONG_LIST:
            self._held = SortedList(ordered)

    def __len__(self) -> int:
        held = self._held
        if type(held) is list or type(held) is SortedList:
            return len(held)
        return 0 if held is None else 1

    def __iter__(self) -> Iterator[Code]:
        held = self._held
        if type(held) is list or type(held) is SortedList:
            return iter(held)
        return iter(() if held is None else (held,))

    def add(self, x: Code) -> None:
        held = self._held
        if held is None:
            self._held = x
        elif type(held) is list:
            insort(held, x)
            if len(held) >= LONG_LIST:
                self._held = SortedList(held)
        elif type(held) is SortedList:
            held.add(x)
        else:
            self._held = [held, x] if held < x else [x, held]

    def remove(self, x: Code) -> None:
        """Take x out once; KeyError if it is not there."""
        held = self._held
        if type(held) is list:
            at = bisect_left(held, x)
            if at == len(held) or held[at] != x:
                raise KeyError(x)
            del held[at]
            if len(held) == 1:
                self._held = held[0]
        elif type(held) is SortedList:
            try:
                held.remove(x)
            except ValueError:
                raise KeyError(x) from None
            if len(held) < LONG_LIST // 4:
                self._held = list(held)
        elif held is None or held != x:
            raise KeyError(x)
        else:
            self._held = None

    def neighbours(self, x: Code) -> Neighbours | None:
        """The nearest place on each side of x (None: there is none); None alone if x itself is one."""
        held = self._held
        if type(held) is list:
            at = bisect_left(held, x)
        elif type(held) is SortedList:
            at = held.bisect_left(x)
        elif held is None:
            return None, None
        else:
            return None if held == x else (held, None) if held < x else (None, held)
        if at == len(held):
            return held[at - 1], None
        after = held[at]
        if after == x:
            return None
        return held[at - 1] if at else None, after

    def any_in(self, low: Code | None = None, high: Code | None = None) -> bool:
        """Whether a place lies in `low <= x <= high` (None: no end)."""
        held = self._held
        if held is None:
            return False
        if type(held) is list:
            first = (
                held[0] if low is None else held[at] if (at := bisect_left(held, low)) < len(held) else None
            )
        elif type(held) is SortedList:
            at = 0 if low is None else held.bisect_left(low)
            first = held[at] if at < len(held) else None
        else:
            first = held if low is None or low <= held else None
        return first is not None and (high is None or bool(first <= high))

    def check(self) -> None:
        """The invariants, in O(n)."""
        held = self._held
        if type(held) is SortedList:
            held._check()
            assert len(held) >= LONG_LIST // 4, "a sorted list of lists is long"
        elif type(held) is list:
            assert 2 <= len(held) < LONG_LIST, "a plain list is short, and one place stands bare"
        assert all(a <= b for a, b in pairwise(self)), "places ascend"
