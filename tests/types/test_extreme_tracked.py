"""The rule for edges that hold the row of a minimum: after each delta every range holds a current row."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.model.geometry import contains
from prosem.index.boxes.kd_tree import MinKdTree
from prosem.index.order import Descending
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.types.extreme import tracked_rule
from prosem.types.extreme.rule import Piece
from tests.support.effort import examples

SCALES = {
    "integers": (lambda n: n, lambda n: n),
    "texts": (lambda n: f"{n + 1:03}", lambda n: f"{n:03}"),
    "descending": (lambda n: n, lambda n: Descending(str(n))),
}
Spot = tuple[Any, Any]
Version = tuple[Any, int]  # a reference, and which version of its row


class Ranges:
    """What each range holds: its minimum, the row that attains it, and which version of the row that is."""

    def __init__(self, xs: list[Any]) -> None:
        self.held: dict[tuple[Any, Any], tuple[Any, Version | None]] = dict.fromkeys(
            product(xs, xs), (None, None)
        )

    def take(self, pieces: list[Piece], versions: dict[Any, int]) -> None:
        for piece in pieces:
            assert piece.region
            assert not any(side.is_empty() for box in piece.region for side in box)
        for at in self.held:
            hits = [piece for piece in pieces if contains(piece.region, at)]
            assert len(hits) <= 1, "a range gets one piece"
            for piece in hits:
                row = None if piece.ref is None else (piece.ref, versions[piece.ref])
                self.held[at] = piece.y, row

    def check(self, table: dict[Any, Spot], versions: dict[Any, int]) -> None:
        for (low, high), (y, row) in self.held.items():
            inside = {ref: spot for ref, spot in table.items() if low <= spot[0] <= high}
            assert y == min((spot[1] for spot in inside.values()), default=None)
            if row is None:
                assert not inside
            else:
                ref, version = row
                assert inside[ref][1] == y
                assert version == versions[ref], "a row that has changed since"


spots = st.tuples(st.integers(0, 6), st.integers(0, 3))
events = st.lists(st.tuples(st.integers(0, 8), st.one_of(st.none(), spots, st.just("touched"))), max_size=40)


@pytest.mark.parametrize("scale", SCALES)
@given(events=events, fan_out=st.sampled_from([4, 64]))
@settings(max_examples=examples(40), deadline=None)
def test_no_row_goes_stale(scale: str, events: Any, fan_out: int) -> None:
    """`touched`: another column of the row changes."""
    code_x, code_y = SCALES[scale]
    tree, table = A2BTree(fan_out), dict[Any, Spot]()
    versions: dict[Any, int] = {}
    ranges = Ranges([code_x(n) for n in range(-1, 8)])
    for ref, spot in events:
        old = table.get(ref)
        new = old if spot == "touched" else None if spot is None else (code_x(spot[0]), code_y(spot[1]))
        versions[ref] = versions.get(ref, 0) + 1
        table = {key: at for key, at in table.items() if key != ref} | ({} if new is None else {ref: new})
        ranges.take(tracked_rule.step(tree, old, new, ref), versions)
        tree.check()
        assert {(x, y, key) for key, (x, y) in table.items()} == {*tree}
        ranges.check(table, versions)


points = st.tuples(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(0, 2))
box_events = st.lists(
    st.tuples(st.integers(0, 6), st.one_of(st.none(), points, st.just("touched"))), max_size=25
)


@given(events=box_events)
@settings(max_examples=examples(40), deadline=None)
def test_no_row_goes_stale_with_two_ranges(events: Any) -> None:
    tree, table = MinKdTree(2), dict[Any, Any]()
    versions: dict[Any, int] = {}
    ends = [(low, high) for low in range(3) for high in range(low, 3)]
    held: dict[Any, Any] = {(*x, *z): None for x in ends for z in ends}
    for ref, spot in events:
        old = table.get(ref)
        new = old if spot == "touched" else spot
        versions[ref] = versions.get(ref, 0) + 1
        table.pop(ref, None)
        if old is not None:
            tree.remove(*old, ref)
        if new is not None:
            table[ref] = new
            tree.add(*new, ref)
        for place in held:
            piece = tracked_rule.settle(tree, old, new, ref, place)
            if piece is not None:
                held[place] = None if piece.ref is None else (piece.y, piece.ref, versions[piece.ref])
            inside = {
                key: y
                for key, ((x, z), y) in table.items()
                if place[0] <= x <= place[1] and place[2] <= z <= place[3]
            }
            if held[place] is None:
                assert not inside
            else:
                y, key, version = held[place]
                assert y == min(inside.values()) == inside[key]
                assert version == versions[key], "a row that has changed since"
