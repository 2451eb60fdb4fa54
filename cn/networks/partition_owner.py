"""Brokers that keep parts of the spaces: what a CAN and a distributed B-tree share ([ProSem thesis] 2.2.4, 4.7.1).

A part is a zone or a page. The placements in a part are known to its owners, and a message that comes there goes on to
the brokers that host a match. How it comes from part to part is the network's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from cn.model.frames import (
    Data,
    DeliveryAcknowledged,
    Frame,
    Load,
    Parts,
    PlacementAdded,
    PlacementEnded,
    PlacementsSynced,
    PositionMark,
)
from cn.model.geometry import Box, Point
from cn.model.message import Message
from cn.networks.node import Options, Out, TreeNode
from cn.networks.place_table import PlaceTable

REPORT = 64  # messages through its parts after which a broker reports how many there were


class Part(Protocol):
    """A part of a space, as its owner knows it."""

    @property
    def number(self) -> int: ...

    def holds(self, point: Point) -> bool: ...


class Course(NamedTuple):
    """How a message travels: in which epoch, for which box of its region, to which part."""

    epoch: int
    box: int  # or all of them
    part: int
    spreading: bool  # else it is on the way to the part where it begins to spread
    known: int  # what must be known of placements before it is matched
    cut: Box | None = None  # how far it is to spread, where that is found out on the way


ALL = -1  # in the place of a box: a part gets the message once, for whichever boxes it meets
HOST = -1  # in the place of a part: to a broker that hosts a match, no further
_courses: msgspec.msgpack.Decoder[Course] = msgspec.msgpack.Decoder(Course)
_encoder = msgspec.msgpack.Encoder()


def on_course(frame: Data, course: Course) -> Data:
    return replace(frame, route=_encoder.encode(course))


class Visit:
    """A message at a broker: its sender, and the receivers that have not yet acknowledged it."""

    __slots__ = ("frame", "sender", "waits")

    def __init__(self, sender: str, frame: Data) -> None:
        self.sender, self.frame = sender, frame
        self.waits: set[tuple[str, bytes]] = set()


P = TypeVar("P", bound=Part)


class PartitionOwnerNode(TreeNode, Generic[P]):
    """A broker with parts: passes a message on to owners of other parts, and to the hosts of matches.

    It knows the placements in its parts and the way to some others, and nothing else of the network. Every frame is
    acknowledged when all it has led to is; so the server knows when a message has been everywhere, and marks follow then.
    A placement that was removed is kept until a mark past it: messages from before it may still be on their way. A message
    costs one search among the placements here, and the ways from the parts it meets.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.in_order = False
        self.table = PlaceTable()
        self.parts: dict[int, P] = {}
        self.epoch = self.known = 0
        self.visits: dict[int, int] = {}  # messages through a part, since the last report
        self.placements: dict[int, tuple[int, str, Point]] = {}  # number → part, host, full point
        self._ended: list[PlacementEnded] = []
        self._asked: dict[tuple[str, int, bytes], Visit] = {}  # (to, position, route)
        self._matched: set[int] = set()  # positions that were sent to their hosts, in this epoch
        self._held: list[tuple[str, Data]] = []  # messages that wait for placements from the server

    # -- what a network decides --------------------------------------------------------------------------------
    def spread(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        """Over the own parts, counting each, and to the owners of others."""
        raise NotImplementedError

    def parts_of(self, frame: Parts) -> Iterable[P]:
        """The parts to keep, out of a frame of this network."""
        raise NotImplementedError

    def hosts(self, message: Message) -> list[str]:
        """The brokers that a message is for, of those that host a placement here."""
        return self.table.owners(message)

    # -- messages ----------------------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Data) and sender:
            return self._visit(sender, frame)
        if isinstance(frame, DeliveryAcknowledged):
            return self._covered(sender, frame)
        if isinstance(frame, PositionMark):
            self._know(frame.position)
            return [*super().receive(sender, frame), *self._take_held()]
        return super().receive(sender, frame)

    def _visit(self, sender: str, frame: Data) -> Iterable[Out]:
        course = _courses.decode(frame.route)
        if course.part == HOST:
            return [(self.name, frame), (sender, DeliveryAcknowledged(frame.position, frame.route))]
        if course.epoch < self.epoch:
            return ()  # sent again in this epoch
        if course.epoch > self.epoch or course.known > self.known:
            self._held.append((sender, frame))
            return ()
        visit = Visit(sender, frame)
        outs = [*self.spread(frame, course), *self._send_to_hosts(frame, course)]
        for to, sent in outs:
            if to != self.name:
                visit.waits.add((to, sent.route))
                self._asked[to, frame.position, sent.route] = visit
        return [*outs, *self._closed(visit)]

    def _send_to_hosts(self, frame: Data, course: Course) -> Iterator[tuple[str, Data]]:
        if frame.position in self._matched:
            return
        self._matched.add(frame.position)
        for host in self.hosts(frame.message):
            yield host, frame if host == self.name else on_course(frame, course._replace(part=HOST, cut=None))

    def _covered(self, sender: str, frame: DeliveryAcknowledged) -> Iterable[Out]:
        visit = self._asked.pop((sender, frame.position, frame.route), None)
        if visit is None:
            return ()  # of an epoch that has ended
        visit.waits.discard((sender, frame.route))
        return self._closed(visit)

    def _closed(self, visit: Visit) -> list[Out]:
        if visit.waits:
            return []
        return [(visit.sender, DeliveryAcknowledged(visit.frame.position, visit.frame.route))]

    def count(self, part: int) -> None:
        self.visits[part] = self.visits.get(part, 0) + 1

    # -- parts and placements ----------------------------------------------------------------------------------
    def answer(self, sender: str, frame: Frame) -> Iterable[Out]:
        if not isinstance(frame, Parts | PlacementAdded | PlacementEnded | PlacementsSynced):
            return super().answer(sender, frame)
        self.parent = sender
        if isinstance(frame, Parts):
            self._begin(frame)
        elif isinstance(frame, PlacementAdded):
            self._stand(frame)
        elif isinstance(frame, PlacementEnded):
            self._ended.append(frame)
        self._know(frame.position)
        return self._take_held()

    def _begin(self, frame: Parts) -> None:
        """A new epoch: other parts, and everything that was under way comes again."""
        self.epoch = frame.epoch
        self.parts = {part.number: part for part in self.parts_of(frame)}
        self._asked.clear()
        self._matched.clear()
        self._held = [one for one in self._held if _courses.decode(one[1].route).epoch >= self.epoch]
        for number, (part, host, point) in [*self.placements.items()]:
            kept = self.parts.get(part)
            if kept is None or host in frame.lost or not kept.holds(point):
                self._end(number)

    def _stand(self, frame: PlacementAdded) -> None:
        self.placements[frame.number] = frame.part, frame.host, (frame.topic, *frame.point)
        self.table.put(frame.host, frame.host, frame.space, frame.number, frame.topic, frame.point)

    def _end(self, number: int) -> None:
        known = self.placements.pop(number, None)
        if known is not None:
            self.table.take(known[1], number)

    def marked(self, frame: PositionMark) -> Iterable[Out]:
        """Messages up to here have been everywhere: forget earlier placements."""
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
        assert len(self.placements) == len(self.table)
        for part, _, point in self.placements.values():
            assert self.parts[part].holds(point)
