"""Intervals, boxes and extents against the plain question: which codes of a small domain are inside?"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import BOTTOM, TOP, Extent, Interval, contains, difference

DOMAIN = [quarter / 4 for quarter in range(-4, 25)]  # dense between the ends, which are whole
ends = st.none() | st.integers(0, 5)
intervals = st.builds(Interval, ends, ends, st.booleans(), st.booleans())


def members(interval: Interval) -> set[float]:
    return {code for code in DOMAIN if code in interval}


def boxes(dimensions: int) -> st.SearchStrategy[tuple[Interval, ...]]:
    return st.tuples(*[intervals] * dimensions)


@given(ends, ends, st.booleans(), st.booleans())
def test_interval_holds_what_its_ends_say(
    low: int | None, high: int | None, low_open: bool, high_open: bool
) -> None:
    above = {c for c in DOMAIN if low is None or c > low or (c == low and not low_open)}
    below = {c for c in DOMAIN if high is None or c < high or (c == high and not high_open)}
    interval = Interval(low, high, low_open, high_open)
    assert members(interval) == above & below
    assert interval.is_empty() == (not above & below)


@given(intervals, intervals)
def test_and_is_the_intersection(first: Interval, second: Interval) -> None:
    assert members(first & second) == members(first) & members(second)
    assert members(second & first) == members(first & second)
    assert first.meets(second) == second.meets(first) == (not (first & second).is_empty())


@given(st.integers(1, 3).flatmap(lambda d: st.tuples(boxes(d), boxes(d))))
def test_difference_covers_exactly_and_is_disjoint(
    pair: tuple[tuple[Interval, ...], tuple[Interval, ...]],
) -> None:
    box, hole = pair
    pieces = [*difference(box, hole)]
    assert len(pieces) <= 2 * len(box)
    assert not any(side.is_empty() for piece in pieces for side in piece)
    step = 1 if len(box) < 3 else 3
    for point in product(DOMAIN[::step], repeat=len(box)):
        wanted = contains((box,), point) and not contains((hole,), point)
        assert sum(contains((piece,), point) for piece in pieces) == wanted


def test_difference_of_strings() -> None:
    (left,), (right,) = difference((Interval("a", "z"),), (Interval("c", "d", high_open=True),))
    assert "bzz" in left
    assert "c" not in left
    assert "d" in right
    assert "czz" not in right


@given(boxes(2), boxes(2), st.tuples(st.sampled_from(DOMAIN), st.sampled_from(DOMAIN)))
def test_region_is_the_union_of_its_boxes(
    first: tuple[Interval, ...], second: tuple[Interval, ...], point: tuple[float, float]
) -> None:
    assert contains((first, second), point) == (contains((first,), point) or contains((second,), point))
    assert not contains((), point)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    cuts = sorted(draw(st.lists(st.integers(0, 5), max_size=6, unique=True)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return Extent(
        tuple(Interval(a, b, draw(st.booleans()), draw(st.booleans())) for a, b in pairs), draw(st.booleans())
    )


@given(extents(), extents())
def test_extents_intersect_and_stay_in_order(first: Extent, second: Extent) -> None:
    both = first & second
    for code in [*DOMAIN, None]:
        assert (code in both) == (code in first and code in second)
    assert both.is_empty() == (not any(code in both for code in [*DOMAIN, None]))
    lows = [interval.low for interval in both.intervals]
    assert lows == sorted(lows)


@pytest.mark.parametrize("code", [-(10**30), 0, 10**30, "", "z", "\U0010ffff"])
def test_extremes_stand_below_and_above_every_code(code: object) -> None:
    assert BOTTOM < code < TOP
    assert TOP > code > BOTTOM
    assert BOTTOM <= code <= TOP
    assert TOP >= code >= BOTTOM
    assert not any([code < BOTTOM, code <= BOTTOM, code > TOP, code >= TOP, code == BOTTOM, code == TOP])
    assert sorted([TOP, code, BOTTOM]) == [BOTTOM, code, TOP]  # type: ignore[type-var]


@pytest.mark.parametrize("extreme", [BOTTOM, TOP])
def test_extremes_equal_themselves_only(extreme: object) -> None:
    assert extreme == extreme
    assert extreme <= extreme  # type: ignore[operator]
    assert extreme >= extreme  # type: ignore[operator]
    assert not any([extreme < extreme, extreme > extreme])  # type: ignore[operator]
    assert BOTTOM < TOP
    assert not TOP <= BOTTOM
