"""The sums of a space by key, in both implementations: whole events against all rows and all subscriptions."""

from __future__ import annotations

from datetime import date
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from cn.model.geometry import Interval, contains
from prosem.types.sums.trees import SumTrees
from prosem.values.model import Delta
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def in_python() -> tuple[Any, Any]:
    points = PointIndex(2, True)
    return points, SumTrees(points, 1)


def compiled() -> tuple[Any, Any]:
    points = COMPILED.PointIndex(2, True)
    return points, COMPILED.RangeSums(points, Interval)


judged = pytest.mark.parametrize(
    "make", [pytest.param(in_python, id="python"), pytest.param(compiled, id="compiled", marks=is_built)]
)
topics = st.sampled_from([b"", b"x"])
codes = st.integers(0, 7) | st.sampled_from([INT64_MIN, INT64_MAX])
values = st.integers(-3, 3) | st.sampled_from([INT64_MIN, INT64_MAX])
spots = st.tuples(codes, st.none() | values).map(
    lambda one: ((one[0],), int(one[1] is not None), one[1] or 0)
)
histories = st.lists(st.tuples(st.integers(0, 11), topics, st.none() | spots), max_size=40)


def summed(rows: Any, topic: bytes, low: int, high: int) -> tuple[int, int, int]:
    inside = [spot for where, spot in rows.values() if where == topic and low <= spot[0][0] <= high]
    return len(inside), sum(spot[1] for spot in inside), sum(spot[2] for spot in inside)


@judged
@given(
    history=histories,
    ranges=st.lists(st.tuples(topics, codes, codes), max_size=6),
    built=st.integers(0, 40),
)
@settings(max_examples=examples(80), deadline=None)
def test_each_range_gains_the_difference_of_its_sums(
    make: Any, history: Any, ranges: Any, built: int
) -> None:
    """`built` rows are there from the beginning. Nothing is said of a region without a subscription."""
    points, sums = make()
    for sid, (topic, low, high) in enumerate(ranges):
        points.insert(sid, topic, (low, high))
    rows: dict[int, Any] = {}
    for number, (ref, topic, spot) in enumerate(history):
        if number == min(built, len(history) - 1):
            entries: Any = {}
            for where, (point, values_, total) in rows.values():
                entries.setdefault((where, "group"), []).append((point[0], 1, values_, total))
            sums.build(entries)
        before = dict(rows)
        old, new = rows.pop(ref, None), None if spot is None else (topic, spot)
        if new is not None:
            rows[ref] = new
        if number < min(built, len(history) - 1):
            continue
        moves = [(old, new)] if old and new and old[0] == new[0] else [(old, None), (None, new)]
        found = []
        for was, now in moves:
            if was or now:
                where = (was or now)[0]  # type: ignore[index]
                found += sums.step((where, "group"), where, was and was[1], now and now[1])
        for topic, low, high in ranges:
            gains = [gain[2:] for gain in found if gain[0] == topic and contains(gain[1], (low, high))]
            total = [sum(some) for some in zip((0, 0), *gains, strict=True)]
            was, now = (summed(some, topic, low, high)[1:] for some in (before, rows))
            assert total == [b - a for a, b in zip(was, now, strict=True)]
            assert (0, 0) not in gains
        assert all(points.any(topic, region) for topic, region, _, _ in found)
        sums.check()
    if history:
        for topic, low, high in product((b"", b"x"), [None, INT64_MIN, 0, 3, 7], [0, 4, INT64_MAX, None]):
            ends = INT64_MIN if low is None else low, INT64_MAX if high is None else high
            assert sums.total((topic, "group"), (Interval(low, high),)) == summed(rows, topic, *ends)


@is_built
@given(old=st.none() | spots, new=st.none() | spots, ranges=st.lists(st.tuples(codes, codes), max_size=9))
@settings(max_examples=examples(200), deadline=None)
def test_regions_are_the_same(old: Any, new: Any, ranges: Any) -> None:
    """Interval by interval, in one order."""
    (some, python), (same, native) = in_python(), compiled()
    for sid, place in enumerate(ranges):
        some.insert(sid, b"", place)
        same.insert(sid, b"", place)
    if old is not None:
        assert python.step(b"k", b"", None, old) == native.step(b"k", b"", None, old)
    found = native.step(b"k", b"", old, new)
    assert found == python.step(b"k", b"", old, new)
    assert all(type(side) is Interval for _, region, _, _ in found for box in region for side in box)


@judged
def test_keys_are_known_while_they_have_rows(make: Any) -> None:
    points, sums = make()
    sums.build({b"a": [(1, 1, 1, 5)], b"none": []})
    sums.check()
    everywhere = (Interval(),)
    assert sums.total(b"a", everywhere) == (1, 1, 5)
    assert sums.total(b"none", everywhere) == (0, 0, 0)
    sums.change(b"a", (1,), -1, -1, -5)
    sums.check()
    points.insert(1, b"", (0, 9))
    for refused in [(((1,), 1, 5), None), (((2,), 1, 5), ((3,), 1, 5))]:
        with pytest.raises(ValueError, match="would be left"):
            sums.step(b"a", b"", *refused)
    sums.step(b"a", b"", None, ((2,), 1, 6))
    with pytest.raises(ValueError, match="would be left"):
        sums.step(b"a", b"", ((2,), 1, 5), None)
    assert sums.total(b"a", everywhere) == (1, 1, 6)


@is_built
@pytest.mark.parametrize("y", [-1, 2])
@pytest.mark.parametrize("is_summed", [False, True])
def test_rows_are_read_in_one_call(y: int, is_summed: bool) -> None:
    """As if x and y had been read in Python: a NULL in x keeps a row out, one in y adds nothing, encoders are asked."""
    points, sums = compiled()
    with pytest.raises(ValueError, match="first"):
        sums.step_row(None, (1, 2, 3))
    sums.read_rows(1, date.toordinal, y, lambda value: 10 * value, is_summed)
    first = date(2024, 1, 1)
    points.insert(1, b"", (0, first.toordinal() + 5))
    spotted = COMPILED.RangeSums(points, Interval)
    days = [date.fromordinal(first.toordinal() + day) for day in range(0, 8, 2)]
    rows: list[Any] = [None, *product([7], [*days, None], [-1, 0, 5, None])]

    def spot(row: Any) -> Any:
        if row is None or row[1] is None:
            return None
        at = (row[1].toordinal(),)
        if y < 0:
            return at, 1, 0
        return (at, 0, 0) if row[2] is None else (at, 1, 10 * row[2] if is_summed else 0)

    seen = 0
    table: Any = None
    deltas: list[Delta] = []
    found: list[Any] = []
    for before, after in product(rows, rows):
        for old, new in ((None, before), (before, after), (after, None)):
            deltas.append(Delta(len(deltas), table, (7,), old, new))
            found.append(sums.step_row(old, new))
            assert found[-1] == (spotted.step(b"", b"", spot(old), spot(new)) or None)
            seen += found[-1] is not None
    assert seen
    assert spotted.total(b"", (Interval(),)) == sums.total(b"", (Interval(),)) == (0, 0, 0)
    assert sums.step_rows(deltas) == found, "all of a request as one by one"
    assert sums.step_rows([]) == []
    with pytest.raises(TypeError):
        sums.step_rows([(None, None)])
    with pytest.raises(IndexError):
        sums.step_row(None, (1,))
    with pytest.raises(TypeError):
        sums.step_row(None, [1, days[0], 3])
    with pytest.raises(ValueError, match="two dimensions"):
        COMPILED.RangeSums(COMPILED.PointIndex(4, True), Interval)
