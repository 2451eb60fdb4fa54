"""The rank tree against a plain list, its invariants checked after every step."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.ranges.rank_tree import RankTree
from tests.support.effort import examples, rounds

Entry = tuple[Any, Any, Any]
SCALES = {
    "integers": lambda n: n,
    "texts": lambda n: f"{n:03}",
}
ALL = 10**6


def plain_lower(rows: list[Entry], x: Any, rank: Any, count: int) -> tuple[list[Any], list[Any]]:
    lefts = sorted([a for a, other, _ in rows if other < rank and a <= x], reverse=True)
    return lefts[:count], sorted([a for a, other, _ in rows if other < rank and a > x])[:count]


def plain_first(rows: list[Entry], low: Any, high: Any, count: int) -> list[Any]:
    inside = [
        (rank, x, ref) for x, rank, ref in rows if (low is None or low <= x) and (high is None or x <= high)
    ]
    return sorted(inside)[:count]


def plain_candidates(
    rows: list[Entry], x: Any, rank: Any, count: int, low: Any, high: Any, but: Any
) -> list[Any]:
    rows = [row for row in rows if row[1] != but]
    found = []
    for a, other, ref in rows:
        if other > rank and (low is None or low < a) and (high is None or a < high):
            first, last = min(a, x), max(a, x)
            if sum(1 for b, lower, _ in rows if lower < other and first <= b <= last) < count:
                found.append((other, a, ref))
    return sorted(found)


def agree(tree: RankTree, rows: list[Entry], chance: random.Random, code: Any, width: int) -> None:
    """Questions at random places give what a scan gives."""
    for _ in range(4):
        at = chance.randrange(-1, width + 1)
        x, rank, count = code(at + 1), chance.randrange(1000), chance.choice([1, 2, 3, 5, 40])
        lefts, rights = plain_lower(rows, x, rank, count)
        sides = tree.lower(x, rank, count)
        assert [side.xs() for side in sides] == [lefts, rights]
        assert [side.end for side in sides] == [
            some[-1] if len(some) == count else None for some in (lefts, rights)
        ]
        low = chance.choice([None, code(chance.randrange(width + 2))])
        high = chance.choice([None, code(chance.randrange(width + 2))])
        assert tree.first(low, high, count) == plain_first(rows, low, high, count)
        low = None if low is None or not low < x else low
        high = None if high is None or not x < high else high
        but = chance.choice([None, *(rank for _, rank, _ in rows)])
        expected = plain_candidates(rows, x, rank, count, low, high, but)
        assert tree.candidates(x, rank, count, low, high, ALL, but) == expected
        if expected:
            assert tree.candidates(x, rank, count, low, high, len(expected) - 1, but) is None


@pytest.mark.parametrize("scale", SCALES)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 99)), max_size=60),
    st.sampled_from([4, 5, 64]),
    st.sampled_from([1, 3, 10, 41]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(30), deadline=None)
def test_against_a_list(
    scale: str, steps: list[tuple[int, int]], fan_out: int, width: int, chance: random.Random
) -> None:
    """Rows come, and go when their rank comes again."""
    code = SCALES[scale]
    tree, rows = RankTree(fan_out), {}
    for number, (x, rank) in enumerate(steps):
        rank *= 10
        if rank in rows:
            tree.remove(rows.pop(rank)[0], rank)
        else:
            rows[rank] = (code(x % width + 1), rank, number)
            tree.add(*rows[rank])
        tree.check()
        assert list(tree) == sorted(rows.values())
    agree(tree, list(rows.values()), chance, code, width)


@pytest.mark.parametrize("fan_out", [4, 7, 64])
@pytest.mark.parametrize("width", [1, 6, 500])
def test_long_histories(fan_out: int, width: int) -> None:
    chance = random.Random(fan_out * width)
    rows = [(chance.randrange(width) + 1, rank, rank) for rank in chance.sample(range(1000), 300)]
    tree = RankTree(fan_out).build(rows)
    tree.check()
    for _ in range(rounds(150)):
        for _ in range(5):
            x, rank, _ = rows.pop(chance.randrange(len(rows)))
            tree.remove(x, rank)
        for _ in range(chance.choice([3, 5, 7])):
            rank = chance.choice(sorted({*range(1000)} - {row[1] for row in rows}))
            rows.append((chance.randrange(width) + 1, rank, rank))
            tree.add(*rows[-1])
        agree(tree, rows, chance, lambda n: n, width)
    tree.check()
    while rows:
        x, rank, _ = rows.pop()
        tree.remove(x, rank)
    tree.check()
    assert len(tree) == 0
    assert tree.first(None, None, 3) == []
    assert [side.xs() for side in tree.lower(1, 5, 2)] == [[], []]


def test_rows_that_are_not_there() -> None:
    tree = RankTree().build([(1, 10, "a")])
    with pytest.raises(KeyError):
        tree.remove(1, 11)
    with pytest.raises(KeyError):
        tree.remove(2, 10)
    with pytest.raises(ValueError, match="there is a row"):
        tree.add(1, 10, "b")
    assert [*tree] == [(1, 10, "a")]
    with pytest.raises(ValueError, match="fan-out"):
        RankTree(3)


def test_a_first_row_is_found_without_looking_at_all_rows() -> None:
    """Cost by nodes looked at, not by time."""
    chance = random.Random(1)
    ranks = chance.sample(range(10**6), 50_000)
    tree = RankTree().build([(x, rank, x) for x, rank in enumerate(ranks)])
    before = tree.visits
    assert [rank for rank, _, _ in tree.first(5_000, 45_000, 10)] == sorted(ranks[5_000:45_001])[:10]
    assert tree.visits - before < 100
    before = tree.visits
    tree.lower(25_000, 10**6, 10)
    assert tree.visits - before < 10
