"""The rows of one range minimum, by x: one A2B-tree for each key (a topic, or a topic and a group).

The compiled trees are used where all codes fit 64 bits: an event is then one call, with the search for the subscriptions
that pieces hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, cast

from cn.match import kernels
from cn.match.point_index import PointIndex
from cn.model.geometry import Box, Interval
from prosem.index.ranges.a2b_tree import A2BTree, Peak
from prosem.index.ranges.lower_tier import Ref
from prosem.types.base import Draft
from prosem.types.extreme import rule, tracked_rule
from prosem.types.extreme.rule import Piece
from prosem.values.model import Delta, Key, Row
from prosem.values.packed_columns import Codes
from prosem.values.wire import encode

Spot = tuple[Any, Any]  # x and y
Rule = Callable[[A2BTree, Spot | None, Spot | None, Ref], list[Piece]]
_RULES: dict[bool, Rule] = {False: rule.step, True: tracked_rule.step}


class RangeMinima(Protocol):
    """What both implementations have. No tree is empty."""

    @property
    def visits(self) -> int: ...
    def build(self, entries: Mapping[Hashable, Sequence[tuple[Any, Any, Ref]]]) -> None:
        """Rows (x, y, reference) by key, each key for the first time; O(N log N)."""

    def build_columns(self, key: Hashable, xs: Codes, ys: Codes, refs: Codes) -> None:
        """The rows of one key as columns; a reference is the key of a row that is one integer, given as this."""

    def get(self, key: Hashable) -> A2BTree | None: ...
    def lowest(self, key: Hashable, box: Box) -> Peak | None:
        """The lowest row in a range, and its reference; O(log N)."""

    def step(self, key: Hashable, topic: bytes, old: Spot | None, new: Spot | None, ref: Ref) -> list[Piece]:
        """Take a row from `old` to `new`; the pieces that hold a subscription of the topic."""

    def check(self) -> None: ...


class CompiledMinima(RangeMinima, Protocol):
    """A compiled one can read x and y from rows itself: what is left of an event in Python is one call."""

    def read_rows(
        self,
        x: int,
        encode_x: Callable[[Any], int] | None,
        y: int,
        encode_y: Callable[[Any], int] | None,
        is_descending: bool,
    ) -> None:
        """Positions of the columns and their encoders (None: integers that are their own codes); -1: no x."""

    def step_row(
        self, ref: Ref, old_row: tuple[Any, ...] | None, new_row: tuple[Any, ...] | None
    ) -> list[tuple[bytes, Piece]] | None:
        """As `step`, of rows without equality values: their key and topic is b""."""

    def step_rows(self, deltas: Sequence[Delta]) -> list[list[tuple[bytes, Piece]] | None]:
        """As `step_row`, for all deltas of a request in one call."""


class CompiledDrafts(Protocol):
    """Makes the messages of a description in one call."""

    def make(self, description: Sequence[tuple[bytes, Piece]], rows: Mapping[Key, Row]) -> list[Draft]: ...


class ExtremeTrees:
    """In Python. `points` are the subscriptions of the space."""

    def __init__(self, points: PointIndex, is_tracked: bool) -> None:
        self._points, self._rule = points, _RULES[is_tracked]
        self._trees: dict[Hashable, A2BTree] = {}

    def build(self, entries: Mapping[Hashable, Sequence[tuple[Any, Any, Ref]]]) -> None:
        for key, some in entries.items():
            if some:
                self._trees[key] = A2BTree().build(some)

    def build_columns(self, key: Hashable, xs: Codes, ys: Codes, refs: Codes) -> None:
        if len(xs):
            self._trees[key] = A2BTree().build_columns(xs, ys, refs)

    @property
    def visits(self) -> int:
        return sum(tree.visits for tree in list(self._trees.values()))

    def get(self, key: Hashable) -> A2BTree | None:
        return self._trees.get(key)

    def lowest(self, key: Hashable, box: Box) -> Peak | None:
        tree = self._trees.get(key)
        return None if tree is None else tree.lowest(box[0].low, box[0].high)

    def step(self, key: Hashable, topic: bytes, old: Spot | None, new: Spot | None, ref: Ref) -> list[Piece]:
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = A2BTree()
        if len(self._points):
            has_point = self._points.any
            found = [piece for piece in self._rule(tree, old, new, ref) if has_point(topic, piece.region)]
        else:
            found = []
            if old is not None:
                tree.remove(*old, ref)
            if new is not None:
                tree.add(*new, ref)
        if not len(tree):
            del self._trees[key]
        return found

    def check(self) -> None:
        """The invariants, in O(N)."""
        for tree in self._trees.values():
            assert len(tree), "a key is known while it has rows"
            tree.check()


def range_minima(points: PointIndex, int64: bool, is_tracked: bool = False) -> RangeMinima:
    """No rows yet. `int64`: whether all x and y are 64-bit codes; `is_tracked`: see `tracked_rule`."""
    return compiled_minima(points, int64, is_tracked) or ExtremeTrees(points, is_tracked)


def compiled_minima(points: PointIndex, int64: bool, is_tracked: bool = False) -> CompiledMinima | None:
    """None where the structures in Python must be used."""
    module = kernels.compiled_over(points, int64)
    if module is None:
        return None
    return cast(CompiledMinima, module.RangeMinima(points, is_tracked, Interval, Piece))


def compiled_drafts(
    kind: str, names: Sequence[str], y: int, answer: Callable[[Row | None], bytes]
) -> CompiledDrafts | None:
    """For rows with these columns, of which `y` is the value; `answer` writes those that compiled code does not."""
    module = kernels.compiled()
    if module is None:
        return None
    written = [encode(name).decode() for name in names]
    return cast(CompiledDrafts, module.ExtremeDrafts(Draft, kind, written, y, answer))
