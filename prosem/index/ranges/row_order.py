"""Rows by the code of one column: which rows a range holds, if they are few."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from sortedcontainers import SortedDict

from cn.model.geometry import Code

Ref = Hashable


class RowOrder:
    """References of rows by x; one x may have many. Adding and removing take O(log N).

    A reference stands alone under its x, or in a set with others there.

    >>> order = RowOrder([(30, "a"), (10, "b"), (30, "c")])
    >>> sorted(order.within(20, None, 5) or ()), order.within(None, None, 2)
    (['a', 'c'], None)
    """

    __slots__ = ("_count", "_places")

    def __init__(self, rows: Iterable[tuple[Code, Ref]] = ()) -> None:
        self._places: Any = SortedDict()
        self._count = 0
        for x, ref in rows:
            self.add(x, ref)

    def __len__(self) -> int:
        return self._count

    def add(self, x: Code, ref: Ref) -> None:
        held = self._places.get(x)
        if held is None:
            self._places[x] = ref
        elif type(held) is set:
            held.add(ref)
        else:
            self._places[x] = {held, ref}
        self._count += 1

    def remove(self, x: Code, ref: Ref) -> None:
        """Take a row out; KeyError if it is not there."""
        held = self._places[x]
        if type(held) is set:
            held.remove(ref)
            if len(held) == 1:
                (self._places[x],) = held
        elif held == ref:
            del self._places[x]
        else:
            raise KeyError((x, ref))
        self._count -= 1

    def within(self, low: Code | None, high: Code | None, most: int) -> list[Ref] | None:
        """The rows with `low <= x <= high` (None: no end), in the order of x; None if there are more than `most`."""
        found: list[Ref] = []
        for x in self._places.irange(low, high):
            held = self._places[x]
            if type(held) is set:
                found += held
            else:
                found.append(held)
            if len(found) > most:
                return None
        return found
