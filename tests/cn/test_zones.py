"""Zones of a space against brute force: each point in one zone, each zone that a box meets reached once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cn.model.frames import Data, Frame
from cn.model.geometry import Box, Interval, contains
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.can import CanRoot
from cn.networks.partition_owner import HOST, Course
from cn.networks.zones import ZoneMap, holds, meets, spreads, spreads_once, towards
from cn.simulation.registry import make_simulated


@st.composite
def maps(draw: st.DrawFn, boxes: int = 1) -> tuple[ZoneMap, list[tuple[Any, ...]], list[Box]]:
    """Zones split at random, the points they were split by, and up to so many boxes that are not empty."""
    dimensions = draw(st.integers(1, 3))
    code: st.SearchStrategy[Any] = draw(st.sampled_from([st.integers(0, 9), st.sampled_from("abcdefg")]))
    point = st.tuples(*[code] * dimensions)
    points = draw(st.lists(point, min_size=1, max_size=30))
    zones = ZoneMap(dimensions, first=0)
    for new in range(1, draw(st.integers(1, 16))):
        zone = draw(st.sampled_from([*zones.boxes]))
        zones.split(
            zone, [one for one in points if zones.locate(one) == zone] or points[:1], len(zones.boxes)
        )
        assert len(zones.boxes) <= new + 1
    ends = st.integers(0, 3).map(lambda roll: roll == 3)
    side = st.builds(_side, code, code, ends, ends, ends, ends).filter(lambda side: not side.is_empty())
    return zones, points, draw(st.lists(st.tuples(*[side] * dimensions), min_size=1, max_size=boxes))


def _side(one: Any, other: Any, no_low: bool, no_high: bool, low_open: bool, high_open: bool) -> Interval:
    low, high = sorted([one, other])
    return Interval(None if no_low else low, None if no_high else high, low_open, high_open)


@given(maps())
def test_every_point_is_in_one_zone_and_neighbours_know_each_other(made: Any) -> None:
    zones, points, _ = made
    zones.check()
    for point in points:
        assert [zone for zone, box in zones.boxes.items() if holds(box, point)] == [zones.locate(point)]


@given(maps())
def test_a_message_comes_to_each_zone_of_its_box_once(made: Any) -> None:
    zones, _, [box] = made
    reached = [zones.entry(box)]
    for zone in reached:
        for other in zones.bordering(zone):
            if spreads(zones.boxes[zone], zones.boxes[other], box):
                reached.append(other)
        assert len(reached) <= len(zones.boxes)
    assert Counter(reached) == Counter(zone for zone, sides in zones.boxes.items() if meets(sides, box))


@given(maps(boxes=6))
def test_a_message_comes_to_each_zone_once_for_all_its_boxes(made: Any) -> None:
    zones, _, boxes = made
    reached = [*zones.entries(boxes)]
    for zone in reached:
        for other in zones.bordering(zone):
            if spreads_once(zones.boxes[zone], zones.boxes[other], boxes):
                reached.append(other)
        assert len(reached) <= len(zones.boxes)
    concerned = [zone for zone, sides in zones.boxes.items() if any(meets(sides, box) for box in boxes)]
    assert Counter(reached) == Counter(concerned)


@given(maps())
def test_every_zone_knows_the_way_to_the_corner(made: Any) -> None:
    zones, _, [box] = made
    for zone in zones.boxes:
        way = [zone]
        while True:
            bordering = [(one, zones.boxes[one]) for one in zones.bordering(way[-1])]
            nearer = towards(zones.boxes[way[-1]], bordering, box)
            if nearer is None:
                break
            way.append(nearer)
            assert len(way) <= len(zones.boxes)
        assert way[-1] == zones.entry(box)


def test_zones_are_split_by_load_and_replicated_by_traffic() -> None:
    heard: list[int] = []
    network = make_simulated("can", lambda message, ids: heard.extend(map(int, ids)), lambda seq: None)
    root = network.root
    assert isinstance(root, CanRoot)
    space = Space(1, 1, True)
    for id in range(400):
        network.register(space, id, b"", (id,))
    expected = []
    for seq in range(1, 400):
        network.inject(Message(seq, 0, 1, "some", region=((Interval(7, 8),),)))
        network.watermark(seq)
        expected += [7, 8]
    network.check()
    assert sorted(heard) == sorted(expected)
    sizes = [len(placements) for placements in root.placements.parts.values()]
    assert len(sizes) >= 4
    assert max(sizes) <= root._share()
    busy = root.placements.maps[1].locate((b"", 7))
    assert len(root.owners[busy]) > 1
    assert all(len(set(owners)) == len(owners) for owners in root.owners.values())


def test_brokers_send_a_message_to_each_zone_once_for_all_its_boxes() -> None:
    dice, heard, visits = random.Random(5), dict[int, list[int]](), Counter[tuple[int, int]]()
    network = make_simulated(
        "can",
        lambda message, ids: heard.update({message.seq: sorted(map(int, ids))}),
        lambda seq: None,
        options={"least": 2},
    )
    points = {id: (dice.randrange(100), dice.randrange(100)) for id in range(200)}
    for id, point in points.items():
        network.register(Space(1, 2, True), id, b"", point)
    network.watermark(0)

    def watch(sender: str, to: str, frame: Frame) -> None:
        if isinstance(frame, Data):
            course = msgspec.msgpack.decode(frame.route, type=Course)
            visits[frame.position, course.part] += course.part != HOST

    network.memory.watch = watch
    expected = {}
    for seq in range(1, 41):
        columns = range(dice.randrange(20), 100, 20)
        ends = [sorted(dice.sample(range(100), 2)) for _ in columns]
        region = tuple([(Interval(x, x + 19), Interval(*end)) for x, end in zip(columns, ends, strict=True)])
        network.inject(Message(seq, 0, 1, "some", region=region))
        network.watermark(seq)
        expected[seq] = [id for id, point in points.items() if contains(region, point)]
    network.check()
    assert heard == expected
    assert max(visits.values()) == 1


def test_nothing_is_injected_that_concerns_nobody() -> None:
    network = make_simulated("can", lambda message, ids: None, lambda seq: None)
    network.register(Space(1, 1, True), 1, b"", (5,))
    network.inject(Message(1, 0, 1, "some", region=((Interval(6, 9),),)))
    network.watermark(1)
    assert sum(link["messages"] for link in network.links()) == 0
