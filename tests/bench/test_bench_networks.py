"""The bench of networks in miniature: ways cost what real nodes cost, and zones spread as brokers do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import network_joins
from bench.join_workload import Workload, subscriptions
from bench.minima_workload import USUAL, ranges
from bench.minima_workload import Workload as Minima
from bench.network_minima import SCHEMES, costs
from bench.network_nodes import NETWORKS, measure
from bench.network_setting import Setting, Zones
from bench.networks import curve, sampled_joins, sampled_minima
from cn.model.geometry import Interval
from cn.networks.bloom import Filter, LinkFilter
from cn.networks.zones import meets, spreads, spreads_once

some_ids = st.sets(st.integers(0, 10**6), max_size=60)


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(300, 12)


def test_ways_cost_what_nodes_cost(setting: Setting) -> None:
    """The bench itself fails if a way of unicast, multicast or cbn costs anything else than its nodes."""
    rows = {row["network"]: row for row in sampled_minima(setting, 300, 40)}
    assert rows.keys() == set(NETWORKS)
    assert rows["cbn"]["overlay_hops"] == rows["multicast"]["overlay_hops"] > 0
    assert all(row["ip_hops"] >= row["overlay_hops"] for row in rows.values())
    assert len(sampled_joins(setting, 400, 12)) == len(NETWORKS)


@given(st.integers(0, 1000), st.data())
def test_zones_spread_as_brokers_do(seed: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    zones = Zones(random.integers(0, 30, (80, 2)), 12)
    zones.check()
    ends = st.none() | st.integers(0, 30)
    box = tuple(
        Interval(*data.draw(st.tuples(ends, ends)), *data.draw(st.tuples(st.booleans(), st.booleans())))
        for _ in range(2)
    )
    if any(side.is_empty() for side in box):
        return
    full = (Interval(b"", b""), *box)
    boxes = zones.map.boxes
    spread = zones.spread([box, box])
    assert spread.boxes.tolist() == sorted(spread.boxes.tolist())
    alike = [[part[spread.boxes == number] for part in spread] for number in (0, 1)]
    assert np.array_equal(alike[0][1], alike[1][1])
    assert np.array_equal(alike[0][3], alike[1][3])
    _, met, parents, depths = alike[0]
    assert met.tolist() == [number for number in sorted(boxes) if meets(boxes[number], full)]
    for at, parent in zip(met.tolist(), parents.tolist(), strict=True):
        senders = [one for one in met.tolist() if spreads(boxes[one], boxes[at], full)]
        assert senders == ([] if parent < 0 else [int(met[parent])])
    assert [0 if parent < 0 else depths[parent] + 1 for parent in parents] == depths.tolist()
    way = zones.way(box)
    assert way[-1] == zones.map.entry(full)
    assert all(two in zones.map.bordering(one) for one, two in pairwise(way))


@given(st.integers(0, 1000), st.data())
def test_messages_come_to_zones_once_as_with_brokers(seed: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    zones = Zones(random.integers(0, 30, (80, 2)), 12)
    ends = st.none() | st.integers(0, 30)
    side = st.builds(Interval, ends, ends).filter(lambda one: not one.is_empty())
    boxes = data.draw(st.lists(st.tuples(side, side), min_size=1, max_size=5))
    full = [(Interval(b"", b""), *box) for box in boxes]
    other = data.draw(st.tuples(side, side))
    of, met, parents, depths = zones.once(zones.spread([*boxes, other]), np.array([0] * len(boxes) + [1]))
    first = of < len(boxes)
    found = dict(zip(met[first].tolist(), met[parents[first]].tolist(), strict=True))
    assert first.sum() == len(found), "the other message has places of its own"
    places = zones.map.boxes
    assert found.keys() == {zone for zone in places if any(meets(places[zone], box) for box in full)}
    entries = {*zones.map.entries(full)}
    assert entries == {*met[first & (parents < 0)].tolist()}
    for zone in found.keys() - entries:
        assert [found[zone]] == [one for one in found if spreads_once(places[one], places[zone], full)]
    assert [0 if parent < 0 else depths[parent] + 1 for parent in parents] == depths.tolist()


def test_every_scheme_is_measured_on_the_same_events(setting: Setting) -> None:
    points = ranges(400, *USUAL)
    workload = Minima(1000, points)
    events = [event for _, event in zip(range(300), workload.events(), strict=False)]
    events += workload.spikes(4)
    found = costs(setting, setting.zones(points), events)
    assert found.keys() == set(SCHEMES)
    told = [sum(map(len, event.ids)) for event in events]
    assert found["unicast"].overlay_hops == told, "a message for each subscription"
    assert found["multicast"].overlay_hops == found["cbn"].overlay_hops
    for name in ("unicast", "multicast", "can", "brokers", "cbn"):
        assert all(hops == 0 for hops, count in zip(found[name].overlay_hops, told, strict=True) if not count)
    regions = [len(event.regions) for event in events]
    assert [hops > 0 for hops in found["S-CN"].overlay_hops] == [count > 0 for count in regions]
    assert all(count >= len(event.messages) for count, event in zip(regions, events, strict=True))
    assert max(told) > 20, "a spike concerns many"


def test_remembered_contents_leave_the_server_less_often(setting: Setting) -> None:
    """Joined rows repeat their parts; what is delivered stays the same."""
    points = subscriptions(300)
    workload = network_joins.distinct(Workload(60, 300, 600))
    space = workload.space("join", points)
    messages = [
        [one.message for one in some] for some in network_joins.messages(space, workload, "ref-j+", 300)
    ]
    hosts, found = setting.hosts(points), {}
    for entries in (None, 0, 400):
        options = {} if entries is None else {"repository": entries}
        found[entries] = measure("cbn", setting, space.network, points, hosts, messages, options, warming=200)
    (row, plain, without), (empty, _, _), (_, remembered, with_entries) = found.values()
    assert plain == remembered
    assert row["content_latency"] == row["hop_latency"] == empty["hop_latency"], "of messages alone"
    assert empty["content_latency"] > row["content_latency"], "a broker that lacks a content asks for it"
    assert without > 2 * with_entries


def test_a_stock_has_a_value_a_day_and_ratings_that_are_alike() -> None:
    workload = network_joins.Stocks(16_000, 0)
    ratings: dict[int, list[int]] = {}
    for _, stock, code, _ in workload.s.values():
        ratings.setdefault(stock, []).append(code)
    assert sum(map(len, ratings.values())) == 2_300
    assert {len(some) for some in ratings.values()} == {20, 25}, "five of each original rating"
    assert max(max(some) - min(some) for some in ratings.values()) < 70_000, (
        "two steps of 20,000, and what perturbs"
    )
    values = [row[1] for row in workload.r.values() if row[2] == 7]
    assert len(values) == 160
    assert all(abs(after / before - 1) < 0.2 for before, after in pairwise(values))


def test_a_figure_is_a_curve_for_each_scheme() -> None:
    made = curve("3.10", [{"spikes_percent": 0.5, "affected": 3.0, "S-CN": 4, "CN": "-"}])
    assert made.lines == {"S-CN": [(0.5, 4.0)], "CN": []}


@given(some_ids, some_ids, some_ids)
def test_filters_that_share_an_id_meet(affected: set[int], beyond: set[int], gone: set[int]) -> None:
    link = LinkFilter()
    for id in [*beyond, *(gone - beyond)]:
        link.add(id)
    for id in gone - beyond:
        link.remove(id)
    link.check([*beyond])
    made = Filter.of(affected)
    read = Filter.read(made.write())
    assert (read.width, read.parts) == (made.width, made.parts)
    assert link.meets(read) or not affected & beyond
    assert not LinkFilter().meets(read)
