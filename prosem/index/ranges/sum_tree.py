"""A B+-tree of sums: how many rows stand between two x, how many of them have a value, and its exact sum."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any, Self

from cn.model.geometry import Code
from prosem.index.order import HIGHEST, LOWEST

Sums = tuple[int, int, int]  # rows, rows with a value, the sum of the values
FAN_OUT = 64
ZERO: Sums = (0, 0, 0)


class SumNode:
    """Parallel lists: `rows[i]`, `values[i]` and `totals[i]` are the sums below the i-th entry.

    In a leaf `keys` are the distinct x and `items` is empty. In an inner node an item is a child with
    `keys[i] <= x < keys[i + 1]`; `keys[0]` bounds nothing.
    """

    __slots__ = ("items", "keys", "rows", "totals", "values")

    def __init__(
        self, keys: list[Code], rows: list[int], values: list[int], totals: list[int], items: list[SumNode]
    ) -> None:
        self.keys = keys
        self.rows = rows
        self.values = values
        self.totals = totals
        self.items = items

    def sums(self, first: int, end: int | None = None) -> Sums:
        """The sums of the entries from `first` to before `end`."""
        return sum(self.rows[first:end]), sum(self.values[first:end]), sum(self.totals[first:end])

    def insert(self, at: int, key: Code, sums: Sums, item: SumNode | None = None) -> None:
        self.keys.insert(at, key)
        self.rows.insert(at, sums[0])
        self.values.insert(at, sums[1])
        self.totals.insert(at, sums[2])
        if item is not None:
            self.items.insert(at, item)

    def delete(self, at: int) -> None:
        del self.keys[at], self.rows[at], self.values[at], self.totals[at], self.items[at : at + 1]

    def part(self, first: int, end: int | None = None) -> SumNode:
        """A copy of some entries."""
        span = slice(first, end)
        return SumNode(
            self.keys[span], self.rows[span], self.values[span], self.totals[span], self.items[span]
        )

    def cut(self, at: int) -> SumNode:
        """Keep the first `at` entries; the others become a new node."""
        right = self.part(at)
        del self.keys[at:], self.rows[at:], self.values[at:], self.totals[at:], self.items[at:]
        return right

    def absorb(self, right: SumNode) -> None:
        self.keys += right.keys
        self.rows += right.rows
        self.values += right.values
        self.totals += right.totals
        self.items += right.items


class SumTree:
    """Sums by x, for COUNT, SUM and AVG over a range of x.

    Every node but the root holds between a quarter of `fan_out` and `fan_out` entries, all leaves are equally
    deep, and each entry carries the three sums below it. The sums are Python integers, so they are exact at
    any size: decimals and doubles come scaled. A change and a question take O(log N). Loses to `sum()` over a
    slice of a sorted list below some hundred rows.

    >>> tree = SumTree().build([(10, 1, 1, 500), (20, 2, 1, 70), (30, 1, 0, 0)])
    >>> tree.change(20, -1, -1, -70)
    >>> tree.total(), tree.total(15), tree.total(None, 10)
    ((3, 1, 500), (2, 0, 0), (1, 1, 500))
    """

    def __init__(self, fan_out: int = FAN_OUT) -> None:
        if fan_out < 4:
            raise ValueError("the fan-out must be at least 4")
        self.fan_out = fan_out
        self.visits = 0  # nodes looked at so far
        self._least = max(2, fan_out // 4)
        self._root = SumNode([], [], [], [], [])
        self._count = 0

    def build(self, entries: Iterable[tuple[Code, int, int, int]]) -> Self:
        """Hold exactly these contributions (x, rows, values, total), in any order; equal x are added up."""
        keys: list[Code] = []
        counts: list[int] = []
        numbers: list[int] = []
        sums: list[int] = []
        for x, rows, values, total in sorted(entries, key=itemgetter(0)):
            if keys and keys[-1] == x:
                counts[-1] += rows
                numbers[-1] += values
                sums[-1] += total
            else:
                keys.append(x)
                counts.append(rows)
                numbers.append(values)
                sums.append(total)
        level = SumNode(keys, counts, numbers, sums, [])
        if not all(level.rows):
            kept = [at for at, rows in enumerate(level.rows) if rows]
            if any(v or t for r, v, t in zip(level.rows, level.values, level.totals, strict=True) if not r):
                raise ValueError("values without rows")
            keys = [keys[at] for at in kept]
            counts, numbers, sums = ([some[at] for at in kept] for some in (counts, numbers, sums))
            level = SumNode(keys, counts, numbers, sums, [])
        self._count = len(level.keys)
        while len(level.keys) > self.fan_out:
            parts = -(-4 * len(level.keys) // (3 * self.fan_out))  # nodes three quarters full
            ends = [len(level.keys) * part // parts for part in range(parts + 1)]
            nodes = [level.part(first, end) for first, end in pairwise(ends)]
            level = SumNode([], [], [], [], [])
            for at, node in enumerate(nodes):
                level.insert(at, node.keys[0], node.sums(0), node)
        self._root = level
        return self

    def __len__(self) -> int:
        """The number of distinct x."""
        return self._count

    def __iter__(self) -> Iterator[tuple[Code, int, int, int]]:
        level = [self._root]
        while level[0].items:
            level = [child for node in level for child in node.items]
        for leaf in level:
            yield from zip(leaf.keys, leaf.rows, leaf.values, leaf.totals, strict=True)

    # -- changes -------------------------------------------------------------------------------------------
    def change(self, x: Code, rows: int, values: int, total: int) -> None:
        """Add a contribution at x, negative to take one out. An x without rows is forgotten.

        ValueError, and no change, if x were left with fewer than no rows, or with values and no rows.
        """
        node = self._root
        nodes, places = [node], []
        while node.items:
            at = bisect_right(node.keys, x, 1) - 1
            places.append(at)
            node = node.items[at]
            nodes.append(node)
        self.visits += len(nodes)
        at = bisect_left(node.keys, x)
        found = at < len(node.keys) and node.keys[at] == x
        left = node.rows[at] + rows if found else rows
        if left <= 0:
            held = (node.values[at] + values, node.totals[at] + total) if found else (values, total)
            if left or held != (0, 0):
                raise ValueError(f"{x!r} would be left with {left} rows and the sums {held}")
            if not found:
                return
        for level, place in enumerate(places):
            inner = nodes[level]
            if rows:
                inner.rows[place] += rows
            if values:
                inner.values[place] += values
            if total:
                inner.totals[place] += total
        if not left:
            node.delete(at)
            self._count -= 1
            if len(node.keys) < self._least:
                self._join(nodes, places)
        elif found:
            node.rows[at] = left
            if values:
                node.values[at] += values
            if total:
                node.totals[at] += total
        else:
            node.insert(at, x, (rows, values, total))
            self._count += 1
            if len(node.keys) > self.fan_out:
                self._split(nodes, places)

    def _split(self, nodes: list[SumNode], places: list[int]) -> None:
        """Halve the overfull nodes of a path, from the leaf up."""
        for level in range(len(nodes) - 1, -1, -1):
            node = nodes[level]
            if len(node.keys) <= self.fan_out:
                return
            right = node.cut(len(node.keys) // 2)
            if level:
                parent, at = nodes[level - 1], places[level - 1]
                key = parent.keys[at]
                parent.delete(at)
            else:
                parent, at, key = SumNode([], [], [], [], []), 0, node.keys[0]
                self._root = parent
            parent.insert(at, key, node.sums(0), node)
            parent.insert(at + 1, right.keys[0], right.sums(0), right)

    def _join(self, nodes: list[SumNode], places: list[int]) -> None:
        """Refill the underfull nodes of a path from a neighbour, from the leaf up."""
        for level in range(len(nodes) - 2, -1, -1):
            parent, at, node = nodes[level], places[level], nodes[level + 1]
            if len(node.keys) >= self._least:
                break
            at = max(at, 1)
            left, right = parent.items[at - 1], parent.items[at]
            if left.items:
                right.keys[0] = parent.keys[at]  # a first key bounds nothing until it stands inside a node
            left.absorb(right)
            parent.delete(at)
            key = parent.keys[at - 1]
            parent.delete(at - 1)
            if len(left.keys) > self.fan_out:
                right = left.cut(len(left.keys) // 2)
                parent.insert(at - 1, right.keys[0], right.sums(0), right)
            parent.insert(at - 1, key, left.sums(0), left)
        if len(self._root.items) == 1:
            self._root = self._root.items[0]

    # -- questions -----------------------------------------------------------------------------------------
    def total(self, low: Code | None = None, high: Code | None = None) -> Sums:
        """Rows, values and their sum over `low <= x <= high` (None: no end)."""
        if low is not None and high is not None and high < low:
            return ZERO
        node = self._root
        self.visits += 1
        while node.items:
            first = 0 if low is None else bisect_right(node.keys, low, 1) - 1
            end = len(node.keys) - 1 if high is None else bisect_right(node.keys, high, 1) - 1
            if first < end:
                break
            node = node.items[first]
            self.visits += 1
        else:
            first = 0 if low is None else bisect_left(node.keys, low)
            return node.sums(first, None if high is None else bisect_right(node.keys, high))
        rows, values, total = node.sums(first if low is None else first + 1, end + 1 if high is None else end)
        if low is not None:
            more = self._beyond(node.items[first], low)
            rows, values, total = rows + more[0], values + more[1], total + more[2]
        if high is not None:
            more = self._upto(node.items[end], high)
            rows, values, total = rows + more[0], values + more[1], total + more[2]
        return rows, values, total

    def _beyond(self, node: SumNode, low: Code) -> Sums:
        rows = values = total = 0
        while True:
            self.visits += 1
            at = bisect_right(node.keys, low, 1) if node.items else bisect_left(node.keys, low)
            more = node.sums(at)
            rows, values, total = rows + more[0], values + more[1], total + more[2]
            if not node.items:
                return rows, values, total
            node = node.items[at - 1]

    def _upto(self, node: SumNode, high: Code) -> Sums:
        rows = values = total = 0
        while True:
            self.visits += 1
            at = bisect_right(node.keys, high, 1) - 1 if node.items else bisect_right(node.keys, high)
            more = node.sums(0, at)
            rows, values, total = rows + more[0], values + more[1], total + more[2]
            if not node.items:
                return rows, values, total
            node = node.items[at]

    def check(self) -> None:
        """The invariants, in O(N)."""
        count, depths = 0, set()
        todo: list[tuple[int, SumNode, Any, Any]] = [(0, self._root, LOWEST, HIGHEST)]
        while todo:
            depth, node, low, high = todo.pop()
            size, inner = len(node.keys), bool(node.items)
            assert size == len(node.rows) == len(node.values) == len(node.totals), "the lists are parallel"
            assert len(node.items) in (0, size), "a node has a child an entry, or none"
            assert size <= self.fan_out, "no node is overfull"
            assert size >= (self._least if node is not self._root else 2 if inner else 0), "none is underfull"
            bounds = node.keys[1:] if inner else node.keys
            assert all(low <= key < high for key in bounds), "keys lie in the range of their node"
            assert all(a < b for a, b in pairwise(bounds)), "keys ascend strictly"
            if not inner:
                depths.add(depth)
                count += size
                assert all(rows > 0 for rows in node.rows), "an x without rows is forgotten"
                assert all(0 <= v <= r for r, v in zip(node.rows, node.values, strict=True)), (
                    "rows have values"
                )
                held = zip(node.values, node.totals, strict=True)
                assert all(values or not total for values, total in held), "no values, no sum"
                continue
            ends = [low, *node.keys[1:], high]
            for at, child in enumerate(node.items):
                carried = node.rows[at], node.values[at], node.totals[at]
                assert carried == child.sums(0), "an entry carries the sums below it"
                todo.append((depth + 1, child, ends[at], ends[at + 1]))
        assert len(depths) == 1, "all leaves are equally deep"
        assert count == self._count, "the count is kept"
