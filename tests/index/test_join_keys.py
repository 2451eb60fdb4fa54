"""Rows by join key and code, in Python and compiled, against plain lists."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.joins import join_keys
from prosem.index.joins.join_keys import JoinKeys
from tests.support.effort import examples
from tests.support.makers import COMPILED, both, is_built

judged = both(JoinKeys, "JoinKeys")
KEY, CODE = st.sampled_from("abc"), st.integers(0, 9)


@judged
@given(rows=st.lists(st.tuples(KEY, CODE), max_size=60), data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_against_lists(make: Any, rows: list[tuple[str, int]], data: st.DataObject) -> None:
    entries = [(key, (code, (number,), f"row {number}")) for number, (key, code) in enumerate(rows)]
    half = len(entries) // 2
    index = make(entries[:half])
    index.check()
    for key, entry in entries[half:]:
        index.add(key, entry)
    gone = data.draw(st.sets(st.sampled_from(range(len(entries))))) if entries else set()
    for number in sorted(gone):
        index.remove(*entries[number])
    index.check()
    left = [one for number, one in enumerate(entries) if number not in gone]
    assert len(index) == len(left)
    assert index.keys == len({key for key, _ in left})
    code, low, high = data.draw(CODE), data.draw(st.none() | CODE), data.draw(st.none() | CODE)
    assert sorted(index) == sorted({key for key, _ in left})
    for key in "abcd":
        mine = sorted(entry for other, entry in left if other == key)
        held = index.at(key)
        assert list(held) == mine
        assert [held[at] for at in range(-len(mine), len(mine))] == mine * 2
        assert len(held) == len(mine)
        for number, (_, entry) in enumerate(entries):
            assert index.holds(key, entry) == (entry in mine)
            assert not index.holds(key, (entry[0], (number + 1_000,)))
        start, stop = index.span(key, low, high)
        assert mine[start:stop] == list(index.within(key, low, high))
        assert (key in index) == bool(mine)
        inside = [e for e in mine if (low is None or low <= e[0]) and (high is None or e[0] <= high)]
        assert list(index.within(key, low, high)) == inside
        assert index.any_within(key, low, high) == bool(inside)
        codes = [entry[0] for entry in mine]
        expected = (
            None
            if code in codes
            else (max((c for c in codes if c < code), default=None), min((c for c in codes if c > code), default=None))
        )  # fmt: skip
        assert index.neighbours(key, code) == expected


def test_a_key_grows_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_keys, "LONG_LIST", 16)
    index = JoinKeys()
    for number in range(40):
        index.add("k", (number * 7 % 40, (number,), object()))
        index.check()
    assert [entry[0] for entry in index.within("k", 5, 8)] == [5, 6, 7, 8]
    assert index.neighbours("k", 50) == (39, None)
    for number in range(40):
        index.remove("k", (number * 7 % 40, (number,)))
        index.check()
    assert len(index) == index.keys == 0


@judged
def test_many_rows_of_a_key(make: Any) -> None:
    """Several blocks of them, with few codes and with many; rows come and go in any order."""
    chance = random.Random(5)
    for codes in (7, 10**6):
        rows: Any = {number: (chance.randrange(codes), (number,), "row") for number in range(5_000)}
        index = make(("k", entry) for entry in rows.values() if entry[1][0] < 2_500)
        for number in range(2_500, 5_000):
            index.add("k", rows[number])
        gone = chance.sample(range(5_000), 4_990)
        for at, number in enumerate(gone):
            if at % 500 == 0:
                index.check()
                mine = sorted(rows.values())
                assert list(index.at("k")) == mine
                for low in (0, 3, codes // 2):
                    inside = [entry for entry in mine if low <= entry[0] <= low + codes // 3]
                    assert list(index.within("k", low, low + codes // 3)) == inside
                    assert index.any_within("k", low, low + codes // 3)
                    start, stop = index.span("k", low, low + codes // 3)
                    assert mine[start:stop] == inside
                    before, behind = mine[:start], mine[stop:]
                    assert start == len(before)
                    assert index.at("k")[start] == mine[start]
                    if behind:
                        assert index.at("k")[stop] == behind[0]
                assert not index.any_within("k", codes, None)
                assert all(index.holds("k", entry) for entry in rows.values())
                assert not any(index.holds("k", (entry[0], (-1,))) for entry in mine)
                assert index.neighbours("k", codes) == (mine[-1][0], None)
                assert index.neighbours("k", -1) == (None, mine[0][0])
            index.remove("k", rows.pop(number))
        index.check()
        assert list(index.at("k")) == sorted(rows.values())
        assert len(index) == 10


@judged
def test_keys_are_those_of_a_dictionary(make: Any) -> None:
    """Integers and decimals of one value are one key: tables may be joined by columns of both."""
    index = make([((1,), (5, (1,)))])
    index.add((Decimal("1.00"),), (6, (2,)))
    assert index.keys == 1
    assert [entry[0] for entry in index.at((Decimal(1),))] == [5, 6]
    index.remove((1,), (6, (2,)))
    index.remove((Decimal(1),), (5, (1,)))
    assert (1,) not in index
    assert list(index) == []


@is_built
def test_null_in_a_primary_key_comes_first_where_it_is_compiled() -> None:
    entries = [(1, (2, 5)), (1, (None, 7)), (1, (2, None)), (0, (9, 9))]
    index = COMPILED.JoinKeys([("k", entry) for entry in entries[:2]])
    for entry in entries[2:]:
        index.add("k", entry)
    index.check()
    assert [entry[1] for entry in index.at("k")] == [(9, 9), (None, 7), (2, None), (2, 5)]
    index.remove("k", (1, (2, None)))
    assert index.holds("k", (1, (None, 7)))
    assert not index.holds("k", (1, (2, None)))


@is_built
def test_what_the_compiled_one_refuses() -> None:
    index = COMPILED.JoinKeys([("k", (1, (1,), "row")), ("k", (1, (2,), "row"))])
    held = index.at("k")
    with pytest.raises(IndexError):
        held[2]
    for entry in [(2**63, (1,)), ("1", (1,)), (1,), [1, (1,)], (1, ("1",))]:
        with pytest.raises((OverflowError, TypeError)):
            index.add("k", entry)
        index.check()
    assert len(held) == len(index) == 2
    index.add("x", (2**63 - 1, (3,)))
    with pytest.raises(RuntimeError, match="after a change"):
        len(held)
    with pytest.raises(ValueError, match="pairs"):
        COMPILED.JoinKeys([("k",)])


@judged
def test_what_is_not_there(make: Any) -> None:
    index = make([("k", (1, (1,)))])
    for key, entry in (("x", (1, (1,))), ("k", (2, (1,))), ("k", (1, (2,)))):
        with pytest.raises(KeyError):
            index.remove(key, entry)
    index.add("k", (5, (5,)))
    with pytest.raises(KeyError):
        index.remove("k", (5, (6,)))
