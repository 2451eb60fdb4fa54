"""The regions of an event on a select-join by semijoins: which subscriptions lose, gain or see rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from cn.match import kernels
from cn.match.point_index import PointIndex
from cn.model.geometry import Box, Code, Interval, Point, Region, difference
from prosem.index.joins.join_keys import Entry, neighbours
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.join.skyline import Skyline, cluster_skyline, merged_skyline, staircase
from prosem.types.join.table import box, reach

FEW = 1  # so many subscriptions are asked one by one before the points are searched: finding where one stands is as dear
Routing = tuple[int, int]  # the two dimensions of a routing column's condition


class OneOfKey(NamedTuple):
    """A row that comes or goes: its routing code, the other rows of its key, and the follower's rows of that key."""

    code: Code
    rows: Sequence[Entry]
    others: Sequence[Entry]


class JoinRegions(Protocol):
    """`PythonJoinRegions`, or the compiled one over compiled points. No region is empty of subscriptions: it is () then."""

    def came(self, sids: Sequence[int], places: Sequence[Point], /) -> None:
        """So many more subscriptions have points."""

    def went(self, sid: int, /) -> None: ...

    def shifts(
        self,
        routing: Routing | None,
        other_routing: Routing | None,
        lost: OneOfKey | None,
        gained: OneOfKey | None,
        is_one_key: bool,
        /,
    ) -> tuple[Region, Region]:
        """Where the follower's rows of a key are lost, and where gained: a routing range holds the row alone of its key.

        With one key those that lose and gain do neither.
        """

    def visible(
        self, own: Box, rows: Sequence[Entry], routing: Routing, clusters: StabbingSet, is_merged: bool, /
    ) -> Region:
        """The subscriptions in `own` with a range that holds the code of one of the rows: under the skyline -Clu, or
        -Clu+ if it is merged.
        """


class PythonJoinRegions:
    """`place_of` gives the point of a subscription."""

    def __init__(self, points: PointIndex, dimensions: int, place_of: Callable[[int], Point]) -> None:
        self._points, self._dimensions, self._place_of = points, dimensions, place_of

    def came(self, sids: Sequence[int], places: Sequence[Point], /) -> None:
        pass  # it asks where one stands

    def went(self, sid: int, /) -> None:
        pass

    def shifts(
        self,
        routing: Routing | None,
        other_routing: Routing | None,
        lost: OneOfKey | None,
        gained: OneOfKey | None,
        is_one_key: bool,
        /,
    ) -> tuple[Region, Region]:
        losing = None if lost is None else self._alone(routing, other_routing, lost)
        gaining = None if gained is None else self._alone(routing, other_routing, gained)
        if losing is not None and gaining is not None and is_one_key:
            regions = tuple(difference(losing, gaining)), tuple(difference(gaining, losing))
        else:
            regions = () if losing is None else (losing,), () if gaining is None else (gaining,)
        return self._populated(regions[0]), self._populated(regions[1])

    def _alone(self, routing: Routing | None, other_routing: Routing | None, one: OneOfKey) -> Box | None:
        """The box of those that hold the row alone of its key, and reach between the follower's rows of that key.

        None: there are no such subscriptions, since another row has the code.
        """
        code, rows, others = one
        ends = neighbours(rows, code)
        if ends is None:
            return None
        sides = {}
        if routing is not None:
            sides[routing[0]] = Interval(ends[0], code, low_open=True)
            sides[routing[1]] = Interval(code, ends[1], high_open=True)
        return box(self._dimensions, sides, reach(other_routing, others[0], others[-1]))

    def _populated(self, region: Region) -> Region:
        return region if region and self._points.any(b"", region) else ()

    def visible(
        self, own: Box, rows: Sequence[Entry], routing: Routing, clusters: StabbingSet, is_merged: bool, /
    ) -> Region:
        if is_merged:
            skyline = merged_skyline(
                rows, clusters, lambda q, r: self._lives_between(q, r, own, routing, clusters)
            )
        else:
            skyline = cluster_skyline(rows, clusters)
        return self._populated(under(skyline, own, routing))

    def _lives_between(self, q: Code, r: Code, own: Box, routing: Routing, clusters: StabbingSet) -> bool:
        """Whether a subscription within `own` has a routing range strictly between two codes.

        Mostly a handful of ranges is that narrow, and they are checked one by one; among many, one is soon found.
        """
        few = clusters.between(q, r, FEW)
        if few is None:
            gap = Interval(q, r, True, True)
            return self._points.any(b"", (narrowed(own, routing, gap, gap),))
        for sid in few:
            place = self._place_of(sid)
            if all(code in side for code, side in zip(place, own, strict=True)):
                return True
        return False


def join_regions(
    points: PointIndex, dimensions: int, int64: bool, place_of: Callable[[int], Point]
) -> JoinRegions:
    """Compiled over compiled points."""
    module = kernels.compiled_over(points, int64)
    if module is not None:
        return cast(JoinRegions, module.JoinRegions(points, dimensions, Interval))
    return PythonJoinRegions(points, dimensions, place_of)


def narrowed(own: Box, routing: Routing, low: Interval, high: Interval) -> Box:
    """The box with these sides where a condition has its dimensions."""
    sides = list(own)
    sides[routing[0]], sides[routing[1]] = low, high
    return tuple(sides)


def under(skyline: Skyline, own: Box, routing: Routing) -> Region:
    """The part of a box that a skyline covers."""
    return tuple([narrowed(own, routing, x, y) for x, y in staircase(skyline)])
