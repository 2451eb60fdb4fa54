"""Events on the leaves of the BA-tree: whole rows by a tag, the others cell by cell, all of them at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from prosem.index.ba_tree_ends import Array, Value
from prosem.index.radius_block_changes import ChangingRows
from prosem.index.radius_block_few import Part, Range
from prosem.index.radius_block_rows import SHIFT, WIDTH

Span = tuple[int, int]  # the first and the last of neighbouring cells
CROWDED = 3  # one row in so many, and the scan of all cells is quicker
CALM = 8  # one range for so many rows, and the rows are quicker; seen so often, they are used again
CALM_TIMES = 4


class RadiusBlocks(ChangingRows):
    """The rows that fire wholly get a tag, those that fire in part are entered, the others not looked at.

    An event with m ranges enters at most 2m rows (besides those of radii that fire in part), all of them in one
    sequence of array operations, after one comparison over the rows: O(N / WIDTH + m · WIDTH) steps of a nanosecond.
    Where centres fragment and most rows would be entered, the cells are scanned as one array and tags given up until
    ranges are few again; so an event never costs much more than the scan. Loses to `FewRadii` below a hundred radii.
    """

    _calm = 0  # scans in a row with few ranges

    def fire(self, d: Value, rising: bool) -> tuple[list[Range], list[Part]]:
        self.allow(d)
        side, x = (0, d) if rising else (1, -d)
        if self.flat:
            return self._scan(d, side, x)
        touched = (self.near[side] <= x).nonzero()[0]
        wholly = self.far[side].take(touched) <= x
        whole, entered = touched[wholly], touched[~wholly]
        if len(entered) * CROWDED > self.rows > CALM:
            self.push(np.arange(self.rows))
            self.flat, self._calm = True, 0
            return self._scan(d, side, x)
        self.visits += 1 + len(entered)
        spans: list[Span] = []
        parts: list[Part] = []
        if len(entered):
            self.push(entered)
            at = (self.ends[side].take(entered, 0) <= x).ravel().nonzero()[0]
            cells = (entered << SHIFT).take(at >> SHIFT) + (at & (WIDTH - 1))
            cells, parts = self._tell(cells, d)
            spans = _spans(cells)
            self._sum_up_rows(entered)
        if len(whole):
            self._tag(whole, d)
            spans += [(first * WIDTH, last * WIDTH + WIDTH - 1) for first, last in _spans(whole)]
            spans = _joined(sorted(spans))
        self.root = self.near.min(1).tolist()
        return self._ranges(spans), parts

    def recentre(self, d: Value) -> None:
        self.allow(d)
        for cell in self.flat_several.nonzero()[0].tolist():
            row, at = divmod(cell, WIDTH)
            if at < self._used[row]:
                self._held[row][at].recentre(d)
        self.several[:] = False
        self.several_count = 0
        self.flat = False
        self._tag(np.arange(self.rows), d)
        self.root = self.near.min(1).tolist()

    def _scan(self, d: Value, side: int, x: Value) -> tuple[list[Range], list[Part]]:
        self.visits += self.rows
        cells = (self.flat_ends[side] <= x).nonzero()[0]
        cells, parts = self._tell(cells, d)
        spans = _spans(cells)
        self._calm = self._calm + 1 if len(spans) * CALM <= self.rows else 0
        if self._calm == CALM_TIMES:
            self.flat = False
            self.sum_up()
        else:
            self.root = [ends.min() if ends.dtype == object else ends.min().item() for ends in self.flat_ends]
        return self._ranges(spans), parts

    def _tell(self, cells: Array, d: Value) -> tuple[Array, list[Part]]:
        """Recentre cells that are reached, of rows without tags; those that fire wholly, and the others."""
        parts: list[Part] = []
        if self.several_count:
            several = self.flat_several.take(cells).nonzero()[0]
            if len(several):
                cells, parts = self._tell_several(cells, several, d)
        if len(cells):
            where: slice | Array = cells
            first, last = int(cells[0]), int(cells[-1])
            if last - first + 1 == len(cells):
                where = slice(first, last + 1)
            right, minus_left = self.outward(d, self.flat_radii[where])
            self.flat_ends[0][where] = right
            self.flat_ends[1][where] = minus_left
            self.flat_centres[where] = d
        return cells, parts

    def _tell_several(self, cells: Array, several: Array, d: Value) -> tuple[Array, list[Part]]:
        """Let the classes of radii with several centres decide; the cells without those that fire in part."""
        parts: list[Part] = []
        wholly = np.ones(len(cells), bool)
        for place, cell in zip(several.tolist(), cells.take(several).tolist(), strict=True):
            row, at = divmod(cell, WIDTH)
            if at >= self._used[row]:
                continue  # it repeats the one before
            held = self._held[row][at]
            arcs = held.event(d)
            copies = self.copies(cell)
            if arcs is None:
                self.flat_several[copies] = False
                self.several_count -= 1
            else:
                parts.append((self.entry(cell).radius, arcs))
                if len(held) > 1:
                    self._several(cell, *held.near())
                else:  # the others had been told d before
                    self._place(cell, d)
                wholly[place : place + copies.stop - copies.start] = False
        return cells[wholly], parts

    def _tag(self, rows: Array, d: Value) -> None:
        """Note that all cells of rows were told `d`; none of them has several centres."""
        first, last = int(rows[0]), int(rows[-1])
        where: slice | Array = slice(first, last + 1) if last - first + 1 == len(rows) else rows
        self.tag[where] = d
        self.tagged[where] = True
        for side, (near, far) in enumerate(
            zip(self.outward(d, self.radii[where, 0]), self.outward(d, self.radii[where, -1]), strict=True)
        ):
            self.near[side][where] = near
            self.far[side][where] = far

    def _sum_up_rows(self, rows: Array) -> None:
        """Near and far of rows from their cells; they are not tagged."""
        ends = self.ends.take(rows, 1)
        near, far = ends.min(2), ends.max(2)
        if self.several_count:
            far[:, self.several.take(rows, 0).any(1)] = self._never()
        for side in (0, 1):
            self.near[side][rows] = near[side]
            self.far[side][rows] = far[side]

    def _ranges(self, spans: list[Span]) -> list[Range]:
        lows = self.flat_radii[[first for first, _ in spans]].tolist() if spans else []
        highs = self.flat_radii[[last for _, last in spans]].tolist() if spans else []
        return list(zip(lows, highs, strict=True))

    def check(self) -> None:
        """The invariants, in O(N)."""
        count = several = 0
        assert len(self._used) == len(self._held) == len(self._first) == self.rows, "every row is known"
        for row, used in enumerate(self._used):
            assert 0 < used == len(self._held[row]) <= WIDTH, "a row holds radii"
            radii = self.radii[row].tolist()
            assert all(a < b for a, b in pairwise(radii[:used])), "radii ascend"
            assert self._first[row] == radii[0], "the first radius of each row is known"
            assert not row or self.radii[row - 1, -1] < radii[0], "rows ascend"
            for cells in self._cells_of(row):
                assert len(set(cells[used - 1 :].tolist())) == 1, "cells behind the last radius repeat it"
            self._check_ends(row, used)
            count, several = count + used, several + int(self.several[row, :used].sum())
        assert (count, several) == (self._count, self.several_count), "the counts are kept"
        assert self.largest == self.flat_radii[-1], "the largest radius is known"
        assert not (self.flat and self.tagged.any()), "no tags during scans"

    def _check_ends(self, row: int, used: int) -> None:
        entries = [self.entry(row * WIDTH + at) for at in range(used)]
        sides: list[list[Value]] = [[], []]
        for entry in entries:
            if entry.several:
                assert not self.tagged[row], "a tagged row has one centre"
                right, left = entry.held.near()
            else:
                right, left = (end(entry.centre, entry.radius) for end in (self._ends.right, self._ends.left))
            sides[0].append(right)
            sides[1].append(-left)
        for side, ends in enumerate(sides):
            assert self.tagged[row] or self.ends[side, row, :used].tolist() == ends, (
                "ends are those of the centres"
            )
            assert self.root[side] <= min(ends), "no end is nearer than the root"
            if not self.flat:
                far = self._never() if any(entry.several for entry in entries) else max(ends)
                assert (self.near[side, row], self.far[side, row]) == (min(ends), far), "a row knows its ends"


def _spans(cells: Array) -> list[Span]:
    """Ascending cells as spans of neighbours."""
    if not len(cells):
        return []
    first, last = int(cells[0]), int(cells[-1])
    if last - first + 1 == len(cells):
        return [(first, last)]
    cuts = (cells[1:] - cells[:-1] != 1).nonzero()[0]
    return list(zip([first, *cells[cuts + 1].tolist()], [*cells[cuts].tolist(), last], strict=True))


def _joined(spans: list[Span]) -> list[Span]:
    """Ascending spans, those that touch made one."""
    found: list[Span] = []
    for first, last in spans:
        if found and found[-1][1] + 1 == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found
