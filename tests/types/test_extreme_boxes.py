"""The rule of extremes with several ranges, against every subscription of a small domain."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import BOTTOM, INT64_MAX, INT64_MIN, TOP, Box, Interval, contains
from prosem.index.boxes.kd_tree import MinKdTree
from prosem.index.order import Descending
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.types.extreme import rule as extreme_rule
from prosem.types.extreme.boxes import LIMIT, Piece, answer, settle, step
from tests.support.effort import examples, seeds
from tests.support.makers import COMPILED, both, is_built

judged = both(MinKdTree, "MinKdTree")
COMPILED_SCALES = "integers", "the ends"  # those of 64-bit codes
SCALES: dict[str, tuple[Callable[[int, int], Any], Callable[[int], Any]]] = {
    "integers": (lambda axis, n: n, lambda n: n),
    "the ends": (
        lambda axis, n: {0: INT64_MIN, 3: INT64_MAX}.get(n, n),
        lambda n: {0: INT64_MIN, 4: INT64_MAX}.get(n, n),
    ),
    "texts": (lambda axis, n: f"{n}" if axis else n, lambda n: f"{n}"),
    "descending": (lambda axis, n: f"{n}", lambda n: Descending(f"{9 - n}")),
}
Table = dict[Any, Any]


def stepped(tree: Any, old: Any, new: Any, ref: Any, limit: int = LIMIT) -> tuple[list[Piece], list[Box]]:
    """By the rule in Python, or the compiled one of a compiled tree."""
    if type(tree) is MinKdTree:
        return step(tree, old, new, ref, limit)
    found: tuple[list[Piece], list[Box]] = tree.step(old, new, ref, limit, Interval, Piece)
    return found


def minimum(table: Table, place: Any) -> Any:
    lows, highs = place[::2], place[1::2]
    held = [
        y
        for x, y in table.values()
        if all(low <= code <= high for low, code, high in zip(lows, x, highs, strict=True))
    ]
    return min(held, default=None)


def verify(before: Table, after: Table, pieces: list[Piece], unresolved: list[Box], places: list[Any]) -> int:
    """Each subscription is notified of its new minimum once, or is in one unresolved box; how many are there."""
    for piece in pieces:
        assert piece.region
        assert not any(side.is_empty() for box in piece.region for side in box)
    left = 0
    for place in places:
        hits = [piece for piece in pieces for box in piece.region if contains((box,), place)]
        waits = sum(contains((box,), place) for box in unresolved)
        assert len(hits) + waits <= 1, (place, hits, unresolved)
        left += waits
        old, new = minimum(before, place), minimum(after, place)
        if hits:
            assert old != new, (place, hits)
            assert hits[0].y == new
            if new is None:
                assert hits[0].ref is None
            else:
                assert minimum({0: after[hits[0].ref]}, place) == new
        else:
            assert old == new or waits, (place, old, new)
    return left


def play(
    make: Any, history: list[Any], dimensions: int, size: int, scale: str, limit: int, bucket: int
) -> tuple[int, int]:
    """Run events (reference, new place); how many pieces and waiting subscriptions there were."""
    code, height = SCALES[scale]
    ranges = [
        [(code(axis, low), code(axis, high)) for low in range(size) for high in range(low, size)]
        for axis in range(dimensions)
    ]
    places = [sum(pair, ()) for pair in product(*ranges)]
    tree, table = make(dimensions, bucket), {}
    pieces = waits = 0
    for ref, place in history:
        old, new = table.get(ref), None
        if place is not None:
            new = tuple(code(axis, n) for axis, n in enumerate(place[0])), height(place[1])
        after = {key: at for key, at in table.items() if key != ref} | ({} if new is None else {ref: new})
        made, unresolved = stepped(tree, old, new, ref, limit)
        tree.check()
        assert {(x, y, key) for key, (x, y) in after.items()} == set(tree)
        pieces += len(made)
        here = verify(table, after, made, unresolved, places)
        assert limit < LIMIT or not unresolved
        waits += here
        for subscription in places if here else places[:: len(places) // 9]:
            found = answer(tree, subscription)
            assert (found and found[0]) == minimum(after, subscription)
            fate = settle(tree, old, new, ref, subscription)
            before, now = minimum(table, subscription), minimum(after, subscription)
            assert (fate is not None) == (before != now)
            if fate is not None:
                assert fate.y == now
                assert contains(fate.region, subscription)
                assert fate.ref is None if now is None else minimum({0: after[fate.ref]}, subscription) == now
        table = after
    return pieces, waits


points = st.tuples(st.integers(0, 3), st.integers(0, 3))
places_2d = st.one_of(st.none(), st.tuples(points, st.integers(0, 4)))


@judged
@pytest.mark.parametrize("scale", SCALES)
@given(
    history=st.lists(st.tuples(st.integers(0, 9), places_2d), max_size=25),
    limit=st.sampled_from([LIMIT, LIMIT, 0, 1, 2, 4]),
    bucket=st.sampled_from([2, 48]),
)
@settings(max_examples=examples(15), deadline=None)
def test_exactly_the_affected(make: Any, scale: str, history: Any, limit: int, bucket: int) -> None:
    if make is not MinKdTree and scale not in COMPILED_SCALES:
        pytest.skip("no 64-bit codes")
    play(make, history, 2, 4, scale, limit, bucket)


def events(rng: random.Random, count: int, dimensions: int, size: int, heights: int, moving: float) -> Any:
    at: dict[int, Any] = {}
    for _ in range(count):
        ref = rng.randrange(16)
        if ref not in at or rng.random() < moving:
            at[ref] = tuple(rng.randrange(size) for _ in range(dimensions))
        if rng.random() < 0.1:
            del at[ref]
            yield ref, None
        else:
            yield ref, (at[ref], rng.randrange(heights))


@judged
@pytest.mark.parametrize("heights", [2, 5, 10])
@pytest.mark.parametrize("moving", [0.0, 0.3, 1.0])
def test_long_histories(make: Any, heights: int, moving: float) -> None:
    """A fuller table than a short history makes, from many ties to few; all is resolved."""
    rng = random.Random(heights * 10 + int(moving * 10))
    pieces, waits = play(make, list(events(rng, 60, 2, 4, heights, moving)), 2, 4, "integers", LIMIT, 4)
    assert pieces >= 20
    assert waits == 0


@judged
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5])
def test_a_small_limit_leaves_the_rest_unresolved(make: Any, limit: int) -> None:
    rng = random.Random(limit)
    pieces, waits = play(make, list(events(rng, 60, 2, 4, 6, 0.4)), 2, 4, "integers", limit, 4)
    assert waits
    assert (pieces == 0) == (limit == 0)


@judged
@pytest.mark.parametrize(
    ("dimensions", "size", "limit"), [(1, 9, LIMIT), (3, 2, LIMIT), (3, 3, 1000), (3, 3, 4)]
)
def test_other_dimensions(make: Any, dimensions: int, size: int, limit: int) -> None:
    rng = random.Random(dimensions)
    play(make, list(events(rng, 40, dimensions, size, 6, 0.4)), dimensions, size, "integers", limit, 4)


@pytest.mark.slow
@judged
@pytest.mark.parametrize("seed", seeds(8, 30))
def test_longer_histories(make: Any, seed: int) -> None:
    rng = random.Random(seed)
    limit = rng.choice([LIMIT, LIMIT, 2, 6])
    play(make, list(events(rng, 300, 2, 5, rng.choice([2, 6, 10]), 0.3)), 2, 5, "integers", limit, 4)


@judged
def test_one_dimension_is_the_plain_rule(make: Any) -> None:
    """With one range the regions are those of the A2B-tree: as many pieces of the same minima."""
    rng = random.Random(1)
    tree, plain, table = make(1), A2BTree(), {}
    for ref, place in events(rng, 300, 1, 30, 50, 0.3):
        old, new = table.pop(ref, None), place
        made, unresolved = stepped(tree, old, new, ref)
        assert not unresolved
        expected = extreme_rule.step(plain, old and (old[0][0], old[1]), new and (new[0][0], new[1]), ref)
        for low, high in product(range(-1, 31), repeat=2):
            if low <= high:
                mine = [(p.y, p.ref) for p in made if contains(p.region, (low, high))]
                theirs = [(p.y, p.ref) for p in expected if contains(p.region, (low, high))]
                assert [y for y, _ in mine] == [y for y, _ in theirs]
        if place is not None:
            table[ref] = place


# -- single cases ------------------------------------------------------------------------------------------
def test_the_first_and_the_last_tuple() -> None:
    tree = MinKdTree(2)
    (piece,), _ = step(tree, None, ((5, "e"), 1), "t")
    assert (piece.y, piece.ref, len(piece.region)) == (1, "t", 1)
    assert contains(piece.region, (5, 5, "e", "e"))
    assert contains(piece.region, (-9, 9, BOTTOM, TOP))
    assert not contains(piece.region, (6, 9, BOTTOM, TOP))
    (gone,), _ = step(tree, ((5, "e"), 1), None, "t")
    assert (gone.y, gone.ref, gone.region) == (None, None, piece.region)
    assert step(tree, None, None, "t") == ([], [])
    assert answer(tree, (-9, 9, BOTTOM, TOP)) is None


def test_open_ends_of_texts() -> None:
    tree = MinKdTree(2).build([(("b", 1), 4, "t")])
    assert answer(tree, (BOTTOM, TOP, 0, 9)) == (4, "t")
    assert answer(tree, (BOTTOM, "a", 0, 9)) is None
    fate = settle(tree, None, (("b", 1), 4), "t", (BOTTOM, TOP, 0, 9))
    assert fate is not None
    assert (fate.y, fate.ref) == (4, "t")
    assert contains(fate.region, (BOTTOM, TOP, 0, 9))


@judged
def test_an_update_that_changes_nothing(make: Any) -> None:
    tree = make(2).build([((3, 3), 4, "a"), ((3, 3), 2, "b")])
    assert stepped(tree, ((3, 3), 4), ((3, 3), 3), "a") == ([], [])
    assert stepped(tree, ((3, 3), 3), ((3, 3), 3), "a") == ([], [])
    assert answer(tree, (3, 3, 3, 3)) == (2, "b")


@judged
def test_random_points_need_few_boxes_in_two_dimensions(make: Any) -> None:
    rng = random.Random(5)
    entries = [((rng.randrange(10**6), rng.randrange(10**6)), rng.randrange(10**6), n) for n in range(5000)]
    tree = make(2).build(entries)
    for x, y, ref in rng.sample(entries, 60):
        made, unresolved = stepped(tree, (x, y), (x, y - 20_000), ref)
        assert not unresolved
        assert sum(len(piece.region) for piece in made) <= LIMIT
        stepped(tree, (x, y - 20_000), (x, y), ref)


@is_built
@pytest.mark.parametrize("limit", [LIMIT, 3])
def test_pieces_without_a_subscription_are_left_out(limit: int) -> None:
    """With the index of subscriptions a compiled tree gives what it gives without, less regions that hold none of them."""
    rng = random.Random(limit)
    points = COMPILED.PointIndex(4, True)
    for sid in range(12):
        ends = [sorted((rng.randrange(30), rng.randrange(30))) for _ in range(2)]
        points.insert(sid, b"t", (*ends[0], *ends[1]))
    plain, asked = COMPILED.MinKdTree(2), COMPILED.MinKdTree(2)
    table: Table = {}
    notified = left = 0
    for ref, place in events(rng, 400, 2, 30, 40, 0.3):
        old = table.pop(ref, None)
        pieces, boxes = plain.step(old, place, ref, limit, Interval, Piece)
        expected = [piece for piece in pieces if points.any(b"t", piece.region)]
        found, unresolved = asked.step(old, place, ref, limit, Interval, Piece, points, b"t")
        assert found == expected
        assert unresolved == [box for box in boxes if points.any(b"t", (box,))]
        notified, left = notified + len(found), left + len(pieces) - len(found)
        if place is not None:
            table[ref] = place
    assert notified
    assert left
    assert set(plain) == set(asked)
    assert asked.step(None, ((1, 1), 0), "new", limit, Interval, Piece, points, b"other") == ([], [])
    assert asked.lowest((Interval(), Interval())) == (0, (1, 1), "new")


@is_built
def test_refused_events_change_nothing() -> None:
    tree = COMPILED.MinKdTree(2).build([((3, 3), 4, "a"), ((3, 4), 2, "b")])
    with pytest.raises(KeyError):
        tree.step(((3, 3), 5), None, "a", LIMIT, Interval, Piece)
    with pytest.raises(ValueError, match="already"):
        tree.add((3, 3), 4, "a")
    with pytest.raises(ValueError, match="dimension"):
        tree.step(None, ((3,), 4), "c", LIMIT, Interval, Piece)
    with pytest.raises(OverflowError):
        tree.step(None, ((3, 2**63), 4), "c", LIMIT, Interval, Piece)
    with pytest.raises(ValueError, match="dimension"):
        COMPILED.MinKdTree(9)
    assert set(tree) == {((3, 3), 4, "a"), ((3, 4), 2, "b")}
    tree.check()
