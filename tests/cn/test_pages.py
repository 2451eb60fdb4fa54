"""Pages of a distributed B-tree against brute force, and how they are split, kept and replicated."""

from __future__ import annotations

from fractions import Fraction
from itertools import count, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import Box, Interval, Point, contains
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.pages import PageMap, meets
from cn.networks.range_tree import RangeRoot
from cn.simulation.network import SERVER
from cn.simulation.registry import make_simulated

LARGEST = 3
DENSE = [
    Fraction(code, 2) for code in range(-1, 2 * LARGEST + 2)
]  # a code between any two ends, and beyond them
codes = st.integers(0, LARGEST)


@st.composite
def sides(draw: st.DrawFn) -> Interval:
    low, high = sorted([draw(codes), draw(codes)])
    no_low, no_high, low_open, high_open = (draw(st.integers(0, 3)) == 3 for _ in range(4))
    return Interval(None if no_low else low, None if no_high else high, low_open, high_open)


@st.composite
def keys_and_box(draw: st.DrawFn) -> tuple[Point | None, Point | None, Box]:
    dimensions = draw(st.integers(1, 3))
    point = st.tuples(*[codes] * dimensions)
    low, high = sorted(draw(st.lists(point, min_size=2, max_size=2, unique=True)))
    box = draw(st.tuples(*[sides()] * dimensions))
    return (low if draw(st.booleans()) else None), (high if draw(st.booleans()) else None), box


@given(keys_and_box())
def test_keys_meet_a_box_if_and_only_if_a_point_is_in_both(made: Any) -> None:
    low, high, box = made
    expected = any(
        contains((box,), point) and (low is None or low <= point) and (high is None or point < high)
        for point in product(DENSE, repeat=len(box))
    )
    assert meets(low, high, box) == expected


@given(st.data())
def test_every_point_is_in_one_leaf_however_they_are_split(data: st.DataObject) -> None:
    dimensions = data.draw(st.integers(1, 3))
    code: st.SearchStrategy[Any] = data.draw(st.sampled_from([st.integers(0, 9), st.sampled_from("abcdefg")]))
    points = data.draw(st.lists(st.tuples(*[code] * dimensions), min_size=1, max_size=60))
    numbers = count(1)
    pages = PageMap(next(numbers), numbers, data.draw(st.integers(2, 4)))
    for _ in range(data.draw(st.integers(1, 25))):
        leaf = data.draw(st.sampled_from([one for one in pages.numbers() if not pages.branches(one)]))
        inside = [one for one in points if pages.locate(one) == leaf]
        new = pages.split(leaf, inside, next(numbers)) if inside else None
        pages.check()
        if new is not None:
            assert {pages.locate(one) for one in inside} == {leaf, new}
    for point in points:
        ranges = {one: pages.range_of(one) for one in pages.numbers() if not pages.branches(one)}
        holding = [
            one
            for one, (low, high) in ranges.items()
            if (low is None or low <= point) and (high is None or point < high)
        ]
        assert holding == [pages.locate(point)]


def test_an_inner_page_is_never_split_from_outside() -> None:
    numbers = count(1)
    pages = PageMap(next(numbers), numbers, 2)
    pages.split(1, [(1,), (2,)], next(numbers))
    assert pages.split(pages.top, [(1,), (2,)], next(numbers)) is None
    with pytest.raises(ValueError, match="room for 2"):
        PageMap(1, numbers, 1)


def test_radii_have_pages_and_one_radius_with_many_labels_has_some_of_its_own() -> None:
    heard: list[tuple[int, list[int]]] = []
    network = make_simulated(
        "range-tree",
        lambda message, ids: heard.append((message.seq, sorted(map(int, ids)))),
        lambda seq: None,
        brokers=[f"b{at}" for at in range(30)],
        options={"fan_out": 3},
    )
    root = network.root
    assert isinstance(root, RangeRoot)
    plane = Space(1, 2, True)
    for id in range(600):
        network.register(plane, id, b"AAPL", (id, 0) if id < 300 else (150, id))
    network.watermark(0)
    network.check()
    assert max(map(len, root.placements.parts.values())) <= root._share()
    before = {link["to"]: link["messages"] for link in network.links() if link["from"] == SERVER}
    whole = Message(1, 0, 1, "value", b"AAPL", ((Interval(20, 24), Interval()),))
    arc = Message(2, 0, 1, "value", b"AAPL", ((Interval(150, 150), Interval(400, 420)),))
    for message in (whole, arc):
        network.inject(message)
        network.watermark(message.seq)
    assert heard == [(1, [20, 21, 22, 23, 24]), (2, list(range(400, 421)))]
    sent = {link["to"]: link["messages"] for link in network.links() if link["from"] == SERVER}
    assert sum(sent.values()) - sum(before.values()) <= 4, "the server sends a message down where it leads"
    busy = [Message(seq, 0, 1, "value", b"AAPL", ((Interval(7, 7), Interval()),)) for seq in range(3, 400)]
    for message in busy:
        network.inject(message)
        network.watermark(message.seq)
    network.check()
    leaf = root.placements.maps[1].locate((b"AAPL", 7, 0))
    assert len(root.owners[leaf]) > 1, "a busy page is kept more than once"
    assert heard[2:] == [(message.seq, [7]) for message in busy]
