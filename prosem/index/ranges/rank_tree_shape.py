"""The shape of the rank tree: a B+-tree by (x, rank) with the least rank below every entry."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Self

from cn.model.geometry import Code

Ref = Hashable
Entry = tuple[Code, Code, Ref]  # x, rank, and the reference of a row
FAN_OUT = 64


class Node:
    """Three parallel lists, and for a leaf the order of its ranks, made when it is first asked for.

    In a leaf `keys` are the x of its rows, with `ranks` and references (`items`), ascending by (x, rank). In an inner node
    an item is a child whose rows are at or after `keys[i]` and before `keys[i + 1]`, both (x, rank); `ranks[i]` is the
    least rank below it. Along the left edge of the tree the first key bounds nothing.
    """

    __slots__ = ("_order", "_sorted", "items", "keys", "ranks")

    def __init__(self, keys: list[Any], ranks: list[Code], items: list[Any]) -> None:
        self.keys, self.ranks, self.items = keys, ranks, items
        self._order: list[int] | None = None
        self._sorted: list[Code] = []  # the ranks in that order

    @property
    def order(self) -> list[int]:
        """The positions of a leaf's rows by rank."""
        order = self._order
        if order is None:
            rank_of = self.ranks.__getitem__
            order = self._order = sorted(range(len(self.ranks)), key=rank_of)
            self._sorted = list(map(rank_of, order))
        return order

    def below(self, rank: Code) -> list[int]:
        """The positions of a leaf's rows that are ranked before `rank`, by rank."""
        order = self.order
        return order[: bisect_left(self._sorted, rank)]

    def upto(self, rank: Code) -> list[int]:
        """The same with the row of that rank."""
        order = self.order
        return order[: bisect_right(self._sorted, rank)]

    def count_below(self, rank: Code) -> int:
        """How many rows of a leaf are ranked before `rank`."""
        if self._order is None:
            return len(self.below(rank))
        return bisect_left(self._sorted, rank)

    def insert(self, at: int, key: Any, rank: Code, item: Any) -> None:
        self.keys.insert(at, key)
        self.ranks.insert(at, rank)
        self.items.insert(at, item)
        self._order = None

    def delete(self, at: int) -> None:
        del self.keys[at], self.ranks[at], self.items[at]
        self._order = None

    def cut(self, at: int) -> Node:
        """Keep the first `at` entries; the others become a new node."""
        right = Node(self.keys[at:], self.ranks[at:], self.items[at:])
        del self.keys[at:], self.ranks[at:], self.items[at:]
        self._order = None
        return right

    def extend(self, other: Node) -> None:
        self.keys += other.keys
        self.ranks += other.ranks
        self.items += other.items
        self._order = None


Path = tuple[list[Node], list[int]]  # the nodes from the root to a leaf, and the place taken in each


class RankTreeShape:
    """Rows by (x, rank), no two with the same rank; this half of the tree keeps the shape and the least ranks.

    Every node but the root holds between a quarter of `fan_out` and `fan_out` entries, all leaves are equally deep, and each
    entry of an inner node carries the least rank below it. Adding and removing take O(log N).
    """

    def __init__(self, fan_out: int = FAN_OUT) -> None:
        if fan_out < 4:
            raise ValueError("the fan-out must be at least 4")
        self.fan_out = fan_out
        self.visits = 0  # nodes looked at so far
        self._least = max(2, fan_out // 4)
        self._root = Node([], [], [])
        self._inner_levels = 0
        self._count = 0

    def build(self, entries: Iterable[Entry]) -> Self:
        """Hold exactly these rows, in any order; O(N log N), several times faster than adding them."""
        ordered = sorted(entries, key=lambda entry: (entry[0], entry[1]))
        level = (
            Node(*(list(column) for column in zip(*ordered, strict=True))) if ordered else Node([], [], [])
        )
        firsts: list[Any] = list(zip(level.keys, level.ranks, strict=True))
        inner_levels = 0
        while len(level.keys) > self.fan_out:
            size = len(level.keys)
            parts = -(-4 * size // (3 * self.fan_out))  # nodes three quarters full
            ends = [size * part // parts for part in range(parts + 1)]
            nodes = [Node(level.keys[a:b], level.ranks[a:b], level.items[a:b]) for a, b in pairwise(ends)]
            firsts = [firsts[a] for a in ends[:-1]]
            level = Node(list(firsts), [min(node.ranks) for node in nodes], nodes)
            inner_levels += 1
        self._root, self._inner_levels, self._count = level, inner_levels, len(ordered)
        return self

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """All rows by x, then by rank."""
        level = [self._root]
        for _ in range(self._inner_levels):
            level = [child for node in level for child in node.items]
        for leaf in level:
            yield from zip(leaf.keys, leaf.ranks, leaf.items, strict=True)

    def add(self, x: Code, rank: Code, ref: Ref) -> None:
        """Put a row in; ValueError if there is one with this x and rank."""
        nodes, places = self._path(x, rank)
        leaf, at = nodes[-1], places[-1]
        if at < len(leaf.keys) and leaf.ranks[at] == rank and leaf.keys[at] == x:
            raise ValueError(f"there is a row at {x!r} with the rank {rank!r}")
        leaf.insert(at, x, rank, ref)
        for level in range(len(nodes) - 2, -1, -1):
            ranks = nodes[level].ranks
            if not rank < ranks[places[level]]:
                break
            ranks[places[level]] = rank
        if len(leaf.keys) > self.fan_out:
            self._split(nodes, places)
        self._count += 1

    def remove(self, x: Code, rank: Code) -> None:
        """Take a row out; KeyError if it is not there."""
        nodes, places = self._path(x, rank)
        leaf, at = nodes[-1], places[-1]
        if at == len(leaf.keys) or leaf.ranks[at] != rank or leaf.keys[at] != x:
            raise KeyError((x, rank))
        leaf.delete(at)
        if len(leaf.keys) < self._least:
            self._join(nodes, places)
        else:
            for level in range(len(nodes) - 2, -1, -1):
                ranks = nodes[level].ranks
                if ranks[places[level]] != rank:
                    break
                ranks[places[level]] = min(nodes[level + 1].ranks)
        self._count -= 1

    def _path(self, x: Code, rank: Code) -> Path:
        """The way to the first row at or after (x, rank)."""
        node, target = self._root, (x, rank)
        nodes, places = [node], []
        for _ in range(self._inner_levels):
            at = bisect_right(node.keys, target, 1) - 1
            places.append(at)
            node = node.items[at]
            nodes.append(node)
        keys = node.keys
        at = bisect_left(keys, x)
        if at < len(keys) and keys[at] == x:
            at = bisect_left(node.ranks, rank, at, bisect_right(keys, x, at))
        places.append(at)
        self.visits += len(nodes)
        return nodes, places

    def _split(self, nodes: list[Node], places: list[int]) -> None:
        """Halve the overfull nodes of a path, from the leaf up."""
        leaf_level = len(nodes) - 1
        for level in range(leaf_level, -1, -1):
            node = nodes[level]
            if len(node.keys) <= self.fan_out:
                return
            right = node.cut(len(node.keys) // 2)
            is_leaf = level == leaf_level
            if not level:
                self._root = Node([_first(node, is_leaf)], [min(node.ranks)], [node])
                self._root.insert(1, _first(right, is_leaf), min(right.ranks), right)
                self._inner_levels += 1
                return
            parent, at = nodes[level - 1], places[level - 1]
            parent.ranks[at] = min(node.ranks)
            parent.insert(at + 1, _first(right, is_leaf), min(right.ranks), right)

    def _join(self, nodes: list[Node], places: list[int]) -> None:
        """Refill the underfull nodes of a path from a neighbour, from the leaf up; set the least ranks on it."""
        for level in range(len(nodes) - 2, -1, -1):
            parent, at, node = nodes[level], places[level], nodes[level + 1]
            if len(node.keys) >= self._least:
                parent.ranks[at] = min(node.ranks)
                continue
            at = max(at, 1)
            left, right = parent.items[at - 1], parent.items[at]
            left.extend(right)
            parent.delete(at)
            if len(left.keys) > self.fan_out:
                right = left.cut(len(left.keys) // 2)
                parent.insert(at, _first(right, level == len(nodes) - 2), min(right.ranks), right)
            parent.ranks[at - 1] = min(left.ranks)
        if self._inner_levels and len(self._root.keys) == 1:
            self._root = self._root.items[0]
            self._inner_levels -= 1

    def check(self) -> None:
        """The invariants, in O(N log N)."""
        rows = list(self)
        assert len(rows) == self._count, "the count is kept"
        assert all(a[:2] < b[:2] for a, b in pairwise(rows)), "rows ascend by (x, rank)"
        assert len({rank for _, rank, _ in rows}) == len(rows), "no two rows have the same rank"
        todo: list[tuple[int, Node]] = [(self._inner_levels, self._root)]
        while todo:
            level, node = todo.pop()
            size = len(node.keys)
            assert size == len(node.ranks) == len(node.items), "the lists of a node are parallel"
            assert size <= self.fan_out, "no node is overfull"
            assert size >= (self._least if node is not self._root else 2 if level else 0), "none is underfull"
            if not level:
                assert [node.ranks[at] for at in node.order] == sorted(node.ranks), (
                    "the order is that of the ranks"
                )
                continue
            for at, child in enumerate(node.items):
                assert node.ranks[at] == min(child.ranks), "an entry carries the least rank below it"
                first, last = self._ends(child, level - 1)
                assert at == 0 or node.keys[at] <= first, "rows are at or after the key of their node"
                assert at + 1 == size or last < node.keys[at + 1], "rows are before the key of the next"
                todo.append((level - 1, child))

    def _ends(self, node: Node, level: int) -> tuple[Any, Any]:
        first = last = node
        for _ in range(level):
            first, last = first.items[0], last.items[-1]
        return (first.keys[0], first.ranks[0]), (last.keys[-1], last.ranks[-1])


def _first(node: Node, is_leaf: bool) -> Any:
    """The key of a node in its parent."""
    return (node.keys[0], node.ranks[0]) if is_leaf else node.keys[0]
