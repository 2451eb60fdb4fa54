"""The k-d tree of sums: rows, values and their exact sum over a box."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from cn.model.geometry import Box, Point
from prosem.index.boxes.kd_tree_shape import KdTree, Leaf, Record, sides, within
from prosem.index.ranges.sum_tree import ZERO, Sums


class SumLeaf(Leaf):
    """Points with their three sums."""

    __slots__ = ("sums",)

    def __init__(self, points: list[Point], sums: list[Sums]) -> None:
        self.points = points
        self.sums = sums
        self.summary = _added(sums)


class SumKdTree(KdTree[SumLeaf]):
    """Rows, values and their exact sum by point, for COUNT, SUM and AVG with several ranges.

    The sums are those of a `SumTree`. `len()` counts distinct points. See docs/explanation.md.

    >>> from cn.model.geometry import Interval
    >>> tree = SumKdTree(2).build([((1, 1), 1, 1, 50), ((2, 8), 1, 0, 0), ((6, 6), 1, 1, 7)])
    >>> tree.change((6, 6), 0, 0, 3)
    >>> tree.total((Interval(2, 9), Interval()))
    (2, 1, 10)
    """

    def build(self, entries: Iterable[tuple[Point, int, int, int]]) -> Self:
        """Hold exactly these contributions, in any order; those at one point are added up."""
        held: dict[Point, Sums] = {}
        for point, rows, values, total in entries:
            before = held.get(point, ZERO)
            held[point] = before[0] + rows, before[1] + values, before[2] + total
        records: list[Record] = [(point, sums) for point, sums in held.items() if sums != ZERO]
        if any(record[1][0] <= 0 for record in records):
            raise ValueError("values without rows")
        self._root, self._count = self._built(records, 0), len(records)
        return self

    def __iter__(self) -> Iterator[tuple[Point, int, int, int]]:
        for leaf in self._leaves(self._root):
            yield from ((point, *sums) for point, sums in self._records(leaf))

    def add(self, point: Point, rows: int, values: int, total: int) -> None:
        """Put a contribution in."""
        self.change(point, rows, values, total)

    def remove(self, point: Point, rows: int, values: int, total: int) -> None:
        """Take a contribution out."""
        self.change(point, -rows, -values, -total)

    def change(self, point: Point, rows: int, values: int, total: int) -> None:
        """Add a contribution at the point, negative to take one out. A point without rows is forgotten.

        ValueError, and no change, if the point were left with fewer than no rows, or values and no rows.
        """
        path, leaf = self._path(point)
        at = leaf.points.index(point) if point in leaf.points else -1
        sums = (rows, values, total)
        if at >= 0:
            before = leaf.sums[at]
            sums = before[0] + rows, before[1] + values, before[2] + total
        if sums[0] <= 0 and sums != ZERO:
            raise ValueError(f"{point!r} would be left with {sums[0]} rows and the sums {sums[1:]}")
        nodes: list[Any] = [*path, leaf]
        for node in nodes:
            held = node.summary
            node.summary = held[0] + rows, held[1] + values, held[2] + total
        if sums == ZERO:
            if at >= 0:
                del leaf.points[at], leaf.sums[at]
                self._count -= 1
                self._resize(path, leaf, -1)
        elif at >= 0:
            leaf.sums[at] = sums
        else:
            leaf.points.append(point)
            leaf.sums.append(sums)
            self._count += 1
            self._resize(path, leaf, 1)

    def total(self, box: Box) -> Sums:
        """Rows, values and their sum over the points in the box."""
        bounds = self._ends(box)
        if bounds is None:
            return ZERO
        ends, mask = bounds
        parts: list[Sums] = []
        todo: list[tuple[Any, int]] = [(self._root, mask)]
        visits = 0
        while todo:
            node, mask = todo.pop()
            visits += 1
            if not mask:
                parts.append(node.summary)
            elif node.axis < 0:
                held = node.sums
                parts += [held[at] for at in within(node.points, ends, mask)]
            else:
                below, above = sides(node.axis, node.cut, ends, mask)
                if below >= 0:
                    todo.append((node.below, below))
                if above >= 0:
                    todo.append((node.above, above))
        self.visits += visits
        return _added(parts)

    # -- the shape -----------------------------------------------------------------------------------------
    def _leaf(self, records: list[Record]) -> SumLeaf:
        return SumLeaf([record[0] for record in records], [record[1] for record in records])

    def _records(self, leaf: SumLeaf) -> Iterable[Record]:
        return zip(leaf.points, leaf.sums, strict=True)

    def _join(self, below: Any, above: Any) -> Any:
        return below[0] + above[0], below[1] + above[1], below[2] + above[2]

    def _check_leaf(self, leaf: SumLeaf) -> int:
        assert len(leaf.points) == len(leaf.sums), "the lists of a bucket are parallel"
        assert leaf.summary == _added(leaf.sums), "a bucket knows its sums"
        assert all(0 <= values <= rows and rows for rows, values, _ in leaf.sums), "a value is that of a row"
        return len(leaf.points)


def _added(parts: list[Sums]) -> Sums:
    if not parts:
        return ZERO
    rows, values, totals = zip(*parts, strict=True)
    return sum(rows), sum(values), sum(totals)
