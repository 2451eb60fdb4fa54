"""Draws that the workloads of value notification share."""

from __future__ import annotations

from typing import Any

import numpy as np


def truncated(
    rng: np.random.Generator, mean: float, deviation: float, low: float, high: float, count: int
) -> Any:
    found = np.empty(0)
    while len(found) < count:
        drawn = rng.normal(mean, deviation, 2 * count)
        found = np.concatenate((found, drawn[(drawn >= low) & (drawn <= high)]))
    return found[:count]
