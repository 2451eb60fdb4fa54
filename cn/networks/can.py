"""A CAN: brokers keep zones of the spaces, and a message spreads over those that its region meets.

See [CAN]; [ProSem thesis] 2.2.4, S-CN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cn.model.frames import Bordering, Data, Parts, Zone, Zones
from cn.model.geometry import Box, Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.node import Options, Scheme, star
from cn.networks.partition_owner import Course, PartitionOwnerNode, on_course
from cn.networks.partition_root import PartitionRoot
from cn.networks.zones import ZoneMap, spreads, towards


def full_box(message: Message, box: int) -> Box:
    """A box of a message's region with the topic as its first dimension."""
    return (Interval(message.topic, message.topic), *message.region[box])


class CanNode(PartitionOwnerNode[Zone]):
    """A broker with zones: spreads a message over them and their neighbours, and knows only the zones that touch them."""

    def spread(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        box = full_box(frame.message, course.box)
        if not course.spreading:
            at = self.parts[course.part]
            borders = {border.number: border for border in at.bordering}
            nearer = towards(at.box, [(border.number, border.box) for border in at.bordering], box)
            self.count(course.part)
            if nearer is not None:
                owners = borders[nearer].owners
                onward = course._replace(part=nearer)
                if self.name in owners:
                    yield from self.spread(frame, onward)
                else:
                    yield owners[frame.position % len(owners)], on_course(frame, onward)
                return
        zones = [course.part]
        for number in zones:
            zone = self.parts[number]
            self.count(number)
            course = self.refine(frame.message, course)
            box = self.target_box(frame.message, course)
            for border in zone.bordering:
                if not spreads(zone.box, border.box, box):
                    continue
                if self.name in border.owners:
                    zones.append(border.number)
                else:
                    onward = course._replace(part=border.number, spreading=True)
                    yield border.owners[frame.position % len(border.owners)], on_course(frame, onward)

    def target_box(self, message: Message, course: Course) -> Box:
        """Where a message is to spread."""
        return full_box(message, course.box)

    def refine(self, message: Message, course: Course) -> Course:
        """What is learned in a zone of how far a message has to go."""
        return course

    def parts_of(self, frame: Parts) -> Iterable[Zone]:
        assert isinstance(frame, Zones)
        return frame.parts


class CanRoot(PartitionRoot[ZoneMap]):
    """Brokers keep zones of the spaces, and a message spreads over the zones that its region meets.

    Zones are split by load and replicated by traffic, from one epoch to the next. Option `routed`: a message enters at a
    fixed zone and finds its way, as in [ProSem thesis], instead of being sent where it begins to spread. It loses on small
    regions: neighbours without a match pass a message on, and each frame is acknowledged.
    """

    def divide(self, space: Space) -> ZoneMap:
        return ZoneMap(space.dimensions + 1, next(self.placements.numbers))

    def entries(self, frame: Data) -> Iterator[tuple[str, Data]]:
        """To the zone where each box of the region begins to spread."""
        zones, is_routed = self.placements.maps[frame.message.space], self.options.get("routed", False)
        for at in range(len(frame.message.region)):
            zone = next(iter(zones.boxes)) if is_routed else zones.entry(full_box(frame.message, at))
            owner = self.owner_for(zone, frame.position)
            if owner:
                yield owner, on_course(frame, self.course(at, zone, spreading=not is_routed))

    def parts_frame(self, position: int, kept: list[int], lost: tuple[str, ...]) -> Zones:
        return Zones(position, self.epoch, tuple([self._zone(number) for number in kept]), lost)

    def _zone(self, number: int) -> Zone:
        zones = self.placements.maps[self.placements.spaces[number]]
        borders = [
            Bordering(one, tuple(self.owners[one]), zones.boxes[one]) for one in zones.bordering(number)
        ]
        return Zone(number, self.placements.spaces[number], zones.boxes[number], tuple(borders))


def can_node(name: str, options: Options, since: int) -> CanNode:
    return CanNode(name, options, since)


CAN = Scheme("can", CanRoot, can_node, star, exact=False)
