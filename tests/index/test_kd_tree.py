"""The k-d trees against a plain list, their invariants checked after every step."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import EVERYTHING, Box, Interval, contains
from prosem.index.boxes import kd_tree_shape
from prosem.index.boxes.kd_tree import MinKdTree, SumKdTree
from prosem.index.boxes.kd_tree_skyline import skyline
from prosem.index.order import Descending
from tests.support.effort import examples, rounds
from tests.support.makers import both

# what the number n is as a code of each axis, and as a y
SCALES: dict[str, tuple[Callable[[int, int], Any], Callable[[int], Any]]] = {
    "integers": (lambda axis, n: n, lambda n: n),
    "texts": (lambda axis, n: f"{n:02}" if axis % 2 else n, lambda n: f"{n:03}"),
    "descending": (lambda axis, n: f"{n}", lambda n: Descending(f"{99 - n:02}")),
}
Table = dict[Any, tuple[Any, Any]]  # a row's point and y


def random_box(rng: random.Random, dimensions: int, size: int, code: Callable[[int, int], Any]) -> Box:
    sides = []
    for axis in range(dimensions):
        low, high = sorted((rng.randrange(-1, size + 1), rng.randrange(-1, size + 1)))
        ends = [None if rng.random() < 0.2 else code(axis, max(n, 0)) for n in (low, high)]
        sides.append(Interval(*ends, rng.random() < 0.3, rng.random() < 0.3))
    return tuple(sides)


def inside(table: Table, box: Box) -> list[Any]:
    return [(y, point, ref) for ref, (point, y) in table.items() if contains((box,), point)]


def agree(tree: MinKdTree, table: Table, box: Box, point: Any, limit: Any, but: Any) -> None:
    """Every question about a box gives what a scan gives."""
    held = inside(table, box)
    lowest = tree.lowest(box)
    assert (lowest is None) == (not held)
    if lowest is not None:
        assert lowest in held
        assert lowest[0] == min(entry[0] for entry in held)
    low = [entry for entry in held if entry[0] <= limit]
    near = tree.near(box, point, limit)
    assert near in low if low else near is None
    low = [entry for entry in low if entry[2] != but]
    near = tree.near(box, point, limit, but=but)
    assert near in low if low else near is None


judged = both(MinKdTree, "MinKdTree")
histories = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.one_of(
            st.none(), st.tuples(st.lists(st.integers(0, 7), min_size=3, max_size=3), st.integers(0, 9))
        ),
    ),
    max_size=80,
)


@judged
@pytest.mark.parametrize("scale", SCALES)
@given(
    history=histories,
    dimensions=st.integers(1, 3),
    bucket=st.sampled_from([2, 3, 48]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=examples(30), deadline=None)
def test_histories(make: Any, scale: str, history: Any, dimensions: int, bucket: int, seed: int) -> None:
    if make is not MinKdTree and scale != "integers":
        pytest.skip("no 64-bit codes")
    code, height = SCALES[scale]
    rng = random.Random(seed)
    tree, sums, table = make(dimensions, bucket), SumKdTree(dimensions, bucket), {}
    for ref, place in history:
        if ref in table:
            point, y = table.pop(ref)
            tree.remove(point, y, ref)
            sums.remove(point, 1, 1, ref)
        if place is not None:
            point = tuple(code(axis, n) for axis, n in enumerate(place[0][:dimensions]))
            table[ref] = point, height(place[1])
            tree.add(*table[ref], ref)
            sums.add(point, 1, 1, ref)
        tree.check()
        sums.check()
        assert len(tree) == len(table)
        assert len(sums) == len({point for point, _ in table.values()})
        box = random_box(rng, dimensions, 8, code)
        point = tuple(code(axis, rng.randrange(8)) for axis in range(dimensions))
        agree(tree, table, box, point, height(rng.randrange(10)), rng.randrange(31))
        held = inside(table, box)
        assert sums.total(box) == (len(held), len(held), sum(entry[2] for entry in held))
    assert {(point, y, ref) for ref, (point, y) in table.items()} == set(tree)
    built = make(dimensions, bucket).build((point, y, ref) for ref, (point, y) in table.items())
    built.check()
    assert sorted(map(repr, built)) == sorted(map(repr, tree))
    built_sums = SumKdTree(dimensions, bucket).build(sums)
    built_sums.check()
    assert sorted(built_sums) == sorted(sums)


def walks(rng: random.Random, count: int) -> dict[str, list[Any]]:
    """Points in orders and places that unbalance a tree."""
    return {
        "ascending": [(n, n) for n in range(count)],
        "descending": [(-n, rng.randrange(9)) for n in range(count)],
        "a cross": [(0, n) if n % 2 else (n, 0) for n in range(count)],
        "a corner": [(int(rng.paretovariate(0.3)) % 10**9, rng.randrange(3)) for _ in range(count)],
        "a flag": [(rng.random() < 0.02, n // 3) for n in range(count)],
        "one column": [(5, n * 7919 % count) for n in range(count)],
        "few points": [(rng.randrange(4), rng.randrange(4)) for _ in range(count)],
    }


@judged
@pytest.mark.parametrize("walk", walks(random.Random(0), 0))
@pytest.mark.parametrize(("bucket", "small"), [(2, 1024), (8, 8), (8, 32)])
def test_it_stays_in_balance(
    make: Any, walk: str, bucket: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `small` parts of a few points, all others are cut anew and not built anew."""
    monkeypatch.setattr(kd_tree_shape, "SMALL", small)
    rng = random.Random(walk)
    points = [tuple(map(int, point)) for point in walks(rng, rounds(1200))[walk]]
    tree, sums, table = make(2, bucket), SumKdTree(2, bucket), {}
    for ref, point in enumerate(points):
        table[ref] = point, rng.randrange(10**6)
        tree.add(*table[ref], ref)
        sums.add(point, 1, 1, table[ref][1])
        if ref % 17 == 0:
            tree.check()
            sums.check()
    for box in [
        (EVERYTHING, EVERYTHING),
        (Interval(3, 400), Interval(None, 200)),
        (Interval(0, 0), EVERYTHING),
        (Interval(5, 5), Interval(100, 101, True, True)),
    ]:
        agree(tree, table, box, (3, 3), 500_000, 7)
        held = inside(table, box)
        assert sums.total(box) == (len(held), len(held), sum(entry[0] for entry in held))
    for ref, point in enumerate(points):
        tree.remove(*table[ref], ref)
        sums.remove(point, 1, 1, table.pop(ref)[1])
        if ref % 17 == 0:
            tree.check()
            sums.check()
            box = (Interval(-50, ref), Interval(0, 900))
            agree(tree, table, box, (3, 3), 500_000, 7)
    assert len(tree) == len(sums) == 0
    assert tree.lowest((EVERYTHING, EVERYTHING)) is None


def test_a_large_branch_is_balanced_without_a_long_pause() -> None:
    """Points that always come on one side: parts of the tree are put right, never all of it."""
    tree = MinKdTree(2)
    largest = 0
    built = tree._built

    def measured(records: list[Any], axis: int) -> Any:
        nonlocal largest
        largest = max(largest, len(records))
        return built(records, axis)

    tree._built = measured  # type: ignore[method-assign]
    for n in range(20_000):
        tree.add((n, n * 7919 % 20_011), n * 104_729 % 20_011, n)
    tree.check()
    assert largest <= kd_tree_shape.SMALL
    assert tree.lowest((Interval(5000, 9000), EVERYTHING)) == min(
        (n * 104_729 % 20_011, (n, n * 7919 % 20_011), n) for n in range(5000, 9001)
    )


# -- the skyline -------------------------------------------------------------------------------------------
def between(near: Any, origin: Any, far: Any) -> bool:
    return all(min(o, f) <= n <= max(o, f) for n, o, f in zip(near, origin, far, strict=True))


@pytest.mark.parametrize("scale", SCALES)
@given(
    rows=st.lists(st.tuples(st.tuples(*[st.integers(0, 7)] * 3), st.integers(0, 6)), max_size=60),
    origin=st.tuples(*[st.integers(0, 7)] * 3),
    floor=st.integers(0, 6),
    dimensions=st.integers(1, 3),
    bucket=st.sampled_from([2, 4, 48]),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_skyline(scale: str, rows: Any, origin: Any, floor: int, dimensions: int, bucket: int) -> None:
    code, height = SCALES[scale]
    coded = lambda point: tuple(code(axis, n) for axis, n in enumerate(point[:dimensions]))
    entries = [(coded(point), height(y), ref) for ref, (point, y) in enumerate(rows)]
    tree = MinKdTree(dimensions, bucket).build(entries)
    origin, limit = coded(origin), height(floor)
    low, high, complete = skyline(tree, origin, limit, 1000, 1000)
    assert complete
    assert high is not None
    assert {*low, *high} <= {(y, point, ref) for point, y, ref in entries}
    assert all(y <= limit for y, _, _ in low)
    assert all(limit < y for y, _, _ in high)
    for seen, others in ((low, low), (high, low + high)):  # nothing seen hides another
        for y, point, ref in seen:
            for other_y, other, other_ref in others:
                if ref != other_ref and between(other, origin, point):
                    assert not other_y <= max(y, limit)
    for point, y, _ in entries:  # everything else is hidden by something seen
        by = low if y <= limit else low + [entry for entry in high if entry[0] <= y]
        assert any(between(entry[1], origin, point) for entry in by)
    assert sorted(skyline(tree, origin, limit, 1000).low) == sorted(low) if scale == "integers" else True
    assert skyline(tree, origin, limit, 1000).high is None
    for most in range(4):
        fewer = skyline(tree, origin, limit, 1000, most)
        assert {entry[1] for entry in fewer.low} == {entry[1] for entry in low}
        assert fewer.high is None if len(high) > most else fewer.high == high
        stopped = skyline(tree, origin, limit, most, 1000)
        assert stopped.complete or len(stopped.low) > most
        assert len(low) > most or stopped.complete


# -- single cases ------------------------------------------------------------------------------------------
def test_what_is_not_there_cannot_be_removed() -> None:
    tree = MinKdTree(2, 2).build([((1, 1), 5, "a"), ((1, 1), 6, "b"), ((2, 2), 7, "c")])
    for point, y, ref in [
        ((1, 1), 5, "b"),
        ((1, 1), 7, "a"),
        ((2, 2), 7, "x"),
        ((2, 2), 8, "c"),
        ((3, 3), 1, "a"),
    ]:
        with pytest.raises(KeyError):
            tree.remove(point, y, ref)
        tree.check()
    with pytest.raises(ValueError, match="already there"):
        tree.add((1, 1), 5, "a")
    assert len(tree) == 3
    sums = SumKdTree(2, 2).build([((1, 1), 1, 1, 5)])
    for change in [((1, 1), -2, -1, -5), ((1, 1), -1, 0, 0), ((2, 2), 0, 1, 0), ((2, 2), -1, 0, 0)]:
        with pytest.raises(ValueError, match="would be left"):
            sums.change(*change)
        assert list(sums) == [((1, 1), 1, 1, 5)]
        sums.check()


def test_wrong_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="2 dimensions"):
        MinKdTree(2).lowest((EVERYTHING,))
    with pytest.raises(ValueError, match="a dimension or more"):
        SumKdTree(0)


def test_empty_boxes() -> None:
    tree = MinKdTree(1, 2).build([((n,), n, n) for n in range(9)])
    sums = SumKdTree(1, 2).build([((n,), 1, 1, n) for n in range(9)])
    for side in [Interval(5, 4), Interval(4, 5, True, True), Interval(3, 3, True, False), Interval(20, None)]:
        assert tree.lowest((side,)) is None
        assert tree.near((side,), (4,), 99) is None
        assert sums.total((side,)) == (0, 0, 0)


def test_check_notices_damage() -> None:
    def tree() -> Any:
        return MinKdTree(2, 4).build([((n, n * 7 % 40), n, n) for n in range(40)])

    def lose_minimum(made: Any) -> None:
        made._root.summary = 99

    def lose_size(made: Any) -> None:
        made._root.below.size += 1

    def misplace(made: Any) -> None:
        made._root.below, made._root.above = made._root.above, made._root.below

    for damage in (lose_minimum, lose_size, misplace):
        made = tree()
        made.check()
        damage(made)
        with pytest.raises(AssertionError):
            made.check()


@pytest.mark.slow
@pytest.mark.parametrize(("dimensions", "seed"), list(product((2, 3), range(5))))
def test_many_points(dimensions: int, seed: int) -> None:
    rng = random.Random(seed)
    tree, sums, table = MinKdTree(dimensions), SumKdTree(dimensions), {}
    code, size = SCALES["integers"][0], 2000
    for step in range(20_000):
        ref = rng.randrange(6000)
        if ref in table:
            point, y = table.pop(ref)
            tree.remove(point, y, ref)
            sums.remove(point, 1, 1, y)
        if rng.random() < 0.8:
            point = tuple(step // 10 if axis == 0 else rng.randrange(size) for axis in range(dimensions))
            table[ref] = point, rng.randrange(5000)
            tree.add(*table[ref], ref)
            sums.add(point, 1, 1, table[ref][1])
        if step % 500 == 0:
            tree.check()
            sums.check()
            box = random_box(rng, dimensions, size, code)
            agree(tree, table, box, tuple(rng.randrange(size) for _ in range(dimensions)), 50, ref)
            held = inside(table, box)
            assert sums.total(box) == (len(held), len(held), sum(entry[0] for entry in held))
