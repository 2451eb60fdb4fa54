"""Networks without reformulation deliver the same as those with it, and cost more: by how much is counted."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.model.geometry import Box, Interval, contains
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.relaxed import RelaxedNode, cut, quadrant, relaxed
from cn.simulation.registry import make_simulated

RANGES = Space(1, 2, True)  # (-lo, hi)
codes = st.integers(0, 5)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    ends = [sorted([draw(codes), draw(codes)]) for _ in range(2)]
    return tuple(Interval(low, high, draw(st.booleans()), draw(st.booleans())) for low, high in ends)


@given(boxes(), st.lists(st.tuples(codes, codes), max_size=6))
def test_a_cut_never_takes_anything_of_the_region(box: Box, standing: list[tuple[int, int]]) -> None:
    wide = quadrant(box)
    for point in standing:
        if contains((wide,), point) and not contains((box,), point):
            wide = cut(wide, box, point)
            assert not contains((wide,), point)
    for point in [(x, y) for x in range(6) for y in range(6)]:
        assert contains((wide,), point) or not contains((box,), point)


def test_a_cut_off_spares_zones_and_relaxation_wakes_those_it_does_not_concern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain_hosts = RelaxedNode.hosts
    spurious = 0  # placements in a quadrant of a message, outside its region

    def hosts(node: RelaxedNode, message: Message) -> list[str]:
        nonlocal spurious
        spurious += len(node.table.ids(relaxed(message))) - len(node.table.ids(message))
        return plain_hosts(node, message)

    monkeypatch.setattr(RelaxedNode, "hosts", hosts)
    dice = random.Random(3)
    points = {}
    for id in range(400):
        middle, length = dice.randrange(1000), dice.randrange(300)
        points[id] = (length // 2 - middle, middle + length // 2)
    messages = []
    for seq in range(1, 41):
        x, reach = dice.randrange(1000), dice.randrange(1, 60)
        region = (
            (Interval(-x, reach - x, high_open=True), Interval(x, x + reach, high_open=True)),
        )  # ranges that hold x, and no more than `reach` beyond
        messages.append(Message(seq, 0, 1, "minimum", region=region))
    delivered, hops = {}, {}
    for name in ("can", "cut-off", "relaxed"):
        heard: list[tuple[int, list[int]]] = []
        network = make_simulated(
            name,
            lambda message, ids, heard=heard: heard.append((message.seq, sorted(map(int, ids)))),
            lambda seq: None,
            brokers=[f"b{at}" for at in range(20)],
            host_of=lambda id: f"b{id % 20}",
        )
        for id, point in points.items():
            network.register(RANGES, id, b"", point)
        network.watermark(0)
        for message in messages:
            network.inject(message)
            network.watermark(message.seq)
        network.check()
        delivered[name] = heard
        hops[name] = sum(link["messages"] for link in network.links())
    assert delivered["can"] == delivered["cut-off"] == delivered["relaxed"]
    assert hops["can"] < hops["cut-off"] < hops["relaxed"]
    woken = sum(contains((quadrant(one.region[0]),), point) for one in messages for point in points.values())
    assert spurious == woken - sum(len(ids) for _, ids in delivered["can"]) > 0
