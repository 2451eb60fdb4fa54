"""K-d trees over rows with several range attributes: the lowest y in a box, and the sums over a box."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Self

from cn.geometry import Box, Code, Point
from prosem.index.kd_tree_shape import Ends, KdTree, Leaf, Record, axes_left
from prosem.index.lower_tier import LowerTier, Ref
from prosem.index.order import HIGHEST
from prosem.index.sum_tree import ZERO, Sums

Entry = tuple[Code, Point, Ref]  # y, the point, and the reference of a tuple
NOBODY = object()  # equal to no reference


class MinLeaf(Leaf):
    """Points by their lowest y; an item is a reference, or a `LowerTier` if the point has several tuples."""

    __slots__ = ("items", "ys")

    def __init__(self, points: list[Point], ys: list[Code], items: list[Any]) -> None:
        self.points = points
        self.ys = ys
        self.items = items
        self.summary = ys[0] if ys else HIGHEST

    def entry(self, at: int) -> Entry:
        """The lowest tuple of a point."""
        item = self.items[at]
        return self.ys[at], self.points[at], item.ref() if type(item) is LowerTier else item

    def put(self, point: Point, y: Code, item: Any) -> None:
        at = bisect_right(self.ys, y)
        self.points.insert(at, point)
        self.ys.insert(at, y)
        self.items.insert(at, item)
        self.summary = self.ys[0]

    def take(self, at: int) -> None:
        del self.points[at], self.ys[at], self.items[at]
        self.summary = self.ys[0] if self.ys else HIGHEST


class MinKdTree(KdTree[MinLeaf]):
    """Tuples (point, y, ref) with the minimum of y over every subtree, for MIN with several ranges.

    A bucket is in the order of y, so its first point in the box is its lowest. References need only be
    hashable. Loses to `min()` over the rows below some hundred tuples. Algorithms §2.

    >>> from cn.geometry import Interval
    >>> tree = MinKdTree(2).build([((1, 1), 5, "a"), ((2, 8), 3, "b"), ((6, 6), 4, "c")])
    >>> tree.lowest((Interval(1, 9), Interval(1, 7)))
    (4, (6, 6), 'c')
    """

    def build(self, entries: Iterable[tuple[Point, Code, Ref]]) -> Self:
        """Hold exactly these tuples (point, y, ref), in any order; O(N log² N)."""
        held: dict[Point, Any] = {}
        count = 0
        for point, y, ref in entries:
            held.setdefault(point, []).append((y, ref))
            count += 1
        records: list[Record] = []
        for point, tuples in held.items():
            item = LowerTier(tuples) if len(tuples) > 1 else tuples[0][1]
            records.append((point, item.heights[0] if len(tuples) > 1 else tuples[0][0], item))
        self._root, self._count = self._built(records, 0), count
        return self

    def __iter__(self) -> Iterator[tuple[Point, Code, Ref]]:
        for leaf in self._leaves(self._root):
            for point, y, item in zip(leaf.points, leaf.ys, leaf.items, strict=True):
                if type(item) is LowerTier:
                    yield from ((point, height, ref) for height, ref in item)
                else:
                    yield point, y, item

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, point: Point, y: Code, ref: Ref) -> None:
        """Put a tuple in; ValueError if the same (point, y, ref) is there."""
        path, leaf = self._path(point)
        if point not in leaf.points:
            leaf.put(point, y, ref)
            grown = 1
        else:
            at, grown = leaf.points.index(point), 0
            item, before = leaf.items[at], leaf.ys[at]
            if type(item) is LowerTier:
                item.add(y, ref)
            else:
                item = LowerTier([(before, item), (y, ref)])
                leaf.items[at] = item
            if y < before:
                leaf.take(at)
                leaf.put(point, y, item)
        for branch in path:
            if y < branch.summary:
                branch.summary = y
        self._count += 1
        if grown:
            self._resize(path, leaf, 1)

    def remove(self, point: Point, y: Code, ref: Ref) -> None:
        """Take a tuple out; KeyError if it is not there."""
        path, leaf = self._path(point)
        if point not in leaf.points:
            raise KeyError((point, y, ref))
        at = leaf.points.index(point)
        item, before = leaf.items[at], leaf.ys[at]
        if type(item) is LowerTier:
            item.remove(y, ref)
            low, kept = item.lowest()
            kept = kept if len(item) == 1 else item
            if low == before:
                leaf.items[at] = kept
            else:
                leaf.take(at)
                leaf.put(point, low, kept)
        elif before != y or item != ref:
            raise KeyError((point, y, ref))
        else:
            leaf.take(at)
        if path and y == path[-1].summary:
            self._summarise(path)
        self._count -= 1
        if type(item) is not LowerTier:
            self._resize(path, leaf, -1)

    # -- questions -----------------------------------------------------------------------------------------
    def lowest(self, box: Box) -> Entry | None:
        """The lowest tuple in the box, or None if there is none. The lower side of a branch comes first."""
        bounds = self._ends(box)
        if bounds is None or not self._count:
            return None
        ends, mask = bounds
        best: Any = HIGHEST
        where: Any = None
        todo: list[tuple[Any, int]] = [(self._root, mask)]
        visits = 0
        while todo:
            node, mask = todo.pop()
            if not node.summary < best:
                continue
            visits += 1
            if not mask:
                best, where = node.summary, (node, 0)
            elif node.axis < 0:
                at = _first(node, ends, mask, best)
                if at >= 0:
                    best, where = node.ys[at], (node, at)
            else:
                below, above = node.below, node.above
                sides = _sides(node.axis, node.cut, ends, mask)
                if above.summary < below.summary:
                    if sides[0] >= 0:
                        todo.append((below, sides[0]))
                    if sides[1] >= 0:
                        todo.append((above, sides[1]))
                else:
                    if sides[1] >= 0:
                        todo.append((above, sides[1]))
                    if sides[0] >= 0:
                        todo.append((below, sides[0]))
        self.visits += visits
        if where is None:
            return None
        node, at = where
        while node.axis >= 0:
            node = node.below if node.below.summary == best else node.above
        found: Entry = node.entry(at)
        return found

    def near(self, box: Box, point: Point, limit: Code, *, but: Ref = NOBODY) -> Entry | None:
        """Some tuple in the box with `y <= limit` and another reference than `but`, or None.

        Near the point if there is one: buckets are searched from that of the point outward.
        """
        bounds = self._ends(box)
        if bounds is None:
            return None
        ends, mask = bounds
        todo: list[tuple[Any, int]] = [(self._root, mask)]
        while todo:
            node, mask = todo.pop()
            if not node.summary <= limit:
                continue
            self.visits += 1
            axis = node.axis
            if axis < 0:
                found = _some(node, ends, mask, limit, but)
                if found is not None:
                    return found
                continue
            below, above = _sides(axis, node.cut, ends, mask)
            if point[axis] < node.cut:
                if above >= 0:
                    todo.append((node.above, above))
                if below >= 0:
                    todo.append((node.below, below))
            else:
                if below >= 0:
                    todo.append((node.below, below))
                if above >= 0:
                    todo.append((node.above, above))
        return None

    # -- the shape -----------------------------------------------------------------------------------------
    def _leaf(self, records: list[Record]) -> MinLeaf:
        records = sorted(records, key=itemgetter(1))
        return MinLeaf([r[0] for r in records], [r[1] for r in records], [r[2] for r in records])

    def _records(self, leaf: MinLeaf) -> Iterable[Record]:
        return zip(leaf.points, leaf.ys, leaf.items, strict=True)

    def _join(self, below: Any, above: Any) -> Any:
        return above if above < below else below

    def _check_leaf(self, leaf: MinLeaf) -> int:
        assert len(leaf.points) == len(leaf.ys) == len(leaf.items), "the lists of a bucket are parallel"
        assert leaf.ys == sorted(leaf.ys), "a bucket is in the order of y"
        assert leaf.summary == (leaf.ys[0] if leaf.ys else HIGHEST), "a bucket knows its minimum"
        count = len(leaf.items)
        for y, item in zip(leaf.ys, leaf.items, strict=True):
            if type(item) is LowerTier:
                item.check()
                assert len(item) >= 2, "a lower tier holds two or more"
                assert item.heights[0] == y, "an entry carries the minimum of its point"
                count += len(item) - 1
        return count


class SumLeaf(Leaf):
    """Points with their three sums."""

    __slots__ = ("sums",)

    def __init__(self, points: list[Point], sums: list[Sums]) -> None:
        self.points = points
        self.sums = sums
        self.summary = _added(sums)


class SumKdTree(KdTree[SumLeaf]):
    """Rows, values and their exact sum by point, for COUNT, SUM and AVG with several ranges.

    The sums are those of a `SumTree`. `len()` counts distinct points. Algorithms §2.

    >>> from cn.geometry import Interval
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
        for node in (*path, leaf):
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
                axes = axes_left(ends, mask)
                axis, low, high = axes[0]
                if len(axes) == 1:
                    parts += [
                        sums
                        for point, sums in zip(node.points, node.sums, strict=True)
                        if low <= point[axis] < high
                    ]
                else:
                    parts += [
                        sums
                        for point, sums in zip(node.points, node.sums, strict=True)
                        if all([low <= point[axis] < high for axis, low, high in axes])
                    ]
            else:
                below, above = _sides(node.axis, node.cut, ends, mask)
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


def _sides(axis: int, cut: Code, ends: Ends, mask: int) -> tuple[int, int]:
    """What is left to look at below and above a cut; -1 if the box does not reach there."""
    end = ends[axis]
    if end is None:
        return mask, mask
    low, high = end
    low_bit, high_bit = 1 << 2 * axis, 2 << 2 * axis
    below = -1 if not low < cut else mask & ~high_bit if cut <= high else mask
    above = -1 if not cut < high else mask & ~low_bit if low <= cut else mask
    return below, above


def _first(leaf: MinLeaf, ends: Ends, mask: int, best: Code) -> int:
    """The first point of a bucket in the box and lower than the best so far, or -1."""
    axes = axes_left(ends, mask)
    axis, low, high = axes[0]
    more = len(axes) > 1
    for at, point in enumerate(leaf.points):
        if low <= point[axis] < high and (
            not more or all([first <= point[along] < end for along, first, end in axes])
        ):
            return at if leaf.ys[at] < best else -1
    return -1


def _some(leaf: MinLeaf, ends: Ends, mask: int, limit: Code, but: Ref) -> Entry | None:
    """A tuple of a bucket in the box, at or below the limit, not `but`."""
    axes = axes_left(ends, mask)
    for at in range(bisect_right(leaf.ys, limit)):
        point = leaf.points[at]
        if all([low <= point[axis] < high for axis, low, high in axes]):
            entry = leaf.entry(at)
            if entry[2] != but:
                return entry
            item = leaf.items[at]
            if type(item) is LowerTier:
                for y, ref in item:
                    if not y <= limit:
                        break
                    if ref != but:
                        return y, point, ref
    return None
