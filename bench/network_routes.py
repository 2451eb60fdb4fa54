"""The ways of messages through a network of many brokers, and what they cost, without the brokers' tables.

What a message costs depends on where it goes, not on how a broker finds that out. So the figures of [ProSem thesis], with up
to a million subscriptions at a thousand brokers, are taken from ways: along the cluster tree, or over zones. `prosem bench
networks` first sends a smaller workload through the real nodes and fails if ways cost anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bench.network_setting import Ints, Setting, Spread, Zones
from cn.model.frames import Data, encode
from cn.model.geometry import Interval
from cn.model.message import Message
from cn.networks.partition_owner import ALL, Course, on_course


class Way(NamedTuple):
    """The links that a message passes, each after the one before it: sender and receiver, distance, and bytes."""

    senders: Ints
    receivers: Ints
    sizes: Ints
    depths: Ints  # overlay hops up to the receiver


NOWHERE = Way(*(np.empty(0, np.int64),) * 4)


@dataclass
class Costs:
    """What a series of events has cost under one scheme ([ProSem thesis] 3.5.2)."""

    setting: Setting
    bytes: list[int] = field(default_factory=list)
    overlay_hops: list[int] = field(default_factory=list)
    ip_hops: list[int] = field(default_factory=list)
    stress: list[int] = field(default_factory=list)  # messages of the busiest node
    server_bytes: list[int] = field(default_factory=list)
    latency: list[int] = field(default_factory=list)

    def add(self, ways: Sequence[Way]) -> None:
        """The messages of one event."""
        way = _joined(ways) if ways else NOWHERE
        self.bytes.append(int(way.sizes.sum()))
        self.overlay_hops.append(len(way.senders))
        self.ip_hops.append(int(self.setting.hops[way.senders, way.receivers].sum()))
        self.stress.append(int(np.bincount(way.senders).max()) if len(way.senders) else 0)
        self.server_bytes.append(int(way.sizes[way.senders == self.setting.server].sum()))
        self.latency.append(int(way.depths.max()) if len(way.senders) else 0)

    def figures(self) -> dict[str, Any]:
        """Per event; the stress is the largest of all events."""
        return {
            "traffic_bytes": round(float(np.mean(self.bytes)), 1),
            "overlay_hops": round(float(np.mean(self.overlay_hops)), 2),
            "max_node_stress": max(self.stress),
            "hop_latency": round(float(np.mean(self.latency)), 2),
            "ip_hops": round(float(np.mean(self.ip_hops)), 2),
        }


class Ways:
    """The ways of messages in a setting, under each scheme; `zones` of the space that they are for."""

    def __init__(self, setting: Setting, zones: Zones) -> None:
        self.setting, self.zones = setting, zones

    # -- to brokers that are known -----------------------------------------------------------------------------
    def one_by_one(self, message: Message, ids: Ints) -> Way:
        """Unicast as in [ProSem thesis]: a message for each subscription."""
        alone = len(encode(Data(message.seq, _named(message)))) + 0
        hosts = self.hosts(ids)
        return Way(np.full(len(ids), self.setting.server), hosts, alone + _sizes(ids), np.ones_like(hosts))

    def unicast(self, message: Message, ids: Ints) -> Way:
        """One message per broker that hosts an affected subscription (2.3.1)."""
        hosts = self._each_host(ids)
        return self._sent(
            np.full(len(hosts), self.setting.server), hosts, _size(message), np.ones_like(hosts)
        )

    def cbn(self, message: Message, ids: Ints) -> Way:
        """Down the tree to the brokers concerned; each broker on the way finds the next ones itself."""
        receivers = self._tree(ids)
        return self._sent(
            self.setting.parent[receivers], receivers, _size(message), self.setting.depth[receivers]
        )

    def multicast(self, message: Message, ids: Ints) -> Way:
        """Down the tree, with a bit for each broker below."""
        way = self.cbn(message, ids)
        return way._replace(sizes=way.sizes + (self.setting.below[way.receivers] + 7) // 8)

    def named(self, message: Message, ids: Ints) -> Way:
        """S-MN of [ProSem thesis]: down the tree, with the subscriptions below as a list."""
        way = self.cbn(_named(message), ids)
        hosts = self.hosts(ids)
        bytes_at = np.bincount(hosts, _sizes(ids), self.setting.count + 1).astype(np.int64)
        ids_at = np.bincount(hosts, minlength=self.setting.count + 1)
        for depth in range(int(way.depths.max(initial=0)), 0, -1):  # from the leaves up
            some = way.receivers[way.depths == depth]
            np.add.at(bytes_at, self.setting.parent[some], bytes_at[some])
            np.add.at(ids_at, self.setting.parent[some], ids_at[some])
        heads = np.where(ids_at < 16, 0, np.where(ids_at < 65536, 2, 4))
        return way._replace(sizes=way.sizes + (bytes_at + heads)[way.receivers])

    # -- over zones --------------------------------------------------------------------------------------------
    def s_cn(self, *messages: Message) -> Way:
        """S-CN of [ProSem thesis]: over zones from the server to where each box begins, then over those it meets."""
        return self._can(messages, is_routed=True)[0] if messages else NOWHERE

    def can(self, *messages: Message) -> Way:
        """Ours: the server knows the zones, and sends straight to where a region begins; each zone gets a message once."""
        return self._can(messages, is_routed=False)[0] if messages else NOWHERE

    def can_each(self, messages: Sequence[Message]) -> list[Way]:
        """The same, a way for each message."""
        if not messages:
            return []
        way, boxes = self._can(messages, is_routed=False)
        numbers = np.repeat(np.arange(len(messages)), [len(message.region) for message in messages])[boxes]
        order = np.argsort(numbers, kind="stable")
        cuts = np.searchsorted(numbers[order], np.arange(1, len(messages)))
        return [Way(*parts) for parts in zip(*(np.split(one[order], cuts) for one in way), strict=True)]

    def _can(self, messages: Sequence[Message], *, is_routed: bool) -> tuple[Way, Ints]:
        """The ways of all messages of an event, whose boxes spread at once, and the box that each link is for."""
        boxes = [box for message in messages for box in message.region]
        spread = self.zones.spread(boxes)
        if is_routed:
            sizes = np.concatenate([_course_sizes(message) for message in messages])
        else:
            lengths = [len(message.region) for message in messages]
            sizes = np.repeat([_course_size(message, ALL) for message in messages], lengths)
            spread = self.zones.once(spread, np.repeat(np.arange(len(messages)), lengths))
        roots = spread.parents < 0
        begun = spread.boxes[roots]
        to_corner = [*spread.zones[roots][:, None]]
        if is_routed:
            to_corner = [np.array(self.zones.way(boxes[at])) for at in begun]
        hops = np.array([len(way) for way in to_corner])
        begins = np.ones(len(boxes), np.int64)
        begins[begun] = hops
        receivers = np.concatenate(to_corner)
        senders = np.roll(receivers, 1)
        starts = np.cumsum(hops) - hops
        senders[starts] = self.setting.server
        depths = np.arange(1, len(receivers) + 1) - np.repeat(starts, hops)
        to_begin = Way(senders, receivers, np.repeat(sizes[begun], hops), depths)
        of = np.concatenate([np.repeat(begun, hops), spread.boxes[~roots]])
        return _joined([to_begin, _spread_way(spread, sizes, begins)]), of

    def cn(self, message: Message, x: int) -> Way:
        """CN of [ProSem thesis]: an event enters at its own point and goes to all ranges that hold it."""
        boxes = [(Interval(None, x), Interval(x, None))]
        return _spread_way(self.zones.spread(boxes), np.array([_size(message)]), np.zeros(1, np.int64))

    def ds_cn(self, messages: Sequence[Message], x: int) -> list[Way]:
        """DS-CN of [ProSem thesis]: along the diagonal up to the ends of all regions, and over the zones that they meet."""
        if not messages:
            return []
        boxes = [box for message in messages for box in message.region]
        ends = [x if end is None else end for box in boxes for end in (box[0].low, box[1].high)]
        sizes = np.array([_size(message) for message in messages for _ in message.region])
        size = int(sizes.max())
        ways = [self._diagonal(x, end, size) for end in (min([x, *ends]), max([x, *ends]))]
        return [*ways, _spread_way(self.zones.spread(boxes), sizes, np.zeros(len(boxes), np.int64))]

    def _diagonal(self, x: int, end: int, size: int) -> Way:
        """The zones from (x, x) to (end, end), in their order."""
        low, high = self.zones.low.max(axis=1), self.zones.high.min(axis=1)
        first, last = min(x, end), max(x, end)
        zones = np.flatnonzero((low <= high) & (low <= 2 * last) & (high >= 2 * first))
        zones = zones[np.argsort(low[zones], kind="stable")][:: 1 if x <= end else -1]
        return self._sent(zones[:-1], zones[1:], size, np.arange(1, max(1, len(zones))))

    # -- parts -------------------------------------------------------------------------------------------------
    def hosts(self, ids: Ints) -> Ints:
        return self.zones.of[ids - 1]

    def _each_host(self, ids: Ints) -> Ints:
        """The hosts of these subscriptions, each once: counted, since sorting takes longer for a spike's thousands."""
        return np.flatnonzero(np.bincount(self.hosts(ids), minlength=1))

    def _tree(self, ids: Ints) -> Ints:
        """The brokers on the ways to the hosts of these subscriptions, each after the one above it."""
        is_on = np.zeros(self.setting.count + 1, bool)
        is_on[self.setting.server] = True
        todo = self._each_host(ids)
        while len(todo):
            is_on[todo] = True
            todo = np.unique(self.setting.parent[todo])
            todo = todo[~is_on[todo]]
        found = np.flatnonzero(is_on[:-1])
        return found[np.argsort(self.setting.depth[found], kind="stable")]

    def _sent(self, senders: Ints, receivers: Ints, size: int, depths: Ints) -> Way:
        return Way(senders, receivers, np.full(len(senders), size, np.int64), depths)


def _joined(ways: Sequence[Way]) -> Way:
    return Way(*(np.concatenate(parts) for parts in zip(*ways, strict=True)))


def _spread_way(spread: Spread, sizes: Ints, begins: Ints) -> Way:
    """The links of boxes that spread, with the bytes of each and the hops that it took to get there."""
    passed = np.flatnonzero(spread.parents >= 0)
    of = spread.boxes[passed]
    depths = begins[of] + spread.depths[passed]
    return Way(spread.zones[spread.parents[passed]], spread.zones[passed], sizes[of], depths)


def _course_sizes(message: Message) -> Ints:
    """The bytes of a message on the course of each of its boxes: a higher number takes more of them."""
    numbers = np.arange(len(message.region))
    return _course_size(message, 0) + np.where(
        numbers < 128, 0, np.where(numbers < 256, 1, np.where(numbers < 65536, 2, 4))
    )


def _course_size(message: Message, box: int) -> int:
    return len(encode(on_course(Data(message.seq, message), Course(1, box, 500, True, message.seq))))


def _size(message: Message) -> int:
    return len(encode(Data(message.seq, message)))


def _named(message: Message) -> Message:
    """The same message for a list of subscriptions, which is still empty."""
    return Message(
        message.seq, message.part, message.space, message.kind, targets=(), payload=message.payload,
        contents=message.contents, digests=message.digests,
    )  # fmt: skip


def _sizes(ids: Ints) -> Ints:
    """The bytes of numbers in MessagePack."""
    return np.where(ids < 128, 1, np.where(ids < 256, 2, np.where(ids < 65536, 3, 5))).astype(np.int64)
