"""The centres of all radii as arrays: one comparison for each, whatever their state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np

from prosem.index.radii.ba_tree_ends import SMALL, Array, Ends, Radius, Value
from prosem.index.radii.ba_tree_radii import SEVERAL, Fired, Held, Part, Run, wholly
from prosem.index.radii.radius_block import RadiusBlocks


class UnfitError(Exception):
    """A number does not fit in an array of 64 bits per cell; nothing has changed."""


class RadiusArrays:
    """Scan(r) of [ProSem thesis] 4.3.1: right ends, negated left ends and centres in arrays by radius.

    An event takes O(N) array steps of about a nanosecond, and O(m) for m ranges; a radius more or less copies the
    arrays. Wins over `RadiusRuns` where neighbouring radii have different centres, so that hundreds of ranges
    fire. The nearest end of a side is sought when no subscription fires there, so that the next such event takes O(1). For
    doubles, and for integers while all ends fit in 64 bits (`UnfitError` else).
    """

    def __init__(self, ends: Ends, radii: RadiusBlocks, held: Held, runs: Iterable[Run]) -> None:
        self._ends, self._held = ends, held
        self.visits = 0
        self.work = self.work_elsewhere = 0.0
        self._wild = False  # whether a double has overflowed
        self._largest: Radius = radii.last
        runs, values = list(runs), list(radii)
        if ends.exact and not all(type(radius) is int for radius in values):
            raise UnfitError
        centres = [0 if run.centre is SEVERAL else run.centre for run in runs]
        self._allow(min(centres))
        self._allow(max(centres))
        kind: Any = np.int64 if ends.exact else np.float64
        self._radii: Array = np.array(values, kind)
        first = self._radii.searchsorted(np.array([run.low for run in runs], kind))
        self._centres: Array = np.repeat(np.array(centres, kind), np.diff(first, append=len(values)))
        self._right, self._minus_left = self._outward(self._centres, self._radii)
        self._several = np.zeros(len(values), bool)
        self._several_count = 0
        self.root: list[Value] = [-math.inf, -math.inf]
        for run in runs:
            if run.centre is SEVERAL:
                self.set_several(run.low)

    def copy(self) -> RadiusArrays:
        """The same in other arrays."""
        copied = copy(self)
        copied.root = list(self.root)
        copied._radii, copied._centres = self._radii.copy(), self._centres.copy()
        copied._right, copied._minus_left = self._right.copy(), self._minus_left.copy()
        copied._several = self._several.copy()
        return copied

    def __iter__(self) -> Iterator[Run]:
        cut = (self._centres[1:] != self._centres[:-1]) | self._several[1:] | self._several[:-1]
        first = [0, *(cut.nonzero()[0] + 1).tolist()]
        last = [*(at - 1 for at in first[1:]), len(self._radii) - 1]
        several = self._several[first].tolist()
        for at, (low, high, centre) in enumerate(
            zip(
                *(
                    column.tolist()
                    for column in (self._radii[first], self._radii[last], self._centres[first])
                ),
                strict=True,
            )
        ):
            yield Run(low, high, SEVERAL if several[at] else centre)

    def _allow(self, d: Value) -> None:
        """Be ready for the ends around a value."""
        if not self._ends.exact:
            self._wild = self._wild or not self._ends.calm(d, self._largest)
        elif not self._ends.fits(d, self._largest):
            raise UnfitError

    def _outward(self, c: Any, radii: Array) -> tuple[Array, Array]:
        if self._wild:
            with np.errstate(over="ignore"):
                return self._ends.arrays(c, radii)
        return self._ends.arrays(c, radii)

    # -- events ----------------------------------------------------------------------------------------------
    def fire(self, d: Value, rising: bool) -> tuple[list[Fired], list[Part]]:
        self._allow(d)
        self.visits += 1
        side, x, ends = (0, d, self._right) if rising else (1, -d, self._minus_left)
        cells = (ends <= x).nonzero()[0]
        parts: list[Part] = []
        if not len(cells):
            self.root[side] = ends.min().item()
            return [], parts
        if self._several_count:
            several = self._several.take(cells).nonzero()[0]
            if len(several):
                cells, parts = self._fire_classes(cells, several, d)
        self._right[cells], self._minus_left[cells] = self._outward(d, self._radii.take(cells))
        self._centres[cells] = d
        self.root = [-math.inf, -math.inf]
        ranges = self._ranges(cells)
        fired = len(ranges) + len(parts)
        self.work, self.work_elsewhere = 25 + 0.001 * len(self._radii) + 0.3 * fired, 16 + 6 * fired
        return ranges, parts

    def _ranges(self, cells: Array) -> list[Fired]:
        if not len(cells):
            return []
        cuts = (cells[1:] - cells[:-1] != 1).nonzero()[0]
        radii = self._radii.take(cells)
        lows, highs = radii.take(cuts + 1).tolist(), radii.take(cuts).tolist()
        return wholly(([radii[0].item(), *lows], [*highs, radii[-1].item()]))

    def _fire_classes(self, cells: Array, several: Array, d: Value) -> tuple[Array, list[Part]]:
        """Let the classes of radii with several centres decide; the cells without those that fire in part."""
        parts: list[Part] = []
        wholly = np.ones(len(cells), bool)
        for place, cell in zip(several.tolist(), cells.take(several).tolist(), strict=True):
            radius = self._radii[cell].item()
            classes = self._held[radius]
            arcs = classes.event(d)
            if arcs is not None:
                parts.append((radius, arcs))
                wholly[place] = False
            if len(classes) > 1:
                self._set(cell, SEVERAL, *classes.near())
            else:
                self._set(cell, d, self._ends.right(d, radius), self._ends.left(d, radius))
        return cells[wholly], parts

    def recentre(self, d: Value) -> None:
        self._allow(d)
        self._centres[:], self._several[:], self._several_count = d, False, 0
        self._right, self._minus_left = self._outward(self._centres, self._radii)
        self.root = [-math.inf, -math.inf]

    # -- single radii ----------------------------------------------------------------------------------------
    def _cell(self, radius: Radius) -> int:
        return int(self._radii.searchsorted(radius))

    def _set(self, cell: int, centre: Value, right: Value, left: Value) -> None:
        several = centre is SEVERAL
        self._several_count += several - int(self._several[cell])
        self._several[cell] = several
        self._centres[cell] = 0 if several else centre
        self._right[cell], self._minus_left[cell] = right, -left
        self.root = [min(self.root[0], right), min(self.root[1], -left)]

    def centre(self, radius: Radius) -> Value:
        cell = self._cell(radius)
        return SEVERAL if self._several[cell] else self._centres[cell].item()

    def set_centre(self, radius: Radius, centre: Value) -> None:
        self._allow(centre)
        self._set(
            self._cell(radius), centre, self._ends.right(centre, radius), self._ends.left(centre, radius)
        )

    def set_several(self, radius: Radius) -> None:
        right, left = self._held[radius].near()
        if self._ends.exact and not (right < SMALL and -left < SMALL):
            raise UnfitError
        self._set(self._cell(radius), SEVERAL, right, left)

    def insert(self, radius: Radius, centre: Value) -> None:
        if self._ends.exact and not (type(radius) is int and self._ends.fits(centre, radius)):
            raise UnfitError
        self._largest = max(self._largest, radius)
        cell = self._cell(radius)
        self._radii, self._centres = np.insert(self._radii, cell, radius), np.insert(self._centres, cell, 0)
        self._right, self._minus_left = np.insert(self._right, cell, 0), np.insert(self._minus_left, cell, 0)
        self._several = np.insert(self._several, cell, False)
        self.set_centre(radius, centre)

    def delete(self, radius: Radius) -> None:
        cell = self._cell(radius)
        self._several_count -= int(self._several[cell])
        self._radii, self._centres = np.delete(self._radii, cell), np.delete(self._centres, cell)
        self._right, self._minus_left = np.delete(self._right, cell), np.delete(self._minus_left, cell)
        self._several = np.delete(self._several, cell)

    def check(self) -> None:
        """The invariants, in O(N)."""
        columns = (self._radii, self._centres, self._right, self._minus_left, self._several)
        assert len({len(column) for column in columns}) == 1, "one cell in every array"
        assert bool((self._radii[1:] > self._radii[:-1]).all()), "radii ascend strictly"
        assert self._largest >= self._radii[-1], "no radius is larger than the largest"
        assert int(self._several.sum()) == self._several_count, "the radii with several centres are counted"
        for radius, centre, right, minus_left, several in zip(*(c.tolist() for c in columns), strict=True):
            ends = self._ends.right(centre, radius), self._ends.left(centre, radius)
            near = self._held[radius].near() if several else ends
            assert near == (right, -minus_left), "ends are those of the centres"
            assert self.root[0] <= right, "no right end is nearer than the root"
            assert self.root[1] <= minus_left, "no left end is nearer than the root"
