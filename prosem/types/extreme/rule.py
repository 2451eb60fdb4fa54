"""Range MIN: which subscriptions an event affects and their new minimum, by one rule for every event.

The rule looks at the table *without* the tuple of the event. Around the old point lie the subscriptions `A`
whose minimum it was, around the new point those `B` whose minimum it becomes: each a box of the (lo, hi)
space with the maximum affected range as outer ends. In `B` the minimum is the new one; `A` without `B` is
partitioned by the hull, the points that the old one had hidden. Every affected subscription is in exactly one
region, no other is in any. [ProSem thesis]'s ignorable, good and bad updates (3.1.1, 3.2) are those with no piece,
one, several.

MAX is MIN over reversed codes. Loses to a scan of the subscriptions when there are only a handful.
"""

from __future__ import annotations

from typing import NamedTuple

from cn.model.geometry import Box, Code, Interval, Region, difference
from prosem.index.ranges.a2b_tree import A2BTree, Hull, Peak
from prosem.index.ranges.lower_tier import Ref

_new = tuple.__new__  # a third quicker than calling the class of a named tuple


class Piece(NamedTuple):
    """Subscriptions that get one new minimum: y, attained by the tuple `ref` (None: no tuple is left)."""

    region: Region
    y: Code | None
    ref: Ref | None


def pieces(tree: A2BTree, old: tuple[Code, Code] | None, new: tuple[Code, Code, Ref] | None) -> list[Piece]:
    """The affected subscriptions of an event, by the tree without its tuple.

    `old` None is an insert, `new` None a delete. O((1 + k) log N) for k exposed points.

    >>> tree = A2BTree().build([(20, 3, "t2"), (30, 8, "t3"), (70, 6, "t6")])
    >>> for region, y, ref in pieces(tree, None, (50, 7, "t5")):
    ...     print(y, ref, *(f"{side.low}..{side.high}" for side in region[0]))
    7 t5 20..50 50..70
    """
    if old is None:
        if new is None:
            return []
        x, y, ref = new
        mar = tree.mar(x, y)
        return [] if mar is None else [Piece((_box(mar[0], x, x, mar[1]),), y, ref)]
    x, y = old
    if new is not None and new[0] == x:
        exposure = None if new[1] == y else tree.exposure(x, y, new[2], new[1])
        return [] if exposure is None else exposed(x, *exposure)
    peak = tree.peak(x)
    if peak is not None and peak[0] <= y:
        return pieces(tree, None, new)  # it was the minimum of no subscription
    hull = tree.hull(x, None if peak is None else peak[0], y)
    left = exposed(x, peak, hull)
    if new is None or (mar := tree.mar(new[0], new[1])) is None:
        return left
    new_x, new_y, ref = new
    box = _box(mar[0], new_x, new_x, mar[1])
    made = [Piece((box,), new_y, ref)]
    if new_y == y:  # a minimum that only moves is no change where both points are in the range
        made = without(made, _box(hull[1], x, x, hull[3]))
    return made + without(left, box)


def step(
    tree: A2BTree, old: tuple[Code, Code] | None, new: tuple[Code, Code] | None, ref: Ref
) -> list[Piece]:
    """The pieces of an event by the tree that holds its tuple, and the tuple taken from `old` to `new` in it.

    One descent when x stays: half the time of `remove`, `pieces` and `add`.
    """
    if old is None:
        if new is None:
            return []
        made = pieces(tree, None, (*new, ref))
        tree.add(*new, ref)
        return made
    x, y = old
    if new is not None and new[0] == x:
        exposure = None if new[1] == y else tree.replace_seen(x, y, ref, new[1])
        return [] if exposure is None else exposed(x, *exposure)
    tree.remove(x, y, ref)
    if new is None:
        return pieces(tree, old, None)
    made = pieces(tree, old, (*new, ref))
    tree.add(*new, ref)
    return made


def without(some: list[Piece], hole: Box) -> list[Piece]:
    """The pieces less a box; most do not touch it."""
    rest = []
    for piece in some:
        (box,) = piece.region
        if _apart(box[0], hole[0]) or _apart(box[1], hole[1]):
            rest.append(piece)
        elif region := tuple(difference(box, hole)):
            rest.append(Piece(region, piece.y, piece.ref))
    return rest


def _apart(side: Interval, other: Interval) -> bool:
    """Whether two intervals, each with one open end, have no code in common."""
    low, high = side.low, side.high
    return (low is not None and other.high is not None and other.high <= low) or (
        high is not None and other.low is not None and high <= other.low
    )


def exposed(x: Code, peak: Peak | None, hull: Hull) -> list[Piece]:
    """The old range parted by the hull: the peak, the left points, the right points; ties go left."""
    left, left_end, right, right_end = hull
    y, ref = (None, None) if peak is None else peak
    if not left and not right:
        return [piece_of(left_end, x, x, right_end, y, ref)]
    left_xs = [*(point[0] for point in left), left_end]
    right_xs = [*(point[0] for point in right), right_end]
    found = [piece_of(left_xs[0], x, x, right_xs[0], y, ref)]
    ahead = 0
    for at, (place, y, ref) in enumerate(left, 1):
        while ahead < len(right) and not right[ahead][1] < y:
            ahead += 1
        found.append(piece_of(left_xs[at], place, x, right_xs[ahead], y, ref))
    ahead = 0
    for at, (place, y, ref) in enumerate(right, 1):
        while ahead < len(left) and not left[ahead][1] <= y:
            ahead += 1
        found.append(piece_of(left_xs[ahead], x, place, right_xs[at], y, ref))
    return found


def piece_of(
    outer_left: Code | None,
    inner_left: Code,
    inner_right: Code,
    outer_right: Code | None,
    y: Code | None,
    ref: Ref | None,
) -> Piece:
    """`outer_left < lo <= inner_left` and `inner_right <= hi < outer_right` get y."""
    return _new(Piece, ((_box(outer_left, inner_left, inner_right, outer_right),), y, ref))


def _box(outer_left: Code | None, inner_left: Code, inner_right: Code, outer_right: Code | None) -> Box:
    lo = _new(Interval, (outer_left, inner_left, True, False))
    return lo, _new(Interval, (inner_right, outer_right, False, True))
