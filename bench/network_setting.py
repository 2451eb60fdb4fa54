"""The topology of the network benches, its tree of brokers, and the zones that assign subscriptions to brokers.

See [ProSem thesis] 3.5.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import Box, Interval
from cn.networks.zones import Split, ZoneMap, towards
from cn.simulation.network import SERVER
from cn.simulation.topology import Topology, cluster_tree

Ints = NDArray[np.int64]
FAR = np.int64(2**62)
SEED = 3
_BOXES = 256  # that are compared with all zones at once


class Setting:
    """Brokers of an Internet-like topology by number, the server last; `parent` is their cluster tree."""

    def __init__(self, nodes: int, brokers: int) -> None:
        topology = Topology(nodes, brokers + 1, seed=SEED)
        self.count = self.server = brokers
        self.brokers = [f"b{at}" for at in range(brokers)]
        self.hops = topology.hops
        self.parents = cluster_tree(SERVER, self.brokers, topology.coordinates()[:brokers])
        self._number = {SERVER: brokers, **{name: at for at, name in enumerate(self.brokers)}}
        self.parent: Ints = np.array([self._number[self.parents[name]] for name in self.brokers], np.int64)
        self.depth: Ints = np.zeros(brokers + 1, np.int64)
        self.below: Ints = np.ones(brokers + 1, np.int64)  # brokers at and below each
        for name in self.parents:  # top down
            at = self._number[name]
            self.depth[at] = self.depth[self.parent[at]] + 1
        for at in np.argsort(-self.depth[:brokers], kind="stable"):
            self.below[self.parent[at]] += self.below[at]

    def ip_hops(self, sender: str, to: str) -> int:
        return int(self.hops[self._number[sender], self._number[to]])

    def zones(self, points: Ints) -> Zones:
        """A zone for each broker."""
        return Zones(points, self.count)

    def hosts(self, points: Ints) -> dict[int, str]:
        """The broker that hosts each point; they are numbered from 1."""
        of = self.zones(points).of
        return {number: self.brokers[zone] for number, zone in enumerate(of.tolist(), 1)}


class Spread(NamedTuple):
    """A place for each box and zone that it meets: the place that it gets the message from, and how far away it is."""

    boxes: Ints
    zones: Ints
    parents: Ints  # -1: the zone where the box begins
    depths: Ints


class Zones:
    """A space split into zones of about as many points, as a CAN does; zone n is kept by broker n, the points' host.

    The zones that a box meets, and from which of them each gets a message, are found by vector operations: the same rule as
    `cn.networks.zones.spreads`, by which brokers pass messages on. Codes are doubled, so that open ends lie between them.
    """

    def __init__(self, points: Ints, count: int) -> None:
        dimensions = points.shape[1]
        self.map = ZoneMap(dimensions + 1, first=0)
        self.of: Ints = np.zeros(len(points), np.int64)  # the zone of each point
        members: dict[int, Ints] = {0: np.arange(len(points))}
        depths = {0: 0}
        heap = [(-len(points), 0)]
        heapify(heap)
        while len(members) < count and heap[0][0] < -1:
            _, largest = heap[0]
            inside = members[largest]
            cut = _cut(points[inside], depths[largest], dimensions)
            if cut is None:
                heapreplace(heap, (0, largest))
                continue
            new, (dimension, at) = len(members), cut
            self.map._divide(largest, dimension + 1, at, new)
            above = points[inside, dimension] >= at
            members[largest], members[new] = inside[~above], inside[above]
            depths[largest] = depths[new] = depths[largest] + 1
            heapreplace(heap, (-len(members[largest]), largest))
            heap.append((-len(members[new]), new))
            heapify(heap)
        for zone, inside in members.items():
            self.of[inside] = zone
        self.middle = int(self.of[np.abs(points - np.median(points, axis=0)).sum(axis=1).argmin()])
        self._ways: dict[int, list[int]] = {}
        self._bordering: dict[int, list[tuple[int, Box]]] = {}
        self._splits = _splits(self.map._tree)
        boxes = [self.map.boxes[zone] for zone in range(len(members))]
        self.low = np.array([[_low(side) for side in box[1:]] for box in boxes], np.int64)
        self.high = np.array([[_high(side) for side in box[1:]] for box in boxes], np.int64)

    def spread(self, boxes: Sequence[Box]) -> Spread:
        """Which zones each of these boxes meets, and from which of them each gets its message.

        A zone whose low corner lies beyond a box's in some dimension gets it from the zone right below it in the first of
        these, which is found by descending the splits with all points at once.
        """
        found = [self._spread(boxes[at : at + _BOXES], at) for at in range(0, len(boxes), _BOXES)]
        counts = np.cumsum([0, *(len(one.zones) for one in found)])
        parents = [
            np.where(one.parents < 0, -1, one.parents + count)
            for one, count in zip(found, counts[:-1], strict=True)
        ]
        boxes_, zones, _, depths = (np.concatenate(part) for part in zip(*found, strict=True))
        return Spread(boxes_, zones, np.concatenate(parents), depths)

    def _spread(self, boxes: Sequence[Box], first_box: int) -> Spread:
        low, high, corner = (
            np.array([[end(side) for side in box] for box in boxes], np.int64)
            for end in (_low, _high, _corner)
        )
        meets = ((self.low[None] <= high[:, None]) & (self.high[None] >= low[:, None])).all(axis=2)
        of, zones = np.nonzero(meets)
        here, zone_low, from_ = np.arange(len(of)), self.low[zones], corner[of]
        beyond = zone_low > from_
        is_first = ~beyond.any(axis=1)
        from_ = np.where(beyond, zone_low, from_)
        from_[here, beyond.argmax(axis=1)] -= 1
        place = np.zeros(meets.shape, np.int64)
        place[of, zones] = here
        parents = np.where(is_first, here, place[of, self._holding(from_)])
        parents = np.where(is_first, -1, parents)
        return Spread(of + first_box, zones, parents, _depths(parents))

    def once(self, spread: Spread, messages: Ints) -> Spread:
        """The same for boxes of these messages, if a zone gets a message once: as for the first of the boxes that it meets.

        The rule of `cn.networks.zones.spreads_once`. The places of a box come after those of the boxes before it.
        """
        keys = messages[spread.boxes] * len(self.low) + spread.zones
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        parents = spread.parents[first]
        parents = np.where(parents < 0, -1, place[parents])
        return Spread(spread.boxes[first], spread.zones[first], parents, _depths(parents))

    def _holding(self, places: Ints) -> Ints:
        """The zone of each of these places, in doubled codes."""
        at = np.full(len(places), len(self._splits) - 1)
        rows = np.arange(len(places))
        while (inner := at >= 0).any():
            dimension, cut, below, above = self._splits[at[inner]].T
            at[inner] = np.where(places[rows[inner], dimension] < cut, below, above)
        return ~at

    def way(self, box: Box) -> list[int]:
        """From the zone in the middle to the one at the low corner of a box, each passing on to a neighbour.

        The way to a zone is found once, for the first box that begins there.
        """
        full = (Interval(b"", b""), *box)
        entry = self.map.entry(full)
        if entry not in self._ways:
            zone, way = self.middle, [self.middle]
            while zone != entry:
                borders = self._borders(zone)
                nearer = towards(self.map.boxes[zone], borders, full)
                assert nearer is not None, "the way ends at the entry"
                zone = nearer
                way.append(zone)
            self._ways[entry] = way
        return self._ways[entry]

    def _borders(self, zone: int) -> list[tuple[int, Box]]:
        if zone not in self._bordering:
            self._bordering[zone] = [(number, self.map.boxes[number]) for number in self.map.bordering(zone)]
        return self._bordering[zone]

    def check(self) -> None:
        """Assert that the map is whole, and that its boxes are those of the arrays."""
        self.map.check()
        assert len(self.low) == len(self.map.boxes)


def _depths(parents: Ints) -> Ints:
    """How far each place is from the one where its message begins, which has no parent."""
    above = np.where(parents < 0, np.arange(len(parents)), parents)
    depths: Ints = np.where(parents < 0, 0, 1)
    while (more := depths[above]).any():  # each knows the way up of twice the length at every turn
        depths, above = np.add(depths, more), above[above]
    return depths


def _cut(points: Ints, depth: int, dimensions: int) -> tuple[int, int] | None:
    """Where a zone is split: as `ZoneMap.split` does, about in the middle, in the dimension whose turn it is."""
    for turn in range(dimensions + 1):
        dimension = (depth + turn) % (dimensions + 1) - 1  # the first is the topic, and there is one
        if dimension < 0:
            continue
        codes = points[:, dimension]
        middle = int(np.partition(codes, len(codes) // 2)[len(codes) // 2])
        least = int(codes.min())
        if middle > least:
            return dimension, middle
        if (higher := codes[codes > least]).size:
            return dimension, int(higher.min())
    return None


def _splits(tree: Split | int) -> Ints:
    """The splits as lines of dimension, cut, and what lies below and above: a line, or a zone as its complement.

    The first split is the last line; if there is none, there is one zone.
    """
    lines: list[tuple[int, int, int, int]] = []

    def place(at: Split | int) -> int:
        if not isinstance(at, Split):
            return ~at
        sides = place(at.below), place(at.above)
        lines.append((at.dimension - 1, 2 * at.at, *sides))
        return len(lines) - 1

    place(tree)
    return np.array(lines, np.int64).reshape(-1, 4)


def _corner(side: Interval) -> Any:
    return -FAR if side.low is None else 2 * side.low


def _low(side: Interval) -> Any:
    return -FAR if side.low is None else 2 * side.low + side.low_open


def _high(side: Interval) -> Any:
    return FAR if side.high is None else 2 * side.high - side.high_open
