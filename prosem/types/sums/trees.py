"""The rows of sums by their ranges: one tree for each key (a topic, or with a group); and the ranges that see a row.

The compiled trees are used with at most one range where all codes and units fit 64 bits: an event is then one call, with the
search for the subscriptions that gain something.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, cast

from cn.match import kernels
from cn.match.point_index import PointIndex
from cn.model.geometry import Box, Interval, Region, difference
from prosem.index.boxes.kd_tree import SumKdTree
from prosem.index.ranges.sum_tree import ZERO, Sums, SumTree
from prosem.types.shared.ranges import Codes, around
from prosem.values.model import Delta

Entry = tuple[Any, int, int, int]  # where a row is, and what it adds: rows, values, total
Seen = tuple[bytes, Codes]  # topic and coordinates of a row
Spot = tuple[Codes, int, int]  # coordinates of a row, and what it adds: values, total
Gain = tuple[bytes, Region, int, int]  # what the ranges of a region gain, with their topic: values, total


class RangeSums(Protocol):
    """What both implementations have. No tree is empty."""

    @property
    def visits(self) -> int: ...
    def build(self, entries: Mapping[Hashable, Sequence[Entry]]) -> None:
        """Rows by key, each key for the first time; O(N log N). See `spot_of`."""

    def total(self, key: Hashable, box: Box) -> Sums:
        """Rows, values and their total in a box."""

    def change(self, key: Hashable, point: Codes, rows: int, values: int, total: int) -> None:
        """Add to what is at a point; negative numbers take it away."""

    def step(self, key: Hashable, topic: bytes, old: Spot | None, new: Spot | None) -> list[Gain]:
        """Take a row from `old` to `new`; what the ranges of the topic gain, as far as there are subscriptions."""

    def check(self) -> None: ...


class CompiledSums(RangeSums, Protocol):
    """A compiled one can read x and y from rows itself: what is left of an event in Python is one call."""

    def read_rows(
        self,
        x: int,
        encode_x: Callable[[Any], int] | None,
        y: int,
        encode_y: Callable[[Any], int] | None,
        is_summed: bool,
    ) -> None:
        """Positions of the columns and their encoders (None: integers that are their own codes); -1: no such column."""

    def step_row(self, old_row: tuple[Any, ...] | None, new_row: tuple[Any, ...] | None) -> list[Gain] | None:
        """As `step`, of rows without equality values: their key and topic is b""."""

    def step_rows(self, deltas: Sequence[Delta]) -> list[list[Gain] | None]:
        """As `step_row`, for all deltas of a request in one call."""


class SumTrees:
    """In Python: trees by x with one range or none, k-d trees with several. O(log N) each, or O(√N).

    `points` are the subscriptions of the space.
    """

    def __init__(self, points: PointIndex, ranges: int) -> None:
        self._points, self._ranges, self._is_flat = points, ranges, ranges <= 1
        self._trees: dict[Hashable, SumTree | SumKdTree] = {}

    def build(self, entries: Mapping[Hashable, Sequence[Entry]]) -> None:
        for key, some in entries.items():
            tree = self._tree(key)
            tree.build(some)
            if not len(tree):
                del self._trees[key]

    @property
    def visits(self) -> int:
        return sum(tree.visits for tree in list(self._trees.values()))

    def total(self, key: Hashable, box: Box) -> Sums:
        tree = self._trees.get(key)
        if tree is None:
            return ZERO
        return tree.total(box[0].low, box[0].high) if isinstance(tree, SumTree) else tree.total(box)

    def change(self, key: Hashable, point: Codes, rows: int, values: int, total: int) -> None:
        tree = self._tree(key)
        if isinstance(tree, SumTree):
            tree.change(point[0], rows, values, total)
        else:
            tree.change(point, rows, values, total)
        if not len(tree):
            del self._trees[key]

    def step(self, key: Hashable, topic: bytes, old: Spot | None, new: Spot | None) -> list[Gain]:
        if old == new:
            return []
        if old is not None and new is not None and old[0] == new[0]:
            self.change(key, new[0], 0, new[1] - old[1], new[2] - old[2])
        else:
            if old is not None:
                self.change(key, old[0], -1, -old[1], -old[2])
            if new is not None:
                self.change(key, new[0], 1, *new[1:])
        if not len(self._points):
            return []
        before = (0, 0) if old is None else old[1:]
        after = (0, 0) if new is None else new[1:]
        found = []
        for _, region, had_old, has_new in seeing(
            None if old is None else (topic, old[0]), None if new is None else (topic, new[0])
        ):
            number = after[0] * has_new - before[0] * had_old
            total = after[1] * has_new - before[1] * had_old
            if (number or total) and self._points.any(topic, region):
                found.append((topic, region, number, total))
        return found

    def _tree(self, key: Hashable) -> SumTree | SumKdTree:
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = SumTree() if self._is_flat else SumKdTree(self._ranges)
        return tree

    def check(self) -> None:
        """The invariants, in O(N)."""
        for tree in self._trees.values():
            assert len(tree), "a key is known while it has rows"
            tree.check()


def range_sums(points: PointIndex, ranges: int, int64: bool) -> RangeSums:
    """No rows yet. `int64`: whether all codes, and all values in units, are 64-bit integers."""
    return compiled_sums(points, ranges, int64) or SumTrees(points, ranges)


def compiled_sums(points: PointIndex, ranges: int, int64: bool) -> CompiledSums | None:
    """None where the structures in Python must be used."""
    module = kernels.compiled_over(points, int64 and ranges <= 1)
    return None if module is None else cast(CompiledSums, module.RangeSums(points, Interval))


def spot_of(point: Codes) -> Any:
    """The coordinates of a row as `build` takes them: bare where there is one."""
    return point[0] if len(point) == 1 else point


def seeing(old: Seen | None, new: Seen | None) -> list[tuple[bytes, Region, bool, bool]]:
    """Disjoint regions: the ranges that see the old row only, the new row only, both. Which of them is said with each.

    >>> [(had_old, has_new) for _, _, had_old, has_new in seeing((b"", (3,)), (b"", (5,)))]
    [(True, False), (False, True), (True, True)]
    """
    if old is not None and new is not None and old[0] == new[0]:
        topic, before, after = old[0], around(old[1]), around(new[1])
        if old[1] == new[1]:
            return [(topic, (before,), True, True)]
        return [
            (topic, tuple(difference(before, after)), True, False),
            (topic, tuple(difference(after, before)), False, True),
            (topic, (_both(before, after),), True, True),
        ]
    found: list[tuple[bytes, Region, bool, bool]] = []
    if old is not None:
        found.append((old[0], (around(old[1]),), True, False))
    if new is not None:
        found.append((new[0], (around(new[1]),), False, True))
    return found


def _both(one: Box, other: Box) -> Box:
    sides: list[Interval] = [a & b for a, b in zip(one, other, strict=True)]
    return tuple(sides)
