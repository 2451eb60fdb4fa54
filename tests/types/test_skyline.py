"""Every flavour of the descriptive skyline describes the subscriptions that a scan finds, in disjoint boxes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import Interval, contains
from prosem.index.joins.join_keys import Entry
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.join.skyline import (
    Skyline,
    cluster_skyline,
    merged_skyline,
    staircase,
    subscription_skyline,
    tuple_skyline,
)
from tests.support.effort import examples

CODE = st.integers(0, 20)
RANGE = st.tuples(CODE, CODE).map(lambda ends: (min(ends), max(ends)))
FLAVOURS = ("tup", "clu", "clu+", "sub")


def flavours(
    rows: list[Entry], ranges: list[tuple[int, int]], selected: list[tuple[int, int]]
) -> dict[str, Skyline]:
    clusters = StabbingSet(int64=True)
    clusters.add_many(ranges, range(len(ranges)))

    def lives_between(q: int, r: int) -> bool:
        return any(q < low and high < r for low, high in selected)

    affected = [ends for ends in selected if any(ends[0] <= row[0] <= ends[1] for row in rows)]
    lows, highs = [low for low, _ in affected], [high for _, high in affected]
    return {
        "tup": tuple_skyline(rows),
        "clu": cluster_skyline(rows, clusters),
        "clu+": merged_skyline(rows, clusters, lives_between),
        "sub": subscription_skyline(lows, highs),
    }


@settings(max_examples=examples(300))
@given(st.lists(CODE, max_size=12), st.lists(st.tuples(RANGE, st.booleans()), max_size=25))
def test_all_describe_the_same(codes: list[int], subscriptions: list[tuple[tuple[int, int], bool]]) -> None:
    """Among the subscriptions whose own range selects the row; what the others would see is not asked."""
    rows: list[Entry] = [(code, (number,)) for number, code in enumerate(sorted(codes))]
    ranges = [ends for ends, _ in subscriptions]
    selected = [ends for ends, is_selected in subscriptions if is_selected]
    expected = [any(low <= code <= high for code in codes) for low, high in selected]
    found = flavours(rows, ranges, selected)
    assert found.keys() == set(FLAVOURS)
    for flavour, skyline in found.items():
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(skyline)), f"{flavour} ascends"
        boxes = staircase(skyline)
        assert [contains(tuple(boxes), ends) for ends in selected] == expected, flavour
        covered = covered_by(skyline)
        for point in ((low, high) for low in range(21) for high in range(low, 21)):
            assert sum(contains((box,), point) for box in boxes) == (point in covered), "disjoint boxes"
    clusters = StabbingSet(int64=True)
    clusters.add_many(ranges, range(len(ranges)))
    assert len(found["clu"]) <= min(2 * len(clusters.anchors), len(found["tup"]))
    assert len(found["clu+"]) <= len(found["clu"])
    for flavour in ("tup", "clu", "clu+"):
        assert covered_by(found["sub"]) <= covered_by(found[flavour]), "-Sub covers the least"


def covered_by(skyline: Skyline) -> set[tuple[int, int]]:
    plane = ((low, high) for low in range(21) for high in range(low, 21))
    return {(low, high) for low, high in plane if any(low <= x and high >= y for x, y in skyline)}


@given(st.lists(RANGE, max_size=30))
def test_subscriptions_as_arrays_and_as_lists(ranges: list[tuple[int, int]]) -> None:
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    assert subscription_skyline(np.array(lows, np.int64), np.array(highs, np.int64)) == subscription_skyline(
        lows, highs
    )


def test_a_missing_end_is_the_least_code() -> None:
    least = np.iinfo(np.int64).min
    assert subscription_skyline(np.array([least, least, 3]), np.array([9, 4, 7])) == [(least, 4), (3, 7)]


def test_figure_5_2() -> None:
    """Clusters far from most joining rows: their nearest rows are enough, and one point where no range lies between."""
    rows: list[Entry] = [(code, (code,)) for code in (30, 32, 35, 50, 60, 65, 70)]
    ranges = [(10, 31), (12, 40), (15, 33), (60, 90), (69, 95), (20, 80)]
    found = flavours(rows, ranges, ranges)
    assert [len(found[flavour]) for flavour in FLAVOURS] == [7, 3, 1, 5]
    assert found["clu+"] == [(70, 30)]
    assert found["sub"] == [(10, 31), (15, 33), (20, 80), (60, 90), (69, 95)]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_nothing_joins(flavour: str) -> None:
    assert flavours([], [(1, 2)], [(1, 2)])[flavour] == []
    assert staircase([]) == []


def test_the_first_box_has_no_lower_end() -> None:
    assert staircase([(5, 4)]) == [(Interval(None, 5), Interval(4, None))]
