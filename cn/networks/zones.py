"""Zones of a space: how it is split, which zones touch, and how a message spreads over those that a box meets.

A zone is a box with closed low and open high sides, the first of its dimensions being the topic. Only `<` and `==` are asked
of a code, so texts have zones like numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from cn.model.geometry import Box, Code, Interval, Point

CORNER: Code = None  # in the place of a code: below all others


@dataclass
class Split:
    """Codes below `at` in one dimension are in the one part, all others in the other."""

    dimension: int
    at: Code
    below: Split | int
    above: Split | int


class ZoneMap:
    """The zones of one space, as the leaves of a k-d tree.

    Looking up a zone costs O(log zones); a split costs what is known of its neighbours. Zones of a k-d tree are ordered:
    going only upwards in every dimension never comes back to the same zone.

    >>> zones = ZoneMap(1, first=7)
    >>> zones.split(7, [(1,), (2,), (8,), (9,)], 8)
    8
    >>> zones.locate((3,)), zones.locate((8,)), zones.bordering(7)
    (7, 8, [8])
    """

    def __init__(self, dimensions: int, first: int) -> None:
        self.boxes: dict[int, Box] = {first: (Interval(),) * dimensions}
        self._tree: Split | int = first
        self._bordering: dict[int, set[int]] = {first: set()}
        self._depths = {first: 0}

    def locate(self, point: Point) -> int:
        """The zone of a point."""
        at = self._tree
        while isinstance(at, Split):
            at = at.below if point[at.dimension] < at.at else at.above
        return at

    def entry(self, box: Box) -> int:
        """The zone that holds the low corner of a box: where a message for it begins to spread."""
        at = self._tree
        while isinstance(at, Split):
            low = box[at.dimension].low
            at = at.below if low is None or low < at.at else at.above
        return at

    def entries(self, boxes: Sequence[Box]) -> Iterator[int]:
        """The zones where a message for several boxes begins to spread by `spreads_once`."""
        for at, box in enumerate(boxes):
            zone = self.entry(box)
            if meets(self.boxes[zone], box) and not any(meets(self.boxes[zone], one) for one in boxes[:at]):
                yield zone

    def numbers(self) -> Iterable[int]:
        return self.boxes

    def bordering(self, zone: int) -> list[int]:
        return sorted(self._bordering[zone])

    def split(self, zone: int, points: list[Point], new: int) -> int | None:
        """Give about half of a zone's points to a new zone above it; None if they are all in one place."""
        dimensions, depth = len(self.boxes[zone]), self._depths[zone]
        for turn in range(dimensions):
            dimension = (depth + turn) % dimensions
            codes = sorted(map(itemgetter(dimension), points))
            above = next((code for code in codes[len(codes) // 2 :] if codes[0] < code), None)
            if above is not None:
                self._divide(zone, dimension, above, new)
                return new
        return None

    def _divide(self, zone: int, dimension: int, at: Code, new: int) -> None:
        box = self.boxes[zone]
        side = box[dimension]
        below, above = Interval(side.low, at, False, True), Interval(at, side.high, False, side.high_open)
        self.boxes[zone] = (*box[:dimension], below, *box[dimension + 1 :])
        self.boxes[new] = (*box[:dimension], above, *box[dimension + 1 :])
        self._depths[zone] = self._depths[new] = self._depths[zone] + 1
        self._replace(zone, Split(dimension, at, zone, new), box)
        around = self._bordering[zone]
        self._bordering[new] = set()
        for other in [*around, new]:
            for one in (zone, new):
                self._bordering[one].discard(other)
                self._bordering[other].discard(one)
                if one != other and touch(self.boxes[one], self.boxes[other]):
                    self._bordering[one].add(other)
                    self._bordering[other].add(one)

    def _replace(self, zone: int, split: Split, box: Box) -> None:
        """Put a split in the place of a leaf."""
        at, above = self._tree, None
        while isinstance(at, Split):
            above, low = at, box[at.dimension].low
            at = at.below if low is CORNER or low < at.at else at.above
        assert at == zone
        if above is None:
            self._tree = split
        elif above.below == zone:
            above.below = split
        else:
            above.above = split

    def check(self) -> None:
        """Assert that zones that touch know each other, and that every zone is found by its low corner."""
        for one, box in self.boxes.items():
            assert self.entry(box) == one
            expected = {other for other, theirs in self.boxes.items() if one != other and touch(box, theirs)}
            assert self._bordering[one] == expected


def touch(one: Box, other: Box) -> bool:
    """Whether two zones share a part of a side, not only a corner."""
    sides = 0
    for a, b in zip(one, other, strict=True):
        if (a.high is not None and a.high == b.low) or (b.high is not None and b.high == a.low):
            sides += 1
        elif not a.meets(b):
            return False
    return sides == 1


def lies_above(one: Box, other: Box) -> bool:
    """Whether a zone that touches another lies above it: messages spread only from a zone to such ones."""
    return any(b.high is not None and a.low == b.high for a, b in zip(one, other, strict=True))


def meets(zone: Box, box: Box) -> bool:
    """Whether a zone may hold a point of a box."""
    for side, other in zip(zone, box, strict=True):  # noqa: SIM110, a generator takes twice as long
        if not side.meets(other):
            return False
    return True


def holds(zone: Box, point: Point) -> bool:
    return all(code in side for side, code in zip(zone, point, strict=True))


def spreads(zone: Box, to: Box, box: Box) -> bool:
    """Whether a message for a box goes from this zone to that one.

    Every zone that meets the box, but the one at its low corner, is reached from exactly one other that meets it: the one
    below it, in the first dimension in which it does not reach down to the corner. So each gets the message once, and a
    zone decides by what it knows of the zones that touch it.
    """
    first = 0
    for side, other in zip(to, box, strict=True):
        if side.low is not CORNER and (other.low is CORNER or other.low < side.low):
            break
        first += 1
    else:
        return False
    # most neighbours are turned down by this one comparison
    if zone[first].high is None or zone[first].high != to[first].low or not meets(to, box):
        return False
    return all(
        at == first or _reaches(side, _inner(mine, theirs)[0])
        for at, (side, mine, theirs) in enumerate(zip(zone, to, box, strict=True))
    )


def spreads_once(zone: Box, to: Box, boxes: Sequence[Box]) -> bool:
    """Whether a message for several boxes goes from this zone to that one, if a zone passes it on at one visit.

    A zone gets it as it would for the first of the boxes that it meets alone, and from nowhere else. Whatever sends it
    there meets that box too: so it got the message before, for the same box nearer to the corner, or for an earlier one.
    """
    for at, box in enumerate(boxes):
        if spreads(zone, to, box):
            return not any(meets(to, earlier) for earlier in boxes[:at])
    return False


def _inner(zone: Interval, box: Interval) -> tuple[Code, bool]:
    """The low end of what a zone and a box share, and whether it is the zone's, inside of the box."""
    is_inside = zone.low is not CORNER and (box.low is CORNER or bool(box.low < zone.low))
    return (zone.low if is_inside else box.low), is_inside


def _reaches(side: Interval, low: Code) -> bool:
    return side.low is CORNER if low is CORNER else low in side


def towards(zone: Box, bordering: Iterable[tuple[int, Box]], box: Box) -> int | None:
    """The neighbour that is nearer to the low corner of a box; None if the corner is in this zone.

    Of the zone, the nearest point to the corner is taken, and the neighbour that holds it across the first side that lies in
    between: nothing gets farther in any dimension, and one gets nearer.
    """
    ways = [_way(mine, theirs.low) for mine, theirs in zip(zone, box, strict=True)]
    first = next((at for at, way in enumerate(ways) if way), None)
    if first is None:
        return None
    for number, other in bordering:
        if all(
            _across(zone[at], other[at], way)
            if at == first
            else _beside(zone[at], other[at], way, box[at].low)
            for at, way in enumerate(ways)
        ):
            return number
    raise AssertionError("zones fill their space")


def _way(zone: Interval, low: Code) -> int:
    """-1 if the corner lies below a zone, 1 if above it, 0 if beside."""
    if zone.low is not CORNER and (low is CORNER or low < zone.low):
        return -1
    return int(zone.high is not None and low is not CORNER and not low < zone.high)


def _across(zone: Interval, other: Interval, way: int) -> bool:
    return bool(
        other.high is not None and other.high == zone.low
        if way < 0
        else (zone.high is not None and other.low == zone.high)
    )


def _beside(zone: Interval, other: Interval, way: int, low: Code) -> bool:
    if way <= 0:
        return _reaches(other, zone.low if way else low)
    return bool(
        (other.low is None or other.low < zone.high) and (other.high is None or zone.high <= other.high)
    )
