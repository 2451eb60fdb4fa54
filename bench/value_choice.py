"""Value notification where there is a choice: may and must ([ProSem thesis] 4.6.1), and relaxation ([ProSem thesis] 4.2.3).

May and must: radii as in `diff_rad` are `must`, and `may` is a share of it. Messages per event with the choice stand beside
those of telling at `must` alone, on the same values, and how often a subscriber is told.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import fail, progress
from prosem.index.radii.b2_tree import B2Tree
from prosem.index.radii.ba_tree_ends import Change, MayMust
from prosem.index.radii.labels import ORIGIN

Integers = NDArray[np.int64]


def may_must(must: Integers, share: float, values: list[int]) -> dict[str, Any]:
    """Telling early where that merges ranges, against telling as late as possible."""
    progress(f"value-change: may = {share} must, {len(must):,} subscriptions")
    may = np.maximum(1, (must * share).astype(np.int64))
    order = np.lexsort((must, may))
    pairs = list(zip(may[order].tolist(), must[order].tolist(), strict=True))
    free = _Told(MayMust(), [(pair, pair[0], pair[1]) for pair in pairs])
    late = _Told(Change(), sorted((pair[1], pair[1], pair[1]) for pair in pairs))
    for value in values:
        for told in (free, late):
            told.event(value)
    return {
        "subscriptions": len(pairs),
        "may": share,
        "messages": round(free.messages / len(values), 3),
        "messages_at_must": round(late.messages / len(values), 3),
        "told": round(free.count / len(values), 2),
        "told_at_must": round(late.count / len(values), 2),
        "us_tree": round(free.seconds / len(values) * 1e6, 2),
        "us_at_must": round(late.seconds / len(values) * 1e6, 2),
    }


class _Told:
    """A tree, and what each of its subscriptions was told: the contract is checked at every event."""

    def __init__(self, ends: Change, radii: list[tuple[Any, int, int]]) -> None:
        state: list[Any] = []
        for radius, _, _ in radii:
            if state and state[-1][0] == radius:
                state[-1][1][0][1][0][1] += 1
            else:
                state.append((radius, [(0, [[ORIGIN, 1]])]))
        self.tree = B2Tree.from_state(ends, (0, state))
        self._place = {radius: at for at, (radius, _, _) in reversed(list(enumerate(radii)))}
        self._after = {radius: at + 1 for at, (radius, _, _) in enumerate(radii)}
        self._may, self._must = (np.array([entry[at] for entry in radii]) for at in (1, 2))
        self._told = np.zeros(len(radii), np.int64)
        self.messages = self.count = 0
        self.seconds = 0.0

    def event(self, value: int) -> None:
        start = time.thread_time()
        fired = self.tree.event(value)
        self.seconds += time.thread_time() - start
        distance = np.abs(self._told - value)
        for low, high, _ in fired:
            first, stop = self._place[low], self._after[high]
            if (distance[first:stop] < self._may[first:stop]).any():
                fail("a subscription was notified below may")
            self._told[first:stop] = value
            self.count += stop - first
        if (np.abs(self._told - value) >= self._must).any():
            fail("a subscription was not notified at must")
        self.messages += len(fired)
