"""The BA-tree proper: neighbouring radii with one centre as one run, and a B-tree over the runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from prosem.index.radii.ba_tree_ends import Ends, Radius, Value
from prosem.index.radii.ba_tree_nodes import Node, Path, RunNodes
from prosem.index.radii.ba_tree_radii import SEVERAL, Fired, Held, Part, Ranges, Run, wholly
from prosem.index.radii.radius_block import RadiusBlocks


class RadiusRuns(RunNodes):
    """Runs of radii with one centre, by radius, with the nearest end of every subtree on either side. [ProSem thesis] 4.3.2.

    All radii of a run have one centre, so its first radius has the nearest ends, and what an event fires of a run is
    its beginning: it becomes a run at the new value, joined with the one before if that fired to its last radius. So
    a run is what a lazy tag would say, without any subtree to push it into. An event that notifies m ranges makes at most
    m runs more; every run it touches besides is swallowed by its neighbour, paid for by the event that made it: amortised
    O(m log N), and nothing is touched but what fires. Loses to the scan of arrays when hundreds of ranges fire.
    """

    __slots__ = ("_ends", "_held", "_radii", "pieces", "visits", "work", "work_elsewhere")

    def __init__(self, ends: Ends, radii: RadiusBlocks, held: Held, runs: Iterable[Run] = ()) -> None:
        self._ends, self._radii, self._held = ends, radii, held
        self.visits = 0
        self.work = self.work_elsewhere = 0.0
        self.pieces: list[Run] | None = None  # if a list: what fires is noted there with its centre before
        super().__init__(self._leaf(list(runs)))

    def copy(self) -> RadiusRuns:
        """The same runs over the same radii."""
        return type(self)(self._ends, self._radii, self._held, self)

    def _leaf(self, runs: list[Run]) -> Node:
        both = [self._ends_of(*run) for run in runs]
        leaf = Node([run.low for run in runs], ([end for end, _ in both], [end for _, end in both]), [])
        leaf.items, leaf.highs = [run.centre for run in runs], [run.high for run in runs]
        return leaf

    def _ends_of(self, low: Radius, high: Radius, centre: Value) -> tuple[Value, Value]:
        """The nearest right end of a run, and its nearest negated left end."""
        if centre is SEVERAL:
            right, left = self._held[low].near()
            return right, -left
        return self._ends.right(centre, low), -self._ends.left(centre, low)

    def __iter__(self) -> Iterator[Run]:
        for leaf in self._leaves(self._top, self._levels):
            yield from map(Run, leaf.lows, leaf.highs, leaf.items)

    def overlaid(self, pieces: Iterable[Run]) -> list[Run]:
        """The runs, where these hold instead; each piece lies within neighbouring runs of one centre."""
        found: list[Run] = []
        ahead = sorted(pieces, key=itemgetter(0))
        at = 0
        for run in self:
            low: Radius | None = run.low
            while at < len(ahead) and ahead[at].low <= run.high:
                piece = ahead[at]
                if low is not None and low < piece.low:
                    found.append(Run(low, self._radii.previous(piece.low), run.centre))
                high = min(piece.high, run.high)
                found.append(Run(max(piece.low, run.low), high, piece.centre))
                low = self._radii.next(high)
                if piece.high > run.high:
                    break
                at += 1
            if low is not None and low <= run.high:
                found.append(Run(low, run.high, run.centre))
        return found

    @property
    def last(self) -> Radius:
        """The largest radius."""
        return self._radii.last

    # -- events ----------------------------------------------------------------------------------------------
    def fire(self, d: Value, rising: bool) -> tuple[list[Fired], list[Part]]:
        ranges: Ranges = [], []
        parts: list[Part] = []
        visits = self.visits
        self._fire(self._top, self._levels, 0 if rising else 1, d, d if rising else -d, ranges, parts)
        self._mend_top()
        fired = len(ranges[0]) + len(parts)
        self.work = 6 + 5 * (self.visits - visits) + fired
        self.work_elsewhere = 25 + 0.001 * len(self._radii) + 0.3 * fired
        return wholly(ranges), parts

    def _fire(
        self, node: Node, level: int, side: int, d: Value, x: Value, ranges: Ranges, parts: list[Part]
    ) -> None:
        self.visits += 1
        touched = [at for at, end in enumerate(node.ends[side]) if end <= x]
        if not level:
            self._fire_leaf(node, touched, side, d, x, ranges, parts)
            return
        for at in touched:
            self._fire(node.items[at], level - 1, side, d, x, ranges, parts)
        for at in reversed(touched):
            self._mend(node, at)

    def _fire_leaf(
        self,
        leaf: Node,
        touched: list[int],
        side: int,
        d: Value,
        x: Value,
        ranges: Ranges,
        parts: list[Part],
    ) -> None:
        lows, highs, centres = leaf.lows, leaf.highs, leaf.items
        rights, minus_lefts = leaf.ends
        range_lows, range_highs = ranges
        end_of, sign = (self._ends.right, 1) if side == 0 else (self._ends.left, -1)
        shift = 0  # runs made less runs swallowed so far
        joins = -1  # the place after a run that fired to its last radius
        for place in touched:
            at = place + shift
            low, high, centre = lows[at], highs[at], centres[at]
            if centre is SEVERAL and not self._fire_classes(leaf, at, d, parts):
                continue
            cut: tuple[Radius, Radius] | None = None
            if centre is not SEVERAL and low != high and sign * end_of(centre, high) > x:
                cut = self._cut(centre, d, side, x)
            last = high if cut is None else cut[0]
            if self.pieces is not None:
                self.pieces.append(Run(low, last, centre))
            if joins == at:
                range_highs[-1] = highs[at - 1] = last
                if cut is None:
                    del lows[at], highs[at], centres[at], rights[at], minus_lefts[at]
                    shift -= 1
                    continue
            else:
                if not at and range_highs and self._radii.next(range_highs[-1]) == low:
                    range_highs[-1] = last  # from one leaf into the next
                else:
                    range_lows.append(low)
                    range_highs.append(last)
                right, minus_left = self._ends.right(d, low), -self._ends.left(d, low)
                if cut is None:
                    centres[at], rights[at], minus_lefts[at] = d, right, minus_left
                    joins = at + 1
                    continue
                lows.insert(at, low)
                highs.insert(at, last)
                centres.insert(at, d)
                rights.insert(at, right)
                minus_lefts.insert(at, minus_left)
                shift += 1
                at += 1
            lows[at] = cut[1]
            rights[at], minus_lefts[at] = self._ends_of(cut[1], high, centre)

    def _fire_classes(self, leaf: Node, at: int, d: Value, parts: list[Part]) -> bool:
        """Let the classes of a radius decide; whether all of them fire."""
        radius = leaf.lows[at]
        classes = self._held[radius]
        arcs = classes.event(d)
        if arcs is None:
            return True
        parts.append((radius, arcs))
        if len(classes) == 1:
            leaf.items[at] = d  # the centre of the others was d before
        leaf.ends[0][at], leaf.ends[1][at] = self._ends_of(radius, radius, leaf.items[at])
        return False

    def _cut(self, centre: Value, d: Value, side: int, x: Value) -> tuple[Radius, Radius]:
        """The last radius around a centre that fires, and the first that does not."""
        right, left = self._ends.right, self._ends.left

        def past(radius: Radius) -> bool:
            return bool((right(centre, radius) if side == 0 else -left(centre, radius)) > x)

        last, first = self._radii.around(self._ends.reach(centre, d))
        if last is None or first is None or past(last) or not past(first):
            last, first = self._radii.cut(past)
        return last, first

    # -- single radii ----------------------------------------------------------------------------------------
    def centre(self, radius: Radius) -> Value:
        leaf, at = self._path(radius)[-1]
        return leaf.items[at]

    def insert(self, radius: Radius, centre: Value) -> None:
        path = self._path(radius)
        leaf, at = path[-1]
        if at >= 0 and leaf.items[at] == centre:
            leaf.highs[at] = max(leaf.highs[at], radius)
            return
        if at >= 0 and radius < leaf.highs[at]:
            self._replace(path, radius, centre)
            return
        for held, entry in zip(leaf.lists(), self._entry(radius, radius, centre), strict=True):
            held.insert(at + 1, entry)
        self._mend_path(path)

    def delete(self, radius: Radius) -> None:
        path = self._path(radius)
        leaf, at = path[-1]
        if leaf.lows[at] == leaf.highs[at]:
            for held in leaf.lists():
                del held[at]
        elif leaf.highs[at] == radius:
            leaf.highs[at] = self._radii.previous(radius)
        elif leaf.lows[at] == radius:
            leaf.lows[at] = self._radii.next(radius)
            run = leaf.lows[at], leaf.highs[at], leaf.items[at]
            leaf.ends[0][at], leaf.ends[1][at] = self._ends_of(*run)
        self._mend_path(path)

    def set_centre(self, radius: Radius, centre: Value) -> None:
        self._replace(self._path(radius), radius, centre)

    def set_several(self, radius: Radius) -> None:
        self._replace(self._path(radius), radius, SEVERAL)

    def recentre(self, d: Value) -> None:
        self._plant(self._leaf([Run(self._radii.first, self._radii.last, d)]))

    def _replace(self, path: Path, radius: Radius, centre: Value) -> None:
        """Give one radius a centre of its own: what is left of its run stands before and after it."""
        leaf, at = path[-1]
        low, high, before = leaf.lows[at], leaf.highs[at], leaf.items[at]
        runs = [Run(radius, radius, centre)]
        if low < radius:
            runs.insert(0, Run(low, self._radii.previous(radius), before))
        if radius < high:
            runs.append(Run(self._radii.next(radius), high, before))
        self._put(leaf, at, runs)
        self._mend_path(path)

    def _entry(self, low: Radius, high: Radius, centre: Value) -> tuple[Any, ...]:
        """What the lists of a leaf hold of a run."""
        return low, *self._ends_of(low, high, centre), centre, high

    def _put(self, leaf: Node, at: int, runs: list[Run]) -> None:
        """Let runs stand in the place of one."""
        both = [self._ends_of(*run) for run in runs]
        fresh = (
            [run.low for run in runs],
            *zip(*both, strict=True),
            [run.centre for run in runs],
            [run.high for run in runs],
        )
        for held, entries in zip(leaf.lists(), fresh, strict=True):
            held[at : at + 1] = entries

    def check(self) -> None:
        """The invariants, in O(N)."""
        before: Radius = None
        for low, high, centre in self:
            assert low == (self._radii.first if before is None else self._radii.next(before)), (
                "runs leave no radius out"
            )
            assert low <= high, "a run holds a radius"
            assert high in self._radii, "a run ends with a radius"
            assert centre is not SEVERAL or low == high, "several centres stand alone"
            before = high
        assert before == (self._radii.last if len(self._radii) else None), "runs go to the last radius"
        for leaf in self._leaves(self._top, self._levels):
            both = list(map(self._ends_of, leaf.lows, leaf.highs, leaf.items))
            assert both == list(zip(*leaf.ends, strict=True)), "ends are those of the centres"
        self._check_node(self._top, self._levels)
        assert self.root == [min(ends, default=math.inf) for ends in self._top.ends], (
            "the root knows the nearest"
        )
