"""Which points a staircase holds, looked up one by one: for enumeration, and to see whether there is any."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cn.match.point_index import PointIndex
from prosem.types.top_k.staircase import Staircase

Mask = NDArray[np.bool_]
CELLS = 1_000_000  # of one table of members by rows


class Members(NamedTuple):
    """Ids of points, the ends of their ranges, and how many lower-ranked rows each range holds."""

    ids: list[int]
    lows: Sequence[Any]
    highs: Sequence[Any]
    lower: Sequence[int]


def members(points: PointIndex, topic: bytes, stairs: Staircase, other: Staircase | None = None) -> Members:
    """The points of one staircase that are not in the other.

    Those in the box around it are found by one search, and tested each: at once where codes are integers.
    """
    box = (stairs.hull,)
    if points.int64:
        ids, lows, highs = points.entries(topic, box)
        lower = _lower(stairs, lows, highs)
        chosen = lower < stairs.count
        if other is not None:
            chosen &= ~_holds(other, lows, highs)
        return Members(
            ids[chosen].tolist(), lows[chosen].tolist(), highs[chosen].tolist(), lower[chosen].tolist()
        )
    found = zip(
        points.find(topic, box).tolist(), *(points.codes(topic, box, side) for side in (0, 1)), strict=True
    )
    kept = [
        (id, low, high, stairs.lower_in(low, high))
        for id, low, high in found
        if stairs.holds(low, high) and (other is None or not other.holds(low, high))
    ]
    return Members(*map(list, zip(*kept, strict=True))) if kept else Members([], [], [], [])


def _holds(stairs: Staircase, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> Mask:
    around: Mask = (lows <= stairs.x) & (highs >= stairs.x)
    return around & (_lower(stairs, lows, highs) < stairs.count)


def _lower(stairs: Staircase, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the staircase's lower-ranked rows each range holds."""
    lefts = np.array(stairs.lefts[::-1], np.int64)
    rights = np.array(stairs.rights, np.int64)
    on_left = len(lefts) - np.searchsorted(lefts, lows, "left")
    return np.asarray(on_left + np.searchsorted(rights, highs, "right"), np.int64)


def nth_inside(xs: Sequence[Any], found: Members, count: int) -> list[int | None]:
    """For each member the place in `xs`, which are by rank, of its `count`-th row, after the lower-ranked ones that it has.

    O(members · xs) bits, as arrays; None where there is none.
    """
    if not xs:
        return [None] * len(found.ids)
    codes = sorted(set(xs))
    place = {code: at for at, code in enumerate(codes)}
    at = np.array([place[x] for x in xs], np.int64)
    first = np.array([bisect_left(codes, low) for low in found.lows], np.int64)
    last = np.array([bisect_right(codes, high) for high in found.highs], np.int64)
    missing = count - np.array(found.lower, np.int64)
    chosen: list[int | None] = []
    each = max(1, CELLS // max(1, len(xs)))
    for start in range(0, len(first), each):
        some = slice(start, start + each)
        inside = (at >= first[some, None]) & (at < last[some, None])
        reached = np.cumsum(inside, axis=1) == missing[some, None]
        chosen += [
            int(position) if is_any else None
            for position, is_any in zip(reached.argmax(axis=1), reached.any(axis=1), strict=True)
        ]
    return chosen
