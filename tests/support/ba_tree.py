"""The plain BA-tree over the shared radius tree: the reference that tests its runs and arrays without labels."""

from __future__ import annotations

from collections.abc import Iterable

from prosem.index.radii.ba_tree import RadiusTree
from prosem.index.radii.ba_tree_ends import Radius, Value


class BATree(RadiusTree):
    """Subscriptions to one data item by radius; all of one radius were notified of the same value. [ProSem thesis] 4.3.

    A known radius takes more subscriptions without a notification: they start with its last value. A new radius starts
    at the current value. The tree keeps absolute ends, so an event between the nearest ends changes nothing, and nothing
    drifts. An event that affects no subscription takes O(1), one that notifies m ranges amortised O(m log N).
    """

    __slots__ = ()

    def build(self, centres: Iterable[tuple[Radius, Value]]) -> BATree:
        """Replace all by one subscription for each of these radii, last notified of this value."""
        self._held.clear()
        self._load(sorted(centres))
        self._count = len(self._order)
        return self

    def add(self, radius: Radius) -> None:
        """Add a subscription."""
        if radius in self._order:
            self._held[radius] = self._held.get(radius, 1) + 1
        else:
            self._insert(radius, self._at(self.value))
        self._count += 1

    def remove(self, radius: Radius) -> None:
        """Remove a subscription; KeyError if there is none of the radius."""
        if radius not in self._order:
            raise KeyError(radius)
        times = self._held.pop(radius, 1)
        if times > 2:
            self._held[radius] = times - 1
        elif times == 1:
            self._delete(radius)
        self._count -= 1

    def last_notified(self, radius: Radius) -> Value | None:
        """The value of the last notification; KeyError if there is no such radius."""
        if radius not in self._order:
            raise KeyError(radius)
        return None if self.value is None else self._centres.centre(radius)

    def event(self, d: Value | None) -> list[tuple[Radius, Radius]]:
        """The radii notified of `d`, as maximal closed ranges in ascending order."""
        return [(low, high) for low, high, _ in self._fire(d)[0]]

    def check(self) -> None:
        super().check()
        assert sum(self._held.values()) + len(self._order) - len(self._held) == self._count, (
            "the count is kept"
        )
        assert all(times > 1 for times in self._held.values()), "one subscription is not counted"
