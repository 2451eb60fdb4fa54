"""What is known of each subscription: its place, its radius and its last notified value, in lists by slot."""

from __future__ import annotations

from prosem.types.base import Bound
from prosem.types.notified.condition import Number
from prosem.types.notified.values import LastNotified


class NotifiedColumns:
    """Slots are used again. `bounds` are places of the aggregate, without a radius.

    >>> columns = NotifiedColumns()
    >>> columns.add(7, Bound(b"", (1, 2)), 5), columns.add(9, Bound(b"", None), 5), columns.remove(7)
    (0, 1, 0)
    >>> columns.add(8, Bound(b"", None), 3), columns.slot(9), columns.sids[0]
    (0, 1, 8)
    """

    def __init__(self) -> None:
        self.sids: list[int] = []
        self.bounds: list[Bound] = []
        self.radii: list[Number] = []
        self.last_notified: list[LastNotified] = []
        self._slots: dict[int, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def slot(self, sid: int) -> int:
        return self._slots[sid]

    def add(self, sid: int, bound: Bound, radius: Number) -> int:
        """A slot for one more."""
        if self._free:
            slot = self._free.pop()
            self.sids[slot], self.bounds[slot], self.radii[slot] = sid, bound, radius
        else:
            slot = len(self.sids)
            self.sids.append(sid)
            self.bounds.append(bound)
            self.radii.append(radius)
            self.last_notified.append(LastNotified(None))
        self._slots[sid] = slot
        return slot

    def remove(self, sid: int) -> int:
        """One less; the slot it had."""
        slot = self._slots.pop(sid)
        self._free.append(slot)
        self.last_notified[slot] = LastNotified(None)
        return slot

    def items(self) -> list[tuple[int, int]]:
        """All subscriptions with their slots."""
        return list(self._slots.items())
