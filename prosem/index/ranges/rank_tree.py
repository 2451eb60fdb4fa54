"""The rank tree: the nearest rows of lower rank around an x, the rows that come next, and the first rows of a range.

It is the index of top-k: rows are ranked by what ORDER BY names and their key, so no two ranks are equal, and rows of one
x are apart (the A2B-tree keeps one lowest row per x).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Any

from cn.model.geometry import Code
from prosem.index.order import HIGHEST, LOWEST
from prosem.index.ranges.rank_tree_shape import Entry, Node, Path, RankTreeShape

Ranked = tuple[Code, Code, Any]  # rank, x, and the reference of a row


class Lower:
    """Lower-ranked rows on one side of an x, nearest first. `end`: the x of the last one asked for; None if there are fewer.

    `xs` looks at the leaves again, so it must be asked for before the tree changes.
    """

    __slots__ = ("_count", "_leaves", "_leftward", "_near", "end")

    def __init__(
        self,
        near: list[Code],
        leaves: list[tuple[Node, int]],
        count: int,
        leftward: bool,
        end: Code | None,
    ) -> None:
        self._near, self._leaves, self._count, self._leftward = near, leaves, count, leftward
        self.end = end

    def xs(self) -> list[Code]:
        """The x of each row, once per row."""
        found = self._near[:]
        for leaf, size in self._leaves:
            places = leaf.order[:size]
            places.sort(reverse=self._leftward)
            keys = leaf.keys
            found += [keys[at] for at in places]
        del found[self._count :]
        return found


class RankTree(RankTreeShape):
    """Rows (x, rank, ref) by x, then rank, with the least rank over every subtree.

    `lower` enters only subtrees with a lower rank. `candidates` and `first` take O(n log N) for n rows found. Loses to
    sorting the rows below some hundred of them.

    >>> tree = RankTree().build([(20, 3, "a"), (30, 8, "b"), (40, 12, "c"), (70, 6, "d")])
    >>> [side.xs() for side in tree.lower(40, 7, 2)]
    [[20], [70]]
    >>> tree.first(25, None, 2)
    [(6, 70, 'd'), (8, 30, 'b')]
    >>> tree.candidates(40, 2, 1, None, 70, 9)
    [(3, 20, 'a'), (8, 30, 'b'), (12, 40, 'c')]
    """

    # -- the nearest lower rows ------------------------------------------------------------------------------------
    def lower(self, x: Code, rank: Code, count: int) -> tuple[Lower, Lower]:
        """The nearest `count` rows at or left of x and right of x that are ranked before `rank`.

        A leaf that is passed costs one search in its order.
        """
        path = self._path(x, rank)
        return self._lower_side(path, rank, count, True), self._lower_side(path, rank, count, False)

    def _lower_side(self, path: Path, rank: Code, count: int, leftward: bool) -> Lower:
        near = _near(path, rank, count, leftward)
        if len(near) == count:
            return Lower(near, [], count, leftward, near[-1])
        left = count - len(near)
        leaves: list[tuple[Node, int]] = []
        for leaf in self._outward(path, leftward, [rank]):
            size = leaf.count_below(rank)
            leaves.append((leaf, size))
            if size >= left:
                places = sorted(leaf.order[:size], reverse=leftward)
                return Lower(near, leaves, count, leftward, leaf.keys[places[left - 1]])
            left -= size
        return Lower(near, leaves, count, leftward, None)

    def _outward(self, path: Path, leftward: bool, bound: list[Code]) -> Iterator[Node]:
        """The leaves beyond that of the path, nearest first, that hold a rank before `bound[0]`, as it is by then."""
        nodes, places = path
        for level in range(len(nodes) - 2, -1, -1):
            node, at = nodes[level], places[level]
            span = range(at - 1, -1, -1) if leftward else range(at + 1, len(node.keys))
            yield from self._within(node, span, len(nodes) - 2 - level, leftward, bound)

    def _within(
        self, node: Node, span: range, levels: int, leftward: bool, bound: list[Code]
    ) -> Iterator[Node]:
        self.visits += 1
        ranks, items = node.ranks, node.items
        for at in span:
            if ranks[at] < bound[0]:
                child = items[at]
                if not levels:
                    self.visits += 1
                    yield child
                else:
                    size = len(child.keys)
                    inner = range(size - 1, -1, -1) if leftward else range(size)
                    yield from self._within(child, inner, levels - 1, leftward, bound)

    # -- the rows that come next -----------------------------------------------------------------------------------
    def candidates(
        self,
        x: Code,
        rank: Code,
        count: int,
        low: Code | None,
        high: Code | None,
        limit: int,
        but: Code | None = None,
    ) -> list[Ranked] | None:
        """The rows that may come in for one at (x, rank) that goes: the k-skyband seen from x, by rank.

        Those with `low < x < high` (None: no end) ranked after `rank`, with fewer than `count` rows ranked before them
        between x and themselves. The row with the rank `but` does not count. None if there are more than `limit`.
        """
        seen, found = self._at(x, rank, count, but)
        for leftward in (True, False):
            if len(found) > limit:
                return None
            path = self._path(x, LOWEST if leftward else HIGHEST)
            end = low if leftward else high
            found += self._band(path, leftward, end, rank, seen[:], count, limit - len(found), but)
        return None if len(found) > limit else sorted(found)

    def _at(self, x: Code, rank: Code, count: int, but: Code | None) -> tuple[list[Code], list[Ranked]]:
        """The least `count` ranks at x itself, and those of them after `rank`."""
        path = self._path(x, LOWEST)
        leaf, at = path[0][-1], path[1][-1]
        leaves = self._outward(path, False, [HIGHEST])
        seen: list[Code] = []
        found: list[Ranked] = []
        while len(seen) < count:
            if at == len(leaf.keys):
                following = next(leaves, None)
                if following is None:
                    break
                leaf, at = following, 0
                continue
            if leaf.keys[at] != x:
                break
            other = leaf.ranks[at]
            if other != but:
                seen.append(other)
                if rank < other:
                    found.append((other, x, leaf.items[at]))
            at += 1
        return seen, found

    def _band(
        self,
        path: Path,
        leftward: bool,
        end: Code | None,
        rank: Code,
        seen: list[Code],
        count: int,
        limit: int,
        but: Code | None,
    ) -> list[Ranked]:
        """Walk away from x up to `end`; `seen` are the least ranks passed so far, at most `count`."""
        found: list[Ranked] = []
        run: tuple[Code | None, int] = (
            None,
            0,
        )  # the x of the last rows found, and where they begin in `found`
        bound = [seen[-1] if len(seen) == count else HIGHEST]
        leaf, at = path[0][-1], path[1][-1]
        places: Sequence[int] = range(at - 1, -1, -1) if leftward else range(at, len(leaf.keys))
        leaves = self._outward(path, leftward, bound)
        while rank < bound[0]:
            keys, ranks = leaf.keys, leaf.ranks
            for at in places:
                other = ranks[at]
                if not other < bound[0] or other == but:
                    continue
                key = keys[at]
                if end is not None and not (end < key if leftward else key < end):
                    return found
                if leftward and key != run[0]:
                    run = key, len(found)
                if rank < other:
                    found.append((other, key, leaf.items[at]))
                insort(seen, other)
                if len(seen) > count:
                    beyond = seen.pop()
                    if leftward and run[1] < len(found) and found[run[1]][0] == beyond:
                        del found[
                            run[1]
                        ]  # rows of one x come from the last to the first; this is not before them all
                if len(seen) == count:
                    bound[0] = seen[-1]
                if len(found) > limit:
                    return found
            following = next(leaves, None)
            if following is None:
                break
            leaf = following
            places = sorted(leaf.below(bound[0]), reverse=leftward)
        return found

    # -- the first rows of a range ---------------------------------------------------------------------------------
    def first(self, low: Code | None, high: Code | None, count: int) -> list[Ranked]:
        """The first `count` rows by rank with `low <= x <= high` (None: no end), fewer if there are no more.

        Level by level: the whole subtrees of the range, less those beyond the `count`-th least rank known so far.
        """
        if not self._count or (low is not None and high is not None and high < low):
            return []
        whole: list[tuple[Code, Node]] = []
        edges: list[Node] = [self._root]
        bound: Any = HIGHEST
        for _ in range(self._inner_levels):
            self.visits += len(whole) + len(edges)
            inner = [
                pair
                for _, node in whole
                for pair in zip(node.ranks, node.items, strict=True)
                if pair[0] <= bound
            ]
            cut: list[Node] = []
            for node in edges:
                self._parted(node, low, high, inner, cut)
            if len(inner) >= count:
                bound = min(bound, sorted([least for least, _ in inner])[count - 1])
            whole, edges = [pair for pair in inner if pair[0] <= bound], cut
        self.visits += len(whole) + len(edges)
        leaves = [leaf for _, leaf in whole]
        bound = min(bound, _sampled(leaves, count))
        found: list[Ranked] = []
        for leaf in leaves:
            keys, ranks, items = leaf.keys, leaf.ranks, leaf.items
            found += [(ranks[at], keys[at], items[at]) for at in leaf.upto(bound)]
        for leaf in edges:
            keys, ranks, items = leaf.keys, leaf.ranks, leaf.items
            start = 0 if low is None else bisect_left(keys, low)
            stop = len(keys) if high is None else bisect_right(keys, high)
            found += [(ranks[at], keys[at], items[at]) for at in range(start, stop) if ranks[at] <= bound]
        found.sort(key=_rank)
        return found[:count]

    def _parted(
        self,
        node: Node,
        low: Code | None,
        high: Code | None,
        whole: list[tuple[Code, Node]],
        edges: list[Node],
    ) -> None:
        """The children of a node that reaches beyond the range: those within it, and those at its ends."""
        last = len(node.keys) - 1
        start = 0 if low is None else bisect_left(node.keys, (low, LOWEST), 1) - 1
        stop = last if high is None else bisect_right(node.keys, (high, HIGHEST), 1) - 1
        first = start if low is None else start + 1
        end = stop if high is not None else stop + 1
        whole += zip(node.ranks[first:end], node.items[first:end], strict=True)
        edges += [node.items[at] for at in sorted({start, stop}) if not first <= at < end]


def _near(path: Path, rank: Code, count: int, leftward: bool) -> list[Code]:
    """The x of lower-ranked rows in the leaf of a path, at most `count`."""
    leaf, at = path[0][-1], path[1][-1]
    keys, ranks = leaf.keys, leaf.ranks
    found: list[Code] = []
    for here in range(at - 1, -1, -1) if leftward else range(at, len(keys)):
        if ranks[here] < rank:
            found.append(keys[here])
            if len(found) == count:
                break
    return found


def _sampled(leaves: Sequence[Node], count: int) -> Any:
    """A rank that at least `count` rows of these leaves do not exceed, by some of each; HIGHEST if they have fewer."""
    if not leaves:
        return HIGHEST
    each = 2 * (count // len(leaves) + 1)
    some = sorted([leaf.ranks[at] for leaf in leaves for at in leaf.order[:each]])
    return some[count - 1] if len(some) >= count else HIGHEST


def _rank(found: Ranked) -> Any:
    return found[0]


__all__ = ["Entry", "RankTree", "Ranked"]
