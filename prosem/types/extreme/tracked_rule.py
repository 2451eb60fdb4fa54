"""The rule of range MIN where an edge holds the row that attains the minimum, and that row must not go stale.

An edge holds the row over several deltas of one seq, and of each topic with `IN`. The plain rule notifies a range when the
value of its minimum changes, and so not of a row that goes while another one has the same value, or that changes in other
columns. Here every range that may hold the row of the event is notified: `A` are the ranges with the old point and no other
one *strictly* below it, `B` those whose minimum becomes the new one, and `B` is not reduced by `A`. A range gets at most one
piece, and its row attains the minimum. The fold is silent where the value is the same.

Costs what the plain rule costs, and more messages where many rows have the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cn.model.geometry import Box, Code, Interval
from prosem.index.boxes.kd_tree import MinKdTree
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.index.ranges.lower_tier import Ref
from prosem.types.extreme.boxes import Place, answer, holds, hull
from prosem.types.extreme.rule import Piece, exposed, piece_of, without


class Below:
    """A code just below another, and above all that are lower.

    >>> 3 <= Below(3), 2 <= Below(3), "a" <= Below("b")
    (False, True, True)
    """

    __slots__ = ("code",)

    def __init__(self, code: Code) -> None:
        self.code = code

    def __ge__(self, other: Any) -> bool:
        """The reflection of `other <= self`, which is all that a tree asks."""
        return bool(other < self.code)


def step(
    tree: A2BTree, old: tuple[Code, Code] | None, new: tuple[Code, Code] | None, ref: Ref
) -> list[Piece]:
    """The pieces of an event by the tree that holds its tuple, and the tuple taken from `old` to `new` in it.

    If the two are equal, other columns of the row have changed. O((1 + k) log N) for k exposed points.

    >>> tree = A2BTree().build([(20, 3, "a"), (30, 3, "b")])
    >>> [(piece.y, piece.ref) for piece in step(tree, (20, 3), None, "a")]
    [(None, None), (3, 'b')]
    """
    if old is not None:
        tree.remove(*old, ref)
    found = _pieces(tree, old, new, ref)
    if new is not None:
        tree.add(*new, ref)
    return found


def _pieces(
    tree: A2BTree, old: tuple[Code, Code] | None, new: tuple[Code, Code] | None, ref: Ref
) -> list[Piece]:
    """By the tree without the tuple."""
    if old is not None and old == new:
        return _refreshed(tree, *old, ref)
    become: list[Piece] = []
    if new is not None:
        mar = tree.mar(*new)
        if mar is not None:
            become = [piece_of(mar[0], new[0], new[0], mar[1], new[1], ref)]
    if old is None:
        return become
    x, y = old
    peak = tree.peak(x)
    if peak is not None and peak[0] < y:
        return become  # it was the minimum of no range
    left = exposed(x, peak, tree.hull(x, None if peak is None else peak[0], Below(y)))
    return become + (without(left, become[0].region[0]) if become else left)


def _refreshed(tree: A2BTree, x: Code, y: Code, ref: Ref) -> list[Piece]:
    """All ranges in which no row is below this one."""
    peak = tree.peak(x)
    if peak is not None and peak[0] < y:
        return []
    _, left_end, _, right_end = tree.hull(x, y, Below(y))
    return [piece_of(left_end, x, x, right_end, y, ref)]


def settle(
    tree: MinKdTree, old: Place | None, new: Place | None, ref: Ref, place: Sequence[Code]
) -> Piece | None:
    """What an event means to one subscription to several ranges, by the tree after it; None if its row is not concerned."""
    box = hull(place)
    found = answer(tree, place)
    is_new = new is not None and found is not None and holds(box, new[0]) and found[0] == new[1]
    is_old = old is not None and holds(box, old[0]) and (found is None or old[1] <= found[0])
    if not is_new and not is_old:
        return None
    return Piece((_alone(place),), *((None, None) if found is None else found))


def _alone(place: Sequence[Code]) -> Box:
    return tuple([Interval(code, code) for code in place])
