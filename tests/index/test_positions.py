"""The positions of one value against a plain sorted list."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.ranges import positions
from prosem.index.ranges.positions import LONG_LIST, Positions
from tests.support.effort import examples

SCALES: dict[str, Callable[[int], Any]] = {"integers": lambda n: n, "texts": lambda n: f"{n:04}"}


def agree(places: Positions, held: list[Any], xs: list[Any]) -> None:
    """Every question at these places gives what a scan gives."""
    places.check()
    assert list(places) == sorted(held)
    assert len(places) == len(held)
    for x in xs:
        before, after = [a for a in held if a < x], [a for a in held if a > x]
        expected = None if x in held else (max(before, default=None), min(after, default=None))
        assert places.neighbours(x) == expected
        assert places.any_in(None, x) == any(a <= x for a in held)
        for high in [None, *xs]:
            assert places.any_in(x, high) == any(x <= a and (high is None or a <= high) for a in held)
    assert places.any_in() == bool(held)


@pytest.mark.parametrize("scale", SCALES)
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=40))
@settings(max_examples=examples(40), deadline=None)
def test_histories(scale: str, steps: list[tuple[bool, int]]) -> None:
    code = SCALES[scale]
    places, held = Positions(), []
    xs = [code(n) for n in range(-1, 11)]
    for adds, n in steps:
        x = code(n)
        if adds:
            places.add(x)
            held.append(x)
        elif x in held:
            places.remove(x)
            held.remove(x)
        else:
            with pytest.raises(KeyError):
                places.remove(x)
        agree(places, held, xs)
        agree(Positions(held), held, xs)


@pytest.mark.parametrize("long_list", [16, LONG_LIST])
def test_from_one_to_many_and_back(long_list: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "LONG_LIST", long_list)
    rng = random.Random(long_list)
    held = [rng.randrange(long_list) for _ in range(3 * long_list)]
    places, rest = Positions(), []
    kinds = set()
    for count, x in enumerate(held):
        places.add(x)
        rest.append(x)
        kinds.add(type(places._held).__name__)
        if count % (long_list // 4) == 0:
            agree(places, rest, [-1, x, long_list // 2, long_list])
    rng.shuffle(rest)
    while rest:
        places.remove(rest.pop())
        kinds.add(type(places._held).__name__)
        if len(rest) % (long_list // 4) == 0:
            agree(places, rest, [-1, 0, long_list // 2, long_list])
    assert kinds == {"NoneType", "int", "list", "SortedList"}
    with pytest.raises(KeyError):
        places.remove(0)


def test_a_sorted_list_of_lists_says_what_is_missing() -> None:
    places = Positions(range(2 * LONG_LIST))
    with pytest.raises(KeyError):
        places.remove(-1)
    assert places.neighbours(-5) == (None, 0)
    assert places.neighbours(2 * LONG_LIST) == (2 * LONG_LIST - 1, None)
