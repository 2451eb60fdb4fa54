"""What a plan will cost, by what it cost on events like this one ([ProSem thesis] 6.4.2, "Metrics Estimation").

Measurements are kept with the descriptor of their event. Those with equal descriptors are one cell, which holds their
medians: a single slow moment of the machine counts for nothing. An estimate is read from the nearest cells. Cells are found
by a vectorised scan, O(cells · dimensions); the chooser remembers the outcome for each descriptor until the next rebuild, so
an event costs one dictionary lookup.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.plan import Descriptor, Estimate

ENTRIES = 1_000
NEAREST = 8  # cells that an estimate is taken from
REACH = 9.0  # squared distance beyond which nothing like the event has been measured
SOFT = 0.5  # added to squared distances: an equal descriptor counts much, but not alone
Entry = tuple[Descriptor, Estimate]
Nearest = tuple[NDArray[np.intp], NDArray[np.float64]]


class Neighbours:
    """An immutable index of measurements, one row per cell. Entries of another length than the first are left out.

    >>> near, far = Estimate(10, 10, 100, 0, 1), Estimate(50, 50, 900, 0, 9)
    >>> index = Neighbours([((1, 2), near), ((1, 2), near), ((1, 12), far)])
    >>> len(index), index.estimate((1, 12)), index.estimate((1, 7))
    (2, Estimate(server_time=50.0, response_time=50.0, server_stress=900.0, bandwidth=0.0, affected=9.0), None)
    """

    __slots__ = ("_cells", "_counts", "_medians", "layout")

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        length = len(entries[0][0]) if entries else 0
        kept = [entry for entry in entries if len(entry[0]) == length]
        self._cells: NDArray[np.float64] = np.empty((0, length))
        self._medians: NDArray[np.float64] = np.empty((0, len(Estimate._fields)))
        self._counts: NDArray[np.float64] = np.empty(0)
        if kept:
            self._cells, of_cell, counts = np.unique(
                np.array([descriptor for descriptor, _ in kept], np.float64),
                axis=0, return_inverse=True, return_counts=True,
            )  # fmt: skip
            self._counts = counts.astype(np.float64)
            self._medians = medians(np.array([e for _, e in kept], np.float64), of_cell.ravel(), counts)
        self.layout = hash((self._cells.tobytes(), self._counts.tobytes()))

    def __len__(self) -> int:
        return len(self._cells)

    def estimate(self, descriptor: Descriptor) -> Estimate | None:
        """The mean of the nearest cells, by their sizes and distances; None if even the nearest is out of reach."""
        found = self.nearest(descriptor)
        return None if found is None else self.read(found)

    def read(self, found: Nearest) -> Estimate:
        """The estimate of the nearest cells; they may have been found in another index with the same `layout`."""
        nearest, weights = found
        return Estimate(*(weights @ self._medians[nearest]).tolist())

    def nearest(self, descriptor: Descriptor) -> Nearest | None:
        """The nearest cells and how much each counts; None if there are none within reach."""
        if not len(self._cells) or len(descriptor) != self._cells.shape[1]:
            return None
        apart = self._cells - np.array(descriptor, np.float64)
        distances = np.einsum("ij,ij->i", apart, apart)
        if len(distances) > NEAREST:
            nearest = np.argpartition(distances, NEAREST - 1)[:NEAREST]
        else:
            nearest = np.arange(len(distances))
        chosen = distances[nearest]
        first = chosen.min()
        if first > REACH:
            return None
        weights = self._counts[nearest] / (SOFT + chosen) ** 2
        weights[chosen > max(1.0, 4 * first)] = 0.0  # what is much farther than the nearest says nothing more
        return nearest, weights / weights.sum()

    def check(self) -> None:
        assert len(self._cells) == len(self._medians) == len(self._counts)
        assert len({*map(tuple, self._cells.tolist())}) == len(self._cells), "a cell occurs once"
        assert (self._counts >= 1).all()


def medians(values: NDArray[np.float64], cells: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """The (lower) median of every column in every cell, without a loop over the cells."""
    middles = np.cumsum(counts) - counts + (counts - 1) // 2
    columns = [column[np.lexsort((column, cells))][middles] for column in values.T]
    return np.stack(columns, axis=1)


class Estimator:
    """The measurements of one plan in one space, at most `limit`, the oldest go first; and the index over them.

    `learn` is O(1); the index is built anew once an eighth of the entries is new, so it costs little per measurement.
    """

    __slots__ = ("_entries", "_fresh", "index")

    def __init__(self, limit: int = ENTRIES, entries: Iterable[Entry] = ()) -> None:
        self._entries: deque[Entry] = deque(entries, maxlen=max(1, limit))
        self._fresh = 0
        self.index = Neighbours(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, descriptor: Descriptor, estimate: Estimate) -> bool:
        """Take a measurement; True if the index was built anew."""
        self._entries.append((descriptor, estimate))
        self._fresh += 1
        if self._fresh * 8 < max(32, len(self._entries)):
            return False
        self._fresh = 0
        self.index = Neighbours(tuple(self._entries))
        return True
