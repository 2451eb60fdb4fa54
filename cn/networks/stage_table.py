"""Weakened filters: of a place only its most general attributes, fewer at every stage ([Multi-stage] 3.3 and 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.model.geometry import EVERYTHING, Interval
from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.local import LocalNetwork
from cn.networks.lub import covers_all

SLOTS = 64  # numbers of attributes that are distinguished within a space
HERE: tuple[int] = (0,)  # the point in the place of one with no coordinate left
Weak = tuple[int, int, bytes, Any]  # space, attributes kept, topic, what is left of the place


def kept(attributes: int, stage: int) -> int:
    """How many attributes a stage filters on: one less than the stage below it, and never none.

    >>> [kept(4, stage) for stage in range(4)]  # year, conference, author, title
    [4, 3, 2, 1]
    """
    return max(min(1, attributes), attributes - stage)


def attributes_of(space: Space, place: Place, order: Sequence[int] | None) -> list[int]:
    """The attributes of a place, most general first: in the advertised order, or as they are numbered."""
    if order is not None:
        return [*order]
    if space.dimensions:
        return [*range(space.dimensions)]
    return [*range(1 + max((attribute for one in place for attribute in one), default=-1))]


def weaken(place: Place, space: Space, attributes: Sequence[int]) -> Place:
    """What a place asks of these attributes alone; it holds whatever the place holds."""
    if space.dimensions:
        return tuple(place[at] for at in attributes)
    return tuple({at: one[at] for at in attributes if at in one} for one in place)


def weaken_region(message: Message, attributes: Sequence[int]) -> Message:
    """What a message says of these dimensions alone."""
    boxes = tuple(tuple(box[at] for at in attributes) or (Interval(0, 0),) for box in message.region)
    return Message(
        message.seq, message.part, message.space, message.kind, message.topic, tuple(dict.fromkeys(boxes))
    )


class StageTable:
    """Weakened places by owner. Places that are weakened to the same share one entry.

    A message costs one search for each number of attributes in use, among the distinct weakened places. It loses where
    few places agree on their general attributes: then the table is as large as an exact one, and lets more through.
    """

    def __init__(self) -> None:
        self._index = LocalNetwork(self._note, lambda seq: None)
        self._numbers: dict[Weak, int] = {}
        self._owners: list[Counter[str]] = []  # of each number
        self._weak: list[Weak] = []
        self._free: list[int] = []
        self._places: dict[tuple[str, int], tuple[int, str] | None] = {}  # host, id → number, owner
        self._orders: dict[tuple[int, int], Sequence[int]] = {}  # space, how many kept → which
        self._found: list[int] = []

    def __len__(self) -> int:
        """Distinct filters."""
        return len(self._numbers)

    def put(
        self,
        owner: str,
        host: str,
        space: Space,
        id: int,
        topic: bytes,
        place: Place | None,
        stage: int,
        order: Sequence[int] | None = None,
    ) -> None:
        """An id of a host is placed from now on; of its place a stage keeps less and less."""
        entry = None
        if place is not None:
            attributes = attributes_of(space, place, order)
            attributes = attributes[: kept(len(attributes), stage)]
            entry = self._number(space, topic, weaken(place, space, attributes), attributes), owner
            self._owners[entry[0]][owner] += 1
        self.take(host, id)
        self._places[host, id] = entry

    def take(self, host: str, id: int) -> None:
        entry = self._places.pop((host, id), None)
        if entry is None:
            return
        number, owner = entry
        owners = self._owners[number]
        owners[owner] -= 1
        if not owners[owner]:
            del owners[owner]
        if not owners:
            self._index.remove(number)
            del self._numbers[self._weak[number]]
            self._free.append(number)

    def forget(self, hosts: Sequence[str]) -> None:
        for host, id in [place for place in self._places if place[0] in hosts]:
            self.take(host, id)

    def owners(self, message: Message) -> set[str]:
        """The owners of the weakened places that a message concerns; it has no targets."""
        self._found = []
        for (space, count), attributes in self._orders.items():
            if space == message.space:
                weak = message if message.attributes is not None else weaken_region(message, attributes)
                self._index.inject(
                    Message(0, 0, _slot(space, count), "", weak.topic, weak.region, None, weak.attributes)
                )
        return {owner for number in self._found for owner in self._owners[number]}

    def covering(self, space: Space, topic: bytes, place: Place) -> str | None:
        """The owner of the strongest weakened filter that covers a place; None if none does."""
        counts = sorted((count for known, count in self._orders if known == space.id), reverse=True)
        for count in counts:
            left = weaken(place, space, self._orders[space.id, count])
            if space.dimensions:  # a point is covered by the same point alone
                number = self._numbers.get((space.id, count, topic, left))
            else:
                number = self._covering_filter(space.id, count, topic, left)
            if number is not None:
                return next(iter(self._owners[number]))
        return None

    def _covering_filter(self, space: int, count: int, topic: bytes, left: Place) -> int | None:
        """The one with most conditions that covers these filters.

        O(1) if it is the same as they, with a condition on every attribute, else O(distinct filters).
        """
        number = self._numbers.get((space, count, topic, _form(left)))
        if number is not None and all(len(one) == count for one in left):
            return number
        best, found = -1, None
        for (known, kept, _, form), number in self._numbers.items():
            if (known, kept) != (space, count):
                continue  # of another space: it may be a point
            conditions = sum(map(len, form))
            if conditions > best and covers_all(tuple(dict(one) for one in form), left):
                best, found = conditions, number
        return found

    @property
    def depths(self) -> Iterable[tuple[int, int]]:
        """Spaces, and how many attributes are kept of places there."""
        return self._orders.keys()

    def _number(self, space: Space, topic: bytes, left: Place, attributes: Sequence[int]) -> int:
        count = len(attributes)
        known = self._orders.setdefault((space.id, count), tuple(attributes))
        if space.dimensions and known != tuple(attributes):
            raise ValueError(f"space {space.id} has two orders of attributes")
        form = left if space.dimensions else _form(left)
        weak: Weak = (space.id, count, topic, form)
        number = self._numbers.get(weak)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._weak[number] = weak
            else:
                number = len(self._weak)
                self._weak.append(weak)
                self._owners.append(Counter())
            self._numbers[weak] = number
            slot = Space(
                _slot(space.id, count), max(1, count) if space.dimensions else 0, space.int64 or not count
            )
            self._index.register(slot, number, topic, (left or HERE) if space.dimensions else left)
        return number

    def _note(self, message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        self._found += [int(id) for id in ids]

    def check(self) -> None:
        """Assert that entries, owners and the index agree."""
        counts: Counter[tuple[int, str]] = Counter(entry for entry in self._places.values() if entry)
        assert counts == Counter(
            {
                (number, owner): n
                for number in self._numbers.values()
                for owner, n in self._owners[number].items()
            }
        )
        assert len(self._index) == len(self._numbers)
        assert all(self._weak[number] == weak for weak, number in self._numbers.items())
        self._index.check()


def _form(left: Place) -> tuple[Any, ...]:
    return tuple(tuple(sorted(one.items())) for one in left)


def _slot(space: int, count: int) -> int:
    return space * SLOTS + min(count, SLOTS - 1)


def wildcard(space: Space, place: Place, attributes: Sequence[int]) -> int | None:
    """The most general attribute that a filter leaves open, as its number in the order; None if there is none."""
    if space.dimensions:
        return None
    for at, attribute in enumerate(attributes):
        if any(attribute not in one or EVERYTHING in one[attribute].intervals for one in place):
            return at
    return None
