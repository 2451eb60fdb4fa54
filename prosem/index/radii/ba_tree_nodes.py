"""The nodes of the BA-tree: a B-tree by radius that knows the nearest ends of every subtree."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from prosem.index.radii.ba_tree_ends import Radius, Value

FAN_OUT = 48
LEAST = FAN_OUT // 4


class Node:
    """`lows`: the least radius of each item; `ends`: its nearest right end, its nearest negated left end.

    The items of a leaf are the centres of runs, and `highs` are their last radii; those of other nodes are nodes.
    """

    __slots__ = ("ends", "highs", "items", "lows")

    def __init__(self, lows: list[Radius], ends: tuple[list[Value], list[Value]], items: list[Any]) -> None:
        self.lows, self.ends, self.items = lows, ends, items
        self.highs: list[Radius] = []

    def lists(self) -> tuple[list[Any], ...]:
        return (self.lows, *self.ends, self.items, self.highs)

    def part(self, first: int, stop: int | None) -> Node:
        lows, right, minus_left, items, highs = (held[first:stop] for held in self.lists())
        node = Node(lows, (right, minus_left), items)
        node.highs = highs
        return node


Path = list[tuple[Node, int]]  # from the root, with the place taken in each node


class RunNodes:
    """A B-tree of runs: no node is wider than FAN_OUT, and a narrow one joins a neighbour that has room for it.

    `root` holds the nearest right end and the nearest negated left end of all. Everything takes O(log N).
    """

    __slots__ = ("_levels", "_top", "root")

    def __init__(self, leaf: Node) -> None:
        self.root: list[Value] = [math.inf, math.inf]
        self._plant(leaf)

    def _plant(self, leaf: Node) -> None:
        """Begin anew with one leaf of any width."""
        self._top, self._levels = leaf, 0
        self._mend_top()

    def _grow(self) -> None:
        """Put a node above the top while it is too wide."""
        while len(self._top.lows) > FAN_OUT:
            top, step = self._top, FAN_OUT * 3 // 4
            self._top = Node([], ([], []), [top.part(at, at + step) for at in range(0, len(top.lows), step)])
            self._levels += 1
            self._refresh(self._top, 0, len(self._top.items))

    def _leaves(self, node: Node, level: int) -> Iterator[Node]:
        if level:
            for child in node.items:
                yield from self._leaves(child, level - 1)
        else:
            yield node

    def _path(self, radius: Radius) -> Path:
        """The way to the last run that begins up to a radius; place -1 if it is before all."""
        path: Path = []
        node = self._top
        for level in range(self._levels, -1, -1):
            at = bisect_right(node.lows, radius) - 1
            if level:
                at = max(0, at)
            path.append((node, at))
            if level:
                node = node.items[at]
        return path

    def _mend_path(self, path: Path) -> None:
        for node, at in reversed(path[:-1]):
            self._mend(node, at)
        self._mend_top()

    def _mend(self, node: Node, at: int) -> None:
        """Bring an item of a node up to date with the node below, which may have become too wide or too narrow."""
        child: Node = node.items[at]
        width = len(child.lows)
        if width > FAN_OUT:
            step = FAN_OUT * 3 // 4 if width > 2 * FAN_OUT else -(-width // 2)
            pieces = [child.part(first, first + step) for first in range(0, width, step)]
            node.items[at : at + 1] = pieces
            for held in (node.lows, *node.ends):
                held[at + 1 : at + 1] = [None] * (len(pieces) - 1)
            self._refresh(node, at, at + len(pieces))
        elif width < LEAST and self._join(node, max(0, at - 1)):
            return
        elif not width:
            del node.lows[at], node.ends[0][at], node.ends[1][at], node.items[at]
        else:
            node.lows[at] = child.lows[0]
            node.ends[0][at], node.ends[1][at] = min(child.ends[0]), min(child.ends[1])

    def _join(self, node: Node, at: int) -> bool:
        """Make one of two neighbouring nodes below, if there is room in it."""
        if at + 1 >= len(node.items):
            return False
        first, second = node.items[at : at + 2]
        if len(first.lows) + len(second.lows) > FAN_OUT:
            return False
        for held, more in zip(first.lists(), second.lists(), strict=True):
            held += more
        del node.lows[at], node.ends[0][at], node.ends[1][at], node.items[at + 1]
        self._refresh(node, at, at + 1)
        return True

    @staticmethod
    def _refresh(node: Node, first: int, stop: int) -> None:
        children = node.items[first:stop]
        node.lows[first:stop] = [child.lows[0] for child in children]
        for side in (0, 1):
            node.ends[side][first:stop] = [min(child.ends[side]) for child in children]

    def _mend_top(self) -> None:
        while self._levels and len(self._top.items) == 1:
            self._top = self._top.items[0]
            self._levels -= 1
        if self._levels and not self._top.items:
            self._top, self._levels = Node([], ([], []), []), 0
        self._grow()
        self._sum_up()

    def _sum_up(self) -> None:
        self.root[0] = min(self._top.ends[0], default=math.inf)
        self.root[1] = min(self._top.ends[1], default=math.inf)

    def _check_node(self, node: Node, level: int) -> None:
        assert len({len(held) for held in node.lists()[: 4 if level else 5]}) == 1, "one entry per list"
        assert len(node.lows) <= FAN_OUT, "no node is too wide"
        for at, child in enumerate(node.items if level else ()):
            assert len(child.lows) > 0, "no node is empty"
            assert node.lows[at] == child.lows[0], "the least radius is known"
            assert [held[at] for held in node.ends] == [min(held) for held in child.ends], (
                "the nearest ends are known"
            )
            self._check_node(child, level - 1)
