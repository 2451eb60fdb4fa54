"""A coarse picture of where the points of a space lie, and the descriptors of regions in it.

Each dimension has equi-depth marks (quantiles of a sample of the points), so that only the order of codes matters: integers,
decimals and texts are described alike, and a descriptor keeps its meaning while the points multiply. The sample itself is
the histogram that says how many points a region holds while nothing has been measured.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cn.model.geometry import Box, Point, Region
from optimizer.plan import Descriptor

MARKS = 255
SAMPLE = 1024
_CENTRE = 6  # bits: the sum of two ranks falls into 8 cells
_LOOKED_AT = 4  # boxes of a region; the others stretch the hull little
Hull = tuple[int, ...]  # the first and the last rank of each dimension


class Sketch:
    """`points` is a sample in which every point of the space had about the same chance.

    >>> from cn.model.geometry import Interval
    >>> sketch = Sketch([(at, at + 10) for at in range(256)], 2)
    >>> narrow, wide = ((Interval(None, 40), Interval(to, None)) for to in (50, 40))
    >>> sketch.descriptor([(b"", (narrow,))], 256)
    (1, 1, 9, 0, 6, 4, 8)
    >>> [round(256 * sketch.share(sketch.hull([box]))) for box in (narrow, wide)]
    [1, 11]
    """

    __slots__ = ("_marks", "_orders", "_ranks", "size")

    def __init__(self, points: Sequence[Point], dimensions: int, size: int | None = None) -> None:
        self.size = len(points) if size is None else size
        columns = list(zip(*points, strict=True)) if points else [()] * dimensions
        self._marks: list[list[Any]] = []
        self._orders: list[list[Any]] = [sorted(column) for column in columns]
        for order in self._orders:
            places = {len(order) * at // (MARKS + 1) for at in range(1, MARKS + 1)} if order else set()
            self._marks.append([order[at] for at in sorted(places)])
        self._ranks = np.array(
            [
                [bisect_right(marks, code) for code in column]
                for marks, column in zip(self._marks, columns, strict=True)
            ],
            np.int16,
        ).reshape(dimensions, len(points))

    def hull(self, boxes: Iterable[Box]) -> Hull:
        """First and last rank in each dimension of what the boxes hold."""
        hull: list[int] = []
        for box in boxes:
            at = 0
            is_first = not hull
            for marks, (low, high, _, _) in zip(self._marks, box, strict=True):
                first = 0 if low is None else bisect_right(marks, low)
                last = len(marks) if high is None else bisect_right(marks, high)
                if is_first:
                    hull += (first, last)
                else:
                    if first < hull[at]:
                        hull[at] = first
                    if last > hull[at + 1]:
                        hull[at + 1] = last
                at += 2
        return tuple(hull)

    def descriptor(self, regions: Sequence[tuple[bytes, Region]], population: int) -> Descriptor:
        """Messages, log boxes, log points under the topic; and of each dimension the hull's middle and log width.

        All are small integers: regions that are alike have the same descriptor. O(boxes · dimensions), about 2 µs per box.
        """
        if len(regions) == 1 and len(regions[0][1]) == 1 and len(self._marks) == 2:
            return self._flat(regions[0][1][0], population)
        boxes = 0
        looked_at: list[Box] = []
        for _, region in regions:
            boxes += len(region)
            if len(looked_at) < _LOOKED_AT:
                looked_at += region[:_LOOKED_AT]
        described = [len(regions), boxes.bit_length(), population.bit_length()]
        hull = self.hull(looked_at) or (0,) * (2 * len(self._marks))
        centre = _CENTRE + (len(self._marks) > 2)  # the more dimensions, the fewer cells in each
        for first, last in zip(hull[::2], hull[1::2], strict=True):
            described += ((first + last) >> centre, (last - first).bit_length())
        return tuple(described)

    def _flat(self, box: Box, population: int) -> Descriptor:
        """The same for one box of two dimensions: the usual case, in half the time."""
        (low, high, _, _), (other_low, other_high, _, _) = box
        marks, other = self._marks
        first = 0 if low is None else bisect_right(marks, low)
        last = len(marks) if high is None else bisect_right(marks, high)
        begin = 0 if other_low is None else bisect_right(other, other_low)
        end = len(other) if other_high is None else bisect_right(other, other_high)
        return (
            1,
            1,
            population.bit_length(),
            (first + last) >> _CENTRE,
            (last - first).bit_length(),
            (begin + end) >> _CENTRE,
            (end - begin).bit_length(),
        )

    def reaching(self, ranges: Iterable[tuple[int, int, Any, Any]]) -> float:
        """The share of the points whose ranges all reach between two codes: (low dimension, high dimension, first, last).

        A range does not if it begins after the last or ends before the first, never both; so two ranks among the points of
        the sample give it exactly. Several ranges are taken as independent. O(log n) each, about 1 µs.

        >>> sketch = Sketch([(at, at + 10) for at in range(256)], 2)
        >>> [256 * sketch.reaching([(0, 1, first, last)]) for first, last in ((50, 50), (50, 90), (-9, -5))]
        [11.0, 51.0, 0.0]
        """
        share = 1.0
        for low, high, first, last in ranges:
            begun, ended = self._orders[low], self._orders[high]
            reached = bisect_right(begun, last) - bisect_left(ended, first)
            share *= reached / max(1, len(begun))
        return share

    def share(self, hull: Hull) -> float:
        """The share of the points within the hull: by the sample, or by the widths where it has none there."""
        if not hull or not self._ranks.size:
            return 0.0
        first, last = np.array(hull[::2])[:, None], np.array(hull[1::2])[:, None]
        hits = int(((self._ranks >= first) & (self._ranks <= last)).all(axis=0).sum())
        if hits:
            return hits / self._ranks.shape[1]
        widths = [
            (b - a + 0.5) / (len(m) + 1) for a, b, m in zip(hull[::2], hull[1::2], self._marks, strict=True)
        ]
        return min(math.prod(widths), 0.5 / self._ranks.shape[1])
