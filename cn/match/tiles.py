"""The blocks of a point index of three dimensions and more: leaves of a k-d tree, searched by their bounds."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import compress
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cn.match.block import FIRST, ID, TOPIC, Block, Column, Entry, Ids, as_vector, joined
from cn.match.span import Span
from cn.model.geometry import Code

SLACK = 4  # a path may be so much longer than twice that of a balanced tree


class Branch:
    """Points whose code in `column` is below `cut` are on the one side, all others on the other."""

    __slots__ = ("above", "below", "column", "cut")

    def __init__(self, column: int, cut: Code, below: Node, above: Node) -> None:
        self.column, self.cut = column, cut
        self.below, self.above = below, above


class Leaf:
    """The number of a block."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


Node = Branch | Leaf


class Tiles:
    """Blocks of at most `block_size` points, each a tile of the space: topics are parted first, then the dimensions in turn.

    The bounds of a block (topic and all dimensions) hold all its points. A search compares the bounds of all blocks at
    once, O(N / block) in vector operations, and then looks into those that its box cuts; a block within the box
    need not be searched to know that it has a match. Compared with slabs a box that is wide in one dimension and
    narrow in another cuts few blocks. A change costs O(log N + block), at times a rebuilt subtree: O(log N) amortised.
    """

    __slots__ = (
        "_highs",
        "_leaves",
        "_lows",
        "_root",
        "block_size",
        "blocks",
        "dimensions",
        "int64",
        "visits",
    )

    def __init__(self, dimensions: int, int64: bool, block_size: int) -> None:
        self.dimensions, self.int64, self.block_size = dimensions, int64, block_size
        self.visits = 0
        self.blocks: list[Block] = []
        self._leaves: list[Leaf] = []  # of each block
        self._root: Node | None = None
        # the bounds: a row for the topic and one per dimension, one column per block; or lists of rows if codes are objects
        self._lows: Any = np.empty((1 + dimensions, 4), np.int64) if int64 else []
        self._highs: Any = np.empty((1 + dimensions, 4), np.int64) if int64 else []

    @property
    def sorting(self) -> int:
        return FIRST + 1

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, entry: Entry) -> None:
        """Add a point that is not there yet."""
        if self._root is None:
            self._root = self._planted(self._columns([entry]), 0)
            return
        path, leaf = self._path(entry)
        block = self.blocks[leaf.number]
        block.insert(entry, self.sorting)
        if len(block) > self.block_size:
            self._replant(path, leaf, self._released(leaf))
        else:
            self._widen(leaf.number, entry)

    def take(self, entry: Entry) -> bool:
        """Take a point out and say whether it was there."""
        if self._root is None:
            return False
        path, leaf = self._path(entry)
        block = self.blocks[leaf.number]
        position = block.position(entry, self.sorting)
        if position is None:
            return False
        block.pop(position)
        if len(block) > self.block_size // 4 or not self._merge_sparse(path, leaf):
            self._loosen(leaf.number, entry)
        return True

    def exchange(self, old: Entry, new: Entry) -> bool:
        """Put one point in the place of another and say whether the other was there."""
        if not self.take(old):
            return False
        self.add(new)
        return True

    def merge(self, columns: list[Column]) -> None:
        """Add many points at once; if they are more than are there the tree is built anew."""
        if self._root is None:
            self._root = self._planted(columns, 0)
        elif len(columns[ID]) > sum(map(len, self.blocks)):
            held = self._released(self._root)
            self._root = self._planted([old + new for old, new in zip(held, columns, strict=True)], 0)
        else:
            self._root = self._merged(self._root, columns, 0)

    # -- search --------------------------------------------------------------------------------------------
    def collect(
        self,
        spans: Sequence[Span],
        few: list[Any],
        many: list[Ids],
        *,
        first_only: bool = False,
        selected: int = ID,
    ) -> bool:
        """Add the ids (or another column) of the points within all spans to the two lists; whether there are any.

        With `first_only` the search ends when there is known to be one.
        """
        found = False
        for at, outside in self._reachable(spans):
            if first_only and not outside:
                return True
            self.visits += 1
            if self.blocks[at].select(spans, outside, self.sorting, few, many, selected):
                found = True
                if first_only:
                    break
        return found

    def _reachable(self, spans: Sequence[Span]) -> Iterator[tuple[int, list[int]]]:
        """The blocks whose bounds meet the spans, with the columns that may hold codes outside; whole ones first."""
        count = len(self.blocks)
        if not self.int64:
            for at in range(count):
                lows, highs = self._lows[at], self._highs[at]
                pairs = list(zip(spans[TOPIC:], lows, highs, strict=True))
                if all(low <= span[1] and high >= span[0] for span, low, high in pairs):
                    flags = [low < span[0] or high > span[1] for span, low, high in pairs]
                    yield at, [*compress(range(TOPIC, len(spans)), flags)]
            return
        low = np.array([span[0] for span in spans[TOPIC:]], np.int64)[:, None]
        high = np.array([span[1] for span in spans[TOPIC:]], np.int64)[:, None]
        lows, highs = self._lows[:, :count], self._highs[:, :count]
        met = ((lows <= high) & (highs >= low)).all(axis=0).nonzero()[0]
        if not len(met):
            return
        outside = (lows[:, met] < low) | (highs[:, met] > high)
        columns = range(TOPIC, len(spans))
        order = outside.sum(axis=0).argsort(kind="stable")
        for at, flags in zip(met[order].tolist(), outside[:, order].T.tolist(), strict=True):
            yield at, [*compress(columns, flags)]

    # -- the tree ------------------------------------------------------------------------------------------
    def _path(self, entry: Entry) -> tuple[list[Branch], Leaf]:
        path: list[Branch] = []
        node = self._root
        while isinstance(node, Branch):
            path.append(node)
            node = node.below if entry[node.column] < node.cut else node.above
        assert node is not None, "there is a block"
        return path, node

    def _planted(self, columns: list[Column], depth: int) -> Node:
        """A balanced tree over these points, in blocks that are not quite full."""
        length = len(columns[ID])
        if length <= self.block_size and (length <= self.block_size * 3 // 4 or not depth):
            return self._hold(joined(columns, [column[:0] for column in columns], self.sorting))
        column, cut = _cut(columns, depth, self.dimensions)
        below, above = _parted(columns, column, cut)
        return Branch(column, cut, self._planted(below, depth + 1), self._planted(above, depth + 1))

    def _merged(self, node: Node, columns: list[Column], depth: int) -> Node:
        if not len(columns[ID]):
            return node
        if isinstance(node, Branch):
            below, above = _parted(columns, node.column, node.cut)
            node.below = self._merged(node.below, below, depth + 1)
            node.above = self._merged(node.above, above, depth + 1)
            return node
        held = self._released(node)
        return self._planted([old + new for old, new in zip(held, columns, strict=True)], depth)

    def _replant(self, path: list[Branch], node: Node, columns: list[Column]) -> None:
        """Put a tree over these points in the place of a node; with it an ancestor, if the path has become too long."""
        self._put(path, node, self._planted(columns, len(path)))
        if len(path) <= 2 * log2(len(self.blocks) + 1) + SLACK:
            return
        for depth in range(len(path) - 1, -1, -1):
            branch = path[depth]
            leaves = sum(1 for _ in _leaves(branch))
            if len(path) - depth > 1.5 * log2(leaves) + SLACK / 2:
                self._put(path[:depth], branch, self._planted(self._released(branch), depth))
                return

    def _put(self, path: list[Branch], old: Node, new: Node) -> None:
        if not path:
            self._root = new
        elif path[-1].below is old:
            path[-1].below = new
        else:
            path[-1].above = new

    def _merge_sparse(self, path: list[Branch], leaf: Leaf) -> bool:
        """Let an empty block go, and a sparse one join its sibling; whether that happened."""
        if not path:
            if not len(self.blocks[leaf.number]):
                self._released(leaf)
                self._root = None
                return True
            return False
        parent = path[-1]
        sibling = parent.above if parent.below is leaf else parent.below
        if not len(self.blocks[leaf.number]):
            self._put(path[:-1], parent, sibling)
            self._released(leaf)
            return True
        if isinstance(sibling, Leaf):
            count = len(self.blocks[leaf.number]) + len(self.blocks[sibling.number])
            if count <= self.block_size // 2:
                self._put(path[:-1], parent, self._planted(self._released(parent), len(path) - 1))
                return True
        return False

    # -- blocks and bounds ---------------------------------------------------------------------------------
    def _columns(self, entries: Sequence[Entry]) -> list[Column]:
        made = [list(column) for column in zip(*entries, strict=True)]
        return [array("q", column) if at < FIRST or self.int64 else column for at, column in enumerate(made)]

    def _hold(self, block: Block) -> Leaf:
        leaf = Leaf(len(self.blocks))
        self.blocks.append(block)
        self._leaves.append(leaf)
        if self.int64:
            if leaf.number == self._lows.shape[1]:
                self._lows, self._highs = (np.tile(bounds, 2) for bounds in (self._lows, self._highs))
        else:
            self._lows.append([])
            self._highs.append([])
        self._tighten(leaf.number)
        return leaf

    def _released(self, node: Node) -> list[Column]:
        """All points below a node; its blocks are held no longer."""
        columns: list[Column] | None = None
        for leaf in list(_leaves(node)):
            number, last = leaf.number, len(self.blocks) - 1
            held = self.blocks[number].columns
            columns = held if columns is None else [a + b for a, b in zip(columns, held, strict=True)]
            if number != last:
                self.blocks[number], self._leaves[number] = self.blocks[last], self._leaves[last]
                self._leaves[number].number = number
                for bounds in (self._lows, self._highs):
                    if self.int64:
                        bounds[:, number] = bounds[:, last]
                    else:
                        bounds[number] = bounds[last]
            self.blocks.pop()
            self._leaves.pop()
            if not self.int64:
                self._lows.pop()
                self._highs.pop()
        assert columns is not None, "a node has a block"
        return columns

    def _tighten(self, at: int) -> None:
        """Make the bounds of a block exact."""
        block = self.blocks[at]
        block.loose = 0
        topics = block.columns[TOPIC]
        bounds = [(topics[0], topics[-1]), *block.bounds()]
        if self.int64:
            self._lows[:, at], self._highs[:, at] = zip(*bounds, strict=True)
        else:
            self._lows[at], self._highs[at] = map(list, zip(*bounds, strict=True))

    def _widen(self, at: int, entry: Entry) -> None:
        """Let the bounds of a block hold a point."""
        if self.int64:
            codes = np.array(entry[TOPIC:], np.int64)
            np.minimum(self._lows[:, at], codes, out=self._lows[:, at])
            np.maximum(self._highs[:, at], codes, out=self._highs[:, at])
            return
        lows, highs = self._lows[at], self._highs[at]
        for row, code in enumerate(entry[TOPIC:]):
            if code < lows[row]:
                lows[row] = code
            if code > highs[row]:
                highs[row] = code

    def _loosen(self, at: int, entry: Entry) -> None:
        """Note that a point has left a block; make the bounds exact when an eighth has left."""
        block = self.blocks[at]
        block.loose += 1
        if block.loose * 8 > len(block):
            self._tighten(at)

    @property
    def nbytes(self) -> int:
        """Bytes held, without the codes themselves where they are objects."""
        bounds = self._lows.nbytes + self._highs.nbytes if self.int64 else 128 * len(self.blocks)
        tables = sys.getsizeof(self.blocks) + sys.getsizeof(self._leaves) + 144 * len(self.blocks)
        return bounds + tables + sum(block.nbytes for block in self.blocks)

    def check(self) -> None:
        """Assert that the tree leads to every point, and that sizes and bounds are kept."""
        leaves = [] if self._root is None else list(_leaves(self._root))
        assert sorted(leaf.number for leaf in leaves) == list(range(len(self.blocks)))
        assert all(self._leaves[leaf.number] is leaf for leaf in leaves), "leaves know their blocks"
        triples = set()
        for leaf in leaves:
            block = self.blocks[leaf.number]
            assert 0 < len(block) <= self.block_size, "no block is empty or too large"
            order = list(zip(*(block.columns[at] for at in (TOPIC, self.sorting, ID)), strict=True))
            assert order == sorted(order), "a block is in order"
            for entry in zip(*block.columns, strict=True):
                assert self._path(entry)[1] is leaf, "the tree leads to every point"
                assert entry not in triples, "a point twice"
                triples.add(entry)
            topics = block.columns[TOPIC]
            for row, (low, high) in enumerate([(topics[0], topics[-1]), *block.bounds()]):
                place = (row, leaf.number) if self.int64 else leaf.number
                lower = self._lows[place] if self.int64 else self._lows[place][row]
                upper = self._highs[place] if self.int64 else self._highs[place][row]
                assert lower <= low, "bounds hold all points"
                assert high <= upper, "bounds hold all points"
                assert block.loose or (lower, upper) == (low, high), "bounds are exact until points leave"


def _leaves(node: Node) -> Iterator[Leaf]:
    todo = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, Branch):
            todo += [one.above, one.below]
        else:
            yield one


def _cut(columns: list[Column], depth: int, dimensions: int) -> tuple[int, Code]:
    """Where to part points: by topic if there are several, else by the next dimension in which they differ."""
    turn = [FIRST + (depth + step) % dimensions for step in range(dimensions)]
    for at in (TOPIC, *turn, ID):
        column = columns[at]
        if isinstance(column, array):
            vector: NDArray[np.int64] = as_vector(column)
            least, most = int(vector.min()), int(vector.max())
            if least < most:
                middle = int(np.partition(vector, len(vector) // 2)[len(vector) // 2])
                return at, middle if middle > least else int(vector[vector > least].min())
        else:
            ordered = sorted(column)
            if ordered[0] != ordered[-1]:
                middle = ordered[len(ordered) // 2]
                return at, middle if middle > ordered[0] else next(c for c in ordered if c != ordered[0])
    raise AssertionError("a point is there only once")


def _parted(columns: list[Column], at: int, cut: Code) -> tuple[list[Column], list[Column]]:
    """The points below a cut, and the others."""
    column = columns[at]
    if isinstance(column, array):
        below = as_vector(column) < cut
    else:
        below = np.array([code < cut for code in column], np.bool_)
    return [_picked(some, below) for some in columns], [_picked(some, ~below) for some in columns]


def _picked(column: Column, mask: NDArray[np.bool_]) -> Column:
    if isinstance(column, array):
        return array("q", as_vector(column)[mask].tobytes())
    return list(compress(column, mask))
