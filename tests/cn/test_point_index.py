"""The point index against a scan over all points."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from cn.match.span import integer_span
from cn.match.tiles import Tiles
from cn.match.topics import Topics
from cn.model.geometry import (
    BOTTOM,
    EVERYTHING,
    INT64_MAX,
    INT64_MIN,
    TOP,
    Interval,
    Region,
    contains,
    difference,
)
from tests.support.effort import examples, rounds
from tests.support.makers import both

Point = tuple[Any, ...]
Entry = tuple[int, bytes, Point]
TOPICS = [b"", b"x", b"y"]
INTEGERS = [INT64_MIN, *range(6), INT64_MAX]
TEXTS = [BOTTOM, "a\0\1", "b\0\1", "b\0\1\0\1", "c\0\1", TOP]
WIDE = [BOTTOM, -(10**30), 0, 1, 10**30, TOP]
INTEGER_ENDS = [None, -(2**70), INT64_MIN, *range(6), INT64_MAX, 2**70]
TEXT_ENDS = [None, BOTTOM, "a\0\0", "a\0\1", "b\0\0", "b\0\1", "b\0\2", "c\0\1", TOP]
WIDE_ENDS = [None, BOTTOM, -(10**31), -(10**30), 0, 1, 10**30, TOP]
judged = both(PointIndex, "PointIndex")
KINDS = [(True, INTEGERS, INTEGER_ENDS), (False, TEXTS, TEXT_ENDS), (False, WIDE, WIDE_ENDS)]


def make_if(make: Any, dimensions: int, int64: bool, block_size: int) -> Any:
    """An index of these codes; codes that are no 64-bit integers are for the index in Python alone."""
    if make is not PointIndex and not int64:
        pytest.skip("no 64-bit codes")
    return make(dimensions, int64, block_size=block_size)


def scan(entries: set[Entry], topic: bytes, region: Region) -> list[int]:
    return sorted(id for id, its, point in entries if its == topic and contains(region, point))


def compare(index: PointIndex, entries: set[Entry], topic: bytes, region: Region) -> None:
    wanted = scan(entries, topic, region)
    found = index.find(topic, region)
    assert found.dtype == np.int64
    assert sorted(found.tolist()) == wanted
    assert index.count(topic, region) == len(wanted)
    assert index.any(topic, region) == bool(wanted)
    if index.int64:
        whole = index.entries(topic, region)
        assert whole.shape == (1 + index.dimensions, len(wanted))
        place = {id: point for id, its, point in entries if its == topic}
        assert sorted(map(tuple, whole.T.tolist())) == [(id, *place[id]) for id in wanted]


@judged
@pytest.mark.parametrize(("int64", "codes", "ends"), KINDS, ids=["integers", "texts", "wide integers"])
@pytest.mark.parametrize("block_size", [4, 100])
def test_every_pair_of_ends(
    make: Any, int64: bool, codes: list[Any], ends: list[Any], block_size: int
) -> None:
    index = make_if(make, 1, int64, block_size)
    entries: set[Entry] = {(at, topic, (code,)) for topic in TOPICS for at, code in enumerate(codes * 3)}
    for entry in entries:
        index.insert(*entry)
    index.check()
    for low, high, low_open, high_open in product(ends, ends, [False, True], [False, True]):
        compare(index, entries, b"x", ((Interval(low, high, low_open, high_open),),))


@judged
@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_any_history_agrees_with_a_scan(make: Any, data: st.DataObject) -> None:
    int64, codes, ends = data.draw(st.sampled_from(KINDS if make is PointIndex else KINDS[:1]))
    dimensions = data.draw(st.integers(1, 4))
    index = make(dimensions, int64, block_size=data.draw(st.integers(4, 9)))
    points = st.tuples(*[st.sampled_from(codes)] * dimensions)
    sides = st.builds(Interval, st.sampled_from(ends), st.sampled_from(ends), st.booleans(), st.booleans())
    topics = st.sampled_from(TOPICS)
    entries: set[Entry] = set()
    fresh = 0
    actions = st.sampled_from(["insert", "insert_many", "remove", "move", "find", "find"])
    for action in ["insert_many", *data.draw(st.lists(actions, min_size=8, max_size=20))]:
        if action == "insert":
            entry = (fresh, data.draw(topics), data.draw(points))
            index.insert(*entry)
            entries.add(entry)
            fresh += 1
        elif action == "insert_many":
            batch = [
                (fresh + at, *place)
                for at, place in enumerate(
                    data.draw(st.lists(st.tuples(topics, points), min_size=6, max_size=20))
                )
            ]
            index.insert_many([e[0] for e in batch], [e[1] for e in batch], [e[2] for e in batch])
            entries.update(batch)
            fresh += len(batch)
        elif action == "find":
            box = data.draw(st.tuples(*[sides] * dimensions))
            hole = data.draw(st.tuples(*[sides] * dimensions))
            compare(index, entries, data.draw(topics), (box,))
            compare(index, entries, data.draw(topics), tuple(difference(box, hole)))
        elif entries:
            old = data.draw(st.sampled_from(sorted(entries, key=lambda entry: entry[0])))
            entries.remove(old)
            if action == "remove":
                index.remove(*old)
            else:
                new = (old[0], data.draw(topics), data.draw(points))
                index.move(*old, *new[1:])
                entries.add(new)
        index.check()
        assert len(index) == len(entries)
    assert set(index.items()) == entries
    for entry in entries:
        index.remove(*entry)
    index.check()
    assert len(index) == 0


@judged
@pytest.mark.parametrize("block_size", [4, 64, 2048])
@pytest.mark.parametrize("shape", ["spread", "same first", "same last", "identical", "own topics"])
def test_thousands_of_points_come_and_go(make: Any, shape: str, block_size: int) -> None:
    chance = random.Random(f"{shape} {block_size}")
    size = rounds(1000 if block_size == 4 else 4000)

    def place(id: int) -> tuple[bytes, Point]:
        low = 7 if shape == "identical" else chance.randrange(1000)
        point = (low, low if shape == "identical" else low + chance.randrange(100))
        point = (INT64_MIN, point[1]) if shape == "same first" else point
        point = (point[0], INT64_MAX) if shape == "same last" else point
        return (b"%d" % id if shape == "own topics" else b""), point

    index = make(2, int64=True, block_size=block_size)
    places = [place(id) for id in range(size)]
    half = size // 2
    index.insert_many(
        range(half), [topic for topic, _ in places[:half]], [point for _, point in places[:half]]
    )
    index.insert_many(
        np.arange(half, size), [topic for topic, _ in places[half:]], np.array([p for _, p in places[half:]])
    )
    index.check()
    entries = {(id, *places[id]) for id in range(size)}
    for step in range(size):
        id = chance.randrange(size)
        old = (id, *places[id])
        if step % 3 == 0:
            index.remove(*old)
            index.insert(*old)
        else:
            places[id] = place(id)
            index.move(*old, *places[id])
            entries.remove(old)
            entries.add((id, *places[id]))
        if step % (size // 8) == 0:
            x = chance.randrange(1000)
            box = (Interval(x - 40, x, low_open=True), Interval(x, x + 40, high_open=True))
            compare(index, entries, places[id][0], (box,))
            compare(index, entries, places[id][0], ((EVERYTHING, EVERYTHING),))
    index.check()
    for entry in chance.sample(sorted(entries), size):
        index.remove(*entry)
    index.check()
    assert index.count(b"", ((EVERYTHING, EVERYTHING),)) == 0


@judged
def test_one_id_at_several_places(make: Any) -> None:
    index = make(2, int64=True, block_size=4)
    places: list[tuple[bytes, Point]] = [(topic, (low, 5)) for topic in TOPICS for low in range(4)]
    for topic, point in places:
        index.insert(1, topic, point)
    index.check()
    assert index.find(b"x", ((Interval(1, 2), EVERYTHING),)).tolist() == [1, 1]
    for topic, point in places:
        index.remove(1, topic, point)
    assert len(index) == 0


@judged
def test_an_absent_point_is_a_key_error_and_changes_nothing(make: Any) -> None:
    index = make(2, int64=True)
    with pytest.raises(KeyError):
        index.remove(1, b"", (1, 2))
    index.insert(1, b"", (1, 2))
    for absent in [(2, b"", (1, 2)), (1, b"x", (1, 2)), (1, b"", (0, 2)), (1, b"", (1, 3)), (1, b"", (1,))]:
        with pytest.raises(KeyError):
            index.remove(*absent)
        with pytest.raises(KeyError):
            index.move(*absent, b"new", (5, 5))
    index.check()
    assert list(index.items()) == [(1, b"", (1, 2))]


@judged
@pytest.mark.parametrize("point", [(1,), (1, 2, 3), (1, 2**63), (1, 2.5), (1, "x"), (None, 1)])
def test_what_no_column_can_hold_is_refused_and_changes_nothing(make: Any, point: Point) -> None:
    index = make(2, int64=True)
    index.insert(1, b"", (1, 2))
    with pytest.raises((ValueError, OverflowError, TypeError)):
        index.insert(2, b"new", point)
    with pytest.raises((ValueError, OverflowError, TypeError)):
        index.move(1, b"", (1, 2), b"new", point)
    with pytest.raises((ValueError, OverflowError, TypeError)):
        index.insert_many([2, 3], b"new", [(0, 0), point])
    with pytest.raises(ValueError, match="dimensions"):
        index.find(b"", ((EVERYTHING,),))
    index.check()
    assert list(index.items()) == [(1, b"", (1, 2))]


@judged
def test_batches_must_fit_together(make: Any) -> None:
    index = make(1, int64=True)
    with pytest.raises(ValueError, match="as many"):
        index.insert_many([1], b"", [])
    with pytest.raises(ValueError, match="as many"):
        index.insert_many([1], [b"", b""], [(1,)])
    index.insert_many([], [], [])
    index.check()


@judged
def test_results_are_copies(make: Any) -> None:
    index = make(2, int64=True)
    index.insert_many(range(500), b"", [(id, id) for id in range(500)])
    found = index.find(b"", ((EVERYTHING, EVERYTHING),))
    for id in range(500):
        index.remove(id, b"", (id, id))
    assert sorted(found.tolist()) == list(range(500))


def narrow(make, points: Sequence[Point]) -> tuple[PointIndex, list[Region]]:
    index = make(2, int64=True)
    index.insert_many(range(len(points)), b"", points)
    return index, [((Interval(low - 5, low), Interval(high, high + 5)),) for low, high in points[:200]]


@judged
def test_a_small_box_looks_at_few_blocks(make: Any) -> None:
    chance = random.Random(5)
    lows = [chance.randrange(10**9) for _ in range(50_000)]
    points = [(low, low + chance.randrange(10**8)) for low in lows]
    for sample in (
        points,
        [(INT64_MIN + 5, high) for _, high in points],
        [(low, INT64_MAX - 5) for low, _ in points],
    ):
        index, regions = narrow(make, sample)
        before = index.visits
        assert all(index.any(b"", region) for region in regions)
        assert index.visits - before <= 2.5 * len(regions)


@judged
def test_any_ends_with_the_first_block(make: Any) -> None:
    index, _ = narrow(make, [(7, 7)] * 50_000)
    everything: Region = ((EVERYTHING, EVERYTHING),)
    before = index.visits
    assert len(index.find(b"", everything)) == 50_000
    wide = index.visits - before
    assert index.any(b"", everything)
    assert wide > 10
    assert index.visits - before <= wide + 1


@judged
def test_bytes_of_large_and_small_indexes(make: Any) -> None:
    chance = random.Random(6)
    large = make(2, int64=True)
    for id in range(20_000):
        large.insert(id, b"", (chance.randrange(10**6), chance.randrange(10**6)))
    assert large.nbytes / len(large) < 45
    small = make(2, int64=True)
    for id in range(3):
        small.insert(id, b"", (id, id))
    assert small.nbytes < 2000


def test_topics_are_counted() -> None:
    topics = Topics()
    one, two = topics.take(b"one", 2), topics.take(b"two")
    topics.release(one)
    topics.check({one: 1, two: 1})
    topics.release(one)
    assert topics.number(b"one") is None
    assert topics.take(b"three") == one
    assert (topics.name(one), len(topics)) == (b"three", 2)


@judged
@pytest.mark.slow
def test_a_million_points(make: Any) -> None:
    generator = np.random.default_rng(7)
    lows = generator.integers(0, 10**9, 1_000_000)
    points = np.stack([lows, lows + generator.integers(0, 10**8, len(lows))], axis=1)
    index = make(2, int64=True)
    index.insert_many(np.arange(len(points)), b"", points)
    index.check()
    for at in generator.integers(0, len(points), 300).tolist():
        low, high = points[at].tolist()
        for reach in (10, 10**4, 10**7):
            region = (
                (Interval(low - reach, low, low_open=True), Interval(high, high + reach, high_open=True)),
            )
            inside = (points[:, 0] > low - reach) & (points[:, 0] <= low)
            inside &= (points[:, 1] >= high) & (points[:, 1] < high + reach)
            assert np.array_equal(np.sort(index.find(b"", region)), np.flatnonzero(inside))


@judged
def test_tiles_of_the_usual_size_against_a_scan(make: Any) -> None:
    """Four dimensions, ranges without an end among them; narrow and wide sides, after inserts, moves and removals."""
    random = np.random.default_rng(11)
    low = random.integers(0, 1_000, (9_000, 2))
    points = np.column_stack([low, low + random.integers(0, 300, (9_000, 2))])[:, [0, 2, 1, 3]]
    points[::50, 0], points[::70, 3] = INT64_MIN, INT64_MAX
    index = make(4, int64=True)
    index.insert_many(range(6_000), b"", points[:6_000])
    for id in range(6_000, 9_000):
        index.insert(id, b"", tuple(points[id].tolist()))
    for id in range(0, 9_000, 3):
        index.remove(id, b"", tuple(points[id].tolist()))
    for id in range(1, 9_000, 30):
        before = tuple(points[id].tolist())
        points[id] += 7 * (np.abs(points[id]) < 10_000)
        index.move(id, b"", before, b"", tuple(points[id].tolist()))
    index.check()
    there = np.arange(9_000) % 3 != 0
    for _ in range(150):
        a, c, q = random.integers(0, 1_200, 3).tolist()
        width = int(random.choice([3, 40, 600]))
        gap = Interval(q, q + width, True, True)
        for box in (
            (Interval(None, a), Interval(a, None), Interval(None, c), Interval(c, None)),
            (Interval(None, a), Interval(a, None), gap, gap),
            (
                Interval(a - width, a, True),
                Interval(a, a + width, False, True),
                Interval(None, c),
                Interval(c),
            ),
        ):
            expected = there.copy()
            for column, side in zip(points.T, box, strict=True):
                span = integer_span(side)
                assert span is not None
                expected &= (column >= span[0]) & (column <= span[1])
            ids = index.find(b"", (box,))
            assert sorted(ids.tolist()) == np.flatnonzero(expected).tolist()
            assert index.any(b"", (box,)) == expected.any()
            for dimension in range(4):
                assert np.array_equal(index.codes(b"", (box,), dimension), points[ids, dimension])
            assert sorted(map(tuple, index.entries(b"", (box,)).T.tolist())) == sorted(
                (id, *points[id].tolist()) for id in ids.tolist()
            )


@pytest.mark.parametrize("int64", [True, False])
def test_tiles_stay_balanced(int64: bool) -> None:
    """Points that come in order lengthen one path; it is rebuilt before it is long."""
    index = PointIndex(3, int64, block_size=4)
    for id in range(600):
        index.insert(id, b"", (id, id, id))
    index.check()
    tiles = index._blocks
    assert isinstance(tiles, Tiles)
    longest = max(len(tiles._path((id, 0, id, id, id))[0]) for id in range(600))
    assert longest <= 2 * np.log2(len(tiles.blocks) + 1) + 6
    for id in range(600):
        index.remove(id, b"", (id, id, id))
    index.check()
    assert len(index) == 0
