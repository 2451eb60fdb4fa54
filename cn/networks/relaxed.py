"""Networks without a server that reformulates: CN, which relaxes, and CN+, which cuts off ([ProSem thesis] 2.3.2, 3.1.2).

They are [ProSem thesis]'s points of comparison. A message is sent as if only the low corner of its region were known: to all
of the quadrant above that corner. In the space (-lo, hi) of ranges that is [Meghdoot]'s: all ranges that hold the event.
Edges match again, so every subscription still gets exactly what matches it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cn.model.geometry import Box, Interval, contains
from cn.model.message import Message
from cn.networks.can import CanNode, CanRoot, full_box
from cn.networks.node import Options, Scheme, star
from cn.networks.partition_owner import Course


def quadrant(box: Box) -> Box:
    """Everything above the low corner of a box.

    >>> quadrant((Interval(3, 5, low_open=True),))
    (Interval(low=3, high=None, low_open=True, high_open=False),)
    """
    return tuple(Interval(side.low, None, side.low_open) for side in box)


def cut(wide: Box, box: Box, point: tuple[object, ...]) -> Box:
    """What is left of a box around another one when a point is known to lie outside of that one.

    >>> cut((Interval(3), Interval(3)), (Interval(3, 5), Interval(3, 5)), (9, 4))
    (Interval(low=3, high=9, low_open=False, high_open=True), Interval(low=3, high=None, low_open=False, high_open=False))
    """
    return tuple(
        side if code in inner else side & Interval(None, code, high_open=True)
        for side, inner, code in zip(wide, box, point, strict=True)
    )


def relaxed(message: Message) -> Message:
    """A message as it goes to all quadrants of its region."""
    if message.targets is not None or message.attributes is not None:
        return message
    return replace(message, region=tuple([quadrant(box) for box in message.region]))


def _wide(message: Message, course: Course) -> Box:
    """How far a box of a message is to spread, as far as that is known."""
    if course.cut is not None:
        return course.cut
    box = full_box(message, course.box)
    return (box[0], *quadrant(box[1:]))


class RelaxedNode(CanNode):
    """A broker with zones that passes a message on to the ends of its quadrants, and to all placements there."""

    def target_boxes(self, message: Message, course: Course) -> Sequence[Box]:
        return (_wide(message, course),)

    def hosts(self, message: Message) -> list[str]:
        return self.table.owners(relaxed(message))


class CutOffNode(CanNode):
    """A broker with zones that matches each placement there, and knows where a message need not go on.

    A placement in the quadrant, but not in the region, shows that the region ends before it: nothing beyond it, in a
    dimension in which it is outside, can match (the cut-off property). What is known of it travels with the message.
    """

    def target_boxes(self, message: Message, course: Course) -> Sequence[Box]:
        return (_wide(message, course),)

    def refine(self, message: Message, course: Course) -> Course:
        box, wide = full_box(message, course.box), _wide(message, course)
        for number in self.table.ids(replace(message, region=(wide[1:],))):
            point = self.placements[number][2]
            if not contains((box,), point):
                wide = cut(wide, box, point)
        return course._replace(cut=wide)


class RelaxedRoot(CanRoot):
    """A message goes to all points above the low corner of its region, and edges match again: CN of [ProSem thesis].

    It loses by all it sends for nothing.
    """

    is_once = False  # a cut is of one box

    def covers(self, message: Message) -> bool:
        return self.table.covers(relaxed(message))


class CutOffRoot(RelaxedRoot):
    """Like `relaxed`, but brokers cut a message off where no place beyond is affected: CN+ of [ProSem thesis].

    It loses by what lies between the region and the first placement outside of it, and by a search in every zone.
    """


def relaxed_node(name: str, options: Options, since: int) -> RelaxedNode:
    return RelaxedNode(name, options, since)


def cut_off_node(name: str, options: Options, since: int) -> CutOffNode:
    return CutOffNode(name, options, since)


RELAXED = Scheme("relaxed", RelaxedRoot, relaxed_node, star, exact=False)
CUT_OFF = Scheme("cut-off", CutOffRoot, cut_off_node, star, exact=False)
