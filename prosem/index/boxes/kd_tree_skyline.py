"""The skyline of a point in several dimensions: the tuples that no nearer tuple hides from it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import le
from typing import Any, NamedTuple

from cn.model.geometry import Code, Point
from prosem.index.boxes.kd_tree import Entry, MinKdTree, MinLeaf
from prosem.index.boxes.kd_tree_shape import INFINITY
from prosem.index.order import HIGHEST, Descending


class Skyline(NamedTuple):
    """What is seen from a point: tuples at or below the floor, and those above it (None: too many)."""

    low: list[Entry]
    high: list[Entry] | None
    complete: bool  # whether `low` holds all of them


class _Seen(NamedTuple):
    height: Code  # y, or the floor if that is higher
    outward: tuple[Any, ...]  # the codes in the order of their distance from the origin, on this side of it
    entry: Entry


def skyline(tree: MinKdTree, origin: Point, floor: Code, most_low: int, most_high: int = -1) -> Skyline:
    """The tuples that no other one hides: one between them and the origin that is as low, or at the floor.

    Any range around the origin with a tuple at or below the floor has one of `low`; any other range with a
    tuple has one of its lowest in `high`. Stops once `low` has more than `most_low`, and leaves `high` out
    if it has more than `most_high`. Branches are walked from the origin outward, so what hides a subtree is
    known before it is reached; N random points show about 2^d (ln N)^(d-1) / (d-1)! tuples in `low`, and one
    more factor of ln N / d in `high`. [ProSem thesis] 3.2.2, definition 2, in d dimensions.

    >>> tree = MinKdTree(2).build([((4, 4), 3, "a"), ((6, 6), 9, "b"), ((7, 7), 8, "c"), ((8, 8), 9, "d")])
    >>> seen = skyline(tree, (5, 5), 3, 10, 10)
    >>> seen.low, seen.high
    ([(3, (4, 4), 'a')], [(8, (7, 7), 'c'), (9, (6, 6), 'b')])
    """
    dimensions = tree.dimensions
    whole = (1 << dimensions) - 1
    orthants: list[list[_Seen]] = [[] for _ in range(whole + 1)]
    lows = highs = 0
    top: Any = None if most_high >= 0 else floor  # higher tuples are not looked for
    anywhere = tuple([HIGHEST if isinstance(code, str) else INFINITY for code in origin])
    # a subtree, the sides of the origin it is on, which of them it is clear of, and its nearest codes there
    todo: list[tuple[Any, int, int, tuple[Any, ...]]] = [(tree._root, 0, 0, anywhere)]
    while todo:
        node, side, clear, corner = todo.pop()
        least = node.summary
        if top is not None and not least <= top:
            continue
        if clear == whole:
            height = least if floor < least else floor
            if _hidden(orthants[side], height, corner):
                continue
        tree.visits += 1
        axis = node.axis
        if axis < 0:
            stop = len(node.ys) if top is None else bisect_right(node.ys, top)
            for at in _open(orthants, node, stop, side, whole ^ clear, corner, floor):
                y, point = node.ys[at], node.points[at]
                hidden = _show(orthants, origin, node, at, floor)
                if hidden is None:
                    continue
                if y <= floor:
                    lows += 1 - hidden
                else:
                    highs += 1 - hidden
                if point == origin:  # hides all that is as high
                    if y <= floor:
                        return Skyline([node.entry(at)], None if most_high < 0 else [], True)
                    top = y
                    break
            if highs > most_high:
                top = floor
            if lows > most_low:
                return Skyline(*_entries(orthants, floor), False)
            continue
        cut, bit = node.cut, 1 << axis
        if clear & bit:
            up = side & bit
            beyond = (*corner[:axis], cut if up else _turned(cut), *corner[axis + 1 :])
            near, far = (node.below, node.above) if up else (node.above, node.below)
            todo.append((far, side, clear, beyond))
        elif origin[axis] < cut:
            near = node.below
            todo.append((node.above, side | bit, clear | bit, (*corner[:axis], cut, *corner[axis + 1 :])))
        else:
            near = node.above
            turned = _turned(cut)
            todo.append((node.below, side, clear | bit, (*corner[:axis], turned, *corner[axis + 1 :])))
        todo.append((near, side, clear, corner))
    low, high = _entries(orthants, floor)
    return Skyline(low, None if highs > most_high else high, True)


def _open(
    orthants: list[list[_Seen]],
    leaf: MinLeaf,
    stop: int,
    side: int,
    missing: int,
    corner: tuple[Any, ...],
    floor: Code,
) -> Iterable[int]:
    """Those of the first points of a bucket that may be seen.

    A bucket that lies across the origin on one axis is far on the others; what is seen already before it
    leaves only a window open on that axis, most often an empty one.
    """
    if not missing or missing & (missing - 1):
        return range(stop)
    axis = missing.bit_length() - 1
    least = leaf.summary
    height = least if floor < least else floor
    below, above = (
        [seen[2][1][axis] for seen in orthants[part] if seen[0] <= height and all(map(le, seen[1], corner))]
        for part in (side, side | missing)
    )
    low, high = max(below, default=None), min(above, default=None)
    points = leaf.points
    if low is None:
        return range(stop) if high is None else [at for at in range(stop) if points[at][axis] < high]
    if high is None:
        return [at for at in range(stop) if low < points[at][axis]]
    return [at for at in range(stop) if low < points[at][axis] < high]


def _show(orthants: list[list[_Seen]], origin: Point, leaf: MinLeaf, at: int, floor: Code) -> int | None:
    """Take a tuple into the skyline; how many it hides in turn, or None if it is hidden itself."""
    point, y = leaf.points[at], leaf.ys[at]
    height = y if floor < y else floor
    sides = [0]
    for axis, (code, centre) in enumerate(zip(point, origin, strict=True)):
        if code == centre:  # on both sides
            sides += [side | 1 << axis for side in sides]
        elif centre < code:
            sides = [side | 1 << axis for side in sides]
    outward = _outward(point, sides[0])
    if _hidden(orthants[sides[0]], height, outward):
        return None
    entry = leaf.entry(at)
    hidden = set()
    for side in sides:
        outward = _outward(point, side)
        kept = []
        for seen in orthants[side]:
            if height <= seen[0] and all(map(le, outward, seen[1])):
                hidden.add(seen[2][1])
            else:
                kept.append(seen)
        kept.append(_Seen(height, outward, entry))
        orthants[side] = kept
    return len(hidden)


def _hidden(orthant: list[_Seen], height: Code, outward: tuple[Any, ...]) -> bool:
    return any(seen[0] <= height and all(map(le, seen[1], outward)) for seen in orthant)


def _outward(point: Point, side: int) -> tuple[Any, ...]:
    return tuple([code if side >> axis & 1 else _turned(code) for axis, code in enumerate(point)])


def _turned(code: Code) -> Any:
    return Descending(code) if isinstance(code, str) else -code


def _entries(orthants: list[list[_Seen]], floor: Code) -> tuple[list[Entry], list[Entry]]:
    """The tuples of all sides, each once."""
    found = {seen.entry[1]: seen.entry for orthant in orthants for seen in orthant}
    low = [entry for entry in found.values() if not floor < entry[0]]
    return low, [entry for entry in found.values() if floor < entry[0]]
