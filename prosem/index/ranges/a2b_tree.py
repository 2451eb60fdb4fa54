"""The augmented two-tier B-tree (A2B-tree): the nearest lower points around an x, and what they hide."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from cn.model.geometry import Code
from prosem.index.order import HIGHEST
from prosem.index.ranges.lower_tier import LowerTier, Ref
from prosem.index.ranges.upper_tier import Entry, Node, Path, UpperTier

Peak = tuple[Code, Ref]  # y, and one tuple that attains it
# The skyline of each side, nearest point first, and the x of the first point at or below the floor:
# left points, left end, right points, right end.
Hull = tuple[list[Entry], Code | None, list[Entry], Code | None]
Exposure = tuple[Peak, Hull]  # the lowest tuple at x from now on, and the hull from it down to the lower y


class A2BTree(UpperTier):
    """Tuples (x, y, ref) by x, then y, with the minimum of y over every subtree. [ProSem thesis] 3.3.1.

    Codes of one axis must be comparable with each other; references need only be hashable. Everything takes
    O(log N), a hull of k points O(k log N). Loses to sorted lists and `min()` below some 150 tuples.

    >>> tree = A2BTree().build([(20, 3, "a"), (30, 8, "b"), (40, 12, "c"), (70, 6, "d")])
    >>> tree.lowest(25, 50), tree.mar(40, 7), tree.mar(40, 12)
    ((8, 'b'), (20, 70), None)
    >>> tree.replace(30, 8, "b", 5)
    >>> tree.lowest(25, None)
    (5, 'b')
    """

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, x: Code, y: Code, ref: Ref) -> None:
        """Put a tuple in; ValueError if the same (x, y, ref) is there."""
        nodes, places, found = self._path(x)
        leaf, at = nodes[-1], places[-1]
        if found:
            item, before = leaf.items[at], leaf.mins[at]
            if type(item) is LowerTier:
                item.add(y, ref)
            else:
                leaf.items[at] = LowerTier([(before, item), (y, ref)])
            if y < before:
                leaf.mins[at] = y
                self._lift(nodes, places, before, y)
        else:
            leaf.insert(at, x, y, ref)
            self._lift(nodes, places, HIGHEST, y)
            if len(leaf.keys) > self.fan_out:
                self._split(nodes, places)
        self._count += 1

    def remove(self, x: Code, y: Code, ref: Ref) -> None:
        """Take a tuple out; KeyError if it is not there."""
        nodes, places, found = self._path(x)
        leaf, at = nodes[-1], places[-1]
        item = leaf.items[at] if found else None
        if found and type(item) is LowerTier:
            item.remove(y, ref)
            low, kept = item.lowest()
            if len(item) == 1:
                leaf.items[at] = kept
            if low != leaf.mins[at]:
                leaf.mins[at] = low
                self._lift(nodes, places, y, low)
        else:
            if not found or leaf.mins[at] != y or item != ref:
                raise KeyError((x, y, ref))
            leaf.delete(at)
            if len(leaf.keys) >= self._least:
                self._lift(nodes, places, y, HIGHEST)
            else:
                self._join(nodes, places)
        self._count -= 1

    def replace(self, x: Code, y: Code, ref: Ref, new_y: Code) -> None:
        """Change y of a tuple in place; KeyError if it is not there."""
        self._replace(self._path(x), x, y, ref, new_y)

    def replace_seen(self, x: Code, y: Code, ref: Ref, new_y: Code) -> Exposure | None:
        """Change y of a tuple in place and return its `exposure`, in one descent."""
        path = self._path(x)
        return self._exposure(path, self._replace(path, x, y, ref, new_y), y, ref, new_y)

    def _replace(self, path: Path, x: Code, y: Code, ref: Ref, new_y: Code) -> Peak | None:
        """Change y in place; the peak of x without the tuple."""
        nodes, places, found = path
        leaf, at = nodes[-1], places[-1]
        item = leaf.items[at] if found else None
        if found and type(item) is LowerTier:
            before = leaf.mins[at]
            item.remove(y, ref)
            peak = item.lowest()
            item.add(new_y, ref)
            after = item.heights[0]
            if after != before:
                leaf.mins[at] = after
                self._lift(nodes, places, before, after)
            return peak
        if not found or leaf.mins[at] != y or item != ref:
            raise KeyError((x, y, ref))
        leaf.mins[at] = new_y
        self._lift(nodes, places, y, new_y)
        return None

    # -- questions -----------------------------------------------------------------------------------------
    def peak(self, x: Code) -> Peak | None:
        """The lowest tuple at x itself."""
        nodes, places, found = self._path(x)
        return nodes[-1].lowest_at(places[-1]) if found else None

    def mar(self, x: Code, y: Code) -> tuple[Code | None, Code | None] | None:
        """The maximum affected range of (x, y): the nearest x on each side with a point at or below y.

        None at an end: there is no such point. None alone: x itself has one. [ProSem thesis] 3.2.1, definition 1.
        """
        nodes, places, found = path = self._path(x)
        if found and nodes[-1].mins[places[-1]] <= y:
            return None
        _, left_end, _, right_end = self._hull(path, y, True, y)
        return left_end, right_end

    def hull(self, x: Code, top: Code | None, floor: Code, *, or_equal: bool = False) -> Hull:
        """The skylines seen from x: each point lower than all before it, below `top`, above `floor`.

        Points at x itself are not seen. `top` None starts with the neighbours; `or_equal` lets the first
        point of a side equal `top`. One sweep a side that enters no node twice. [ProSem thesis] 3.2.2, definition 2.
        """
        if top is None:
            top = HIGHEST
        return self._hull(self._path(x), top, or_equal or top == floor, floor)

    def exposure(self, x: Code, y: Code, ref: Ref, new_y: Code) -> Exposure | None:
        """What a change of y at one x exposes, by the tree without the tuple; None for an ignorable update.

        The old and the new range are nested then, so the new point stands for the peak if it is lower.
        """
        nodes, places, found = path = self._path(x)
        peak = nodes[-1].lowest_at(places[-1]) if found else None
        return self._exposure(path, peak, y, ref, new_y)

    def lowest(self, low: Code | None = None, high: Code | None = None) -> Peak | None:
        """The lowest tuple with `low <= x <= high` (None: no end), or None if there is none."""
        if not self._count or (low is not None and high is not None and high < low):
            return None
        best: Any = HIGHEST
        where: tuple[int, Node, int] | None = None
        todo: list[tuple[int, Node, Code | None, Code | None]] = [(self._inner_levels, self._root, low, high)]
        while todo:
            self.visits += 1
            level, node, low, high = todo.pop()
            if level:
                first = 0 if low is None else bisect_right(node.keys, low, 1) - 1
                end = len(node.keys) - 1 if high is None else bisect_right(node.keys, high, 1) - 1
                if first == end:
                    todo.append((level - 1, node.items[first], low, high))
                    continue
                if node.mins[first] < best:
                    todo.append((level - 1, node.items[first], low, None))
                if node.mins[end] < best:
                    todo.append((level - 1, node.items[end], None, high))
                first += 1
            else:
                first = 0 if low is None else bisect_left(node.keys, low)
                end = len(node.keys) if high is None else bisect_right(node.keys, high)
            if first < end:
                least = min(node.mins[first:end])
                if least < best:
                    best, where = least, (level, node, node.mins.index(least, first, end))
        if where is None:
            return None
        level, node, at = where
        for _ in range(level):
            node = node.items[at]
            at = node.mins.index(best)
        return node.lowest_at(at)

    # -- the sweep -----------------------------------------------------------------------------------------
    def _exposure(self, path: Path, peak: Peak | None, y: Code, ref: Ref, new_y: Code) -> Exposure | None:
        floor = y if y < new_y else new_y
        if peak is None or new_y < peak[0]:
            return (new_y, ref), self._hull(path, new_y, True, floor)
        return None if peak[0] <= floor else (peak, self._hull(path, peak[0], False, floor))

    def _hull(self, path: Path, top: Code, or_equal: bool, floor: Code) -> Hull:
        """Mostly the first point at or below `top` is in the same leaf and ends the side: look there."""
        nodes, places, found = path
        leaf, at = nodes[-1], places[-1]
        mins = leaf.mins
        for near in range(at - 1, -1, -1):
            if mins[near] <= top:
                break
        else:
            near = -1
        if near >= 0 and mins[near] <= floor:
            left: list[Entry] = []
            left_end = leaf.keys[near]
        else:
            left, left_end = self._sweep(path, True, top, or_equal, floor)
        for near in range(at + found, len(mins)):
            if mins[near] <= top:
                if mins[near] <= floor:
                    return left, left_end, [], leaf.keys[near]
                break
        right, right_end = self._sweep(path, False, top, or_equal, floor)
        return left, left_end, right, right_end

    def _sweep(
        self, path: Path, leftward: bool, top: Code, or_equal: bool, floor: Code
    ) -> tuple[list[Entry], Code | None]:
        """Walk away from x: the points, and the x of the first that is at or below `floor`.

        A subtree is entered only if its minimum is low enough, so a point costs at most two nodes per level.
        """
        nodes, places, found = path
        points: list[Entry] = []
        last = level = len(nodes) - 1
        node, at = nodes[last], places[last]
        mins = node.mins
        span = range(at - 1, -1, -1) if leftward else range(at + found, len(mins))
        own = False  # whether the lists of the path are a copy
        while True:
            for at in span:
                y = mins[at]
                if y <= top and (or_equal or y != top):
                    if level < last:
                        break
                    x = node.keys[at]
                    if y <= floor:
                        return points, x
                    item = node.items[at]
                    points.append((x, y, item.ref() if type(item) is LowerTier else item))
                    top, or_equal = y, False
            else:
                if not level:
                    return points, None
                level -= 1
                node, at = nodes[level], places[level]
                mins = node.mins
                span = range(at - 1, -1, -1) if leftward else range(at + 1, len(mins))
                self.visits += 1
                continue
            if not own:
                nodes, places, own = nodes[:], places[:], True
            places[level] = at
            level += 1
            nodes[level] = node = node.items[at]
            mins = node.mins
            span = range(len(mins) - 1, -1, -1) if leftward else range(len(mins))
            self.visits += 1
