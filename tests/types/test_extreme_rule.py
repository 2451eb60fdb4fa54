"""The rule of extremes against every subscription of a small domain."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import Interval, contains
from prosem.index.order import Descending
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.types.extreme.rule import Piece, pieces, step
from tests.support.effort import examples
from tests.support.makers import both

Place = tuple[int, int] | None
judged = both(A2BTree, "A2BTree")


def minimum(table: dict[Any, tuple[Any, Any]], low: Any, high: Any) -> Any:
    return min((y for x, y in table.values() if low <= x <= high), default=None)


def verify(before: dict[Any, Any], after: dict[Any, Any], made: list[Piece], xs: list[Any]) -> None:
    """Each subscription is notified of its new minimum once if it changed, and of nothing otherwise."""
    for piece in made:
        assert piece.region
        assert not any(side.is_empty() for box in piece.region for side in box)
    for low, high in product(xs, xs):
        hits = [piece for piece in made for box in piece.region if contains((box,), (low, high))]
        old, new = minimum(before, low, high), minimum(after, low, high)
        if old == new:
            assert not hits, (low, high, hits)
            continue
        assert len(hits) == 1, (low, high, old, new, hits)
        assert hits[0].y == new
        if new is None:
            assert hits[0].ref is None
        else:
            x, y = after[hits[0].ref]
            assert low <= x <= high
            assert y == new


def play(make: Any, history: list[tuple[Any, Place]], fan_out: int, code_x: Any, code_y: Any) -> None:
    """Run events (reference, new place) by the rule on the tree without the tuple and by `step`; compare."""
    table: dict[Any, Any] = {}
    tree, stepped = make(fan_out), make(fan_out)
    for ref, place in history:
        old = table.get(ref)
        new = None if place is None else (code_x(place[0]), code_y(place[1]))
        after = {key: at for key, at in table.items() if key != ref} | ({} if new is None else {ref: new})
        if old is not None:
            tree.remove(old[0], old[1], ref)
        made = pieces(tree, old, None if new is None else (*new, ref))
        if new is not None:
            tree.add(*new, ref)
        verify(table, after, made, [code_x(n) for n in range(-1, 9)])
        assert {(p.region, p.y) for p in step(stepped, old, new, ref)} == {(p.region, p.y) for p in made}
        stepped.check()
        assert {(x, y, key) for key, (x, y) in after.items()} == {*tree} == {*stepped}
        table = after


SCALES = {
    "integers": (lambda n: n, lambda n: n),
    "texts": (lambda n: f"{n + 1:03}", lambda n: f"{n:03}"),
    "descending": (lambda n: n, lambda n: Descending(str(n))),
}
places = st.one_of(st.none(), st.tuples(st.integers(0, 7), st.integers(0, 4)))


@judged
@pytest.mark.parametrize("scale", SCALES)
@given(
    history=st.lists(st.tuples(st.integers(0, 11), places), max_size=40),
    fan_out=st.sampled_from([4, 5, 64]),
)
@settings(max_examples=examples(25), deadline=None)
def test_exactly_the_affected(make: Any, scale: str, history: Any, fan_out: int) -> None:
    if make is not A2BTree and scale != "integers":
        pytest.skip("no 64-bit codes")
    play(make, history, fan_out, *SCALES[scale])


@judged
@pytest.mark.parametrize("heights", [2, 4, 40])
@pytest.mark.parametrize("moving", [0.0, 0.3, 1.0])
def test_long_histories(make: Any, heights: int, moving: float) -> None:
    """A fuller table than a short history makes: mostly updates, from many ties to few."""
    rng = random.Random(heights * 10 + int(moving * 10))
    at: dict[int, int] = {}
    history: list[tuple[int, Place]] = []
    for _ in range(120):
        ref = rng.randrange(12)
        if ref not in at or rng.random() < moving:
            at[ref] = rng.randrange(8)
        if rng.random() < 0.1:
            del at[ref]
            history.append((ref, None))
        else:
            history.append((ref, (at[ref], rng.randrange(heights))))
    play(make, history, 4, *SCALES["integers"])


@pytest.mark.slow
@judged
@pytest.mark.parametrize("seed", range(60))
def test_longer_histories(make: Any, seed: int) -> None:
    rng = random.Random(seed)
    history = [
        (rng.randrange(14), None if rng.random() < 0.1 else (rng.randrange(8), rng.randrange(5)))
        for _ in range(600)
    ]
    play(make, history, 4, *SCALES["integers"])


# -- the worked example of [ProSem thesis] ----------------------------------------------------------------------
STOCKS = {
    "t1": (20, 3),
    "t2": (100, 2),
    "t3": (30, 8),
    "t4": (40, 12),
    "t5": (50, 5),
    "t6": (70, 6),
    "t7": (70, 11),
}


def messages(symbol: str, new_y: int) -> list[tuple[Any, ...]]:
    """⟨new minimum, inner left, inner right, outer left, outer right⟩ of an update of the worked example."""
    x, y = STOCKS[symbol]
    tree = A2BTree().build((*place, key) for key, place in STOCKS.items() if key != symbol)
    made = pieces(tree, (x, y), (x, new_y, symbol))
    tree.add(x, y, symbol)
    assert step(tree, (x, y), (x, new_y), symbol) == made
    return [
        (p.y, p.region[0][0].high, p.region[0][1].low, p.region[0][0].low, p.region[0][1].high) for p in made
    ]


def test_a_good_update() -> None:
    assert messages("t4", 4) == [(4, 40, 40, 20, 100)]


def test_a_bad_update() -> None:
    assert messages("t5", 9) == [(9, 50, 50, 30, 70), (8, 30, 50, 20, 70), (6, 50, 70, 20, 100)]


@pytest.mark.parametrize(("symbol", "new_y"), [("t7", 7), ("t7", 20), ("t4", 12)])
def test_an_ignorable_update(symbol: str, new_y: int) -> None:
    assert messages(symbol, new_y) == []


# -- single cases ------------------------------------------------------------------------------------------
def test_the_last_tuple_leaves_null() -> None:
    everywhere = (Interval(None, 5, True, False), Interval(5, None, False, True))
    assert pieces(A2BTree(), (5, 1), None) == [Piece((everywhere,), None, None)]
    assert pieces(A2BTree(), None, (5, 1, "t")) == [Piece((everywhere,), 1, "t")]
    assert pieces(A2BTree(), None, None) == step(A2BTree(), None, None, "t") == []


def test_a_tie_of_the_new_height_is_notified_with_the_neighbour() -> None:
    """Raised to the height of its neighbours: ranges with one of them get the value from there."""
    tree = A2BTree().build([(4, 9, "left"), (6, 9, "right")])
    made = pieces(tree, (5, 1), (5, 9, "t"))
    assert [(piece.y, piece.ref) for piece in made] == [(9, "t"), (9, "left"), (9, "right")]


def test_a_minimum_that_only_moves() -> None:
    """Ranges with both places are not notified; those with one are."""
    tree = A2BTree().build([(1, 2, "a"), (9, 2, "b")])
    made = pieces(tree, (4, 3), (6, 3, "t"))
    assert sorted((piece.y is None, len(piece.region)) for piece in made) == [(False, 1), (True, 1)]
    assert not any(contains(piece.region, (4, 6)) for piece in made)
