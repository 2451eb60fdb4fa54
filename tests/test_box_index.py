"""The box index against a scan over all filters."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.geometry import Extent, Filters, Interval
from cn.match.box_index import BoxIndex
from cn.match.fastint import ALTERNATIVES

ATTRIBUTES = 3
codes = st.integers(0, 4)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    null = draw(st.booleans())
    if draw(st.booleans()):
        members = sorted(draw(st.sets(codes, max_size=3)))
        return Extent(tuple(Interval(code, code) for code in members), null)
    low, high = draw(st.none() | codes), draw(st.none() | codes)
    return Extent((Interval(low, high, draw(st.booleans()), draw(st.booleans())),), null)


filters = st.lists(st.dictionaries(st.integers(0, ATTRIBUTES - 1), extents(), max_size=3), max_size=3).map(
    tuple
)
vectors = st.tuples(*[st.none() | codes] * ATTRIBUTES)


def scan(known: dict[int, Filters], vector: tuple[int | None, ...]) -> list[int]:
    holds = lambda one: all(vector[attribute] in extent for attribute, extent in one.items())
    return sorted(id for id, several in known.items() if any(map(holds, several)))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_history_agrees_with_a_scan(data: st.DataObject) -> None:
    index, known = BoxIndex(), dict[int, Filters]()
    for id in range(data.draw(st.integers(1, 20))):
        action = data.draw(st.sampled_from(["insert", "insert", "insert", "update", "remove"]))
        if action == "insert":
            known[id] = data.draw(filters)
            index.insert(id, known[id])
        elif known:
            other = data.draw(st.sampled_from(sorted(known)))
            if action == "remove":
                del known[other]
                index.remove(other)
            else:
                known[other] = data.draw(filters)
                index.update(other, known[other])
        index.check()
        assert len(index) == len(known)
        vector = data.draw(vectors)
        assert sorted(index.match(vector)) == scan(known, vector)
    for id in known:
        index.remove(id)
    index.check()
    assert index.match((None,) * ATTRIBUTES) == []


def test_no_filter_holds_nothing_and_an_empty_one_everything() -> None:
    index = BoxIndex()
    index.insert(1, ())
    index.insert(2, ({},))
    index.insert(3, ({0: Extent(())},))
    index.check()
    assert index.match((None,)) == [2]
    assert len(index) == 3
    assert 3 in index


def test_ids_are_known_once() -> None:
    index = BoxIndex()
    index.insert(1, ({},))
    with pytest.raises(KeyError):
        index.insert(1, ())
    with pytest.raises(KeyError):
        index.update(2, ())
    with pytest.raises(KeyError):
        index.remove(2)
    index.check()
    assert index.match(()) == [1]


def test_an_equality_spares_the_scan() -> None:
    chance = random.Random(3)
    index = BoxIndex()
    for id in range(5000):
        index.insert(id, ({0: Extent((Interval(id % 2, id % 2),)), 1: Extent((Interval(id, id),))},))
    for id in chance.sample(range(5000), 20):
        assert index.match((id % 2, id)) == [id]
    assert index.visits < 20 * 20  # the attribute with many codes was taken, not the one with two
    index.check()


def test_long_lists_of_codes_are_scanned() -> None:
    index = BoxIndex()
    long = Extent(tuple(Interval(code, code) for code in range(ALTERNATIVES + 1)))
    index.insert(1, ({0: long},))
    index.check()
    assert index.match((ALTERNATIVES,)) == [1]
    assert index.match((ALTERNATIVES + 1,)) == []
    assert index.visits == 2
