"""Rows by join key and code, against plain lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prosem.index.joins import join_keys
from prosem.index.joins.join_keys import JoinKeys

KEY, CODE = st.sampled_from("abc"), st.integers(0, 9)


@given(st.lists(st.tuples(KEY, CODE), max_size=60), st.data())
def test_against_lists(rows: list[tuple[str, int]], data: st.DataObject) -> None:
    entries = [(key, (code, (number,), f"row {number}")) for number, (key, code) in enumerate(rows)]
    half = len(entries) // 2
    index = JoinKeys(entries[:half])
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
    for key in "abcd":
        mine = sorted(entry for other, entry in left if other == key)
        assert list(index.at(key)) == mine
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


def test_what_is_not_there() -> None:
    index = JoinKeys([("k", (1, (1,)))])
    for key, entry in (("x", (1, (1,))), ("k", (2, (1,))), ("k", (1, (2,)))):
        with pytest.raises(KeyError):
            index.remove(key, entry)
    index.add("k", (5, (5,)))
    with pytest.raises(KeyError):
        index.remove("k", (5, (6,)))
