"""The rows of one range minimum, by x: one A2B-tree for each key (a topic, or a topic and a group)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from cn.model.geometry import Box
from prosem.index.ranges.a2b_tree import A2BTree, Peak
from prosem.index.ranges.lower_tier import Ref
from prosem.types.extreme.rule import Piece, step

Spot = tuple[Any, Any]  # x and y
Rule = Callable[[A2BTree, Spot | None, Spot | None, Ref], list[Piece]]


class ExtremeTrees:
    """`rule` takes a tuple from one spot to another in a tree, and gives the pieces of that. No tree is empty."""

    def __init__(self, rule: Rule = step) -> None:
        self._rule = rule
        self._trees: dict[Hashable, A2BTree] = {}

    def build(self, entries: Mapping[Hashable, Sequence[tuple[Any, Any, Ref]]]) -> None:
        """Rows (x, y, reference) by key; O(N log N)."""
        for key, some in entries.items():
            self._trees[key] = A2BTree().build(some)

    @property
    def visits(self) -> int:
        return sum(tree.visits for tree in list(self._trees.values()))

    def get(self, key: Hashable) -> A2BTree | None:
        return self._trees.get(key)

    def lowest(self, key: Hashable, box: Box) -> Peak | None:
        """The lowest row in a range, and its reference; O(log N)."""
        tree = self._trees.get(key)
        return None if tree is None else tree.lowest(box[0].low, box[0].high)

    def step(
        self, key: Hashable, old: Spot | None, new: Spot | None, ref: Ref, is_watched: bool
    ) -> list[Piece]:
        """Take a row from `old` to `new`; the pieces are not asked for where no subscription is."""
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = A2BTree()
        if is_watched:
            found = self._rule(tree, old, new, ref)
        else:
            found = []
            if old is not None:
                tree.remove(*old, ref)
            if new is not None:
                tree.add(*new, ref)
        if not len(tree):
            del self._trees[key]
        return found
