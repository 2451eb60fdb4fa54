"""Radii that come and go: how the rows of the BA-tree's leaves split and join."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from prosem.index.ba_tree_ends import Array, Radius, Value
from prosem.index.radius_block_rows import LEAST, WIDTH, RadiusRows


class ChangingRows(RadiusRows):
    """Rows with one more radius or one less; between LEAST and WIDTH of them in a row, unless it is the only one."""

    def insert(self, radius: Radius, centre: Value, held: Any) -> None:
        self.largest = max(self.largest, radius)
        if self._ends.exact and self.radii.dtype != object and type(radius) is not int:
            self._widen()
        self.allow(centre)
        for value in self._centres_held():  # a larger radius has wider ends around all that was told
            self.allow(value)
        row = max(0, bisect_right(self._first, radius) - 1)
        self.push(np.array([row]))
        if self._used[row] == WIDTH:
            self._split(row)
            row += bool(radius > self._first[row + 1])
        at, used = self._rank(row, radius), self._used[row]
        for cells in self._cells_of(row):
            cells[at + 1 :] = cells[at:-1] if at < used else cells[at]
        self._used[row] += 1
        self._held[row].insert(at, held)
        self._count += 1
        cell = row * WIDTH + at
        copies = self.copies(cell)
        self.flat_radii[copies] = radius
        self.several_count += bool(self.flat_several[cell]) and at < used
        self.flat_several[copies] = False
        self._place(cell, centre)
        if not at:
            self._first[row] = radius
        self.sum_up_row(row)
