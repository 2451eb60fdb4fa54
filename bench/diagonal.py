"""DS-CN: no central server; the rows stand along the diagonal of the space of ranges ([ProSem thesis] 2.3.3, 3.2.4).

The broker whose zone holds (x, x) keeps the rows at x. It asks its neighbours along the diagonal, to the left and to the
right, until each side has a row as low as the event's lower y: then everything that the rule needs has been seen, and
the messages spread from there. A model of hops and bytes over the zones of a CAN, not a network of the registry: what a
network may know ends where rows begin. What it reformulates must be what the server does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.common import fail
from cn.match.point_index import PointIndex
from cn.model.frames import Data, encode
from cn.model.geometry import Box, Interval
from cn.model.message import Message
from cn.networks.zones import ZoneMap, spreads, towards
from cn.simulation.metrics import Dissemination
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.types.base import Draft
from prosem.types.extreme.rule import Piece, pieces

Integers = NDArray[np.int64]
Seen = list[tuple[int, int, int]]  # x, y, key


def mirrored(box: Box) -> Box:
    """A box of (lo, hi) in (-lo, hi): its low corner is the inner one, where messages begin to spread."""
    (low, high, low_open, high_open), other = box
    return Interval(
        None if high is None else -high, None if low is None else -low, high_open, low_open
    ), other


class DiagonalServers:
    """The rows of one table, each at the broker of its zone. `zones` are those of (topic, -lo, hi), a broker each.

    An event costs a hop for each zone that the diagonal passes while it looks for lower rows, and one back from either
    side if it went there.
    """

    def __init__(
        self, zones: ZoneMap, brokers: Mapping[int, str], xs: Integers, ys: Integers, topic: bytes = b""
    ) -> None:
        self.zones, self._brokers, self.topic = zones, brokers, topic
        self._order = np.argsort(xs, kind="stable")
        self._at = np.argsort(self._order, kind="stable")  # of each key: where it is in the order
        self._x, self._y = xs[self._order], ys[self._order].copy()
        self._zone = [zones.locate((topic, -x, x)) for x in range(int(self._x[-1]) + 1)]
        self._seams = np.flatnonzero(np.diff(self._zone)) + 1  # the first x of each next zone

    def take(self, key: int, y: int, ip_hops: Callable[[str, str], int]) -> tuple[list[Piece], Dissemination]:
        """What an update of a row's y is told, and what finding that out has cost."""
        at, cost = int(self._at[key]), Dissemination()
        x, old = int(self._x[at]), int(self._y[at])
        self._y[at] = y
        if y == old:
            return [], cost
        lowest = min(old, y)
        beside = slice(np.searchsorted(self._x, x), np.searchsorted(self._x, x, "right"))
        if np.count_nonzero(self._y[beside] <= lowest) > (y == lowest):
            return [], cost  # another row at x is as low: ignorable, as its broker sees by itself
        left = np.flatnonzero(self._y[:at] <= lowest)
        right = np.flatnonzero(self._y[at + 1 :] <= lowest)
        first = int(left[-1]) if len(left) else 0
        last = at + 1 + int(right[0]) if len(right) else len(self._x) - 1
        seen: Seen = []
        for start, stop, step in ((at - 1, first, -1), (at + 1, last, 1)):
            side = self._skyline(start, stop, step)
            self._walk(cost, (x, lowest), int(self._x[stop]), side, ip_hops)
            seen += side
        return pieces(A2BTree().build(sorted(seen)), (x, old), (x, y, key)), cost

    def _skyline(self, start: int, stop: int, step: int) -> Seen:
        """The rows from one place in the order to another that are lower than all before, or beside the event."""
        if (stop - start) * step < 0:
            return []
        ys = self._y[min(start, stop) : max(start, stop) + 1][::step]
        before = np.minimum.accumulate(ys)
        kept = np.flatnonzero(np.r_[True, ys[1:] < before[:-1]] | (ys == before))
        places = start + step * kept
        return [(int(self._x[p]), int(self._y[p]), int(self._order[p])) for p in places]

    def _walk(
        self,
        cost: Dissemination,
        event: tuple[int, int],
        end: int,
        seen: Seen,
        ip_hops: Callable[[str, str], int],
    ) -> None:
        """A question (what lies around x that is not higher?) along the diagonal, and the answer straight back."""
        x, _ = event
        low, high = sorted((x, end))
        inside = self._seams[(self._seams > low) & (self._seams <= high)]
        firsts = inside if end >= x else (inside - 1)[::-1]
        way = [self._brokers[self._zone[at]] for at in (x, *firsts)]
        asked, answer = msgspec.msgpack.encode(event), msgspec.msgpack.encode(seen)
        for depth, (sender, to) in enumerate(pairwise(way), 1):
            hop(cost, sender, to, len(asked), depth, ip_hops)
        hop(cost, way[-1], way[0], len(answer), len(way), ip_hops)

    def spread(
        self, cost: Dissemination, x: int, message: Message, ip_hops: Callable[[str, str], int]
    ) -> set[int]:
        """A message from the zone of (x, x) over all zones it meets; returns them."""
        size, begun = len(encode(Data(message.seq, message))), cost.hop_latency
        reached: set[int] = set()
        for box in message.region:
            full = (Interval(message.topic, message.topic), *mirrored(box))
            way = [self._zone[x]]
            while (nearer := towards(self.zones.boxes[way[-1]], self._bordering(way[-1]), full)) is not None:
                way.append(nearer)
            for depth, (here, there) in enumerate(pairwise(way), begun + 1):
                hop(cost, self._brokers[here], self._brokers[there], size, depth, ip_hops)
            level = begun + len(way) - 1
            front = [way[-1]]
            while front:
                reached.update(front)
                level += 1
                following = [
                    (here, there)
                    for here in front
                    for there, theirs in self._bordering(here)
                    if spreads(self.zones.boxes[here], theirs, full)
                ]
                for here, there in following:
                    hop(cost, self._brokers[here], self._brokers[there], size, level, ip_hops)
                front = [there for _, there in following]
        return reached

    def _bordering(self, zone: int) -> list[tuple[int, Box]]:
        return [(one, self.zones.boxes[one]) for one in self.zones.bordering(zone)]


def hop(
    cost: Dissemination, sender: str, to: str, size: int, depth: int, ip_hops: Callable[[str, str], int]
) -> None:
    """Count a frame, unless it stays where it is."""
    if sender != to:
        cost.hop(sender, size, ip_hops(sender, to), depth)


def measure(
    points: PointIndex,
    brokers: Sequence[str],
    table: tuple[Integers, Integers],
    moves: Sequence[tuple[int, int]],
    told: Sequence[Sequence[Draft]],
    ip_hops: Callable[[str, str], int] = lambda sender, to: 1,
) -> list[Dissemination]:
    """What each update (key, new y) of a table (xs, ys) costs; `told` is what the engine makes of them, to compare."""
    zones, inside = _zones(points, len(brokers))
    servers = DiagonalServers(zones, dict(enumerate(brokers)), *table)
    costs = []
    for seq, ((key, y), drafts) in enumerate(zip(moves, told, strict=True), 1):
        found, cost = servers.take(key, y, ip_hops)
        if {piece.region for piece in found if points.any(servers.topic, piece.region)} != {
            draft.region for draft in drafts
        }:
            fail(f"DS-CN and the server reformulate event {seq} differently")
        for part, draft in enumerate(drafts):
            message = Message(seq, part, 0, draft.kind, draft.topic, draft.region, payload=draft.payload)
            reached = servers.spread(cost, int(table[0][key]), message, ip_hops)
            if not {inside[int(id)] for id in points.find(draft.topic, draft.region)} <= reached:
                fail(f"DS-CN does not reach all affected subscriptions of event {seq}")
        costs.append(cost)
    return costs


def _zones(points: PointIndex, count: int) -> tuple[ZoneMap, dict[int, int]]:
    """So many zones of about as many points each, numbered from 0; and the zone of each point."""
    zones = ZoneMap(points.dimensions + 1, first=0)
    members = {0: [(id, (topic, -low, high)) for id, topic, (low, high) in points.items()]}
    while len(members) < count:
        largest = max(members, key=lambda zone: len(members[zone]))
        new = zones.split(largest, [point for _, point in members[largest]], len(members))
        if new is None:
            break
        parts: dict[int, list[Any]] = {largest: [], new: []}
        for item in members[largest]:
            parts[zones.locate(item[1])].append(item)
        members |= parts
    return zones, {id: zone for zone, some in members.items() for id, _ in some}
