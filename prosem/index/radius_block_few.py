"""The radii of one data item while they are few: a sorted list, looked through at each event."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from prosem.index.ba_tree_ends import Ends, Radius, Value
from prosem.index.bw_tree import Arcs

Range = tuple[Radius, Radius]  # a closed interval of radii
Part = tuple[Radius, Arcs]  # a radius that fires in part, and the labels that do
FEW = 96  # from here on blocks are quicker

_radius = attrgetter("radius")


class Entry(NamedTuple):
    """One radius: what all its subscriptions were told, unless `several` values were; then `held` knows."""

    radius: Radius
    centre: Value
    several: bool
    held: Any


class Radii(Protocol):
    """The radii of a BA-tree in ascending order. A cell is the place of one, until the next is put in or taken out.

    `root` holds the nearest right end and the nearest negated left end of all, or something nearer.
    """

    root: list[Value]
    visits: int

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Entry]: ...
    def span(self) -> Range:
        """The smallest and the largest radius, of one or more."""

    def locate(self, radius: Radius) -> int:
        """The cell of a radius; -1 if it is not there."""

    def insert(self, radius: Radius, centre: Value, held: Any) -> None: ...
    def delete(self, cell: int) -> None: ...
    def entry(self, cell: int) -> Entry: ...
    def hold(self, cell: int, held: Any) -> None: ...
    def set_centre(self, cell: int, centre: Value) -> None:
        """All subscriptions of the radius were told one value."""

    def set_ends(self, cell: int, right: Value, left: Value) -> None:
        """They were told several; the nearest ends."""

    def fire(self, d: Value, rising: bool) -> tuple[list[Range], list[Part]]:
        """Recentre those who fire: maximal ranges of radii that do so wholly, and the radii that do so in part."""

    def recentre(self, d: Value) -> None:
        """Everybody is told `d`, and nobody several values any more."""

    def check(self) -> None: ...


class Cell:
    __slots__ = ("centre", "held", "left", "radius", "right", "several")

    def __init__(self, radius: Radius, held: Any) -> None:
        self.radius, self.held, self.several = radius, held, False
        self.centre: Value = None
        self.right: Value = None
        self.left: Value = None


class FewRadii:
    """Scan(r) of thesis 4.3.1: O(N) an event that fires anybody, and no arrays. Loses from some hundred radii on."""

    __slots__ = ("_cells", "_ends", "root", "visits")

    def __init__(self, ends: Ends, entries: Iterable[Entry] = ()) -> None:
        self._ends = ends
        self._cells: list[Cell] = []
        self.visits = 0
        for radius, centre, several, held in entries:
            cell = Cell(radius, held)
            self._cells.append(cell)
            self._place(cell, centre)
            if several:
                cell.several = True
                cell.right, cell.left = held.near()
        self.root: list[Value] = [math.inf, math.inf]
        self._sum_up()

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Entry]:
        return (self.entry(at) for at in range(len(self._cells)))

    def entry(self, cell: int) -> Entry:
        found = self._cells[cell]
        return Entry(found.radius, found.centre, found.several, found.held)

    def span(self) -> Range:
        return self._cells[0].radius, self._cells[-1].radius

    def locate(self, radius: Radius) -> int:
        at = bisect_left(self._cells, radius, key=_radius)
        return at if at < len(self._cells) and self._cells[at].radius == radius else -1

    def insert(self, radius: Radius, centre: Value, held: Any) -> None:
        cell = Cell(radius, held)
        self._cells.insert(bisect_left(self._cells, radius, key=_radius), cell)
        self._place(cell, centre)
        self._note(cell)

    def delete(self, cell: int) -> None:
        del self._cells[cell]
        self._sum_up()

    def hold(self, cell: int, held: Any) -> None:
        self._cells[cell].held = held

    def set_centre(self, cell: int, centre: Value) -> None:
        self._place(self._cells[cell], centre)
        self._note(self._cells[cell])

    def set_ends(self, cell: int, right: Value, left: Value) -> None:
        found = self._cells[cell]
        found.several, found.right, found.left = True, right, left
        self._note(found)

    def fire(self, d: Value, rising: bool) -> tuple[list[Range], list[Part]]:
        ranges: list[Range] = []
        parts: list[Part] = []
        begun = None  # the first radius of the range that the last cell belongs to
        for cell in self._cells:
            if cell.right > d if rising else cell.left < d:
                begun = None
                continue
            arcs = cell.held.event(d) if cell.several else None
            if arcs is None:
                self._place(cell, d)
                if begun is None:
                    begun = cell.radius
                    ranges.append((begun, begun))
                else:
                    ranges[-1] = begun, cell.radius
            else:
                parts.append((cell.radius, arcs))
                if len(cell.held) > 1:
                    cell.right, cell.left = cell.held.near()
                else:  # the others had been told d before
                    self._place(cell, d)
                begun = None
        self.visits += len(self._cells)
        self._sum_up()
        return ranges, parts

    def recentre(self, d: Value) -> None:
        for cell in self._cells:
            if cell.several:
                cell.held.recentre(d)
            self._place(cell, d)
        self._sum_up()

    def _place(self, cell: Cell, centre: Value) -> None:
        cell.centre, cell.several = centre, False
        cell.right, cell.left = self._ends.right(centre, cell.radius), self._ends.left(centre, cell.radius)

    def _note(self, cell: Cell) -> None:
        self.root[0] = min(self.root[0], cell.right)
        self.root[1] = min(self.root[1], -cell.left)

    def _sum_up(self) -> None:
        self.root[0] = min((cell.right for cell in self._cells), default=math.inf)
        self.root[1] = -max((cell.left for cell in self._cells), default=-math.inf)

    def check(self) -> None:
        """The invariants, in O(N)."""
        cells = self._cells
        assert all(a.radius < b.radius for a, b in pairwise(cells)), "radii ascend strictly"
        for cell in cells:
            if cell.several:
                near = cell.held.near()
            else:
                near = self._ends.right(cell.centre, cell.radius), self._ends.left(cell.centre, cell.radius)
            assert (cell.right, cell.left) == near, "ends are those of the centres"
        assert all(self.root[0] <= c.right and self.root[1] <= -c.left for c in cells), (
            "no end is nearer than the root"
        )
