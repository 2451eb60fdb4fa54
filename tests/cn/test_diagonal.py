"""Servers along the diagonal see what one server sees, whatever the rows."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import diagonal, network_serverless, range_min
from bench.network_setting import Setting
from bench.random_walk import updates
from prosem.types.base import Draft
from prosem.types.extreme.form import ExtremeSpace

BROKERS = [f"b{at}" for at in range(8)]


def test_events_reformulated_along_the_diagonal_cost_little_where_nothing_lower_is_far() -> None:
    random = np.random.default_rng(5)
    state, xs, ys = range_min._state(200, random)
    range_min._subscribe(state, 300, random)
    (space,) = state.spaces.values()
    assert isinstance(space, ExtremeSpace)
    moves = [*islice(updates(xs, ys, random), 150), (7, 0), (7, 9_000)]  # the lowest of all, and back
    drafts, _ = range_min.Walk(state, space, xs, ys).take(moves, "reformulate")
    costs = diagonal.measure(space.points, BROKERS, (xs, ys), moves, drafts)
    assert len(costs) == len(moves)
    hops = [cost.overlay_hops for cost in costs]
    assert 0 in hops
    assert max(hops[-2:]) >= len(BROKERS) - 1, "a search for a row lower than all asks every broker"
    assert all(sum(cost.stress.values()) == cost.overlay_hops <= cost.bytes for cost in costs)
    wrong = [[Draft("minimum", b"", ())], *drafts[1:]]
    with pytest.raises(SystemExit):
        diagonal.measure(space.points, BROKERS, (xs, ys), moves, wrong)


@given(st.data())
def test_what_they_see_suffices_for_the_rule(data: st.DataObject) -> None:
    xs = data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=14))
    random = np.random.default_rng(len(xs))
    state, _, _ = range_min._state(len(xs), random)
    ys = data.draw(st.lists(st.integers(0, 4), min_size=len(xs), max_size=len(xs)))
    keys = st.tuples(st.integers(0, len(xs) - 1), st.integers(0, 4))
    moves = data.draw(st.lists(keys, min_size=1, max_size=8))
    table = np.array(xs, np.int64), np.array(ys, np.int64)
    state.rows[1].update({(k,): (k, x, y) for k, (x, y) in enumerate(zip(xs, ys, strict=True))})
    range_min._subscribe(state, 5, random)
    (space,) = state.spaces.values()
    assert isinstance(space, ExtremeSpace)
    drafts, _ = range_min.Walk(state, space, *table).take(moves, "reformulate")
    diagonal.measure(space.points, BROKERS, table, moves, drafts)


def test_a_cut_off_saves_most_of_what_relaxing_sends() -> None:
    rows = {row["network"]: row for row in network_serverless.rows(Setting(300, 20), 400, 40)}
    assert [*rows] == ["CN", "CN+", "S-CN", "DS-CN"]
    hops = [rows[name]["overlay_hops"] for name in ("CN", "CN+", "S-CN")]
    assert hops == sorted(hops, reverse=True)
    assert rows["CN+"]["of_cn"] < 0.5
