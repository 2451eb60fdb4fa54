"""The BA-tree where subscriptions may be notified before they must: ranges grow over those that may."""

from __future__ import annotations

import math
from typing import cast

from prosem.index.radii.ba_tree_ends import MayMust, Radius, Value
from prosem.index.radii.ba_tree_nodes import Node
from prosem.index.radii.ba_tree_radii import SEVERAL, Fired, Part, Run
from prosem.index.radii.ba_tree_runs import RadiusRuns
from prosem.index.radii.radius_pairs import RadiusPairs


class LooseRuns(RadiusRuns):
    """Runs of pairs (may, must), ordered by `may`. [ProSem thesis] 4.6.1.

    Nodes know the nearest `must` ends, so an event that fires no `must` touches nothing. Those that may be notified are
    the beginning of a run. From each run with a `must` that fires, the range grows to both sides over all that may: what
    stands between two ranges merges them, what stands beside one merges centres. A range of those that only may is
    not notified. A radius with several centres is filler if all of them may be notified, else it stands alone.

    Every run that a range grows over is swallowed, so m ranges take amortised O(m log N), without `may` ends in nodes; a
    cut run is looked through for its least `must`, O(block + blocks). What is notified depends on the centres alone, not
    on how they are cut into runs: a recovered tree decides alike.
    """

    __slots__ = ()

    def _ends_of(self, low: Radius, high: Radius, centre: Value) -> tuple[Value, Value]:
        if centre is SEVERAL:
            return super()._ends_of(low, high, centre)
        must = cast(RadiusPairs, self._radii).least_must(low, high)
        ends = self._ends
        return ends.right(centre, (must, must)), -ends.left(centre, (must, must))

    # -- events ----------------------------------------------------------------------------------------------
    def fire(self, d: Value, rising: bool) -> tuple[list[Fired], list[Part]]:
        ranges: list[Fired] = []
        parts: list[Part] = []
        reached: list[Radius] = []
        self._reach(self._top, self._levels, 0 if rising else 1, d if rising else -d, reached)
        done: Radius = None
        for low in reached:
            if done is not None and low <= done:
                continue
            run = self._run(low)
            if run.centre is SEVERAL and not self._held[low].may_all(d):
                leaf, at = (path := self._path(low))[-1]
                self._fire_classes(leaf, at, d, parts)
                self._mend_path(path)
                done = low
                continue
            merged = [*self._before(low, done, d), run]
            rest = self._after(merged, d)
            done = merged[-1].high if rest is None else self._radii.previous(rest.low)
            self._merge(merged, rest, done, d)
            ranges.append((merged[0].low, done, None))
        return ranges, parts

    def _reach(self, node: Node, level: int, side: int, x: Value, reached: list[Radius]) -> None:
        """The first radius of each run with a subscription that must be notified."""
        self.visits += 1
        for at, end in enumerate(node.ends[side]):
            if end <= x:
                if level:
                    self._reach(node.items[at], level - 1, side, x, reached)
                else:
                    reached.append(node.lows[at])

    def _run(self, radius: Radius) -> Run:
        """The run that a radius belongs to."""
        self.visits += 1
        leaf, at = self._path(radius)[-1]
        return Run(leaf.lows[at], leaf.highs[at], leaf.items[at])

    def _may(self, run: Run, radius: Radius, d: Value) -> bool:
        """Whether a radius of a run may be notified; then so may those before it in the run."""
        if run.centre is SEVERAL:
            return bool(self._held[radius].may_all(d))
        return cast(MayMust, self._ends).may(run.centre, radius, d)

    def _before(self, low: Radius, done: Radius, d: Value) -> list[Run]:
        """The runs before a radius, back to `done` at most, that may be notified to their ends."""
        found: list[Run] = []
        while (before := self._radii.previous(low)) is not None and (done is None or done < before):
            run = self._run(before)
            if not self._may(run, run.high, d):
                break
            found.append(run)
            low = run.low
        return found[::-1]

    def _after(self, runs: list[Run], d: Value) -> Run | None:
        """Add the runs that follow and may be notified; what is left of the last one, if not all of it may."""
        while self._may(runs[-1], runs[-1].high, d):
            following = self._radii.next(runs[-1].high)
            if following is None:
                return None
            run = self._run(following)
            if not self._may(run, run.low, d):
                return None
            runs.append(run)
        run = runs[-1]
        return Run(self._first_calm(run.centre, d), run.high, run.centre)

    def _first_calm(self, centre: Value, d: Value) -> Radius:
        """The first radius that may not be notified around a centre; there is one, and one that may."""
        may = cast(MayMust, self._ends).may
        last, first = self._radii.around((self._ends.reach(centre, d), math.inf))
        if last is None or first is None or not may(centre, last, d) or may(centre, first, d):
            _, first = self._radii.cut(lambda radius: not may(centre, radius, d))
        return first

    def _merge(self, runs: list[Run], rest: Run | None, end: Radius, d: Value) -> None:
        """Make one run at `d` of neighbouring ones up to `end`, less what is left of the last."""
        for run in runs:
            if run.centre is SEVERAL:
                self._held[run.low].recentre(d)
            if self.pieces is not None:
                self.pieces.append(Run(run.low, min(run.high, end), run.centre))
        for run in runs[1:]:
            path = self._path(run.low)
            leaf, at = path[-1]
            for held in leaf.lists():
                del held[at]
            self._mend_path(path)
        first = runs[0].low
        path = self._path(first)
        leaf, at = path[-1]
        for held, entry in zip(leaf.lists(), self._entry(first, end, d), strict=True):
            held[at] = entry
        if rest is not None:
            for held, entry in zip(leaf.lists(), self._entry(*rest), strict=True):
                held.insert(at + 1, entry)
        self._mend_path(path)

    # -- single radii ----------------------------------------------------------------------------------------
    def insert(self, radius: Radius, centre: Value) -> None:
        super().insert(radius, centre)
        path = self._path(radius)
        leaf, at = path[-1]
        self._put(leaf, at, [Run(leaf.lows[at], leaf.highs[at], leaf.items[at])])
        self._mend_path(path)

    def delete(self, radius: Radius) -> None:
        low, high, centre = self._run(radius)
        super().delete(radius)
        if low == radius:
            return
        ends = self._ends_of(low, self._radii.previous(radius), centre)
        if radius < high:
            others = self._ends_of(self._radii.next(radius), high, centre)
            ends = min(ends[0], others[0]), min(ends[1], others[1])
        path = self._path(low)
        leaf, at = path[-1]
        leaf.ends[0][at], leaf.ends[1][at] = ends
        self._mend_path(path)
