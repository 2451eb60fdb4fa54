"""Descriptive skylines: which subscriptions have a joining row in their range, described by a few points.

A row of R with the joining S rows c1 < c2 < … is seen by the subscriptions (clo, chi), among those whose own range
selects it, that hold one of the codes. In the (clo, chi) plane they lie north-west of a skyline: `clo <= X` and `chi >= Y`
for one of its points (X, Y). Every flavour describes the same *existing* subscriptions; they differ in size and cost
([ProSem thesis] 5.3.2, table 5.4):

| flavour | points | cost |
| --- | --- | --- |
| -Tup | one a joining row | O(s) for s joining rows |
| -Clu | the nearest joining rows on each side of every anchor of the stabbing set | O(k log s τ) for k points |
| -Clu+ | -Clu, with runs made one point where no subscription lies in between | the same, and k searches |
| -Sub | the subscriptions that see the row, less those around others | O(n log n) for n of them |

With several conditions on a table all flavours look at one of them; `envelope` looks at all (the flavour -Env).

-Tup needs no index over subscriptions and wins while keys have one or two rows. -Sub covers the least area but has to find
all of them first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import Code, Interval
from prosem.index.joins.join_keys import Entry, place_of
from prosem.index.joins.stabbing_set import StabbingSet

Skyline = list[tuple[Code, Code]]  # points (X, Y), both ascending


def tuple_skyline(rows: Sequence[Entry]) -> Skyline:
    """-Tup: a point for every code.

    >>> tuple_skyline([(3, ("a",)), (5, ("b",)), (5, ("c",))])
    [(3, 3), (5, 5)]
    """
    return [(code, code) for code in dict.fromkeys(row[0] for row in rows)]


def cluster_codes(rows: Sequence[Entry], anchors: Sequence[Code]) -> list[Code]:
    """The codes of rows that are nearest to some anchor on one of its sides, ascending.

    >>> cluster_codes([(3, ("a",)), (5, ("b",)), (7, ("c",)), (9, ("d",))], [1, 5, 8])
    [3, 5, 7, 9]
    >>> cluster_codes([(3, ("a",)), (5, ("b",)), (7, ("c",)), (9, ("d",))], [1, 2])
    [3]
    """
    codes: list[Code] = []
    at, end = 0, len(rows)
    while at < len(anchors):
        anchor = anchors[at]
        place = place_of(rows, (anchor,))
        if place and (place == end or rows[place][0] != anchor):
            before = rows[place - 1][0]
            if not codes or codes[-1] != before:
                codes.append(before)
        if place == end:
            break
        code = rows[place][0]
        codes.append(code)
        at = bisect_right(anchors, code, at)
    return codes


def cluster_skyline(rows: Sequence[Entry], clusters: StabbingSet) -> Skyline:
    """-Clu: two points per cluster; a range with a row's code holds an anchor too, and so the nearest row on that side."""
    return [(code, code) for code in cluster_codes(rows, clusters.anchors)]


def merged_skyline(
    rows: Sequence[Entry], clusters: StabbingSet, lives_between: Callable[[Code, Code], bool]
) -> Skyline:
    """-Clu+: `lives_between(q, r)` returns whether a subscription that selects the row lies strictly between two codes.

    Where none does the triangle between (q, q) and (r, r) is disposable, and a run of such points becomes one.
    """
    codes = cluster_codes(rows, clusters.anchors)
    if not codes:
        return []
    skyline: Skyline = []
    first = last = codes[0]
    for code in codes[1:]:
        if clusters.any_between(last, code) and lives_between(last, code):
            skyline.append((last, first))
            first = code
        last = code
    skyline.append((last, first))
    return skyline


def subscription_skyline(
    lows: Sequence[Code] | NDArray[np.int64], highs: Sequence[Code] | NDArray[np.int64]
) -> Skyline:
    """-Sub: of these ranges the ones that hold no other.

    >>> subscription_skyline([1, 2, 4], [9, 3, 6])
    [(2, 3), (4, 6)]
    """
    if isinstance(lows, np.ndarray) and isinstance(highs, np.ndarray):
        order = np.lexsort((~lows, highs))
        best = np.maximum.accumulate(lows[order])
        higher = np.ones(len(order), np.bool_)
        higher[1:] = best[1:] > best[:-1]
        kept = order[higher]
        return list(zip(lows[kept].tolist(), highs[kept].tolist(), strict=True))
    skyline: Skyline = []
    ranges: list[Any] = sorted(zip(lows, highs, strict=True), key=lambda ends: ends[0], reverse=True)
    ranges.sort(key=lambda ends: ends[1])
    for low, high in ranges:
        if not skyline or skyline[-1][0] < low:
            skyline.append((low, high))
    return skyline


def staircase(skyline: Skyline) -> list[tuple[Interval, Interval]]:
    """What the skyline covers as disjoint boxes (clo, chi): each point's quadrant right of the point before.

    >>> [(x.low, x.high, y.low) for x, y in staircase([(2, 2), (5, 4)])]
    [(None, 2, 2), (2, 5, 4)]
    """
    boxes, before = [], None
    for x, y in skyline:
        boxes.append((Interval(before, x, before is not None), Interval(y, None)))
        before = x
    return boxes
