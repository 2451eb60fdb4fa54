"""A CAN: brokers keep zones of the spaces, and a message spreads over those that its region meets (thesis 2.2.4, S-CN)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from cn.frames import Covered, Data, Frame, Known, Load, Mark, Stands, Stood, Zone, Zones
from cn.geometry import Box, Interval, Point
from cn.message import Message
from cn.networks.node import Options, Out, TreeNode
from cn.networks.place_table import PlaceTable
from cn.networks.zones import holds, spreads, towards

REPORT = 64  # messages through its zones after which a broker tells how many there were


class Course(NamedTuple):
    """How a message travels: in which epoch, for which box of its region, to which zone."""

    epoch: int
    box: int
    zone: int
    spreading: bool  # else it is on the way to the zone where it begins to spread
    known: int  # what must be known of standings before it is matched


HOST = -1  # in the place of a zone: to a broker that hosts somebody, no further
_courses: msgspec.msgpack.Decoder[Course] = msgspec.msgpack.Decoder(Course)
_encoder = msgspec.msgpack.Encoder()


def towards_zone(frame: Data, course: Course) -> Data:
    return replace(frame, route=_encoder.encode(course))


def full_box(message: Message, box: int) -> Box:
    """A box of a message's region with the topic as its first dimension."""
    return (Interval(message.topic, message.topic), *message.region[box])


class Visit:
    """A message at a broker: who sent it, and who has not yet brought on what it was sent in turn."""

    __slots__ = ("frame", "sender", "waits")

    def __init__(self, sender: str, frame: Data) -> None:
        self.sender, self.frame = sender, frame
        self.waits: set[tuple[str, bytes]] = set()


class CanNode(TreeNode):
    """A broker with zones: spreads a message over them and their neighbours, and sends it to whoever hosts a match.

    It knows the standings in its zones and the zones that touch them, and nothing else of the network. Every frame is
    acknowledged when all it has led to is; so the server knows when a message has been everywhere, and marks follow then.
    A standing that has ended is kept until a mark past it: messages from before it may still be on their way. A message
    costs one search among the standings here, and the neighbours of the zones it meets.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = PlaceTable()
        self.zones: dict[int, Zone] = {}
        self.epoch = self.known = 0
        self.visits: dict[int, int] = {}  # messages through a zone, since it was last told
        self._standings: dict[int, tuple[int, str, Point]] = {}  # number → zone, host, full point
        self._ended: list[Stood] = []
        self._asked: dict[tuple[str, int, bytes], Visit] = {}  # (to, position, route)
        self._matched: set[int] = set()  # positions that were sent to their hosts, in this epoch
        self._held: list[tuple[str, Data]] = []  # what the server has not yet told enough for

    # -- messages ----------------------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Data) and sender:
            return self._visit(sender, frame)
        if isinstance(frame, Covered):
            return self._covered(sender, frame)
        if isinstance(frame, Mark):
            self._know(frame.position)
            return [*super().receive(sender, frame), *self._take_held()]
        return super().receive(sender, frame)

    def _visit(self, sender: str, frame: Data) -> Iterable[Out]:
        course = _courses.decode(frame.route)
        if course.zone == HOST:
            return [(self.name, frame), (sender, Covered(frame.position, frame.route))]
        if course.epoch < self.epoch:
            return ()  # sent again in this epoch
        if course.epoch > self.epoch or course.known > self.known:
            self._held.append((sender, frame))
            return ()
        visit = Visit(sender, frame)
        outs = [*self._spread(frame, course), *self._tell_hosts(frame, course)]
        for to, sent in outs:
            if to != self.name:
                visit.waits.add((to, sent.route))
                self._asked[to, frame.position, sent.route] = visit
        return [*outs, *self._closed(visit)]

    def _spread(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        """Over the own zones, and to the owners of those beyond."""
        box = full_box(frame.message, course.box)
        if not course.spreading:
            at = self.zones[course.zone]
            borders = {border.number: border for border in at.bordering}
            nearer = towards(at.box, [(border.number, border.box) for border in at.bordering], box)
            self._count(course.zone)
            if nearer is not None:
                owners = borders[nearer].owners
                onward = course._replace(zone=nearer)
                if self.name in owners:
                    yield from self._spread(frame, onward)
                else:
                    yield owners[frame.position % len(owners)], towards_zone(frame, onward)
                return
        zones = [course.zone]
        for number in zones:
            zone = self.zones[number]
            self._count(number)
            for border in zone.bordering:
                if not spreads(zone.box, border.box, box):
                    continue
                if self.name in border.owners:
                    zones.append(border.number)
                else:
                    onward = course._replace(zone=border.number, spreading=True)
                    yield border.owners[frame.position % len(border.owners)], towards_zone(frame, onward)

    def _tell_hosts(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        if frame.position in self._matched:
            return
        self._matched.add(frame.position)
        for host in self.table.owners(frame.message):
            yield host, frame if host == self.name else towards_zone(frame, course._replace(zone=HOST))

    def _covered(self, sender: str, frame: Covered) -> Iterable[Out]:
        visit = self._asked.pop((sender, frame.position, frame.route), None)
        if visit is None:
            return ()  # of an epoch that has ended
        visit.waits.discard((sender, frame.route))
        return self._closed(visit)

    def _closed(self, visit: Visit) -> list[Out]:
        if visit.waits:
            return []
        return [(visit.sender, Covered(visit.frame.position, visit.frame.route))]

    def _count(self, zone: int) -> None:
        self.visits[zone] = self.visits.get(zone, 0) + 1

    # -- zones and standings -----------------------------------------------------------------------------------
    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if not isinstance(frame, Zones | Stands | Stood | Known):
            return super().answer(sender, frame)
        self.parent = sender
        if isinstance(frame, Zones):
            self._begin(frame)
        elif isinstance(frame, Stands):
            self._stand(frame)
        elif isinstance(frame, Stood):
            self._ended.append(frame)
        self._know(frame.position)
        return self._take_held()

    def _begin(self, frame: Zones) -> None:
        """A new epoch: other zones, and everything that was under way comes again."""
        self.epoch = frame.epoch
        self.zones = {zone.number: zone for zone in frame.zones}
        self._asked.clear()
        self._matched.clear()
        self._held = [one for one in self._held if _courses.decode(one[1].route).epoch >= self.epoch]
        for number, (zone, host, point) in [*self._standings.items()]:
            kept = self.zones.get(zone)
            if kept is None or host in frame.lost or not holds(kept.box, point):
                self._end(number)

    def _stand(self, frame: Stands) -> None:
        self._standings[frame.number] = frame.zone, frame.host, (frame.topic, *frame.point)
        self.table.put(frame.host, frame.host, frame.space, frame.number, frame.topic, frame.point)

    def _end(self, number: int) -> None:
        known = self._standings.pop(number, None)
        if known is not None:
            self.table.take(known[1], number)

    def marked(self, frame: Mark) -> Iterable[Out]:
        """Messages up to here have been everywhere: forget who stood where before."""
        for ended in self._ended:
            if ended.position <= frame.position:
                self._end(ended.number)
        self._ended = [ended for ended in self._ended if ended.position > frame.position]
        self._matched = {position for position in self._matched if position > frame.position}
        if self.parent and sum(self.visits.values()) >= REPORT:
            visits = tuple(self.visits.items())
            self.visits.clear()
            return [(self.parent, Load(visits))]
        return ()

    def _know(self, position: int) -> None:
        self.known = max(self.known, position)

    def _take_held(self) -> list[Out]:
        held, self._held = self._held, []
        return [out for sender, frame in held for out in self._visit(sender, frame)]

    def check(self) -> None:
        self.table.check()
        assert len(self._standings) == len(self.table)
        for zone, _, point in self._standings.values():
            assert holds(self.zones[zone].box, point)
