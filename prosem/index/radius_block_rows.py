"""The leaves of the BA-tree: cells by radius, in rows of a few arrays."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from prosem.index.ba_tree_ends import SMALL, Array, Ends, Radius, Value
from prosem.index.radius_block_few import Entry, Range

SHIFT = 7
WIDTH = 1 << SHIFT  # cells of a row
FILLED = WIDTH * 3 // 4  # radii of a row when many come at once
SIDED = ("ends", "near", "far")  # arrays whose first axis is the side
LEAST = WIDTH // 4  # radii of a row below which it is joined with a neighbour


class RadiusRows:
    """Rows of cells by radius; a cell is a radius, its centre, and the nearest ends on either side.

    `ends[0]` holds right ends and `ends[1]` negated left ends, so on either side the smaller is the nearer. Cells
    behind the last radius of a row repeat it: they fire with it and need no care. Of each row, `near` and `far` are
    the least and the greatest end of a side; the cells of a `tagged` row were all told its `tag`, whatever they say;
    a row with a cell of several centres is not tagged and has no far end. While `flat` is set, no row is tagged, and
    near and far are not kept. Integers are kept in 64 bits while all ends fit, and then as Python's own.

    Putting a radius in or taking it out costs O(WIDTH), and now and then O(N) to move rows: 1/64 of them.
    """

    def __init__(self, ends: Ends, entries: Sequence[Entry]) -> None:
        self._ends = ends
        self._wild = False  # whether a double has overflowed
        self._count, self.several_count, self.visits = len(entries), 0, 0
        self.flat = False
        self.rows = -(-len(entries) // FILLED)
        self._used = [FILLED] * self.rows  # radii of each row
        self._used[-1] -= FILLED * self.rows - len(entries)
        self._held = [[entry.held for entry in entries[at * FILLED :][:FILLED]] for at in range(self.rows)]
        self._first = [entries[at * FILLED].radius for at in range(self.rows)]
        self.largest: Radius = entries[-1].radius
        kind: Any = np.int64 if ends.exact else np.float64
        if ends.exact and not all(type(entry.radius) is int for entry in entries):
            kind = object
        least, greatest = (pick(entry.centre for entry in entries) for pick in (min, max))
        if kind is np.int64 and not (ends.fits(least, self.largest) and ends.fits(greatest, self.largest)):
            kind = object
        place = np.minimum(np.arange(WIDTH), np.array(self._used)[:, None] - 1)
        place += FILLED * np.arange(self.rows)[:, None]
        self._base = self._arrays(self.rows, kind)
        self._view()
        self.radii[:] = np.array([entry.radius for entry in entries], kind)[place]
        self.centres[:] = np.array([entry.centre for entry in entries], kind)[place]
        self.allow(least)
        self.allow(greatest)
        self.ends[0], self.ends[1] = self.outward(self.centres, self.radii)
        for at, entry in enumerate(entries):
            if entry.several:
                self._several(at // FILLED * WIDTH + at % FILLED, *entry.held.near())
        self.root: list[Value] = [math.inf, math.inf]
        self.sum_up()

    @staticmethod
    def _arrays(rows: int, kind: Any) -> dict[str, Array]:
        """Arrays for a number of rows, whose axis is the first, or the second in those of either side."""
        return {
            "radii": np.zeros((rows, WIDTH), kind),
            "centres": np.zeros((rows, WIDTH), kind),
            "ends": np.zeros((2, rows, WIDTH), kind),
            "several": np.zeros((rows, WIDTH), bool),
            "near": np.zeros((2, rows), kind),
            "far": np.zeros((2, rows), kind),
            "tag": np.zeros(rows, kind),
            "tagged": np.zeros(rows, bool),
        }

    def _view(self) -> None:
        """Cut the arrays to the rows in use; the flat ones are views by cell."""
        base, rows = self._base, self.rows
        self.radii, self.centres = base["radii"][:rows], base["centres"][:rows]
        self.ends, self.several = base["ends"][:, :rows], base["several"][:rows]
        self.near, self.far = base["near"][:, :rows], base["far"][:, :rows]
        self.tag, self.tagged = base["tag"][:rows], base["tagged"][:rows]
        self.flat_radii, self.flat_centres = self.radii.reshape(-1), self.centres.reshape(-1)
        self.flat_ends = self.ends[0].reshape(-1), self.ends[1].reshape(-1)
        self.flat_several = self.several.reshape(-1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        for row, used in enumerate(self._used):
            yield from (self.entry(cell) for cell in range(row * WIDTH, row * WIDTH + used))

    # -- values ----------------------------------------------------------------------------------------------
    def allow(self, d: Value) -> None:
        """Make room for the ends around a value: wide integers, or doubles that overflow."""
        if not self._ends.exact:
            self._wild = self._wild or not self._ends.calm(d, self.largest)
        elif self.radii.dtype != object and not self._ends.fits(d, self.largest):
            self._widen()

    def _widen(self) -> None:
        for name, array in self._base.items():
            if array.dtype != bool:
                self._base[name] = array.astype(object)
        self._view()
        self.far[self.far == np.iinfo(np.int64).max] = math.inf

    def outward(self, c: Any, radii: Array) -> tuple[Array, Array]:
        """Right ends and negated left ends of many radii."""
        if self._wild:
            with np.errstate(over="ignore"):
                return self._ends.arrays(c, radii)
        return self._ends.arrays(c, radii)

    def _never(self) -> Value:
        """An end beyond every value."""
        return np.iinfo(np.int64).max if self.radii.dtype == np.int64 else math.inf

    # -- cells -----------------------------------------------------------------------------------------------
    def span(self) -> Range:
        return self._first[0], self.largest

    def locate(self, radius: Radius) -> int:
        row = max(0, bisect_right(self._first, radius) - 1)
        at = self._rank(row, radius)
        return row * WIDTH + at if at < self._used[row] and self.radii[row, at] == radius else -1

    def _rank(self, row: int, radius: Radius) -> int:
        return int(self.radii[row, : self._used[row]].searchsorted(radius))

    def entry(self, cell: int) -> Entry:
        row, at = divmod(cell, WIDTH)
        centre = self.tag[row] if self.tagged[row] else self.centres[row, at]
        radius, several = self.radii[row, at], bool(self.several[row, at])
        if self.radii.dtype != object:
            radius, centre = radius.item(), centre.item()
        return Entry(radius, centre, several, self._held[row][at])

    def hold(self, cell: int, held: Any) -> None:
        self._held[cell // WIDTH][cell % WIDTH] = held

    def copies(self, cell: int) -> slice:
        """The cell and those that repeat it."""
        row, at = divmod(cell, WIDTH)
        return slice(cell, row * WIDTH + WIDTH if at + 1 == self._used[row] else cell + 1)

    def set_centre(self, cell: int, centre: Value) -> None:
        self.allow(centre)
        row = cell // WIDTH
        self.push(np.array([row]))
        self._place(cell, centre)
        self.sum_up_row(row)

    def set_ends(self, cell: int, right: Value, left: Value) -> None:
        if self.radii.dtype == np.int64 and not (right < SMALL and -left < SMALL):
            self._widen()
        row = cell // WIDTH
        self.push(np.array([row]))
        self._several(cell, right, left)
        self.sum_up_row(row)

    def _place(self, cell: int, centre: Value) -> None:
        cells = self.copies(cell)
        self.several_count -= bool(self.flat_several[cell])
        self.flat_several[cells] = False
        self.flat_centres[cells] = centre
        radius = self.flat_radii[cell]
        if self.radii.dtype != object:
            radius = radius.item()
        self.flat_ends[0][cells] = self._ends.right(centre, radius)
        self.flat_ends[1][cells] = -self._ends.left(centre, radius)

    def _several(self, cell: int, right: Value, left: Value) -> None:
        cells = self.copies(cell)
        self.several_count += not self.flat_several[cell]
        self.flat_several[cells] = True
        self.flat_ends[0][cells] = right
        self.flat_ends[1][cells] = -left

    # -- rows ------------------------------------------------------------------------------------------------
    def push(self, rows: Array) -> None:
        """Let the cells of tagged rows say what they were told."""
        tagged = rows[self.tagged.take(rows)]
        if len(tagged):
            self.tagged[tagged] = False
            centre = self.tag.take(tagged)[:, None]
            self.centres[tagged] = centre
            right, minus_left = self.outward(centre, self.radii.take(tagged, 0))
            self.ends[0][tagged] = right
            self.ends[1][tagged] = minus_left

    def sum_up(self) -> None:
        """Near and far of all rows from their cells, and the root; no row is tagged."""
        self.near[:], self.far[:] = self.ends.min(2), self.ends.max(2)
        if self.several_count:
            self.far[:, self.several.any(1)] = self._never()
        self.root = self.near.min(1).tolist()

    def sum_up_row(self, row: int) -> None:
        """The same of one row, which is not tagged."""
        ends = self.ends[:, row]
        near = ends.min(1)
        self.near[:, row], self.far[:, row] = near, ends.max(1)
        if self.several_count and self.several[row].any():
            self.far[:, row] = self._never()
        self.root = [min(pair) for pair in zip(self.root, near.tolist(), strict=True)]
