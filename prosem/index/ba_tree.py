"""The augmented tree over radii (BA-tree): whom a new value concerns, as ranges of radii."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prosem.index.ba_tree_ends import Ends, Radius, Value
from prosem.index.radius_block import RadiusBlocks
from prosem.index.radius_block_few import FEW, Entry, FewRadii, Part, Radii, Range


class RadiusTree:
    """What the BA-tree and the B²-tree share: one data item, its value, and the radii of its subscriptions.

    The value None is that of a missing row: everybody is told when it comes and when it goes.
    """

    def __init__(self, ends: Ends, value: Value | None = None) -> None:
        self.ends = ends
        self.value = value
        self._count = 0
        self._visits = 0  # among the radii when they were fewer or more
        self._radii: Radii = FewRadii(ends)

    def __len__(self) -> int:
        return self._count

    @property
    def radii(self) -> int:
        """How many different radii there are."""
        return len(self._radii)

    @property
    def visits(self) -> int:
        """Rows and single radii looked at so far."""
        return self._visits + self._radii.visits

    def _fire(self, d: Value | None) -> tuple[list[Range], list[Part]]:
        before, self.value = self.value, d
        radii = self._radii
        if d is None or before is None:
            if d == before or not len(radii):
                return [], []
            radii.recentre(self._at(d))
            return [radii.span()], []
        if d > before:
            return ([], []) if d < radii.root[0] else radii.fire(d, True)
        if d == before or -d < radii.root[1]:
            return [], []
        return radii.fire(d, False)

    def _at(self, value: Value | None) -> Value:
        """Where cells stand: anywhere while there is no value."""
        return value if value is not None else 0 if self.ends.exact else 0.0

    def _cell(self, radius: Radius) -> int:
        cell = self._radii.locate(radius)
        if cell < 0:
            raise KeyError(radius)
        return cell

    def _insert(self, radius: Radius, held: Any) -> None:
        self._radii.insert(radius, self._at(self.value), held)
        if len(self._radii) == FEW and type(self._radii) is FewRadii:
            self._rebuild(list(self._radii))

    def _delete(self, cell: int) -> None:
        self._radii.delete(cell)
        if len(self._radii) == FEW // 2 and type(self._radii) is not FewRadii:
            self._rebuild(list(self._radii))

    def _rebuild(self, entries: list[Entry]) -> None:
        self._visits += self._radii.visits
        self._radii = FewRadii(self.ends, entries) if len(entries) < FEW else RadiusBlocks(self.ends, entries)

    def check(self) -> None:
        """The invariants, in O(N)."""
        self._radii.check()
        assert type(self._radii) is FewRadii or len(self._radii) > FEW // 2, "few radii stand in a list"
        right, minus_left = self._radii.root
        if self.value is not None:
            assert self.value < right, "the value lies left of every right end"
            assert -self.value < minus_left, "the value lies right of every left end"


class BATree(RadiusTree):
    """Subscriptions to one data item by radius; all of one radius were told the same. Thesis 4.3.

    A radius that is there takes more subscriptions without being told anew (they start with what it was told); a new
    one starts at the present value. The tree keeps absolute ends: an event between the nearest ends of all touches
    nothing, and one that fires all radii of a row only tags it. Nothing accumulates, so nothing drifts.

    An event that fires nobody takes O(1); for the others see `RadiusBlocks`, and `FewRadii` below some hundred radii.

    >>> from prosem.index.ba_tree_ends import Change
    >>> tree = BATree(Change(), 100)
    >>> for radius in (2, 4, 6):
    ...     tree.add(radius)
    >>> tree.event(102), tree.event(103), tree.event(104), tree.told(6), tree.event(107)
    ([(2, 2)], [], [(2, 4)], 100, [(2, 2), (6, 6)])
    """

    def build(self, entries: Iterable[tuple[Radius, Value, int]]) -> BATree:
        """Replace all by these, in any order: each radius once, the value it was told, its subscriptions."""
        held = [Entry(radius, self._at(told), False, times) for radius, told, times in sorted(entries)]
        self._count = sum(entry.held for entry in held)
        self._rebuild(held)
        return self

    def add(self, radius: Radius) -> None:
        """A subscription more."""
        cell = self._radii.locate(radius)
        if cell < 0:
            self._insert(radius, 1)
        else:
            self._radii.hold(cell, self._radii.entry(cell).held + 1)
        self._count += 1

    def remove(self, radius: Radius) -> None:
        """A subscription less; KeyError if there is none of the radius."""
        cell = self._cell(radius)
        held = self._radii.entry(cell).held
        if held > 1:
            self._radii.hold(cell, held - 1)
        else:
            self._delete(cell)
        self._count -= 1

    def told(self, radius: Radius) -> Value | None:
        """The value last told; KeyError if there is no such radius."""
        entry = self._radii.entry(self._cell(radius))
        return None if self.value is None else entry.centre

    def event(self, d: Value | None) -> list[Range]:
        """The radii that are told `d`, as maximal closed ranges in ascending order."""
        return self._fire(d)[0]

    def check(self) -> None:
        super().check()
        assert sum(entry.held for entry in self._radii) == self._count, "the count is kept"
        assert not any(entry.several for entry in self._radii), "one centre a radius"
