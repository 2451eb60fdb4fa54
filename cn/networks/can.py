"""A CAN: brokers keep zones of the spaces, and a message spreads over those that its region meets.

See [CAN]; [ProSem thesis] 2.2.4, S-CN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cn.model.frames import Bordering, Data, Parts, Zone, Zones
from cn.model.geometry import Box, Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.node import Options, Scheme, star
from cn.networks.partition_owner import ALL, Course, PartitionOwnerNode, on_course
from cn.networks.partition_root import PartitionRoot
from cn.networks.zones import ZoneMap, lies_above, spreads_once, towards


def full_box(message: Message, box: int) -> Box:
    """A box of a message's region with the topic as its first dimension."""
    return (Interval(message.topic, message.topic), *message.region[box])


def full_boxes(message: Message) -> list[Box]:
    return [full_box(message, at) for at in range(len(message.region))]


class CanNode(PartitionOwnerNode[Zone]):
    """A broker with zones: spreads a message over them and their neighbours, and knows only the zones that touch them."""

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self._upward: dict[int, list[Bordering]] = {}  # of each zone: those that touch it and lie above it

    def spread(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        if not course.spreading:
            box = full_box(frame.message, course.box)
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
            boxes = self.target_boxes(frame.message, course)
            for border in self._upward[number]:
                if not spreads_once(zone.box, border.box, boxes):
                    continue
                if self.name in border.owners:
                    zones.append(border.number)
                else:
                    onward = course._replace(part=border.number, spreading=True)
                    yield border.owners[frame.position % len(border.owners)], on_course(frame, onward)

    def target_boxes(self, message: Message, course: Course) -> Sequence[Box]:
        """Where a message is to spread."""
        return full_boxes(message) if course.box == ALL else (full_box(message, course.box),)

    def refine(self, message: Message, course: Course) -> Course:
        """What is learned in a zone of how far a message has to go."""
        return course

    def parts_of(self, frame: Parts) -> Iterable[Zone]:
        assert isinstance(frame, Zones)
        self._upward = {
            zone.number: [border for border in zone.bordering if lies_above(border.box, zone.box)]
            for zone in frame.parts
        }
        return frame.parts


class CanRoot(PartitionRoot[ZoneMap]):
    """Brokers keep zones of the spaces, and a message spreads over the zones that its region meets, to each once.

    Zones are split by load and replicated by traffic, from one epoch to the next. Option `routed`: each box of a message
    enters at a fixed zone and finds its way, as in [ProSem thesis], instead of being sent where the region begins to
    spread. It loses on small regions: neighbours without a match pass a message on, and each frame is acknowledged.
    """

    is_once = True  # a zone gets a message once, for whichever boxes of its region it meets; else once for each of them

    def divide(self, space: Space) -> ZoneMap:
        return ZoneMap(space.dimensions + 1, next(self.placements.numbers))

    def entries(self, frame: Data) -> Iterator[tuple[str, Data]]:
        """To the zones where the region begins to spread."""
        zones, is_routed = self.placements.maps[frame.message.space], self.options.get("routed", False)
        boxes, first = full_boxes(frame.message), next(iter(zones.boxes))
        if self.is_once and not is_routed:
            begins = [(ALL, zone) for zone in zones.entries(boxes)]
        else:
            begins = [(at, first if is_routed else zones.entry(box)) for at, box in enumerate(boxes)]
        for at, zone in begins:
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
