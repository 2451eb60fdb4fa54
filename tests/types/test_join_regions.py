"""Regions of joins, in Python and compiled, against all subscriptions one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedList

from cn.match.point_index import PointIndex
from cn.model.geometry import EVERYTHING, Interval, Point, contains
from prosem.index.joins.interval_blocks import IntervalBlocks
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.join.regions import JoinRegions, OneOfKey, PythonJoinRegions
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built

FAR = 2**63 - 1
MAKERS = ["python", pytest.param("compiled", marks=is_built)]
ends = st.one_of(st.integers(0, 12), st.sampled_from([-FAR - 1, FAR]))
ranges = st.tuples(ends, ends).map(sorted)
subscriptions = st.lists(st.tuples(ranges, ranges).map(lambda two: (*two[0], *two[1])), max_size=25)
rows = st.lists(st.integers(0, 12), max_size=8).map(
    lambda codes: [(code, (at,), ("row", at)) for at, code in enumerate(sorted(codes))]
)


def made(maker: str, places: list[Point]) -> tuple[JoinRegions, StabbingSet]:
    """Over points of four dimensions: the ranges on the event's table, then those on the other. Some have left again."""
    is_compiled = maker == "compiled"
    points = COMPILED.PointIndex(4, True) if is_compiled else PointIndex(4, True)
    intervals = COMPILED.IntervalBlocks(True) if is_compiled else IntervalBlocks(True)
    clusters = StabbingSet(True, intervals=intervals)
    for sid, place in enumerate(places):
        points.insert(sid, b"", place)
        clusters.add(place[2], place[3], sid)
    regions: JoinRegions = PythonJoinRegions(points, 4, lambda sid: places[sid])
    if is_compiled:
        regions = COMPILED.JoinRegions(points, 4, Interval)
    left = range(-len(places), 0)
    regions.came([*left, *range(len(places))], [*reversed(places), *places])
    for sid in left:
        regions.went(sid)
    return regions, clusters


def listed(entries: list[Any], form: int) -> Any:
    """As `JoinKeys` holds them."""
    some: Any = SortedList(entries)
    if form == 2:
        some._reset(2)
        return some
    return tuple(entries) if form else entries


def holds_alone(place: Point, one: OneOfKey, routed: tuple[bool, bool]) -> bool:
    codes, others = [entry[0] for entry in one.rows], [entry[0] for entry in one.others]
    if one.code in codes:
        return False
    if routed[0] and (not place[0] <= one.code <= place[1] or any(place[0] <= c <= place[1] for c in codes)):
        return False
    return not routed[1] or (place[2] <= others[-1] and place[3] >= others[0])


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=examples(150), deadline=None)
@given(
    places=subscriptions,
    asked=st.tuples(*[st.one_of(st.none(), st.tuples(st.integers(0, 12), rows, rows.filter(bool)))] * 2),
    form=st.integers(0, 2),
    routed=st.tuples(st.booleans(), st.booleans()),
    is_one_key=st.booleans(),
)
def test_shifts(
    maker: str, places: list[Point], asked: Any, form: int, routed: tuple[bool, bool], is_one_key: bool
) -> None:
    regions, _ = made(maker, places)
    lost, gained = (
        None if one is None else OneOfKey(one[0], listed(one[1], form), listed(one[2], form)) for one in asked
    )
    routing, other = (0, 1) if routed[0] else None, (2, 3) if routed[1] else None
    found = regions.shifts(routing, other, lost, gained, is_one_key)
    is_lost = [lost is not None and holds_alone(place, lost, routed) for place in places]
    is_gained = [gained is not None and holds_alone(place, gained, routed) for place in places]
    if is_one_key:
        is_lost, is_gained = (
            [a and not b for a, b in zip(is_lost, is_gained, strict=True)],
            [b and not a for a, b in zip(is_lost, is_gained, strict=True)],
        )
    assert [contains(found[0], place) for place in places] == is_lost
    assert [contains(found[1], place) for place in places] == is_gained
    for region, some in zip(found, (is_lost, is_gained), strict=True):
        assert bool(region) == any(some), "no region without a subscription"
    if maker == "compiled":
        assert found == made("python", places)[0].shifts(routing, other, lost, gained, is_one_key)


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=examples(150), deadline=None)
@given(
    places=subscriptions,
    code=st.integers(0, 12),
    joining=rows.filter(bool),
    form=st.integers(0, 2),
    is_merged=st.booleans(),
)
def test_visible(
    maker: str, places: list[Point], code: int, joining: Any, form: int, is_merged: bool
) -> None:
    regions, clusters = made(maker, places)
    own = (Interval(None, code), Interval(code, None), EVERYTHING, EVERYTHING)
    asked = own, listed(joining, form), (2, 3)
    region = regions.visible(*asked, clusters, is_merged)
    seen = [
        place[0] <= code <= place[1] and any(place[2] <= entry[0] <= place[3] for entry in joining)
        for place in places
    ]
    assert [contains(region, place) for place in places] == seen
    assert bool(region) == any(seen), "no region without a subscription"
    if maker == "compiled":
        python, its_clusters = made("python", places)
        assert region == python.visible(*asked, its_clusters, is_merged)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("is_seen", [True, False])
def test_many_ranges_between_two_rows(maker: str, is_seen: bool) -> None:
    """More of them than are asked one by one; the rows are merged unless one holds the event's row."""
    places: list[Point] = [(0, 1, at, at + 5) for at in range(10, 2_000)] + [(5, 5, 0, 9_999)]
    if is_seen:
        places.append((5, 5, 1_500, 1_501))
    regions, clusters = made(maker, places)
    own = (Interval(None, 5), Interval(5, None), EVERYTHING, EVERYTHING)
    joining = [(5, (1,), ("row", 1)), (2_500, (2,), ("row", 2))]
    region = regions.visible(own, joining, (2, 3), clusters, True)
    assert len(region) == 1 + is_seen
    assert [contains(region, place) for place in places[1_990:]] == [True, False][: 1 + is_seen]


@is_built
def test_a_subscription_comes_and_goes_once() -> None:
    regions, _ = made("compiled", [(0, 1, 2, 3)])
    with pytest.raises(ValueError, match="there already"):
        regions.came([0], [(0, 1, 2, 3)])
    regions.went(0)
    with pytest.raises(KeyError):
        regions.went(0)
