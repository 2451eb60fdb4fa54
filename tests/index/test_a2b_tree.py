"""The A2B-tree against a plain list, its invariants checked after every step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.order import HIGHEST, LOWEST, Descending
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.index.ranges.lower_tier import LONG_LIST, LowerTier
from tests.support.effort import examples
from tests.support.makers import both

Entry = tuple[Any, Any, Any]
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
judged = both(A2BTree, "A2BTree")
SCALES: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "integers": (lambda n: n, lambda n: n),
    "ends": (lambda n: _stretched(n, 29), lambda n: _stretched(n, 7)),
    "texts": (lambda n: f"{n:03}", lambda n: f"{n:03}"),
    "descending": (lambda n: n, lambda n: Descending(f"{99 - n:03}")),
}


def _stretched(n: int, last: int) -> int:
    """Small numbers, with the least and the greatest 64-bit code at the ends."""
    return INT64_MIN if n <= 0 else INT64_MAX if n >= last else n


def codes_of(make: Any, scale: str) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    if make is not A2BTree and scale in ("texts", "descending"):
        pytest.skip("no 64-bit codes")
    return SCALES[scale]


class Opaque:
    """A reference with no order at all."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number % 7)


# -- the same questions, answered by looking at everything -------------------------------------------------
def minima(entries: list[Entry]) -> dict[Any, Any]:
    lowest: dict[Any, Any] = {}
    for x, y, _ in entries:
        if x not in lowest or y < lowest[x]:
            lowest[x] = y
    return lowest


def plain_mar(entries: list[Entry], x: Any, y: Any) -> Any:
    near = [a for a, b in minima(entries).items() if b <= y]
    if x in near:
        return None
    return max((a for a in near if a < x), default=None), min((a for a in near if a > x), default=None)


def plain_skyline(entries: list[Entry], xs: list[Any], below: Any, *, or_equal: bool = False) -> list[Any]:
    lowest, seen = minima(entries), []
    for x in xs:
        if below is None or lowest[x] < below or (or_equal and lowest[x] == below):
            seen.append((x, lowest[x]))
            below, or_equal = lowest[x], False
    return seen


def sides(entries: list[Entry], x: Any) -> tuple[list[Any], list[Any]]:
    xs = sorted(minima(entries))
    return [a for a in reversed(xs) if a < x], [a for a in xs if a > x]


def agree(tree: A2BTree, entries: list[Entry], xs: list[Any], ys: list[Any]) -> None:
    """Every question at these places gives what a scan gives."""
    held = set(entries)
    for x in xs:
        at = [y for a, y, _ in entries if a == x]
        peak = tree.peak(x)
        assert (peak and peak[0]) == (min(at) if at else None)
        assert peak is None or (x, *peak) in held
        for high in [None, *xs]:
            for low in [None, x]:
                inside = [
                    y for a, y, _ in entries if (low is None or low <= a) and (high is None or a <= high)
                ]
                lowest = tree.lowest(low, high)
                assert (lowest and lowest[0]) == (min(inside) if inside else None)
                assert lowest is None or any(
                    entry[1:] == lowest and (low is None or low <= entry[0]) for entry in entries
                )
        left, right = sides(entries, x)
        lowest_y = minima(entries)
        for y in ys:
            assert tree.mar(x, y) == plain_mar(entries, x, y)
            for floor in [f for f in ys if f <= y]:
                for or_equal in (False, True):
                    hull = tree.hull(x, y, floor, or_equal=or_equal)
                    for points, end, beside in (
                        (hull[0], hull[1], left),
                        (hull[2], hull[3], right),
                    ):
                        expected = plain_skyline(entries, beside, y, or_equal=or_equal)
                        assert [p[:2] for p in points] == [p for p in expected if p[1] > floor]
                        assert end == next((a for a in beside if lowest_y[a] <= floor), None)
                        assert set(points) <= held


# -- random histories --------------------------------------------------------------------------------------
steps = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "replace"]), st.integers(0, 30), st.integers(0, 8)),
    max_size=60,
)


@judged
@pytest.mark.parametrize("scale", SCALES)
@given(history=steps, fan_out=st.sampled_from([4, 5, 8, 64]), built=st.integers(0, 25), data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_agrees_with_a_scan(make: Any, scale: str, history: Any, fan_out: int, built: int, data: Any) -> None:
    code_x, code_y = codes_of(make, scale)
    entries: list[Entry] = [
        (code_x(n * 7 % 23), code_y(n * 5 % 9), Opaque(n)) for n in data.draw(st.permutations(range(built)))
    ]
    tree = make(fan_out).build(iter(entries))
    tree.check()
    for number, (action, x, y) in enumerate(history, built):
        if action == "add":
            entries.append((code_x(x), code_y(y), Opaque(number)))
            tree.add(*entries[-1])
        elif entries:
            old_x, old_y, ref = entries.pop((x * 9 + y) % len(entries))
            if action == "remove":
                tree.remove(old_x, old_y, ref)
            else:
                entries.append((old_x, code_y(y), ref))
                tree.replace(old_x, old_y, ref, code_y(y))
        tree.check()
        assert len(tree) == len(entries)
    assert Counter(tree) == Counter(entries)
    xs = data.draw(st.lists(st.integers(-1, 31).map(code_x), min_size=2, max_size=3))
    agree(
        tree, entries, xs, [code_y(n) for n in data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))]
    )


@judged
@given(seed=st.integers(0, 10**6), fan_out=st.sampled_from([4, 6, 16]))
@settings(max_examples=examples(15), deadline=None)
def test_grows_and_shrinks(make: Any, seed: int, fan_out: int) -> None:
    """Enough tuples for several levels, then none; the root splits and collapses again."""
    rng = random.Random(seed)
    entries = [(rng.randrange(200), rng.randrange(50), number) for number in range(300)]
    tree = make(fan_out)
    for at, entry in enumerate(entries):
        tree.add(*entry)
        if at % 10 == 0:
            tree.check()
    tree.check()
    agree(tree, entries, [rng.randrange(200)], [rng.randrange(50)])
    rng.shuffle(entries)
    while entries:
        tree.remove(*entries.pop())
        tree.check()
        if len(entries) % 40 == 0:
            agree(tree, entries, [rng.randrange(200)], [rng.randrange(50)])
    assert len(tree) == 0
    assert tree.lowest() is None
    assert tree.mar(5, 5) == (None, None)


KEYS = [
    (0,), (1,), (-1,), (2**62 - 1,), (2**62,), (-(2**62),), (-(2**62) - 1,), (2**63 - 1,), (-(2**63),), (2**70,),
    (True, 1), (1, 2), ("1",), (1.5,), (None,), ((1,),), 1, 3, "a",
]  # fmt: skip


@judged
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_keys_of_rows_come_back_as_they_were(make: Any, data: st.DataObject) -> None:
    """Whichever way a tree holds a reference."""
    entries: list[Entry] = []
    tree = make(4)
    for _ in range(data.draw(st.integers(0, 40))):
        entry = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 1)), data.draw(st.sampled_from(KEYS))
        if entry in entries:
            entries.remove(entry)
            tree.remove(*entry)
        else:
            entries.append(entry)
            tree.add(*entry)
        with pytest.raises(KeyError):
            tree.remove(entry[0], 5, entry[2])
    tree.check()
    assert Counter(tree) == Counter(entries)
    assert all(type(ref) is type(next(e[2] for e in entries if e[2] == ref)) for _, _, ref in tree)
    again = make(4).build(list(tree))
    again.check()
    assert Counter(again) == Counter(entries)


@judged
# -- the edges ---------------------------------------------------------------------------------------------
def test_empty(make: Any) -> None:
    tree = make()
    tree.check()
    assert (len(tree), tree.lowest(), tree.peak(1), tree.mar(1, 1)) == (0, None, None, (None, None))
    assert [*tree] == []
    with pytest.raises(ValueError, match="at least 4"):
        make(3)


@judged
def test_building_replaces(make: Any) -> None:
    tree = make().build((x, x, x) for x in range(500))
    assert [*tree.build([(2, 3, "b"), (1, 3, "a")])] == [(1, 3, "a"), (2, 3, "b")]
    tree.check()
    tree.build([]).check()
    assert len(tree) == 0


@judged
def test_an_inverted_range_is_empty(make: Any) -> None:
    tree = make().build((x, x, x) for x in range(500))
    assert tree.lowest(300, 20) is None
    assert tree.lowest(20, 300) == (20, 20)


@judged
@pytest.mark.parametrize(
    "entry", [(1, 5, "b"), (1, 6, "a"), (2, 5, "a"), (3, 7, "c"), (3, 8, "d"), (9, 9, "z")]
)
def test_what_is_not_there_cannot_go(make: Any, entry: Entry) -> None:
    entries = [(1, 5, "a"), (3, 7, "d"), (3, 8, "c"), (4, 2, "x"), (4, 2, "y")]
    tree = make().build(entries)
    for change in (tree.remove, lambda x, y, ref: tree.replace(x, y, ref, 0)):
        with pytest.raises(KeyError):
            change(*entry)
        tree.check()
        assert sorted(tree) == sorted(entries)


@judged
def test_twice_is_refused(make: Any) -> None:
    tree = make().build([(1, 5, "a"), (2, 5, "a"), (2, 5, "b")])
    for x in (1, 2):
        with pytest.raises(ValueError, match="already"):
            tree.add(x, 5, "a")
        tree.check()
    assert len(tree) == 3


@judged
def test_visits_stay_logarithmic(make: Any) -> None:
    """One question looks at no more than two nodes a level and side, whatever the size."""
    rng = random.Random(4)
    tree = make().build((x, rng.randrange(10**9), x) for x in range(50_000))
    for _ in range(200):
        before = tree.visits
        tree.mar(rng.randrange(50_000), rng.randrange(10**6))
        assert tree.visits - before <= 3 + 2 * 4


# -- the lower tier ----------------------------------------------------------------------------------------
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 20)), max_size=80),
    st.sampled_from([4, LONG_LIST]),
)
@settings(max_examples=examples(60), deadline=None)
def test_lower_tier(history: list[tuple[bool, int, int]], long_list: int) -> None:
    """Few distinct heights, many ties; with a small bound both representations of the heights take part."""
    patch = pytest.MonkeyPatch()
    patch.setattr("prosem.index.ranges.lower_tier.LONG_LIST", long_list)
    try:
        held = {(7, 100), (7, 101)}
        tier = LowerTier(sorted(held))
        for is_add, y, ref in history:
            if is_add == ((y, ref) in held) or (not is_add and len(held) == 1):
                continue
            (tier.add if is_add else tier.remove)(y, ref)
            (held.add if is_add else held.remove)((y, ref))
            tier.check()
            assert set(tier) == held
            assert len(tier) == len(held)
            assert tier.lowest()[0] == min(held)[0]
            assert tier.lowest() in held
    finally:
        patch.undo()


@judged
@pytest.mark.parametrize("ties", [True, False])
def test_many_tuples_at_one_x(make: Any, ties: bool) -> None:
    """First in, first out: neither shifting a long list nor stepping over holes makes it quadratic."""
    height = (lambda number: 3) if ties else (lambda number: number)
    tree = make().build([(1, height(number), number) for number in range(30_000)])
    for number in range(25_000):
        tree.remove(1, height(number), number)
        tree.add(1, height(number + 30_000), number + 30_000)
        assert tree.lowest(0, 2) is not None
    tree.check()
    assert tree.peak(1)[0] == height(25_000)  # type: ignore[index]


# -- orders ------------------------------------------------------------------------------------------------
@given(st.text(), st.text())
def test_descending_reverses(a: str, b: str) -> None:
    left, right = Descending(a), Descending(b)
    assert (left < right, left <= right, left > right, left >= right) == (b < a, b <= a, b > a, b >= a)
    assert (left == right, left != right) == (a == b, a != b)
    assert a != b or hash(left) == hash(right)
    assert LOWEST < left < HIGHEST


def test_descending_compares_only_with_its_kind() -> None:
    with pytest.raises(TypeError):
        assert Descending(1) < 2
    assert Descending(1) != 1
