"""The pages of a distributed B-tree over one space: keys in the order of their coordinates, the first one first.

A key is a whole point with its topic, so points of one first coordinate stand beside each other, in the order of the second:
radii, and within a radius labels. Only `<` and `==` are asked of a code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter

from cn.model.geometry import Box, Interval, Point

FAN_OUT = 10


class _Page:
    """Keys from `low` on, up to the next page's; an inner page has the pages below it, in order."""

    __slots__ = ("branches", "high", "low", "number", "parent")

    def __init__(self, number: int, low: Point | None, high: Point | None, parent: _Page | None) -> None:
        self.number, self.low, self.high, self.parent = number, low, high, parent
        self.branches: list[_Page] = []


class PageMap:
    """The pages of one space, as a B-tree: a leaf holds points, an inner page at most `fan_out` pages.

    Finding the leaf of a point costs O(log pages), as does a split besides sorting the points.

    >>> pages = PageMap(7, iter([9]), fan_out=2)
    >>> pages.split(7, [(1,), (2,), (8,), (9,)], 8), pages.top, pages.branches(9)
    (8, 9, [7, 8])
    >>> pages.locate((3,)), pages.locate((8,)), pages.range_of(8)
    (7, 8, ((8,), None))
    """

    def __init__(self, first: int, numbers: Iterator[int], fan_out: int = FAN_OUT) -> None:
        if fan_out < 2:
            raise ValueError(f"a page has room for 2 others at least, not {fan_out}")
        self._top = _Page(first, None, None, None)
        self._pages = {first: self._top}
        self._numbers, self._fan_out = numbers, fan_out  # of new inner pages; of leaves the caller knows

    @property
    def top(self) -> int:
        """The page above all others."""
        return self._top.number

    def numbers(self) -> Iterable[int]:
        return self._pages

    def branches(self, number: int) -> list[int]:
        """The pages right below a page, in the order of their keys; of a leaf none."""
        return [page.number for page in self._pages[number].branches]

    def range_of(self, number: int) -> tuple[Point | None, Point | None]:
        """From which key on, up to before which one; None is no end."""
        page = self._pages[number]
        return page.low, page.high

    def locate(self, point: Point) -> int:
        """The leaf of a point."""
        page = self._top
        while page.branches:
            page = page.branches[bisect_right(page.branches, point, 1, key=attrgetter("low")) - 1]
        return page.number

    def split(self, number: int, points: list[Point], new: int) -> int | None:
        """Give the upper half of a leaf's points to a new one; None if they are all in one place."""
        keys = sorted(points)
        middle = next((key for key in keys[len(keys) // 2 :] if keys[0] < key), None)
        if middle is None or self._pages[number].branches:
            return None
        self._divide(self._pages[number], middle, new)
        return new

    def _divide(self, page: _Page, at: Point, new: int) -> None:
        """Put a page beside another; full pages above it are divided too, and the top gets one above it."""
        parent = page.parent
        if parent is None:
            parent = self._top = _Page(next(self._numbers), None, None, None)
            self._pages[parent.number] = parent
            parent.branches, page.parent = [page], parent
        beside = self._pages[new] = _Page(new, at, page.high, parent)
        page.high = at
        parent.branches.insert(parent.branches.index(page) + 1, beside)
        if page.branches:
            half = next(i for i, one in enumerate(page.branches) if one.low == at)
            page.branches, beside.branches = page.branches[:half], page.branches[half:]
            for one in beside.branches:
                one.parent = beside
        if len(parent.branches) > self._fan_out:
            middle = parent.branches[len(parent.branches) // 2].low
            assert middle is not None
            self._divide(parent, middle, next(self._numbers))

    def check(self) -> None:
        """Assert that pages are in order and fill what is above them, none too full, all leaves equally deep."""
        depths = set()
        open_pages = [(self._top, 0)]
        seen = 0
        while open_pages:
            page, depth = open_pages.pop()
            seen += 1
            assert self._pages[page.number] is page
            assert page.low is None or page.high is None or page.low < page.high
            if not page.branches:
                depths.add(depth)
                continue
            assert len(page.branches) <= self._fan_out
            lows = [one.low for one in page.branches]
            highs = [one.high for one in page.branches]
            assert [page.low, *highs] == [*lows, page.high]
            for one in page.branches:
                assert one.parent is page
                open_pages.append((one, depth + 1))
        assert seen == len(self._pages)
        assert len(depths) == 1


def meets(low: Point | None, high: Point | None, box: Box) -> bool:
    """Whether a point of a box may lie among the keys from `low` on, up to before `high`.

    A coordinate decides, unless it has but one value left in common with an end of the keys: then the next one does, on that
    side. Two ends with no code between them are taken to have one.

    >>> whole = Interval()
    >>> meets((4, 10), (9, 5), (Interval(2, 4), whole)), meets((4, 10), (9, 5), (Interval(4, 4), Interval(0, 9)))
    (True, False)
    """
    if any(side.is_empty() for side in box):
        return False
    return _meets(low, high, box, 0)


def _meets(low: Point | None, high: Point | None, box: Box, at: int) -> bool:
    """From coordinate `at` on; an end that is None no longer binds."""
    if low is None and high is None:
        return True
    if at == len(box):
        return high is None  # equal to `high` is past the keys
    side = box[at]
    first, last = (None if end is None else end[at] for end in (low, high))
    if low is not None and high is not None and first == last:
        return first in side and _meets(low, high, box, at + 1)
    between = Interval(first, last, True, True)
    if not between.is_empty() and not (between & side).is_empty():
        return True
    return (low is not None and first in side and _meets(low, None, box, at + 1)) or (
        high is not None and last in side and _meets(None, high, box, at + 1)
    )
