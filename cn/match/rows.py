"""Conjunctions as rows of 64-bit bounds, against which candidates are verified."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import le
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cn.match.image import extent_bounds, image
from cn.model.geometry import INT64_MAX, INT64_MIN, Extent, Filter

Slots = NDArray[np.int32]
Rest = tuple[tuple[int, Extent], ...]  # attributes with extents that the bounds only approximate

FEW = 5  # up to so many candidates are verified by a loop
WIDE = 600  # from so many on column by column is quicker than all at once (measured: between 300 and 1000)
NULLS = 64  # columns whose refusal of NULL has a bit


class Row(NamedTuple):
    """What a conjunction asks, by column: `bounds` are (low, ~high) pairs, `refuses` has a bit a column."""

    bounds: array[int]
    refuses: int
    rest: Rest


class Question(NamedTuple):
    """An attribute vector by column: images (None for NULL), what bounds must not exceed, NULLs as bits."""

    attributes: Sequence[Any]
    codes: list[int | None]
    limits: list[int]
    nulls: int


class Rows:
    """Rows by slot, all of one width: two numbers for each attribute that some conjunction constrains.

    Adding, writing and discarding cost O(columns); verifying n candidates costs O(n · columns) and touches
    nothing else. An attribute that no conjunction ever constrained has no column; the first that does widens
    all rows. It loses where each of very many attributes is constrained by few conjunctions. The compiled matching
    reads the arrays themselves (kernels/src/filters.cpp).
    """

    __slots__ = ("_bounds", "_columns", "_free", "_owners", "_refuses", "_rest")

    def __init__(self) -> None:
        self._columns: dict[int, int] = {}  # attribute → column
        self._bounds = array("q")
        self._refuses = array("Q")
        self._owners = array("q")
        self._free: list[int] = []
        self._rest: dict[int, Rest] = {}

    def __len__(self) -> int:
        """The rows in use."""
        return len(self._owners) - len(self._free)

    @property
    def columns(self) -> int:
        return len(self._columns)

    @property
    def attributes(self) -> list[int]:
        """The attribute of each column."""
        return list(self._columns)

    def row(self, filter: Filter, implied: int | None) -> Row:
        """The row of a conjunction; one attribute may be implied by where it is stored."""
        columns, rest, refuses = self._columns, [], 0
        for attribute in filter:
            if attribute not in columns and attribute != implied:
                self._widen(attribute)
        bounds = array("q", (INT64_MIN,)) * (2 * len(columns))
        for attribute, extent in filter.items():
            if attribute == implied:
                continue
            column = columns[attribute]
            bounds[2 * column], bounds[2 * column + 1], exact = extent_bounds(extent)
            if not extent.null:
                if column < NULLS:
                    refuses |= 1 << column
                else:
                    exact = False
            if not exact:
                rest.append((attribute, extent))
        return Row(bounds, refuses, tuple(rest))

    def _widen(self, attribute: int) -> None:
        width, count = 2 * len(self._columns), len(self._owners)
        self._columns[attribute] = len(self._columns)
        if count:
            wider = np.full((count, width + 2), INT64_MIN, np.int64)
            wider[:, :width] = np.frombuffer(self._bounds, np.int64).reshape(count, width) if width else 0
            self._bounds = array("q", wider.tobytes())

    def add(self, owner: int, row: Row) -> int:
        """A slot for a row."""
        if self._free:
            slot = self._free.pop()
            self._owners[slot] = owner
            self.write(slot, row)
            return slot
        slot = len(self._owners)
        self._owners.append(owner)
        self._bounds.extend(row.bounds)
        self._refuses.append(row.refuses)
        if row.rest:
            self._rest[slot] = row.rest
        return slot

    def write(self, slot: int, row: Row) -> list[int]:
        """Put another row into a slot; the columns that differ."""
        width = len(row.bounds)
        old, refused = self._bounds[slot * width : (slot + 1) * width], self._refuses[slot]
        self._bounds[slot * width : (slot + 1) * width] = row.bounds
        self._refuses[slot] = row.refuses
        if row.rest:
            self._rest[slot] = row.rest
        else:
            self._rest.pop(slot, None)
        differing = refused ^ row.refuses
        return [
            column
            for column in range(width // 2)
            if old[2 * column : 2 * column + 2] != row.bounds[2 * column : 2 * column + 2]
            or differing >> column & 1
        ]

    def discard(self, slot: int) -> None:
        """Free a slot."""
        self._rest.pop(slot, None)
        self._free.append(slot)

    def get(self, slot: int) -> Row:
        """The row in a slot."""
        width = 2 * len(self._columns)
        bounds = self._bounds[slot * width : (slot + 1) * width]
        return Row(bounds, self._refuses[slot], self._rest.get(slot, ()))

    def bounds(
        self, slots: Slots, column: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """A column of these slots: low, ~high, and whether NULL is refused."""
        numbers = np.frombuffer(self._bounds, np.int64)
        places = slots.astype(np.int64) * (2 * len(self._columns)) + 2 * column
        low, above = numbers.take(places), numbers.take(places + 1)
        if column >= NULLS:
            return low, above, np.zeros(len(slots), np.bool_)
        refuses = np.frombuffer(self._refuses, np.uint64).take(slots)
        return low, above, (refuses >> np.uint64(column)) & np.uint64(1) != 0

    def question(self, attributes: Sequence[Any]) -> Question:
        """An attribute vector as it is compared with rows."""
        codes: list[int | None] = []
        limits: list[int] = []
        nulls = 0
        for attribute, column in self._columns.items():
            code = attributes[attribute]
            if code is None:
                codes.append(None)
                limits += (INT64_MAX, INT64_MAX)
                if column < NULLS:
                    nulls |= 1 << column
            else:
                number = code if type(code) is int and INT64_MIN <= code <= INT64_MAX else image(code)
                codes.append(number)
                limits += (number, ~number)
        return Question(attributes, codes, limits, nulls)

    def owners(self, slots: Slots, question: Question) -> list[int]:
        """The owners of those slots whose rows hold the attribute vector."""
        if len(slots) <= FEW:
            return self._few_owners(slots.tolist(), question)
        if self._columns:
            matrix = np.frombuffer(self._bounds, np.int64).reshape(-1, 2 * len(self._columns))
            if len(slots) < WIDE:
                holds = (matrix.take(slots, 0) <= np.array(question.limits)).all(1)
                slots = slots[holds]
            else:
                slots = slots[_holding(matrix.take(slots, 0), question.codes)]
            if question.nulls and len(slots):
                refuses = np.frombuffer(self._refuses, np.uint64).take(slots)
                slots = slots[refuses & np.uint64(question.nulls) == 0]
        if self._rest:
            return [self._owners[slot] for slot in slots.tolist() if self._exactly(slot, question)]
        return np.frombuffer(self._owners, np.int64).take(slots).tolist()  # type: ignore[no-any-return]

    def _few_owners(self, slots: list[int], question: Question) -> list[int]:
        width, limits, nulls, bounds = 2 * len(self._columns), question.limits, question.nulls, self._bounds
        return [
            self._owners[slot]
            for slot in slots
            if not self._refuses[slot] & nulls
            and all(map(le, bounds[slot * width : (slot + 1) * width], limits))
            and self._exactly(slot, question)
        ]

    def _exactly(self, slot: int, question: Question) -> bool:
        attributes = question.attributes
        return all(attributes[at] in extent for at, extent in self._rest.get(slot, ()))

    def sample(self, count: int) -> Slots:
        """So many slots spread over all that were ever used; their old bounds are as good as any."""
        return np.linspace(0, len(self._owners) - 1, min(count, len(self._owners))).astype(np.int32)

    def owner(self, slot: int) -> int:
        return self._owners[slot]

    def check(self) -> None:
        """Assert that all arrays are as long as the slots and nothing is kept for a free one."""
        assert len(self._bounds) == 2 * len(self._columns) * len(self._owners)
        assert len(self._refuses) == len(self._owners)
        assert sorted(self._columns.values()) == list(range(len(self._columns)))
        free = set(self._free)
        assert len(free) == len(self._free)
        assert not free & self._rest.keys()


def _holding(rows: NDArray[np.int64], codes: Sequence[int | None]) -> NDArray[np.bool_]:
    """Which rows admit the codes, column by column."""
    holds = np.ones(len(rows), np.bool_)
    for column, code in enumerate(codes):
        if code is not None:
            holds &= rows[:, 2 * column] <= code
            holds &= rows[:, 2 * column + 1] <= ~code
    return holds
