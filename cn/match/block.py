"""One block of a point index: a few thousand points as parallel columns."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.match.span import Span
from cn.model.geometry import INT64_MAX, INT64_MIN, Code

Column = Any  # array("q") of 64-bit integers, or a list of any codes; both insert, delete and bisect alike
Ids = NDArray[np.int64]
Entry = tuple[Any, ...]  # a point as one value per column
Fence = tuple[Any, ...]  # (topic, c0, c1, ..., id): a place in the lexicographic order

ID, TOPIC, FIRST = 0, 1, 2  # columns: ids, topic numbers, then one for each dimension
WHOLE = -1  # in the place of a column: all of them
FEW = 40  # up to so many candidates a loop is quicker than numpy (measured)


class Block:
    """Points in columns, in the order of (topic, sorting column, id).

    Finding, adding and taking out a point is O(log n) comparisons and one memory move a column. A column
    of integers is an `array`, which keeps a sixteenth in reserve: three points cost three points.
    """

    __slots__ = ("columns", "loose")

    def __init__(self, columns: list[Column]) -> None:
        self.columns = columns
        self.loose = 0  # points taken out at a bound since the bounds were last exact

    def __len__(self) -> int:
        return len(self.columns[ID])

    def insert(self, entry: Entry, sorting: int) -> None:
        """Add a point."""
        at = self._bisect(entry, sorting)
        for column, value in zip(self.columns, entry, strict=True):
            column.insert(at, value)

    def position(self, entry: Entry, sorting: int) -> int | None:
        """Where exactly this point is, or None."""
        columns, id = self.columns, entry[ID]
        ids = columns[ID]
        for at in range(self._bisect(entry, sorting), len(ids)):
            if ids[at] != id:
                break
            if tuple([column[at] for column in columns]) == entry:
                return at
        return None

    def pop(self, at: int) -> None:
        """Take out the point at a position."""
        for column in self.columns:
            del column[at]

    def _run(self, topic: int) -> tuple[int, int]:
        """Where the points of a topic start and end."""
        topics = self.columns[TOPIC]
        if not topics or topics[0] == topic == topics[-1]:
            return 0, len(topics)
        start = bisect_left(topics, topic)
        return start, bisect_right(topics, topic, start)

    def _bisect(self, entry: Entry, sorting: int) -> int:
        order, code = self.columns[sorting], entry[sorting]
        start, end = self._run(entry[TOPIC])
        start = bisect_left(order, code, start, end)
        if start == end or order[start] != code:
            return start
        return bisect_left(self.columns[ID], entry[ID], start, bisect_right(order, code, start, end))

    def select(
        self,
        spans: Sequence[Span],
        outside: Sequence[int],
        sorting: int,
        few: list[Any],
        many: list[Ids],
        selected: int = ID,
    ) -> bool:
        """Add the ids (or another column) of the points within all spans to `few` or to `many`; whether there are any.

        With `WHOLE` it is all columns: a tuple for each of the few, an array of columns for many. `spans` has one span a
        column, the topic's being one number; of the other columns only the sorting
        column and those of `outside` may hold codes outside their span. O(log n) and the points of the topic
        within the sorting column's span.
        """
        columns, (low, high, _) = self.columns, spans[sorting]
        order = columns[sorting]
        start, end = self._run(spans[TOPIC][0])
        start = bisect_left(order, low, start, end)
        end = bisect_right(order, high, start, end)
        if end - start > FEW and isinstance(order, array):
            masked = self._masked(spans, outside, start, end, selected)
            if not masked.shape[-1]:
                return False
            many.append(masked)
            return True
        if selected != WHOLE and not outside:
            few.extend(columns[selected][start:end])
            return start < end
        found: Sequence[int] = range(start, end)
        for at in outside:
            column, (low, high, _) = columns[at], spans[at]
            found = [entry for entry in found if low <= column[entry] <= high]
        if selected == WHOLE:
            few.extend([tuple([column[entry] for column in columns]) for entry in found])
        else:
            taken = columns[selected]
            few.extend([taken[entry] for entry in found])
        return bool(found)

    def _masked(
        self, spans: Sequence[Span], outside: Sequence[int], start: int, end: int, selected: int
    ) -> Ids:
        """Narrow spans first: once few points are left, only they are looked at."""
        if len(outside) > 1:
            outside = sorted(outside, key=lambda at: spans[at][1] - spans[at][0])
        mask: Any = None
        for turn, at in enumerate(outside):
            low, high, _ = spans[at]
            column = as_vector(self.columns[at])[start:end]
            if mask is not None and mask.dtype != np.bool_:
                column = column[mask]
            inside = column <= high if low == INT64_MIN else column >= low
            if low != INT64_MIN and high != INT64_MAX:
                inside &= column <= high
            if mask is None:
                mask = inside
            elif mask.dtype == np.bool_:
                mask &= inside
            else:
                mask = mask[inside]
            if turn + 1 < len(outside) and mask.dtype == np.bool_:
                left = np.count_nonzero(mask)
                if not left:
                    mask = np.empty(0, np.intp)
                    break
                if left * 8 < len(mask):
                    mask = mask.nonzero()[0]

        def picked(column: Column) -> Ids:
            taken = as_vector(column)[start:end]
            return taken.copy() if mask is None else taken[mask]

        if selected == WHOLE:
            if mask is not None and mask.dtype == np.bool_:
                mask = mask.nonzero()[0]
            return np.stack([picked(column) for column in self.columns])
        return picked(self.columns[selected])

    def bounds(self) -> Iterator[tuple[Code, Code]]:
        """The least and the greatest code of every dimension (the block must not be empty)."""
        for column in self.columns[FIRST:]:
            if isinstance(column, array):
                vector = as_vector(column)
                yield int(vector.min()), int(vector.max())
            else:
                yield min(column), max(column)

    @property
    def nbytes(self) -> int:
        return sum(map(sys.getsizeof, self.columns)) + sys.getsizeof(self.columns) + sys.getsizeof(self)


def as_vector(column: Column) -> Ids:
    """An integer column for numpy, without a copy. It must be let go before the column's length changes."""
    return np.frombuffer(column, np.int64)


def joined(columns: Sequence[Column], more: Sequence[Column], sorting: int) -> Block:
    """One block of the points of both."""
    both = [first + second for first, second in zip(columns, more, strict=True)]
    if all(isinstance(column, array) for column in both):
        vectors = [as_vector(column) for column in both]
        order = np.lexsort((vectors[ID], vectors[sorting], vectors[TOPIC]))
        return Block([array("q", vector[order].tobytes()) for vector in vectors])
    keys = list(zip(both[TOPIC], both[sorting], both[ID], strict=True))
    places = sorted(range(len(keys)), key=keys.__getitem__)
    return Block([_taken(column, places) for column in both])


def lexicographic(columns: Sequence[Column]) -> list[Column]:
    """The columns in the order of (topic, c0, c1, ..., id)."""
    if all(isinstance(column, array) for column in columns):
        vectors = [as_vector(column) for column in columns]
        order = np.lexsort((vectors[ID], *vectors[:ID:-1]))
        return [array("q", vector[order].tobytes()) for vector in vectors]
    keys = list(zip(*columns[TOPIC:], columns[ID], strict=True))
    places = sorted(range(len(keys)), key=keys.__getitem__)
    return [_taken(column, places) for column in columns]


def cut(columns: Sequence[Column], size: int, sorting: int) -> Iterator[tuple[Fence, Block]]:
    """Ordered columns as blocks of nearly equal size, at most `size`, each after its first key."""
    length = len(columns[ID])
    pieces = -(-length // size)
    nothing = [column[:0] for column in columns]
    for piece in range(pieces):
        start, end = length * piece // pieces, length * (piece + 1) // pieces
        part = [column[start:end] for column in columns]
        yield (*[column[0] for column in part[TOPIC:]], part[ID][0]), joined(part, nothing, sorting)


def _taken(column: Column, places: Sequence[int]) -> Column:
    taken = [column[at] for at in places]
    return array("q", taken) if isinstance(column, array) else taken
