"""Value notification over networks, in miniature: everyone that is to be notified is, whatever identifies a subscription."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import networks_value, value_carried
from bench.secondary import ranges_of
from bench.value_change import RADIUS, Workload, _early, all_rad_workload, same_rad_workload
from bench.value_schemes import Labels
from bench.value_trace import Step, follow
from cn.model.geometry import Region


class Near:
    """Eight brokers, each a hop from all others."""

    def __init__(self) -> None:
        self.brokers = [f"b{at}" for at in range(8)]
        self.parents = dict.fromkeys(self.brokers, "server")

    def ip_hops(self, sender: str, to: str) -> int:
        return 1


def test_all_radii_one_layer_or_two_tell_the_same_and_moving_costs_more() -> None:
    workload = all_rad_workload(150, 60, np.random.default_rng(5))
    rows = {row["network"]: row for row in networks_value.compare("4.11", workload, 30, Near())}
    assert [*rows] == ["one by one", "CN(lr)", "CN(r,lid)", "secondary servers"]
    assert rows["CN(lr)"]["traffic_bytes"] > rows["one by one"]["traffic_bytes"]
    assert rows["CN(lr)"]["max_node_stress"] >= 2 * rows["one by one"]["max_node_stress"]
    assert rows["CN(r,lid)"]["overlay_hops"] < rows["CN(lr)"]["overlay_hops"]
    assert all(row["ip_hops"] == row["overlay_hops"] for row in rows.values())
    shown = dict(networks_value.tables([*rows.values()]))
    assert [row["network"] for row in shown["thesis 4.11: all radii, per operation"]] == [*rows]


def test_one_radius_moves_centres_or_keeps_labels() -> None:
    workload = same_rad_workload(120, 400, np.random.default_rng(5))
    rows = {row["network"]: row for row in networks_value.compare("4.9", workload, 300, Near())}
    assert [*rows] == ["one by one", "CN(lr)", "CN(c)", "CN(lid)"]
    stress = [rows[name]["max_node_stress"] for name in ("CN(lr)", "CN(c)", "one by one", "CN(lid)")]
    assert stress == sorted(stress, reverse=True)
    assert rows["CN(lid)"]["traffic_bytes"] == min(row["traffic_bytes"] for row in rows.values())


def one_gap(count: int) -> Workload:
    """Two are there, last notified of 0 and 1000; the value creeps down from there, and all that come stand between them."""
    workload = _early(np.full(count, RADIUS), 0, [1_000 - at for at in range(count)])
    first = np.zeros(count, np.int64)
    first[1] = 1_000
    return workload._replace(first=first, arrival=np.maximum(np.arange(count) - 1, 0))


def test_labels_that_have_to_make_room_are_shifted_by_one_message() -> None:
    trace = follow(one_gap(90), 80)
    shifted = [one for step in trace.steps for one in step.arrivals if one.relabelled]
    assert shifted
    assert all(low <= high for low, high in (one.span for one in shifted))
    row = value_carried.measure("4.10", value_carried.TREE, Labels(), trace, Near())
    arrivals = sum(len(step.arrivals) for step in trace.steps)
    assert row["overlay_hops"] * trace.operations > arrivals, (
        "each is sent to its owner, and the shifts come on top"
    )


def test_a_network_that_forgets_somebody_fails_the_bench() -> None:
    class Forgetful(Labels):
        def regions(self, step: Step) -> list[Region]:
            return super().regions(step)[1:]

    trace = follow(all_rad_workload(60, 40, np.random.default_rng(5)), 30)
    with pytest.raises(SystemExit):
        value_carried.measure("4.11", value_carried.TREE, Forgetful(), trace, Near())


@given(st.sets(st.integers(0, 40), min_size=1), st.data())
def test_ranges_hold_the_affected_radii_and_no_others(known: set[int], data: st.DataObject) -> None:
    radii = sorted(known)
    hit = data.draw(st.sets(st.sampled_from(radii)))
    fired = [(radius, radius, data.draw(st.sampled_from([None, ((1, 2),)]))) for radius in sorted(hit)]
    found = ranges_of(fired, radii)
    assert [radius for low, high in found for radius in radii if low <= radius <= high] == sorted(hit)
    for (_, high), (low, _) in pairwise(found):
        assert any(high < radius < low for radius in radii)
