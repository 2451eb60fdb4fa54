"""The shape of a k-d tree: buckets of points below cuts, kept in balance part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Generic, TypeVar

import numpy as np

from cn.model.geometry import Box, Code, Point
from prosem.index.kd_tree_cuts import Codes, best_cut
from prosem.index.order import HIGHEST, LOWEST

BUCKET = 32
SMALL = 1024  # points that are built anew within milliseconds
SAMPLE = 255  # points to find a cut for more
INFINITY = float("inf")  # beyond every integer, and compared with one exactly
Record = tuple[Any, ...]  # a point, and what a flavour keeps of it


class Leaf:
    """A bucket of distinct points; flavours add lists parallel to `points`, and `summary` of them all."""

    __slots__ = ("points", "summary")
    axis = -1
    points: list[Point]
    summary: Any

    @property
    def size(self) -> int:
        return len(self.points)


class Branch:
    """Two subtrees: `code < cut` on the axis is below, the rest above. `size` counts distinct points."""

    __slots__ = ("above", "axis", "below", "cut", "size", "summary")

    def __init__(self, axis: int, cut: Code, below: Any, above: Any, summary: Any) -> None:
        self.axis = axis
        self.cut = cut
        self.below = below
        self.above = above
        self.size: int = below.size + above.size
        self.summary = summary


LeafType = TypeVar("LeafType", bound=Leaf)
Ends = list[tuple[Any, Any] | None]  # per axis `low <= code < high`; None: every code


class KdTree(ABC, Generic[LeafType]):
    """Points of codes in buckets, under cuts that go through the axes in turn.

    No side of a branch outgrows its share: 5/6 of the points in two dimensions, 1 - 1/(3d) in d, plus half a
    bucket. A branch that does is put right, and those around it stay: a small one is built anew, a large one
    gets another cut, and only the buckets across that cut are touched, so no change makes a long pause.
    (Distinct points can always be cut with 1/(2d) of them on the smaller side, so a new cut is good for a
    number of changes in proportion to the size.) A change takes O(log² N) amortised, a box O(N^(1-1/d))
    nodes at worst.
    """

    def __init__(self, dimensions: int, bucket: int = BUCKET) -> None:
        if dimensions < 1 or bucket < 2:
            raise ValueError("a k-d tree needs a dimension or more, and buckets of two or more")
        self.dimensions = dimensions
        self.bucket = bucket
        self.visits = 0  # nodes looked at so far
        self._share = 1 - 1 / (3 * dimensions)
        self._random = Random(dimensions)
        self._root: Any = self._leaf([])
        self._count = 0

    # -- what a flavour keeps ------------------------------------------------------------------------------
    @abstractmethod
    def _leaf(self, records: list[Record]) -> LeafType:
        """A bucket of these records."""

    @abstractmethod
    def _records(self, leaf: LeafType) -> Iterable[Record]:
        """What a bucket holds."""

    @abstractmethod
    def _join(self, below: Any, above: Any) -> Any:
        """The summary of two summaries."""

    @abstractmethod
    def _check_leaf(self, leaf: LeafType) -> int:
        """The invariants of a bucket; the number of its entries."""

    def __len__(self) -> int:
        return self._count

    # -- changes of the shape ------------------------------------------------------------------------------
    def _path(self, point: Point) -> tuple[list[Branch], LeafType]:
        """The branches from the root to the bucket of a point."""
        node = self._root
        path: list[Branch] = []
        while node.axis >= 0:
            path.append(node)
            node = node.below if point[node.axis] < node.cut else node.above
        self.visits += len(path) + 1
        return path, node

    def _resize(self, path: list[Branch], leaf: LeafType, change: int) -> None:
        """Count a point that came or went on its path; put right what is out of proportion, from below."""
        share, slack, least = self._share, self.bucket / 2, self.bucket // 2
        side = len(leaf.points)
        if side > self.bucket:
            self._put(path[-1] if path else None, leaf, self._rebuilt(leaf))
        for at in range(len(path) - 1, -1, -1):
            branch = path[at]
            size = branch.size = branch.size + change
            if max(side, size - side) > share * size + slack or size <= least:
                self._put(path[at - 1] if at else None, branch, self._rebuilt(branch))
            side = size

    def _put(self, parent: Branch | None, before: Any, after: Any) -> None:
        if parent is None:
            self._root = after
        elif parent.below is before:
            parent.below = after
        else:
            parent.above = after

    def _rebuilt(self, node: Any) -> Any:
        """The same points in balance: a small part is built anew, a large one cut anew at the top."""
        axis = max(node.axis, 0)
        if node.size <= SMALL:
            records = [record for leaf in self._leaves(node) for record in self._records(leaf)]
            return self._built(records, axis)
        axis, cut = self._best_cut([self._random_point(node) for _ in range(SAMPLE)], axis)
        return self._branch(axis, cut, *self._parted(node, axis, cut))

    def _parted(self, node: Any, axis: int, cut: Code) -> tuple[Any, Any]:
        """A subtree as two, by a cut; only what lies across it is touched."""
        if node.axis < 0:
            records = list(self._records(node))
            below = [record for record in records if record[0][axis] < cut]
            if len(below) == len(records):
                return node, self._leaf([])
            if not below:
                return self._leaf([]), node
            return self._leaf(below), self._leaf([r for r in records if not r[0][axis] < cut])
        if node.axis != axis:
            first, second = self._parted(node.below, axis, cut), self._parted(node.above, axis, cut)
            return (
                self._branch(node.axis, node.cut, first[0], second[0]),
                self._branch(node.axis, node.cut, first[1], second[1]),
            )
        if cut == node.cut:
            return node.below, node.above
        if cut < node.cut:
            low, high = self._parted(node.below, axis, cut)
            return low, self._branch(axis, node.cut, high, node.above)
        low, high = self._parted(node.above, axis, cut)
        return self._branch(axis, node.cut, node.below, low), high

    def _branch(self, axis: int, cut: Code, below: Any, above: Any) -> Any:
        """Two subtrees as one, in balance, and without a branch where none is needed."""
        if not below.size:
            return above
        if not above.size:
            return below
        branch = Branch(axis, cut, below, above, self._join(below.summary, above.summary))
        size = branch.size
        if max(below.size, above.size) > self._share * size + self.bucket / 2 or size <= self.bucket // 2:
            return self._rebuilt(branch)
        return branch

    def _random_point(self, node: Any) -> Point:
        at = self._random.randrange(node.size)
        while node.axis >= 0:
            below = node.below.size
            if at < below:
                node = node.below
            else:
                at -= below
                node = node.above
        point: Point = node.points[at]
        return point

    def _built(self, records: list[Record], axis: int) -> Any:
        """A balanced tree of records with distinct points, first cut on this axis if it cuts well."""
        if len(records) <= self.bucket:
            return self._leaf(records)
        if len(records) > SMALL:
            codes = np.array([record[0] for record in records])
            if codes.dtype == np.int64:
                return self._built_of_integers(records, codes, np.arange(len(records)), axis)
        axis, cut = self._best_cut([record[0] for record in records], axis)
        below = [record for record in records if record[0][axis] < cut]
        above = [record for record in records if not record[0][axis] < cut]
        following = (axis + 1) % self.dimensions
        first, second = self._built(below, following), self._built(above, following)
        return Branch(axis, cut, first, second, self._join(first.summary, second.summary))

    def _built_of_integers(self, records: list[Record], codes: Codes, chosen: Codes, axis: int) -> Any:
        """`_built` of the chosen records, whose points are the rows of `codes`: cut by vector operations."""
        if len(chosen) <= self.bucket:
            return self._leaf([records[at] for at in chosen])
        axis, cut = best_cut(codes[chosen], axis)
        is_below = codes[chosen, axis] < cut
        following = (axis + 1) % self.dimensions
        first, second = (
            self._built_of_integers(records, codes, some, following)
            for some in (chosen[is_below], chosen[~is_below])
        )
        return Branch(axis, cut, first, second, self._join(first.summary, second.summary))

    def _best_cut(self, points: list[Point], axis: int) -> tuple[int, Code]:
        """The cut nearest the middle of an axis: of this one if that is near, else of the best."""
        best: tuple[int, int, Code] | None = None
        for turn in range(self.dimensions):
            along = (axis + turn) % self.dimensions
            codes = sorted([point[along] for point in points])
            cut = codes[len(codes) // 2]
            at, beyond = bisect_left(codes, cut), bisect_right(codes, cut)
            smaller = min(at, len(codes) - at)
            if beyond < len(codes) and min(beyond, len(codes) - beyond) > smaller:
                smaller, cut = min(beyond, len(codes) - beyond), codes[beyond]
            if best is None or smaller > best[0]:
                best = smaller, along, cut
            if 5 * smaller >= 2 * len(codes):
                break
        assert best is not None
        return best[1:]

    def _summarise(self, path: list[Branch]) -> None:
        """Take the summary of a changed bucket up its path, as far as it matters."""
        for branch in reversed(path):
            summary = self._join(branch.below.summary, branch.above.summary)
            if summary == branch.summary:
                return
            branch.summary = summary

    # -- what the flavours' questions share ----------------------------------------------------------------
    def _leaves(self, node: Any) -> Iterator[LeafType]:
        todo = [node]
        while todo:
            node = todo.pop()
            if node.axis < 0:
                yield node
            else:
                todo += (node.above, node.below)

    def _ends(self, box: Box) -> tuple[Ends, int] | None:
        """A box as half-open ends, and a bit for every end there is: 2a for low, 2a + 1 for high.

        The next code after an integer n is n + 1, the next after a text s is s + NUL. None: an empty box.
        """
        if len(box) != self.dimensions:
            raise ValueError(f"a box of {len(box)} intervals in {self.dimensions} dimensions")
        ends: Ends = []
        mask = 0
        for axis, (low, high, low_open, high_open) in enumerate(box):
            if low is None and high is None:
                ends.append(None)
                continue
            if low is None:
                low = LOWEST if isinstance(high, str) else -INFINITY
            else:
                low = _next(low) if low_open else low
                mask |= 1 << 2 * axis
            if high is None:
                high = HIGHEST if isinstance(low, str) else INFINITY
            else:
                high = high if high_open else _next(high)
                mask |= 2 << 2 * axis
            if not low < high:
                return None
            ends.append((low, high))
        return ends, mask

    def check(self) -> None:
        """The invariants, in O(N log N)."""
        count = 0
        whole: Ends = [(LOWEST, HIGHEST)] * self.dimensions
        todo: list[tuple[Any, Ends]] = [(self._root, whole)]
        while todo:
            node, ends = todo.pop()
            if node.axis < 0:
                count += self._check_leaf(node)
                assert len(node.points) <= self.bucket, "no bucket is overfull"
                assert len(set(node.points)) == len(node.points), "the points of a bucket are distinct"
                for point in node.points:
                    assert len(point) == self.dimensions, "a point has one code per dimension"
                    for code, end in zip(point, ends, strict=True):
                        assert end is not None
                        assert end[0] <= code < end[1], "a point is on its side of every cut"
                continue
            below, above = node.below, node.above
            assert node.size == below.size + above.size, "a branch knows its size"
            assert node.size > self.bucket // 2, "a branch is worth a cut"
            heavy = max(below.size, above.size)
            assert heavy <= self._share * node.size + self.bucket / 2, "a branch is in balance"
            assert node.summary == self._join(below.summary, above.summary), "a branch sums up its sides"
            low, high = ends[node.axis] or (LOWEST, HIGHEST)
            assert low < node.cut < high, "a cut lies between those above it"
            for side, end in ((below, (low, node.cut)), (above, (node.cut, high))):
                todo.append((side, [*ends[: node.axis], end, *ends[node.axis + 1 :]]))
        assert count == self._count, "the count is kept"


def _next(code: Code) -> Code:
    return code + "\0" if isinstance(code, str) else code + 1


def sides(axis: int, cut: Code, ends: Ends, mask: int) -> tuple[int, int]:
    """What is left to look at below and above a cut; -1 if the box does not reach there."""
    end = ends[axis]
    if end is None:
        return mask, mask
    low, high = end
    low_bit, high_bit = 1 << 2 * axis, 2 << 2 * axis
    below = -1 if not low < cut else mask & ~high_bit if cut <= high else mask
    above = -1 if not cut < high else mask & ~low_bit if low <= cut else mask
    return below, above


def within(points: list[Point], ends: Ends, mask: int, stop: int | None = None) -> list[int]:
    """Which of the first points of a bucket lie in the box, by the axes that are left to look at."""
    places: list[int] | None = None
    for axis, end in enumerate(ends):
        if end is not None and mask >> 2 * axis & 3:
            low, high = end
            if places is None:
                some = points if stop is None else points[:stop]
                places = [at for at, point in enumerate(some) if low <= point[axis] < high]
            else:
                places = [at for at in places if low <= points[at][axis] < high]
    return list(range(len(points) if stop is None else stop)) if places is None else places
