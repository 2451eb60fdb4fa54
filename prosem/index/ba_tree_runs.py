"""The BA-tree proper: neighbouring radii with one told value as one run, and a B-tree over the runs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from prosem.index.ba_tree_ends import Ends, Radius, Value
from prosem.index.ba_tree_radii import SEVERAL, Held, Part, Ranges, Run
from prosem.index.radius_block import RadiusBlocks

FAN_OUT = 48
LEAST = FAN_OUT // 4


class Node:
    """`lows`: the least radius of each item; `ends`: its nearest right end, its nearest negated left end.

    The items of a leaf are the centres of runs, and `highs` are their last radii; those of other nodes are nodes.
    """

    __slots__ = ("ends", "highs", "items", "lows")

    def __init__(self, lows: list[Radius], ends: tuple[list[Value], list[Value]], items: list[Any]) -> None:
        self.lows, self.ends, self.items = lows, ends, items
        self.highs: list[Radius] = []

    def lists(self) -> tuple[list[Any], ...]:
        return (self.lows, *self.ends, self.items, self.highs)

    def part(self, first: int, stop: int | None) -> Node:
        lows, right, minus_left, items, highs = (held[first:stop] for held in self.lists())
        node = Node(lows, (right, minus_left), items)
        node.highs = highs
        return node


Path = list[tuple[Node, int]]  # from the root, with the place taken in each node


class RadiusRuns:
    """Runs of equally told radii, by radius, with the nearest end of every subtree on either side. Thesis 4.3.2.

    All radii of a run have one centre, so its first radius has the nearest ends, and what an event fires of a run is
    its beginning: it becomes a run at the new value, joined with the one before if that fired to its last radius. So
    a run is what a lazy tag would say, without any subtree to push it into. An event that tells m ranges makes at most
    m runs more; every run it touches besides is swallowed by its neighbour, paid for by the event that made it: amortised
    O(m log N), and nothing is touched but what fires. Loses to the scan of arrays when hundreds of ranges fire.
    """

    def __init__(self, ends: Ends, radii: RadiusBlocks, held: Held, runs: Iterable[Run] = ()) -> None:
        self._ends, self._radii, self._held = ends, radii, held
        self.visits = 0
        self.work = self.work_elsewhere = 0.0
        self.root: list[Value] = [math.inf, math.inf]
        self._build(list(runs))

    def _build(self, runs: list[Run]) -> None:
        both = [self._ends_of(run.low, run.centre) for run in runs]
        leaf = Node([run.low for run in runs], ([end for end, _ in both], [end for _, end in both]), [])
        leaf.items, leaf.highs = [run.centre for run in runs], [run.high for run in runs]
        self._top, self._levels = leaf, 0
        self._grow()
        self._sum_up()

    def _grow(self) -> None:
        """Put a node above the top while it is too wide."""
        while len(self._top.lows) > FAN_OUT:
            top, step = self._top, FAN_OUT * 3 // 4
            self._top = Node([], ([], []), [top.part(at, at + step) for at in range(0, len(top.lows), step)])
            self._levels += 1
            self._refresh(self._top, 0, len(self._top.items))

    def _ends_of(self, radius: Radius, centre: Value) -> tuple[Value, Value]:
        """The nearest right end of a radius, and its nearest negated left end."""
        if centre is SEVERAL:
            right, left = self._held[radius].near()
            return right, -left
        return self._ends.right(centre, radius), -self._ends.left(centre, radius)

    def __iter__(self) -> Iterator[Run]:
        for leaf in self._leaves(self._top, self._levels):
            yield from map(Run, leaf.lows, leaf.highs, leaf.items)

    def _leaves(self, node: Node, level: int) -> Iterator[Node]:
        if level:
            for child in node.items:
                yield from self._leaves(child, level - 1)
        else:
            yield node

    # -- events ----------------------------------------------------------------------------------------------
    def fire(self, d: Value, rising: bool) -> tuple[Ranges, list[Part]]:
        ranges: Ranges = [], []
        parts: list[Part] = []
        visits = self.visits
        self._fire(self._top, self._levels, 0 if rising else 1, d, d if rising else -d, ranges, parts)
        self._mend_top()
        told = len(ranges[0]) + len(parts)
        self.work = 6 + 5 * (self.visits - visits) + told
        self.work_elsewhere = 25 + 0.001 * len(self._radii) + 0.3 * told
        return ranges, parts

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
            rights[at], minus_lefts[at] = self._ends_of(cut[1], centre)

    def _fire_classes(self, leaf: Node, at: int, d: Value, parts: list[Part]) -> bool:
        """Let the classes of a radius decide; whether all of them fire."""
        radius = leaf.lows[at]
        classes = self._held[radius]
        arcs = classes.event(d)
        if arcs is None:
            return True
        parts.append((radius, arcs))
        if len(classes) == 1:
            leaf.items[at] = d  # the others had been told d before
        leaf.ends[0][at], leaf.ends[1][at] = self._ends_of(radius, leaf.items[at])
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
        for held, entry in zip(
            leaf.lists(), (radius, *self._ends_of(radius, centre), centre, radius), strict=True
        ):
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
            leaf.ends[0][at], leaf.ends[1][at] = self._ends_of(leaf.lows[at], leaf.items[at])
        self._mend_path(path)

    def set_centre(self, radius: Radius, centre: Value) -> None:
        self._replace(self._path(radius), radius, centre)

    def set_several(self, radius: Radius) -> None:
        self._replace(self._path(radius), radius, SEVERAL)

    def recentre(self, d: Value) -> None:
        self._build([Run(self._radii.first, self._radii.last, d)] if len(self._radii) else [])

    def _replace(self, path: Path, radius: Radius, centre: Value) -> None:
        """Give one radius a centre of its own: what is left of its run stands before and after it."""
        leaf, at = path[-1]
        low, high, before = leaf.lows[at], leaf.highs[at], leaf.items[at]
        runs = [Run(radius, radius, centre)]
        if low < radius:
            runs.insert(0, Run(low, self._radii.previous(radius), before))
        if radius < high:
            runs.append(Run(self._radii.next(radius), high, before))
        both = [self._ends_of(run.low, run.centre) for run in runs]
        fresh = (
            [run.low for run in runs],
            *zip(*both, strict=True),
            [run.centre for run in runs],
            [run.high for run in runs],
        )
        for held, entries in zip(leaf.lists(), fresh, strict=True):
            held[at : at + 1] = entries
        self._mend_path(path)

    # -- the tree --------------------------------------------------------------------------------------------
    def _path(self, radius: Radius) -> Path:
        """The way to the last run that begins up to a radius; place -1 if it is before all."""
        path: Path = []
        node = self._top
        for level in range(self._levels, -1, -1):
            at = bisect_right(node.lows, radius) - 1
            if level:
                at = max(0, at)
            path.append((node, at))
            if level:
                node = node.items[at]
        return path

    def _mend_path(self, path: Path) -> None:
        for node, at in reversed(path[:-1]):
            self._mend(node, at)
        self._mend_top()

    def _mend(self, node: Node, at: int) -> None:
        """Bring an item of a node up to date with the node below, which may have become too wide or too narrow."""
        child: Node = node.items[at]
        width = len(child.lows)
        if width > FAN_OUT:
            step = FAN_OUT * 3 // 4 if width > 2 * FAN_OUT else -(-width // 2)
            pieces = [child.part(first, first + step) for first in range(0, width, step)]
            node.items[at : at + 1] = pieces
            for held in (node.lows, *node.ends):
                held[at + 1 : at + 1] = [None] * (len(pieces) - 1)
            self._refresh(node, at, at + len(pieces))
        elif width < LEAST and self._join(node, max(0, at - 1)):
            return
        elif not width:
            del node.lows[at], node.ends[0][at], node.ends[1][at], node.items[at]
        else:
            node.lows[at] = child.lows[0]
            node.ends[0][at], node.ends[1][at] = min(child.ends[0]), min(child.ends[1])

    def _join(self, node: Node, at: int) -> bool:
        """Make one of two neighbouring nodes below, if there is room in it."""
        if at + 1 >= len(node.items):
            return False
        first, second = node.items[at : at + 2]
        if len(first.lows) + len(second.lows) > FAN_OUT:
            return False
        for held, more in zip(first.lists(), second.lists(), strict=True):
            held += more
        del node.lows[at], node.ends[0][at], node.ends[1][at], node.items[at + 1]
        self._refresh(node, at, at + 1)
        return True

    @staticmethod
    def _refresh(node: Node, first: int, stop: int) -> None:
        children = node.items[first:stop]
        node.lows[first:stop] = [child.lows[0] for child in children]
        for side in (0, 1):
            node.ends[side][first:stop] = [min(child.ends[side]) for child in children]

    def _mend_top(self) -> None:
        while self._levels and len(self._top.items) == 1:
            self._top = self._top.items[0]
            self._levels -= 1
        if self._levels and not self._top.items:
            self._top, self._levels = Node([], ([], []), []), 0
        self._grow()
        self._sum_up()

    def _sum_up(self) -> None:
        self.root[0] = min(self._top.ends[0], default=math.inf)
        self.root[1] = min(self._top.ends[1], default=math.inf)

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
            both = [self._ends_of(low, centre) for low, centre in zip(leaf.lows, leaf.items, strict=True)]
            assert both == list(zip(*leaf.ends, strict=True)), "ends are those of the centres"
        self._check_node(self._top, self._levels)
        assert self.root == [min(ends, default=math.inf) for ends in self._top.ends], (
            "the root knows the nearest"
        )

    def _check_node(self, node: Node, level: int) -> None:
        assert len({len(held) for held in node.lists()[: 4 if level else 5]}) == 1, "one entry a list"
        assert len(node.lows) <= FAN_OUT, "no node is too wide"
        for at, child in enumerate(node.items if level else ()):
            assert len(child.lows) > 0, "no node is empty"
            assert node.lows[at] == child.lows[0], "the least radius is known"
            assert [held[at] for held in node.ends] == [min(held) for held in child.ends], (
                "the nearest ends are known"
            )
            self._check_node(child, level - 1)
