"""Labels against a list kept in order by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prosem.index.radii import labels as module
from prosem.index.radii.labels import LAST, LONG_LIST, ORIGIN, STEP, Labels
from tests.support.effort import examples

Steps = list[tuple[str, int]]


class Circle:
    """Names in circular order, the label of each, and how often it was given out."""

    def __init__(self) -> None:
        self.labels = Labels()
        self.order: list[int] = []
        self.label: dict[int, int] = {}
        self.times: dict[int, int] = {}
        self.moves = 0

    def step(self, kind: str, choice: int) -> None:
        name = self.order[choice % len(self.order)] if self.order else None
        if kind == "insert":
            label, moved = self.labels.insert(None if name is None else self.label[name])
            after = dict(moved)
            assert all(old != new for old, new in moved)
            assert set(after) <= set(self.label.values())
            self.label = {held: after.get(old, old) for held, old in self.label.items()}
            fresh = len(self.times)
            self.order.insert(0 if name is None else self.order.index(name) + 1, fresh)
            self.label[fresh], self.times[fresh] = label, 1
            self.moves += len(moved)
        elif name is not None and kind == "add":
            self.labels.add(self.label[name])
            self.times[name] += 1
        elif name is not None:
            self.times[name] -= 1
            assert self.labels.remove(self.label[name]) == (not self.times[name])
            if not self.times[name]:
                self.order.remove(name)
                del self.label[name]

    def check(self) -> None:
        self.labels.check()
        assert list(self.labels) == sorted((self.label[name], self.times[name]) for name in self.order)
        assert len(self.labels) == sum(self.times.values())
        for before, name in zip([*self.order[-1:], *self.order[:-1]], self.order, strict=True):
            assert self.labels.next(self.label[before]) == self.label[name]
            assert self.labels.previous(self.label[name]) == self.label[before]


steps = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "insert", "add", "remove"]), st.integers(0, 50)),
    max_size=60,
)


@given(steps)
@settings(max_examples=examples(150), deadline=None)
def test_a_history(history: Steps) -> None:
    circle = Circle()
    for kind, choice in history:
        circle.step(kind, choice)
        circle.check()


@given(steps)
@settings(max_examples=examples(150), deadline=None)
def test_a_history_in_a_small_space(history: Steps) -> None:
    """Twelve bits: both ends are reached, and labels move at every other step."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in {"BITS": 12, "LAST": 4095, "ORIGIN": 2048, "STEP": 700, "LONG_LIST": 16}.items():
            patch.setattr(module, name, number)
        circle = Circle()
        for kind, choice in history:
            if kind == "insert" and len(circle.order) > 20:
                kind = "remove"
            circle.step(kind, choice)
            circle.check()


@pytest.mark.parametrize(
    "where",
    [
        lambda labels, rng: labels.first,
        lambda labels, rng: labels.last,
        lambda labels, rng: labels.previous(labels.last),
        lambda labels, rng: rng.choice(labels._order),
    ],
    ids=["after the first", "after the last", "before the last", "anywhere"],
)
def test_few_labels_move(where: Callable[[Labels, random.Random], int]) -> None:
    """At most log2 N of them for each new label, on average, wherever it goes."""
    labels, rng, moves, count = Labels(), random.Random(5), 0, 6 * LONG_LIST
    labels.insert(labels.insert(None)[0])
    for _ in range(count):
        moves += len(labels.insert(where(labels, rng))[1])
    labels.check()
    assert labels.distinct == count + 2
    assert moves <= count * math.log2(count)


def test_the_circle_closes() -> None:
    labels = Labels([(STEP + 7, 1), (LAST, 1)])
    assert labels.insert(LAST) == (7, [])  # no room behind the last: before the first
    label, moved = labels.insert(LAST)
    ((last, now),) = moved
    assert (last, labels.previous(label), labels.next(label)) == (LAST, now, 7)
    labels.check()


def test_a_full_space_is_noticed_before_anything_changes() -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, number in {"BITS": 4, "LAST": 15, "STEP": 16}.items():
            patch.setattr(module, name, number)
        labels = Labels([(0, 1), (1, 1), (2, 1), (15, 1)])
        before = list(labels)
        with pytest.raises(OverflowError):
            labels.insert(0)
        assert list(labels) == before
        labels.check()


def test_what_is_not_there() -> None:
    labels = Labels([(ORIGIN, 1)])
    for question in (labels.next, labels.previous, labels.add, labels.remove, labels.times, labels.insert):
        with pytest.raises(KeyError):
            question(ORIGIN + 1)
    assert list(labels) == [(ORIGIN, 1)]


def test_a_long_list_and_back() -> None:
    circle, rng = Circle(), random.Random(3)
    for _ in range(LONG_LIST + 50):
        circle.step("insert", rng.randrange(10**6))
    circle.check()
    while len(circle.order) > LONG_LIST // 5:
        circle.step("remove", rng.randrange(10**6))
    circle.check()
