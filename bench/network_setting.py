"""The topology of the network benches, its tree of brokers, and the zones that assign subscriptions to brokers.

See [ProSem thesis] 3.5.4.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import Box, Interval
from cn.networks.zones import ZoneMap, towards
from cn.simulation.network import SERVER
from cn.simulation.topology import Topology, cluster_tree

Ints = NDArray[np.int64]
FAR = np.int64(2**62)


class Setting:
    """Brokers of an Internet-like topology by number, the server last; `parent` is their cluster tree."""

    def __init__(self, nodes: int, brokers: int) -> None:
        topology = Topology(nodes, brokers + 1, seed=3)
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
        boxes = [self.map.boxes[zone] for zone in range(len(members))]
        self.low = np.array([[_low(side) for side in box[1:]] for box in boxes], np.int64)
        self.high = np.array([[_high(side) for side in box[1:]] for box in boxes], np.int64)

    def met(self, box: Box) -> Ints:
        """The zones that may hold a point of a box."""
        low, high = (np.array([end(side) for side in box], np.int64) for end in (_low, _high))
        inside = (np.maximum(self.low, low) <= np.minimum(self.high, high)).all(axis=1)
        return np.flatnonzero(inside)

    def spread(self, box: Box) -> tuple[Ints, Ints]:
        """The zones that a box meets, and the place among them of the one each gets a message from; -1 for the first."""
        met = self.met(box)
        corner = np.array([-FAR if side.low is None else 2 * side.low for side in box], np.int64)
        low = self.low[met]
        inside = low > corner
        first = inside.argmax(axis=1)
        from_ = np.where(inside, low, corner)
        from_[np.arange(len(met)), first] -= 1
        is_first = ~inside.any(axis=1)
        # the zone that holds each of these points, among those met
        holds = (self.low[met][None] <= from_[:, None]) & (from_[:, None] <= self.high[met][None])
        parents = holds.all(axis=2).argmax(axis=1)
        parents[is_first] = -1
        return met, parents

    def way(self, box: Box) -> list[int]:
        """From the zone in the middle to the one at the low corner of a box, each passing on to a neighbour.

        The way to a zone is found once, for the first box that begins there.
        """
        full = (Interval(b"", b""), *box)
        entry = self.map.entry(full)
        if entry not in self._ways:
            zone, way = self.middle, [self.middle]
            while zone != entry:
                borders = [(number, self.map.boxes[number]) for number in self.map.bordering(zone)]
                nearer = towards(self.map.boxes[zone], borders, full)
                assert nearer is not None, "the way ends at the entry"
                zone = nearer
                way.append(zone)
            self._ways[entry] = way
        return self._ways[entry]

    def entry(self, box: Box) -> int:
        """The zone at the low corner of a box."""
        return self.map.entry((Interval(b"", b""), *box))

    def check(self) -> None:
        """Assert that the map is whole, and that its boxes are those of the arrays."""
        self.map.check()
        assert len(self.low) == len(self.map.boxes)


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


def _low(side: Interval) -> Any:
    return -FAR if side.low is None else 2 * side.low + side.low_open


def _high(side: Interval) -> Any:
    return FAR if side.high is None else 2 * side.high - side.high_open
