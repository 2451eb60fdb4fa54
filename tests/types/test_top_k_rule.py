"""Top-k against brute force: staircases over every range of a small domain, and whole answers event by event."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import contains
from prosem.types.base import Bound
from prosem.types.top_k.staircase import Staircase, without
from tests.support.effort import examples
from tests.support.top_k import Events, World, every_range, query, table, topics

PLANS = ("reformulate", "enumerate")


# -- geometry --------------------------------------------------------------------------------------------------------
def staircase(rows: list[tuple[int, int]], x: int, rank: float, count: int) -> Staircase:
    lefts = sorted([a for a, other in rows if other < rank and a <= x], reverse=True)
    return Staircase(
        x, lefts[:count], sorted([a for a, other in rows if other < rank and a > x])[:count], count
    )


def is_first(rows: list[tuple[int, int]], x: int, rank: float, count: int, low: int, high: int) -> bool:
    return low <= x <= high and sum(other < rank and low <= a <= high for a, other in rows) < count


places = st.tuples(st.integers(0, 6), st.integers(0, 30))


@given(st.lists(places, max_size=14, unique_by=lambda row: row[1]), places, places, st.integers(1, 5))
@settings(max_examples=examples(200), deadline=None)
def test_staircases_hold_the_ranges_that_have_the_row(
    rows: list[tuple[int, int]], old: tuple[int, int], new: tuple[int, int], count: int
) -> None:
    (x, rank), (other_x, other_rank) = (old[0], old[1] + 0.5), (new[0], new[1] + 0.5)
    stairs, other = staircase(rows, x, rank, count), staircase(rows, other_x, other_rank, count)
    region, coarse, rest = stairs.region(count), stairs.region(2), without(stairs, other)
    assert len(region) <= count
    assert len(coarse) <= 2
    assert not any(side.is_empty() for box in (*region, *rest) for side in box)
    for low, high in product(range(-1, 9), repeat=2):
        has_it = is_first(rows, x, rank, count, low, high)
        has_other = is_first(rows, other_x, other_rank, count, low, high)
        assert stairs.holds(low, high) == has_it
        assert sum(contains((box,), (low, high)) for box in region) == has_it
        assert contains(coarse, (low, high)) or not has_it
        assert low <= x <= high or not contains(coarse, (low, high))
        assert sum(contains((box,), (low, high)) for box in rest) == (has_it and not has_other)
        assert contains((stairs.hull,), (low, high)) or not has_it


# -- whole answers ---------------------------------------------------------------------------------------------------
def play(
    seed: int,
    events: int,
    made: Any,
    own: Any,
    plan: str,
    *,
    size: int = 1,
    is_exact: bool = True,
    **more: Any,
) -> dict[str, int]:
    """Random events for every range of the domain; how many messages of each kind there were."""
    some = Events(own, seed)
    rows = {}
    for _ in range(8):
        key = some.key()
        rows[key] = some.row(key, None)
    world = World(made, own, rows, plan, **more)
    kind = own.columns[own.position["x"]].type
    if world.form.top.ranges.ranged:
        values = [None if number < 0 else some_value(kind, number) for number in range(-1, 8)]
        codes = [kind.code(value) for value in values if value is not None]
    else:
        codes = [0]
    own_topics = topics(["p", "q"]) if world.form.top.ranges.equal else [b""]
    bounds = list(every_range(world, codes, own_topics))
    if len(own_topics) > 1:  # as IN gives it
        bounds += [
            Bound(own_topics[0], bound.place, (own_topics[1],))
            for bound in bounds
            if bound.topic == own_topics[0]
        ]
    bounds.append(Bound(b"", None))
    world.subscribe(bounds)
    counts = dict.fromkeys(("put", "take"), 0)
    for _ in range(events):
        for made_kind in world.take(some.changes(world.rows, size), is_exact=is_exact):
            counts[made_kind] += 1
    world.network.check()
    return counts


def some_value(kind: Any, number: int) -> Any:
    return "abcdefghijklm"[number] if kind.name == "text" else kind.read(number)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("is_descending", [False, True])
def test_every_range_receives_its_changes(plan: str, count: int, is_descending: bool) -> None:
    made = query(["k", "y", "x"], "y", count, is_descending=is_descending)
    counts = play(count * 10 + is_descending, 60, made, table(), plan)
    assert all(counts.values())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("types", [("text", "numeric(6,2)"), ("double precision", "text")])
def test_types_and_nulls(plan: str, nulls_first: bool, types: tuple[str, str]) -> None:
    made = query(["y", "note", "k"], "y", 3, is_descending=nulls_first, nulls_first=nulls_first)
    assert all(play(7, 50, made, table(*types), plan).values())


@pytest.mark.parametrize("plan", PLANS)
def test_composite_keys_without_a_range(plan: str) -> None:
    own = table(key=("k", "m"))
    assert all(play(3, 80, query(["m", "k", "y"], "y", 4, ranged=None), own, plan).values())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("ranged", ["x", None])
def test_equality_and_several_topics(plan: str, ranged: str | None) -> None:
    made = query(["k", "y", "e"], "y", 2, ranged=ranged, equal="e")
    assert all(play(5, 80, made, table(), plan).values())


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("size", [2, 5, 12])
@pytest.mark.parametrize("count", [1, 3])
def test_many_rows_change_at_one_seq(plan: str, size: int, count: int) -> None:
    """As over views and with `per: transaction`: at most one change, by the answers before and after."""
    made = query(["k", "y"], "y", count)
    assert all(play(size, 40, made, table(), plan, size=size, is_exact=False).values())


@pytest.mark.parametrize("plan", PLANS)
def test_many_rows_change_under_several_topics(plan: str) -> None:
    made = query(["k", "y", "x"], "y", 2, equal="e")
    assert all(play(9, 40, made, table(), plan, size=6, is_exact=False).values())


@pytest.mark.parametrize("plan", PLANS)
def test_regions_that_are_too_wide_do_no_harm(plan: str) -> None:
    """A row that only moves is not selected with its x: those that have it before and after are not notified."""
    made = query(["k", "y"], "y", 5)
    assert all(play(11, 120, made, table(), plan, max_boxes=1, is_exact=False).values())


@pytest.mark.parametrize("plan", PLANS)
def test_too_many_candidates(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prosem.types.top_k.space.MOST_CANDIDATES", 1)
    assert all(play(13, 60, query(["k", "y", "x"], "y", 3), table(), plan).values())


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("seed", range(40))
def test_long_histories(plan: str, seed: int) -> None:
    chance = random.Random(seed)
    made = query(
        ["k", "y", *chance.sample(["x", "e", "note"], 2)],
        "y",
        chance.randint(1, 6),
        is_descending=chance.random() < 0.5,
        nulls_first=chance.choice([None, True, False]),
        ranged=chance.choice(["x", "x", None]),
        equal=chance.choice(["e", None]) if seed % 2 else None,
    )
    size, boxes = chance.choice([1, 1, 4]), chance.choice([1, 2, 128])
    is_exact = size == 1 and boxes == 128
    play(
        seed,
        200,
        made,
        table(chance.choice(["integer", "text"])),
        plan,
        size=size,
        max_boxes=boxes,
        is_exact=is_exact,
    )
