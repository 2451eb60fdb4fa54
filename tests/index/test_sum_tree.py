"""The tree of sums, in Python and compiled, against a dictionary; its invariants are checked after every step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.ranges.sum_tree import SumTree
from tests.support.effort import examples
from tests.support.makers import COMPILED, both, is_built

SCALES: dict[str, Callable[[int], Any]] = {"integers": lambda n: n, "texts": lambda n: f"{n:03}"}
HUGE = 3**700  # as long as a double scaled to an integer
LARGE = 3**38  # a handful of them has more than 64 bits
judged = both(SumTree, "SumTree")
Table = dict[Any, tuple[Any, int | None]]  # a row's x and y


def plain(table: Table, low: Any, high: Any) -> tuple[int, int, int]:
    inside = [y for x, y in table.values() if (low is None or low <= x) and (high is None or x <= high)]
    values = [y for y in inside if y is not None]
    return len(inside), len(values), sum(values)


def put(tree: SumTree, place: tuple[Any, int | None] | None, sign: int) -> None:
    if place is not None:
        x, y = place
        tree.change(x, sign, 0 if y is None else sign, 0 if y is None else sign * y)


def agree(tree: SumTree, table: Table, xs: list[Any]) -> None:
    assert len(tree) == len({x for x, _ in table.values()})
    ends = [None, *xs]
    for low in ends:
        for high in ends:
            assert tree.total(low, high) == plain(table, low, high)


events = st.lists(
    st.tuples(
        st.integers(0, 25),
        st.one_of(st.none(), st.tuples(st.integers(0, 30), st.one_of(st.none(), st.integers(-3, 3)))),
    ),
    max_size=60,
)


@judged
@pytest.mark.parametrize("scale", SCALES)
@given(history=events, fan_out=st.sampled_from([4, 5, 64]), scaled=st.sampled_from([1, LARGE, HUGE]))
@settings(max_examples=examples(30), deadline=None)
def test_histories(make: Any, scale: str, history: Any, fan_out: int, scaled: int) -> None:
    """The compiled one holds 64-bit integers."""
    if make is not SumTree:
        scale, scaled = "integers", min(scaled, LARGE)
    code = SCALES[scale]
    tree, table = make(fan_out), {}
    for ref, place in history:
        put(tree, table.pop(ref, None), -1)
        tree.check()
        if place is not None:
            y = None if place[1] is None else place[1] * scaled
            table[ref] = code(place[0]), y
            put(tree, table[ref], 1)
        tree.check()
    xs = [code(n) for n in range(0, 32, 3)]
    agree(tree, table, xs)
    rows = [(x, 1, int(y is not None), y or 0) for x, y in table.values()]
    built = make(fan_out).build(rows)
    built.check()
    assert list(built) == list(tree)
    agree(built, table, xs)


@judged
@pytest.mark.parametrize("fan_out", [4, 7, 64])
@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_it_grows_and_shrinks(make: Any, fan_out: int, order: str) -> None:
    rng = random.Random(fan_out)
    xs = list(range(700))
    if order != "up":
        xs = xs[::-1] if order == "down" else rng.sample(xs, len(xs))
    tree, table = make(fan_out), {}
    for x in xs:
        table[x] = x, rng.choice([None, rng.randrange(-9, 9)])
        put(tree, table[x], 1)
        if x % 50 == 0:
            tree.check()
    agree(tree, table, [-1, 0, 133, 134, 500, 699, 700])
    for x in xs:
        put(tree, table.pop(x), -1)
        if x % 10 == 0:
            tree.check()
            agree(tree, table, [0, 350, 699])
    assert len(tree) == 0
    assert tree.total() == (0, 0, 0)
    tree.check()


@judged
def test_impossible_changes_change_nothing(make: Any) -> None:
    tree = make(4).build((x, 1, 1, x) for x in range(20))
    before = list(tree)
    for change in [(3, -2, -1, -3), (3, -1, 0, -3), (3, -1, -1, 0), (99, 0, 1, 5), (99, -1, 0, 0)]:
        with pytest.raises(ValueError, match="would be left"):
            tree.change(*change)
        assert list(tree) == before
        tree.check()
    tree.change(99, 0, 0, 0)
    assert list(tree) == before
    with pytest.raises(ValueError, match="values without rows"):
        make().build([(1, 1, 1, 5), (1, -1, 0, 0)])
    assert len(make().build([(1, 1, 1, 5), (1, -1, -1, -5), (2, 1, 0, 0)])) == 1
    with pytest.raises(ValueError, match="fan-out"):
        make(3)


@judged
def test_a_question_takes_few_nodes(make: Any) -> None:
    tree = make().build((x, 1, 1, x) for x in range(100_000))
    before = tree.visits
    for low in range(0, 90_000, 900):
        assert tree.total(low, low + 5000) == (5001, 5001, 5001 * (2 * low + 5000) // 2)
    assert tree.visits - before <= 100 * 6  # two paths of three nodes at most


@is_built
def test_what_the_compiled_one_holds() -> None:
    """The least and the greatest codes and values; what has more bits is refused, and changes nothing."""
    tree = COMPILED.SumTree(4)
    ends = -(2**63), 2**63 - 1
    for x in ends:
        for y in ends * 3:
            tree.change(x, 1, 1, y)
    assert tree.total() == (12, 12, -6)
    assert tree.total(ends[0], ends[0]) == tree.total(None, 0) == (6, 6, -3)
    for _ in range(3):
        tree.change(ends[1], -1, -1, -ends[0])
    assert tree.total(ends[1]) == (3, 3, 3 * ends[1])
    for change in [(2**63, 1, 1, 0), (0, 1, 1, 2**64), (0, 1, 1, -(2**64)), ("0", 1, 1, 0)]:
        with pytest.raises((OverflowError, TypeError)):
            tree.change(*change)
    with pytest.raises(OverflowError):
        tree.build([(0, 1, 1, 2**64)])
    assert len(tree) == 2
    tree.check()


def test_check_notices_damage() -> None:
    for damage in ("rows", "values", "totals"):
        tree = SumTree(4).build((x, 2, 1, x) for x in range(40))
        getattr(tree._root, damage)[0] += 1
        with pytest.raises(AssertionError):
            tree.check()
