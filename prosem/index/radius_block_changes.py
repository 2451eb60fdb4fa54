"""Radii that come and go: how the rows of the BA-tree's leaves grow, split and join."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from prosem.index.ba_tree_ends import Array, Radius, Value
from prosem.index.radius_block_rows import FILLED, LEAST, SIDED, WIDTH, RadiusRows


class ChangingRows(RadiusRows):
    """Rows that take one radius more or less, at least one in a row; a short row joins a neighbour with room for it."""

    def insert(self, radius: Radius, centre: Value, held: Any) -> None:
        self.largest = max(self.largest, radius)
        if self._ends.exact and self.radii.dtype != object and type(radius) is not int:
            self._widen()
        self.allow(centre)
        row = max(0, bisect_right(self._first, radius) - 1)
        self.push(np.array([row]))
        if self._used[row] == WIDTH:
            self._split(row)
            row += bool(radius > self._first[row + 1])
        at = self._rank(row, radius)
        for cells in self._cells_of(row):
            cells[at + 1 :] = cells[at:-1]
        self._used[row] += 1
        self._held[row].insert(at, held)
        self._count += 1
        if not at:
            self._first[row] = radius
        cell = row * WIDTH + at
        self.flat_radii[self.copies(cell)] = radius
        self.flat_several[self.copies(cell)] = False  # what stands there has moved on and is counted
        self._place(cell, centre)
        self.sum_up_row(row)

    def delete(self, cell: int) -> None:
        row, at = divmod(cell, WIDTH)
        self.push(np.array([row]))
        self.several_count -= bool(self.flat_several[cell])
        last = at + 1 == self._used[row]
        for cells in self._cells_of(row):
            if last:
                cells[at:] = cells[at - 1]
            else:
                cells[at:-1] = cells[at + 1 :]
        self._used[row] -= 1
        self._count -= 1
        del self._held[row][at]
        if not self._used[row]:
            self._close(row)
        else:
            self._first[row] = self.entry(row * WIDTH).radius
            self.sum_up_row(row)
            if self._used[row] < LEAST:
                self._join(row)
        self.largest = self.entry(self.rows * WIDTH - WIDTH + self._used[-1] - 1).radius

    # -- rows ------------------------------------------------------------------------------------------------
    def _cells_of(self, row: int) -> list[Array]:
        return [self.radii[row], self.centres[row], self.ends[0, row], self.ends[1, row], self.several[row]]

    def _split(self, row: int) -> None:
        """Move the second half of a full row into a row of its own."""
        half = WIDTH // 2
        self._open(row + 1)
        for left, right in zip(self._cells_of(row), self._cells_of(row + 1), strict=True):
            right[:half] = left[half:]
            right[half:] = left[-1]
            left[half:] = left[half - 1]
        self._used[row : row + 1] = [half, WIDTH - half]
        self._held[row : row + 1] = [self._held[row][:half], self._held[row][half:]]
        self._first.insert(row + 1, self.entry((row + 1) * WIDTH).radius)
        self.sum_up_row(row)
        self.sum_up_row(row + 1)

    def _join(self, row: int) -> None:
        """Join a short row with the shorter of its neighbours, if both have room in one."""
        beside = [at for at in (row - 1, row + 1) if 0 <= at < self.rows]
        if not beside:
            return
        other = min(beside, key=self._used.__getitem__)
        if self._used[row] + self._used[other] > FILLED:
            return
        row, other = min(row, other), max(row, other)
        self.push(np.array([row, other]))
        here, more = self._used[row], self._used[other]
        for left, right in zip(self._cells_of(row), self._cells_of(other), strict=True):
            left[here : here + more] = right[:more]
            left[here + more :] = right[-1]
        self._used[row] += more
        self._held[row] += self._held[other]
        self._close(other)
        self.sum_up_row(row)

    def _open(self, row: int) -> None:
        """Make room for a row, which is not tagged; the caller counts its radii."""
        rows = self.rows
        if rows == len(self._base["tag"]):
            narrow = self._by_row()
            self._base = self._arrays(rows + rows // 2 + 1, self.radii.dtype)
            for array, before in zip(self._by_row(), narrow, strict=True):
                array[:rows] = before
        for array in self._by_row():
            array[row + 1 : rows + 1] = array[row:rows]
        self.rows += 1
        self._view()
        self.tagged[row] = False

    def _close(self, row: int) -> None:
        for array in self._by_row():
            array[row : self.rows - 1] = array[row + 1 : self.rows]
        self.rows -= 1
        del self._used[row], self._held[row], self._first[row]
        self._view()

    def _by_row(self) -> list[Array]:
        """All arrays with their axis of rows first."""
        return [array.swapaxes(0, 1) if name in SIDED else array for name, array in self._base.items()]
