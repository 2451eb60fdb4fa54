"""K-d trees over rows with several range attributes: the lowest y in a box, and the sums over a box."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Self

from cn.model.geometry import Box, Code, Point
from prosem.index.boxes.kd_tree_shape import Ends, KdTree, Leaf, Record, sides, within
from prosem.index.boxes.kd_tree_sum import SumKdTree
from prosem.index.order import HIGHEST
from prosem.index.ranges.lower_tier import LowerTier, Ref

__all__ = ["Entry", "MinKdTree", "MinLeaf", "SumKdTree"]

Entry = tuple[Code, Point, Ref]  # y, the point, and the reference of a tuple
NO_REFERENCE = object()  # equal to no reference


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
    hashable. Loses to `min()` over the rows below some hundred tuples. See docs/explanation.md.

    >>> from cn.model.geometry import Interval
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
                lower = within(node.points, ends, mask, bisect_left(node.ys, best))
                if lower:
                    at = lower[0]
                    best, where = node.ys[at], (node, at)
            else:
                below, above = node.below, node.above
                reach = sides(node.axis, node.cut, ends, mask)
                if above.summary < below.summary:
                    if reach[0] >= 0:
                        todo.append((below, reach[0]))
                    if reach[1] >= 0:
                        todo.append((above, reach[1]))
                else:
                    if reach[1] >= 0:
                        todo.append((above, reach[1]))
                    if reach[0] >= 0:
                        todo.append((below, reach[0]))
        self.visits += visits
        if where is None:
            return None
        node, at = where
        while node.axis >= 0:
            node = node.below if node.below.summary == best else node.above
        found: Entry = node.entry(at)
        return found

    def near(self, box: Box, point: Point, limit: Code, *, but: Ref = NO_REFERENCE) -> Entry | None:
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
            below, above = sides(axis, node.cut, ends, mask)
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


def _some(leaf: MinLeaf, ends: Ends, mask: int, limit: Code, but: Ref) -> Entry | None:
    """A tuple of a bucket in the box, at or below the limit, not `but`."""
    for at in within(leaf.points, ends, mask, bisect_right(leaf.ys, limit)):
        entry = leaf.entry(at)
        if entry[2] != but:
            return entry
        item = leaf.items[at]
        if type(item) is LowerTier:
            for y, ref in item:
                if not y <= limit:
                    break
                if ref != but:
                    return y, leaf.points[at], ref
    return None
