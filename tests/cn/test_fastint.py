"""FASTINT's parts: images, SV trees, partitions with renewed cuts, and the benchmark in miniature."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import matching
from cn.match import partition
from cn.match.box_index import BoxIndex
from cn.match.image import canonical_nodes, cell_at, extent_bounds, image, interval_bounds, point
from cn.match.sv_tree import CHUNK, CUTS, SVTree, positions, quantiles
from cn.model.geometry import INT64_MAX, INT64_MIN, Extent, Filter, Filters, Interval
from tests.support.effort import examples
from tests.support.makers import COMPILED, is_built

judged = pytest.mark.parametrize(
    "module", [pytest.param(None, id="python"), pytest.param(COMPILED, id="compiled", marks=is_built)]
)

texts = st.text(st.sampled_from("ab\0é\U0010ffff"), max_size=10)
integers = st.integers(-(2**65), 2**65) | st.integers(-20, 20)
codes = st.one_of(integers, texts)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[Interval, Any]:
    """An interval and a code of the same kind."""
    kind = draw(st.sampled_from([integers, texts, st.integers(-3, 3)]))
    low, high = draw(st.none() | kind), draw(st.none() | kind)
    return Interval(low, high, draw(st.booleans()), draw(st.booleans())), draw(kind)


@given(st.tuples(integers, integers) | st.tuples(texts, texts))
def test_images_keep_the_order(pair: tuple[Any, Any]) -> None:
    low, high = sorted(pair)
    assert INT64_MIN <= image(low) <= image(high) <= INT64_MAX


@settings(max_examples=examples(400))
@given(intervals())
def test_bounds_hold_what_an_interval_holds_and_no_more_where_they_are_exact(
    drawn: tuple[Interval, Any],
) -> None:
    interval, code = drawn
    low, above, exact = interval_bounds(interval)
    inside = low <= image(code) and above <= ~image(code)
    assert inside or code not in interval
    if exact:
        assert inside == (code in interval)
    assert extent_bounds(Extent((interval,))) == (low, above, exact)


@settings(max_examples=examples(400))
@given(intervals())
def test_nodes_cover_their_interval(drawn: tuple[Interval, Any]) -> None:
    interval, code = drawn
    if interval.is_empty() or code not in interval:
        return
    single = point(interval)
    if single is not None:
        assert single[1] == code
        return
    nodes = canonical_nodes(interval)
    if nodes is not None:
        assert 1 <= len(nodes) <= 2
        assert (nodes[0][0], cell_at(code, nodes[0][0])) in nodes


def test_nodes_are_little_wider_than_their_interval() -> None:
    for width in (2, 5, 100, 10**9):
        nodes = canonical_nodes(Interval(12345, 12345 + width))
        assert nodes is not None
        assert width <= 2 ** nodes[0][0] <= 16 * width


members = st.lists(
    st.tuples(
        st.integers(-5, 5) | st.just(INT64_MIN), st.integers(-5, 5) | st.just(INT64_MAX), st.booleans()
    ),
    min_size=2,
    max_size=30,
)


def bounds(low: int, high: int) -> tuple[int, int]:
    return (low, ~high) if low <= high else (INT64_MAX, INT64_MAX)


@given(members, st.lists(st.integers(-5, 5), unique=True).map(sorted), st.randoms(use_true_random=False))
def test_a_tree_has_every_member_that_admits_a_code(
    ends: list[tuple[int, int, bool]], cuts: list[int], chance: random.Random
) -> None:
    tree, spread = SVTree(cuts), chance.sample(range(3 * CHUNK), len(ends))
    for position, (low, high, refuses) in zip(spread, ends, strict=True):
        tree.put(position, *bounds(low, high), refuses)
    for code in range(-6, 7):
        found = set(positions(tree.vector(code, 3)).tolist())
        exact = {at for at, (low, high, _) in zip(spread, ends, strict=True) if low <= code <= high}
        assert exact <= found
        assert len(found) == tree.count(code)
    nulls = {at for at, (_, _, refuses) in zip(spread, ends, strict=True) if not refuses}
    assert set(positions(tree.vector(None, 3)).tolist()) == nulls


@given(members)
def test_cuts_at_every_end_make_vectors_exact(ends: list[tuple[int, int, bool]]) -> None:
    pairs = [bounds(low, high) for low, high, _ in ends]
    low, above = (np.array(column) for column in zip(*pairs, strict=True))
    refuses = np.array([refused for _, _, refused in ends])
    tree = SVTree(quantiles(low, above))
    tree.fill(0, low, above, refuses)
    for code in range(-6, 7):
        holding = np.flatnonzero((low <= code) & (above <= ~code))
        assert positions(tree.vector(code, 1)).tolist() == holding.tolist()
    last = len(ends) - 1
    tree.move(last, 0)
    tree.check(*(np.concatenate((column[last:], column[1:last])) for column in (low, above, refuses)))
    tree.clear(0)
    assert all(0 not in positions(tree.vector(code, 1)) for code in (None, *range(-6, 7)))


def test_a_wrong_bit_is_noticed() -> None:
    low, above, refuses = np.array([1, 2]), np.array([~5, ~6]), np.array([True, False])
    tree = SVTree([2, 4])
    tree.fill(0, low, above, refuses)
    tree.check(low, above, refuses)
    tree.clear(1)
    with pytest.raises(AssertionError):
        tree.check(low, above, refuses)


def test_quantiles_part_the_ends_evenly() -> None:
    ends = np.random.default_rng(1).integers(0, 10**6, 5000)
    cuts = quantiles(ends, ~(ends + 10))
    assert len(cuts) == CUTS
    between = np.diff(np.searchsorted(np.sort(ends), cuts))
    assert between.max() < 2 * between.min()


def conjunction(chance: random.Random, spread: int) -> Filter:
    sides: dict[int, Extent] = {}
    for attribute in range(3):
        if chance.random() < 0.8:
            low = chance.randrange(spread)
            sides[attribute] = Extent((Interval(low, low + spread // 3),), chance.random() < 0.1)
    return sides


def holds(filters: Filters, vector: tuple[Any, ...]) -> bool:
    return any(all(vector[at] in extent for at, extent in one.items()) for one in filters)


@judged
def test_vectors_of_several_chunks_and_renewed_cuts(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history at the root that grows beyond a chunk, drifts, and shrinks again."""
    monkeypatch.setattr(partition, "RENEW", 700)
    chance, index, known = random.Random(5), BoxIndex(module), dict[int, Filters]()
    renewals = 0
    first: list[Filters] = [(conjunction(chance, 1000),) for _ in range(CHUNK + 200)]
    index.insert_many(range(len(first)), first)
    known.update(enumerate(first))
    root = index._fastint._root
    for step in range(14_000):
        spread = 1000 + 10 * step
        other = chance.randrange(len(first) + step)
        if step % 3 == 0 or (step % 3 == 1 and other not in known):
            known[len(first) + step] = (conjunction(chance, spread),)
            index.insert(len(first) + step, known[len(first) + step])
        elif other in known and step % 3 == 1:
            changed = {**known[other][0], 1: Extent((Interval(step, step + spread // 2),))}
            known[other] = (changed,)
            index.update(other, known[other])
        elif other in known:
            del known[other]
            index.remove(other)
        renewals += root.is_renewing
        if step % 1400 == 0:
            index.check()
            vector = tuple(chance.choice([None, chance.randrange(spread)]) for _ in range(3))
            assert sorted(index.match(vector)) == sorted(id for id in known if holds(known[id], vector))
    assert renewals >= 7  # steps; three trees of two chunks take so many
    for id in list(known)[: len(known) - 100]:
        index.remove(id)
        del known[id]
    index.check()
    assert sorted(index.match((500, 500, 500))) == sorted(id for id in known if holds(known[id], (500,) * 3))


def test_an_update_in_place_touches_only_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    index = BoxIndex()
    sides = {at: Extent((Interval(0, 10),)) for at in range(3)}
    several: list[Filters] = [({**sides, 3: Extent((Interval("A", "A"),))},) for _ in range(1000)]
    index.insert_many(range(1000), several)
    touched: list[tuple[Any, ...]] = []
    put = SVTree.put

    def spy(tree: SVTree, *bits: Any) -> None:
        touched.append(bits)
        put(tree, *bits)

    monkeypatch.setattr(SVTree, "put", spy)
    index.update(7, ({**several[7][0], 1: Extent((Interval(5, 20),))},))
    assert touched == [(7, 5, ~20, True)]
    index.update(7, ({**several[7][0], 1: Extent((Interval(5, 20),))},))
    assert len(touched) == 1
    assert index.match((1, 15, 1, "A")) == [7]
    index.check()


@pytest.mark.parametrize("matches", [3, 30])
def test_the_benchmark_in_miniature(matches: int) -> None:
    figures = matching.measure(3000, matches, events=40, changes=30)
    assert 0.5 * matches < figures["matches"] < 2 * matches
    assert figures.keys() >= {"us_fastint", "us_scan", "us_insert", "us_update", "us_delete"}


@pytest.mark.slow
def test_growth_is_far_below_linear() -> None:
    small, large = (matching.measure(count, 10, events=100, changes=100) for count in (20_000, 400_000))
    assert large["us_fastint"] < 5 * small["us_fastint"]
    assert large["bytes_per_filter"] < 250
