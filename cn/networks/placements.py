"""Placements by part of the spaces, with those removed lately: the server's table in networks of partition owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from cn.model.frames import Placed, PlacementAdded
from cn.model.geometry import Point
from cn.model.network import Space


class SpaceMap(Protocol):
    """How a space is divided into parts; a point lies in one of them."""

    def locate(self, point: Point) -> int: ...

    def split(self, part: int, points: list[Point], new: int) -> int | None: ...

    def numbers(self) -> Iterable[int]: ...

    def check(self) -> None: ...


M = TypeVar("M", bound=SpaceMap)


class Placement(NamedTuple):
    frame: PlacementAdded  # as it is sent; its number is the position at which it began
    id: int
    until: int | None = None

    @property
    def point(self) -> Point:
        return (self.frame.topic, *self.frame.point)


class Placements(Generic[M]):
    """The parts of all spaces with their placements.

    A placement that was removed stays until it `expires`: messages from before its end may still be sent again. Entering and
    leaving cost one search for the part, a split what it moves.
    """

    def __init__(self, divide: Callable[[Space], M]) -> None:
        self.maps: dict[int, M] = {}  # by space
        self.spaces: dict[int, int] = {}  # of each part
        self.parts: dict[int, dict[int, Placement]] = {}  # part → number
        self.numbers = count(1)  # of parts
        self._divide = divide
        self._at: dict[tuple[str, int], tuple[int, int]] = {}  # (host, id) → part, number
        self._ended: dict[int, int] = {}  # number → part, in the order in which they have ended

    def __len__(self) -> int:
        """The number of current placements."""
        return len(self._at)

    def enter(self, host: str, frame: Placed) -> PlacementAdded:
        """Place an id of a host at a point from now on."""
        assert frame.point is not None
        divided = self.maps.get(frame.space.id)
        if divided is None:
            divided = self.maps[frame.space.id] = self._divide(frame.space)
            self._adopt(frame.space.id)
        part = divided.locate((frame.topic, *frame.point))
        added = PlacementAdded(
            frame.position, part, frame.position, host, frame.space, frame.topic, frame.point
        )
        self.parts[part][frame.position] = Placement(added, frame.id)
        self._at[host, frame.id] = part, frame.position
        return added

    def leave(self, host: str, id: int, position: int) -> tuple[int, int] | None:
        """Remove the placement of an id of a host; its part and number until now."""
        known = self._at.pop((host, id), None)
        if known is not None:
            part, number = known
            self.parts[part][number] = self.parts[part][number]._replace(until=position)
            self._ended[number] = part
        return known

    def expire(self, position: int) -> None:
        """Whatever has ended up to this position is forgotten."""
        for number, part in [*self._ended.items()]:
            if (self.parts[part][number].until or 0) > position:
                break
            del self.parts[part][number], self._ended[number]

    def forget(self, hosts: set[str]) -> None:
        """Remove all placements of these hosts, past ones too."""
        for host, id in [key for key in self._at if key[0] in hosts]:
            del self._at[host, id]
        for placements in self.parts.values():
            for number in [number for number, one in placements.items() if one.frame.host in hosts]:
                del placements[number]
                self._ended.pop(number, None)

    def split(self, part: int) -> int | None:
        """Divide a part in two; the number of the new one, or None if all stand in one place."""
        placements, divided = self.parts[part], self.maps[self.spaces[part]]
        new = divided.split(part, [one.point for one in placements.values()], next(self.numbers))
        if new is None:
            return None
        self._adopt(self.spaces[part])
        for number, one in [*placements.items()]:
            if divided.locate(one.point) == new:
                del placements[number]
                self.parts[new][number] = one._replace(frame=replace(one.frame, part=new))
                if one.until is None:
                    self._at[one.frame.host, one.id] = new, number
                else:
                    self._ended[number] = new
        return new

    def _adopt(self, space: int) -> None:
        """Take in the parts that a space has got."""
        for part in self.maps[space].numbers():
            if part not in self.parts:
                self.spaces[part], self.parts[part] = space, {}

    def check(self) -> None:
        """Assert that every placement is in the part of its point, and removed ones are marked."""
        for divided in self.maps.values():
            divided.check()
        for (host, id), (part, number) in self._at.items():
            placement = self.parts[part][number]
            assert (placement.frame.host, placement.id, placement.until) == (host, id, None)
            assert self.maps[self.spaces[part]].locate(placement.point) == part
        held = {number: one.until for some in self.parts.values() for number, one in some.items()}
        assert {number for number, until in held.items() if until is not None} == self._ended.keys()
        assert len(held) == len(self._at) + len(self._ended)
