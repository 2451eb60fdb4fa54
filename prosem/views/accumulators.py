"""What a group keeps of the values of one expression, so that an aggregate of them is known after any change.

A value is encoded before it is taken (`units` of a sum, the code of an extreme), and what was taken can be given back: the
state depends on the values alone and not on the order of events. NULLs are not taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Protocol

from sortedcontainers import SortedList

from prosem.values.columns import Value

SORTED_FROM = 2_000  # codes; below, a plain list is smaller and faster than a SortedList


class Accumulator(Protocol):
    def add(self, encoded: Any) -> None: ...

    def remove(self, encoded: Any) -> None: ...

    def state(self) -> object:
        """What is kept, to be compared."""
        ...


class Count:
    """How many values; for COUNT."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, encoded: object) -> None:
        self.count += 1

    def remove(self, encoded: object) -> None:
        self.count -= 1

    def state(self) -> object:
        return self.count


class Total:
    """Count and exact sum, in units; for COUNT, SUM and AVG."""

    __slots__ = ("count", "units")
    scale: int | None = None  # that of the type

    def __init__(self) -> None:
        self.count = 0
        self.units = 0

    def add(self, encoded: int) -> None:
        self.count += 1
        self.units += encoded

    def remove(self, encoded: int) -> None:
        self.count -= 1
        self.units -= encoded

    def state(self) -> object:
        return self.count, self.units


class ScaledTotal(Total):
    """The same for `numeric` without a scale: a sum has the decimals of the value with most of them.

    Values are taken as (units, decimals) pairs.
    """

    __slots__ = ("_scales",)

    def __init__(self) -> None:
        super().__init__()
        self._scales: dict[int, int] = {}  # decimals → how many values have them

    @property
    def scale(self) -> int | None:  # type: ignore[override]
        return max(self._scales, default=0)

    def add(self, encoded: tuple[int, int]) -> None:  # type: ignore[override]
        super().add(encoded[0])
        self._scales[encoded[1]] = self._scales.get(encoded[1], 0) + 1

    def remove(self, encoded: tuple[int, int]) -> None:  # type: ignore[override]
        super().remove(encoded[0])
        left = self._scales[encoded[1]] - 1
        if left:
            self._scales[encoded[1]] = left
        else:
            del self._scales[encoded[1]]

    def state(self) -> object:
        return self.count, self.units, dict(self._scales)


class Extremes:
    """A sorted multiset of (code, value) pairs, for MIN and MAX of one expression.

    Of equal codes (1.0 and 1.00) one value is kept. Adding and removing are O(log n), in a list of fewer than
    `SORTED_FROM` codes O(n) with the constant of a memory copy.

    >>> some = Extremes()
    >>> some.least, some.add((2, "b")), some.add((1, "a")), some.add((2, "b")), some.remove((1, "a"))
    (None, None, None, None, None)
    >>> some.least, some.greatest
    ('b', 'b')
    """

    __slots__ = ("_codes", "_found")

    def __init__(self) -> None:
        self._codes: Any = []  # list or SortedList, each code once
        self._found: dict[Any, tuple[int, Value]] = {}  # code → how many, and the value

    @property
    def least(self) -> Value:
        return self._found[self._codes[0]][1] if self._codes else None

    @property
    def greatest(self) -> Value:
        return self._found[self._codes[-1]][1] if self._codes else None

    def add(self, encoded: tuple[Any, Value]) -> None:
        code, value = encoded
        present = self._found.get(code)
        if present is not None:
            self._found[code] = (present[0] + 1, present[1])
            return
        self._found[code] = (1, value)
        if type(self._codes) is not list:
            self._codes.add(code)
            return
        insort(self._codes, code)
        if len(self._codes) >= SORTED_FROM:
            self._codes = SortedList(self._codes)

    def remove(self, encoded: tuple[Any, Value]) -> None:
        code = encoded[0]
        count, value = self._found[code]
        if count > 1:
            self._found[code] = (count - 1, value)
            return
        del self._found[code]
        if type(self._codes) is list:
            del self._codes[bisect_left(self._codes, code)]
        else:
            self._codes.remove(code)

    def state(self) -> object:
        assert list(self._codes) == sorted(self._found), "the codes are those that were counted, in order"
        return dict(self._found)
