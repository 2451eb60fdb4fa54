"""Range MIN with two range attributes or more: which subscriptions an event affects, and their new minimum.

The space is (lo1, hi1, lo2, hi2, …). The ranges that hold a point x are a box of it, without an end outward;
those of them that also hold another point reach at least as far as that point in up to d directions. So:

- the minimum *falls* to the new y in the ranges that hold the new point and, before the event, no tuple at or
  below the new y;
- it *rises* in the ranges that hold the old point and, after the event, no tuple at or below the old y. There
  it becomes that of the tuples which the old one had hidden.

Each is the box around x without the ranges that reach some tuple of its skyline: a union of boxes, found by
halving until a box is reached wholly or not at all. Every affected subscription is in exactly one piece or
unresolved box, and no other is in a piece. See docs/explanation.md.

Measured with random points in two dimensions: a fall takes 30 boxes among 1000 tuples, 47 among 10,000 and 66
among 100,000 (at most 106 in 99 of 100), about as much as a rise has before it is parted by what it exposes; a
deleted tuple exposes 20 to 35 others in 100 to 250 boxes. In three dimensions a fall takes thousands. Loses,
where few subscriptions are affected, to a look at each of them: a small `limit` is that plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cn.model.geometry import BOTTOM, TOP, Box, Code, Interval, Point
from prosem.index.boxes.kd_tree import Entry, MinKdTree
from prosem.index.boxes.kd_tree_skyline import skyline
from prosem.index.ranges.lower_tier import Ref
from prosem.types.extreme.rule import Piece

LIMIT = 128  # boxes: enough for 99 of 100 falls and small rises in two dimensions
Place = tuple[Point, Code]  # where a tuple stands: x and y
# A direction is lo1, hi1, lo2, … (0, 1, 2, …); a step is the rank of a code in it, outward from x. A reach:
# the steps, one in a direction, that a range must take to hold a tuple.
Reach = tuple[tuple[int, int], ...]
# Ranges that take at least the first number of steps in a direction, and fewer than the second.
Cell = tuple[tuple[int, ...], tuple[int, ...]]


def step(
    tree: MinKdTree, old: Place | None, new: Place | None, ref: Ref, limit: int = LIMIT
) -> tuple[list[Piece], list[Box]]:
    """The pieces of an event, and boxes with all that they leave out; the tuple goes from `old` to `new`.

    Affected subscriptions in the second list are found by `settle`. It is empty unless the fall or the rise
    takes more than `limit` boxes: then it holds what is left of the fall, or all of the rise. With a limit of
    0 it holds one box around each place, at once.

    >>> tree = MinKdTree(2).build([((2, 2), 3, "a")])
    >>> pieces, unresolved = step(tree, None, ((5, 5), 4), "b")
    >>> for box in pieces[0].region:
    ...     print(*(f"{side.low}..{side.high}" for side in box))
    2..5 5..None None..5 5..None
    None..2 5..None 2..5 5..None
    """
    pieces: list[Piece] = []
    unresolved: list[Box] = []
    if old == new:
        return pieces, unresolved
    if new is not None:
        aside = old[0] if old is not None and old[1] <= new[1] else None
        field = Field(tree, *new, limit, 0, aside)
        region, rest = field.clean(limit)
        if region:
            pieces.append(Piece(field.boxes(region), new[1], ref))
        unresolved += field.boxes(rest)
    if old is not None:
        tree.remove(*old, ref)
    if new is not None:
        tree.add(*new, ref)
    if old is not None:
        aside = new[0] if new is not None and new[1] < old[1] else None
        field = Field(tree, *old, limit, limit, aside)
        region, rest = field.clean(limit)
        parts = field.part(region, limit)
        for entry, cells in parts or ():
            pieces.append(
                Piece(field.boxes(cells), *((None, None) if entry is None else (entry[0], entry[2])))
            )
        unresolved += field.boxes(rest if parts is not None else rest + region)
    return pieces, unresolved


def answer(tree: MinKdTree, place: Sequence[Code]) -> tuple[Code, Ref] | None:
    """The minimum of a subscription (lo1, hi1, lo2, …) and a tuple that attains it; None if it is empty."""
    found = tree.lowest(hull(place))
    return None if found is None else (found[0], found[2])


def settle(
    tree: MinKdTree, old: Place | None, new: Place | None, ref: Ref, place: Sequence[Code]
) -> Piece | None:
    """What an event means to one subscription, by the tree after it; None if its minimum is as before."""
    box = hull(place)
    held_old = old is not None and holds(box, old[0])
    if new is not None and holds(box, new[0]):
        x, y = new
        if not (held_old and old is not None and old[1] <= y) and tree.near(box, x, y, but=ref) is None:
            return Piece((tuple([Interval(code, code) for code in place]),), y, ref)
    if old is None or not held_old:
        return None
    found = tree.lowest(box)
    if found is not None and found[0] <= old[1]:
        return None
    region = (tuple([Interval(code, code) for code in place]),)
    return Piece(region, None, None) if found is None else Piece(region, found[0], found[2])


class Field:
    """The ranges around a point x, and the tuples of its skyline as reaches.

    Ranges that also hold the point `aside` are no matter of this field, whatever else it leaves open.
    """

    def __init__(
        self, tree: MinKdTree, x: Point, y: Code, limit: int, most_exposed: int, aside: Point | None
    ) -> None:
        seen = skyline(tree, x, y, 2 * len(x) * limit, most_exposed or -1)
        self._complete = seen.complete
        self._exposed = None if seen.high is None else sorted(seen.high, key=lambda entry: entry[0])
        points = [entry[1] for entry in seen.low]
        points += [entry[1] for entry in self._exposed or ()]
        if aside is not None:
            points.append(aside)
        self._codes: list[list[Code]] = []
        ranks: list[dict[Code, int]] = []
        for axis, centre in enumerate(x):
            found = sorted({point[axis] for point in points})
            below, above = [c for c in reversed(found) if c < centre], [c for c in found if centre < c]
            for codes in (below, above):
                self._codes.append([centre, *codes, None])
                ranks.append({code: rank for rank, code in enumerate(codes, 1)})
        reaches: list[Reach] = []
        for point in points:
            reach = []
            for axis, code in enumerate(point):
                if code != x[axis]:
                    way = 2 * axis + (x[axis] < code)
                    reach.append((way, ranks[way][code]))
            reaches.append(tuple(reach))
        self._aside = None if aside is None else reaches.pop()
        self._low = reaches[: len(seen.low)]
        self._high = reaches[len(seen.low) :]

    def clean(self, limit: int) -> tuple[list[Cell], list[Cell]]:
        """The ranges that reach none of the low tuples, in cells; and what was not looked at for the limit.

        Halves a cell in the direction in which most of its tuples stand, at the median of them: a third fewer
        cells than cutting by one tuple after the other, and a fifth more than trying every cut.
        """
        cells: list[Cell] = []
        ways = len(self._codes)
        outer = tuple([len(codes) - 1 for codes in self._codes])
        todo: list[tuple[Cell, list[Reach]]] = [(((0,) * ways, outer), self._low)]
        while todo and len(cells) + len(todo) <= limit:
            cell, low = todo.pop()
            shrunk = _shrunk(cell, low)
            if shrunk is None:
                continue
            cell, low = shrunk
            if not low:
                cells.append(cell)
                continue
            steps: list[list[int]] = [[] for _ in range(ways)]
            for reach in low:
                for way, rank in reach:
                    steps[way].append(rank)
            way = max(range(ways), key=lambda way: len(steps[way]))
            middle = sorted(steps[way])[len(steps[way]) // 2]
            inner, outer = cell
            todo.append((((*inner[:way], middle, *inner[way + 1 :]), outer), low))
            todo.append(((inner, (*outer[:way], middle, *outer[way + 1 :])), low))
        rest = [cell for cell, _ in todo]
        if not self._complete:
            cells, rest = [], cells + rest
        if self._aside is not None:
            rest = [part for cell in rest for part in _without(cell, self._aside)]
        return _merged(cells), _merged(rest)

    def part(self, region: list[Cell], limit: int) -> list[tuple[Entry | None, list[Cell]]] | None:
        """Clean cells by the lowest tuple that their ranges hold; None if that takes more than `limit`."""
        if self._exposed is None:
            return None
        parts: dict[int, list[Cell]] = {}
        todo = [(cell, 0) for cell in region]
        room = 4 * limit  # what is cut through here is mostly mended by merging
        while todo:
            if room < len(todo):
                return None
            room -= 1
            cell, first = todo.pop()
            outer = cell[1]
            for at in range(first, len(self._high)):
                reach = self._high[at]
                if all(rank < outer[way] for way, rank in reach):
                    beside, cell = _parted(cell, reach)
                    todo += [(other, at + 1) for other in beside]
                    break
            else:
                at = -1
            parts.setdefault(at, []).append(cell)
        found = [
            (None if at < 0 else self._exposed[at], _merged(cells)) for at, cells in sorted(parts.items())
        ]
        return found if sum(len(cells) for _, cells in found) <= limit else None

    def boxes(self, cells: Iterable[Cell]) -> tuple[Box, ...]:
        """Cells as boxes of the space: `outer < lo <= inner` and `inner <= hi < outer` on every axis."""
        boxes = []
        for inner, outer in cells:
            box = []
            for way, codes in enumerate(self._codes):
                near, far = codes[inner[way]], codes[outer[way]]
                box.append(Interval(near, far, False, True) if way & 1 else Interval(far, near, True, False))
            boxes.append(tuple(box))
        return tuple(boxes)


def _shrunk(cell: Cell, low: list[Reach]) -> tuple[Cell, list[Reach]] | None:
    """A cell without what is known at once: a tuple that is one direction away ends it in that direction.

    With the reaches that still matter in it; None if all of its ranges hold a tuple.
    """
    inner, outer = cell[0], list(cell[1])
    while True:
        left: list[Reach] = []
        ended = False
        for reach in low:
            steps = []
            for way, rank in reach:
                if rank >= outer[way]:
                    break
                if rank > inner[way]:
                    steps.append((way, rank))
            else:
                if not steps:
                    return None
                if len(steps) == 1:
                    outer[steps[0][0]] = steps[0][1]
                    ended = True
                else:
                    left.append(tuple(steps))
        low = left
        if not ended:
            return (inner, tuple(outer)), low


def _parted(cell: Cell, reach: Reach) -> tuple[list[Cell], Cell]:
    """A cell in parts: those whose ranges do not reach a tuple, and the one whose ranges do."""
    parts = []
    inner, outer = cell
    for way, rank in reach:
        if rank > inner[way]:
            parts.append((inner, (*outer[:way], rank, *outer[way + 1 :])))
            inner = (*inner[:way], rank, *inner[way + 1 :])
    return parts, (inner, outer)


def _without(cell: Cell, reach: Reach) -> list[Cell]:
    """A cell without the ranges that reach a tuple."""
    if any(rank >= cell[1][way] for way, rank in reach):
        return [cell]
    return _parted(cell, reach)[0]


def _merged(cells: list[Cell]) -> list[Cell]:
    """The same ranges in fewer cells: those that differ in one direction only and meet there are one."""
    ways = len(cells[0][0]) if cells else 0
    way, idle = 0, 0
    while idle < ways:
        columns: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for inner, outer in cells:
            rest = inner[:way], inner[way + 1 :], outer[:way], outer[way + 1 :]
            columns.setdefault(rest, []).append((inner[way], outer[way]))
        merged: list[Cell] = []
        for (before, after, before_outer, after_outer), spans in columns.items():
            spans.sort()
            joined = spans[:1]
            for first, end in spans[1:]:
                if first == joined[-1][1]:
                    joined[-1] = joined[-1][0], end
                else:
                    joined.append((first, end))
            merged += [
                ((*before, first, *after), (*before_outer, end, *after_outer)) for first, end in joined
            ]
        idle = idle + 1 if len(merged) == len(cells) else 1
        cells, way = merged, (way + 1) % ways
    return cells


def hull(place: Sequence[Code]) -> Box:
    """The range of a subscription in the space of the rows."""
    return tuple(
        [
            Interval(None if low is BOTTOM else low, None if high is TOP else high)
            for low, high in zip(place[::2], place[1::2], strict=True)
        ]
    )


def holds(box: Box, x: Point) -> bool:
    return all(code in side for code, side in zip(x, box, strict=True))
