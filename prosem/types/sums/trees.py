"""The rows of sums by their ranges: one tree for each key (a topic, or with a group); and the ranges that see a row."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from cn.model.geometry import Box, Interval, Region, difference
from prosem.index.boxes.kd_tree import SumKdTree
from prosem.index.ranges.sum_tree import ZERO, Sums, SumTree
from prosem.types.shared.ranges import Codes, around

Entry = tuple[Any, int, int, int]  # where a row is, and what it adds: rows, values, total
Seen = tuple[bytes, Codes]  # topic and coordinates of a row


class SumTrees:
    """Trees by x with one range or none, k-d trees with several. No tree is empty. O(log N) each, or O(√N)."""

    def __init__(self, ranges: int) -> None:
        self._ranges, self._is_flat = ranges, ranges <= 1
        self._trees: dict[Hashable, SumTree | SumKdTree] = {}

    def spot(self, point: Codes) -> Any:
        """The coordinates of a row as `build` takes them."""
        return point[0] if self._is_flat else point

    def build(self, entries: Mapping[Hashable, Sequence[Entry]]) -> None:
        """Rows by key; O(N log N)."""
        for key, some in entries.items():
            self._tree(key).build(some)

    @property
    def visits(self) -> int:
        return sum(tree.visits for tree in list(self._trees.values()))

    def total(self, key: Hashable, box: Box) -> Sums:
        """Rows, values and their total in a box."""
        tree = self._trees.get(key)
        if tree is None:
            return ZERO
        return tree.total(box[0].low, box[0].high) if isinstance(tree, SumTree) else tree.total(box)

    def change(self, key: Hashable, point: Codes, rows: int, values: int, total: int) -> None:
        """Add to what is at a point; negative numbers take it away."""
        tree = self._tree(key)
        if isinstance(tree, SumTree):
            tree.change(point[0], rows, values, total)
        else:
            tree.change(point, rows, values, total)
        if not len(tree):
            del self._trees[key]

    def _tree(self, key: Hashable) -> SumTree | SumKdTree:
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = SumTree() if self._is_flat else SumKdTree(self._ranges)
        return tree


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
