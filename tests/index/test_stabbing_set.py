"""Stabbing sets: every interval holds an anchor, and there are at most twice as many as a greedy optimum needs."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cn.match import kernels
from cn.model.geometry import BOTTOM, TOP
from prosem.index.joins.interval_blocks import IntervalBlocks, interval_blocks
from prosem.index.joins.stabbing_set import StabbingSet
from tests.support.effort import examples
from tests.support.makers import COMPILED, both, is_built

CODE = st.integers(0, 24)
INTERVAL = st.tuples(CODE, CODE).map(lambda ends: (min(ends), max(ends)))


def fewest(intervals: list[tuple[int, int]]) -> int:
    """The least number of points that stab all: by upper ends, each time one is missed."""
    count, last = 0, None
    for low, high in sorted(intervals, key=lambda interval: interval[1]):
        if last is None or low > last:
            count, last = count + 1, high
    return count


in_both = both(IntervalBlocks, "IntervalBlocks")


def small(make: Any, int64: bool = True) -> StabbingSet:
    return StabbingSet(int64, intervals=make(int64, block_size=4))


class Changes(RuleBasedStateMachine):
    make: ClassVar[Any] = IntervalBlocks

    def __init__(self) -> None:
        super().__init__()
        self.index = small(self.make)
        self.held: Counter[tuple[int, int]] = Counter()

    @rule(interval=INTERVAL)
    def add(self, interval: tuple[int, int]) -> None:
        self.index.add(*interval, 0)
        self.held[interval] += 1

    @rule(intervals=st.lists(INTERVAL, max_size=12))
    def add_many(self, intervals: list[tuple[int, int]]) -> None:
        self.index.add_many(intervals, [0] * len(intervals))
        self.held.update(intervals)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(sorted(self.held)))
        self.index.remove(*gone, 0)
        self.held[gone] -= 1
        self.held = +self.held

    @invariant()
    def near_the_least(self) -> None:
        self.index.check()
        everything = list(self.held.elements())
        assert len(self.index) == len(everything)
        least = fewest(everything)
        assert least <= len(self.index.anchors) <= 2 * least
        for low in range(0, 24, 5):
            for high in range(low, 25, 4):
                inside = any(low < a and b < high for a, b in everything)
                assert self.index.any_between(low, high) == inside


class CompiledChanges(Changes):
    make = None if COMPILED is None else COMPILED.IntervalBlocks


Changes.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
CompiledChanges.TestCase.settings = Changes.TestCase.settings
TestChanges = Changes.TestCase
TestCompiledChanges = is_built(CompiledChanges.TestCase)


ENDS = st.tuples(st.none() | CODE, st.none() | CODE)


@in_both
@given(intervals=st.lists(INTERVAL, max_size=60), asked=st.lists(ENDS, max_size=8))
def test_the_interval_that_ends_first(
    make: Any, intervals: list[tuple[int, int]], asked: list[tuple[int | None, int | None]]
) -> None:
    blocks = make(True, block_size=4)
    held = [(low, high, ref) for ref, (low, high) in enumerate(intervals)]
    for one in held[::2]:
        blocks.add(*one)
    blocks.add_many([one[:2] for one in held[1::2]], [one[2] for one in held[1::2]])
    for one in held[::3]:
        blocks.remove(*one)
    blocks.check()
    left = set(held) - set(held[::3])
    assert sorted(blocks) == sorted(left)
    for after, before in asked:
        behind = [one for one in left if after is None or one[0] > after]
        rest = [one for one in behind if before is None or one[0] < before]
        found = blocks.first_end(after, before)
        assert (found is None) == (not rest)
        if found is not None:
            assert found in [one[:2] for one in rest]
            assert found[1] == min(one[1] for one in rest)
        if after is not None and before is not None:
            inside = sorted(one[2] for one in rest if one[1] < before)
            listed = blocks.inside(after, before, 5)
            assert sorted(listed) == inside if listed is not None else len(inside) > 5 or before - after > 4


@in_both
@given(intervals=st.lists(INTERVAL, max_size=60))
def test_a_batch_has_the_least_number(make: Any, intervals: list[tuple[int, int]]) -> None:
    index = small(make)
    index.add_many(intervals, range(len(intervals)))
    index.check()
    assert len(index.anchors) == fewest(intervals)


def test_codes_that_are_no_integers() -> None:
    index = small(IntervalBlocks, int64=False)
    index.add_many([("b", "d"), (BOTTOM, "a"), ("c", TOP)], [1, 2, 3])
    index.add("x", "x", 4)
    index.check()
    assert index.anchors == ["a", "d", "x"]
    index.remove("b", "d", 1)
    index.check()
    assert index.anchors == ["a", "x"]


@in_both
def test_what_is_not_there(make: Any) -> None:
    index = small(make)
    with pytest.raises(KeyError):
        index.remove(1, 2, 7)
    index.add(1, 3, 7)
    for interval in ((1, 2, 7), (1, 3, 8)):
        with pytest.raises(KeyError):
            index.remove(*interval)
    index.check()


@is_built
def test_codes_of_64_bits_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", lambda: COMPILED)
    assert type(interval_blocks(True)) is COMPILED.IntervalBlocks
    assert type(interval_blocks(False)) is IntervalBlocks
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    assert type(interval_blocks(True)) is IntervalBlocks


@in_both
@pytest.mark.parametrize("count", [20_000])
def test_many(make: Any, count: int) -> None:
    """Blocks of the usual size, a batch, single changes, and everything out again."""
    random = np.random.default_rng(3)
    low = random.integers(0, 100_000, count)
    intervals = np.column_stack([low, low + np.abs(random.normal(6_000, 5_000, count)).astype(np.int64)])
    index = StabbingSet(int64=True, intervals=make(int64=True))
    index.add_many(intervals[: count // 2], range(count // 2))
    for ref, one in enumerate(intervals[count // 2 :].tolist(), count // 2):
        index.add(*one, ref)
    index.check()
    order = random.permutation(count).tolist()
    for ref in order[: count - 500]:
        index.remove(*intervals[ref].tolist(), ref)
    index.check()
    rest = {ref: tuple(intervals[ref].tolist()) for ref in order[count - 500 :]}
    assert len(index.anchors) <= 2 * fewest(list(rest.values()))
    for ref, one in rest.items():
        index.remove(*one, ref)
    index.check()
    assert index.anchors == []
