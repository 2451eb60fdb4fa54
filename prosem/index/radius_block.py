"""The leaves of the BA-tree: radii in blocks, all blocks in a few arrays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from prosem.index.ba_tree_ends import SMALL, Array, Ends, Radius, Value
from prosem.index.radius_block_few import Entry

WIDTH = 128  # cells of a block
FILLED = 96  # cells of a block that many radii at once are put into


class RadiusBlock:
    """Rows of cells by radius. A cell has a radius, its centre, and its nearest ends on either side.

    `ends[0]` holds right ends and `ends[1]` negated left ends, so on both sides the smaller is the nearer. Cells
    behind the last radius of a row repeat it: they fire with it and need no care. Per row, `near` and `far` are the
    least and the greatest end of each side, and a `tagged` row's cells were all told `tag`, whatever they say; a row
    with a cell of several centres is never tagged and has no `far`. While `flat` is set, no row is tagged and near and
    far of the rows are not kept. Integers are kept in 64 bits while all ends fit, then as Python's own.

    Putting a radius in or taking it out takes O(WIDTH), and every so often O(N) to move rows.
    """

    def __init__(self, ends: Ends, entries: Sequence[Entry]) -> None:
        self._ends = ends
        self._wild = False  # whether a double may overflow
        self._count = self.several_count = 0
        self.visits = 0
        self.flat = False
        self.rows = -(-len(entries) // FILLED)
        self._used = [FILLED] * self.rows  # radii of each row
        self._used[-1] -= FILLED * self.rows - len(entries)
        self._held = [[entry.held for entry in entries[at * FILLED :][:FILLED]] for at in range(self.rows)]
        self._first = [entries[at * FILLED].radius for at in range(self.rows)]
        self._count = len(entries)
        kind: Any = np.float64
        if ends.exact:
            largest = entries[-1].radius
            small = all(type(entry.radius) is int and ends.fits(entry.centre, largest) for entry in entries)
            kind = np.int64 if small else object
        else:
            self._wild = not all(ends.calm(entry.centre, entries[-1].radius) for entry in entries)
        place = np.minimum(np.arange(WIDTH), np.array(self._used)[:, None] - 1)
        place += FILLED * np.arange(self.rows)[:, None]
        self._allot(
            np.array([entry.radius for entry in entries], kind)[place],
            np.array([entry.centre for entry in entries], kind)[place],
        )
        for at, entry in enumerate(entries):
            if entry.several:
                cell = at // FILLED * WIDTH + at % FILLED
                self.set_ends(cell, *entry.held.near())
        self.root: list[Value] = [0, 0]
        self.sum_up()

    def _allot(self, radius: Array, centre: Array) -> None:
        self.radii, self.centres = radius, centre
        self.ends: Array = np.stack(self.outward(centre, radius))
        self.several = np.zeros(radius.shape, bool)
        self.near, self.far = (np.zeros((2, self.rows), radius.dtype) for _ in range(2))
        self.tag, self.tagged = np.zeros(self.rows, radius.dtype), np.zeros(self.rows, bool)

    def __len__(self) -> int:
        return self._count
