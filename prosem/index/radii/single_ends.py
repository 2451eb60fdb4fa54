"""Subscriptions to one data item one by one: each with a radius and a last notified value of its own, found by its ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sortedcontainers import SortedList

from prosem.index.radii.ba_tree_ends import Ends, Radius, Value


class SingleEnds:
    """Which of some subscriptions an event fires, whatever values they were last notified of.

    A `B2Tree` holds only subscriptions that the present value does not fire. One that was given a smaller radius may stand
    anywhere: it fires at the next event, whether that changes the value or not. Each stands here by its two ends, so an
    event costs O((1 + k) log N) for k that fire, and the others are not looked at. It loses to a `B2Tree` where many
    subscriptions fire together: that names them by a range.

    >>> from prosem.index.radii.ba_tree_ends import Change
    >>> single = SingleEnds(Change())
    >>> single.add(7, 3, 10)
    >>> single.add(8, 5, 10)
    >>> single.event(14), single.event(14), single.event(15)
    ([(7, 10)], [], [(8, 10)])
    """

    __slots__ = ("_ends", "_last_notified", "_left", "_none", "_right")

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._last_notified: dict[int, tuple[Radius, Value | None]] = {}
        self._left: SortedList[tuple[Any, int]] = SortedList()
        self._right: SortedList[tuple[Any, int]] = SortedList()
        self._none: set[int] = set()  # notified that there is no value

    def __len__(self) -> int:
        return len(self._last_notified)

    def __contains__(self, id: object) -> bool:
        return id in self._last_notified

    def __iter__(self) -> Iterator[tuple[int, Radius, Value | None]]:
        return ((id, radius, last_notified) for id, (radius, last_notified) in self._last_notified.items())

    def last_notified(self, id: int) -> Value | None:
        """The last notified value; KeyError if it is not here."""
        return self._last_notified[id][1]

    def add(self, id: int, radius: Radius, last_notified: Value | None) -> None:
        """One more; it must not be here yet."""
        self._last_notified[id] = radius, last_notified
        if last_notified is None:
            self._none.add(id)
        else:
            self._left.add((self._ends.left(last_notified, radius), id))
            self._right.add((self._ends.right(last_notified, radius), id))

    def remove(self, id: int) -> tuple[Radius, Value | None]:
        """One less, with its radius and last notified value; KeyError if it is not here."""
        radius, last_notified = self._last_notified.pop(id)
        if last_notified is None:
            self._none.discard(id)
        else:
            self._left.remove((self._ends.left(last_notified, radius), id))
            self._right.remove((self._ends.right(last_notified, radius), id))
        return radius, last_notified

    def event(self, value: Value | None) -> list[tuple[int, Value | None]]:
        """Those that are notified of the value now (None: there is none any more), each with its last notified value."""
        if value is None:
            fired = [id for id in self._last_notified if id not in self._none]
        else:
            fired = sorted(self._none)
            fired += [id for _, id in self._left.irange(minimum=(value, -1))]
            fired += [id for _, id in self._right.irange(maximum=(value, 1 << 63))]
        found = []
        for id in fired:
            radius, before = self._last_notified[id]
            found.append((id, before))
            self.remove(id)
            self.add(id, radius, value)
        return found

    def check(self) -> None:
        """The invariants, in O(N)."""
        placed = {id: ends for id, ends in self._last_notified.items() if ends[1] is not None}
        assert self._none == self._last_notified.keys() - placed.keys(), (
            "the others were notified that there is no value"
        )
        for order, end in ((self._left, self._ends.left), (self._right, self._ends.right)):
            wanted = sorted(
                (end(last_notified, radius), id) for id, (radius, last_notified) in placed.items()
            )
            assert list(order) == wanted, "each stands by both of its ends"
