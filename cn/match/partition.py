"""A partition: conjunctions that stand at the same place, with one SV tree per attribute once they are many."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from cn.match.rows import Question, Row, Rows, Slots
from cn.match.sv_tree import CHUNK, SVTree, positions, quantiles
from cn.model.geometry import INT64_MIN, Code

MANY = 768  # members from which on a partition has SV trees
ENOUGH = 48  # candidates that are verified sooner than another vector is intersected
SAMPLE = 2048  # members whose ends say where to cut
RENEW = CHUNK  # changes before which cuts are not renewed


class Renewal:
    """An SV tree with new cuts, filled a chunk at each change until it takes the place of the old one."""

    __slots__ = ("column", "filled", "pending", "tree")

    def __init__(self, columns: list[int]) -> None:
        self.pending = columns
        self.column = -1
        self.tree: SVTree | None = None
        self.filled = 0  # positions below are in the tree; always fewer than there are members


class Partition:
    """Slots by position, without gaps, and bit vectors over the positions.

    A tree holds every member, also those that do not constrain its attribute; an attribute that no member
    constrains has no tree. Adding and taking out cost O(trees · cells); as many changes as there are
    members renew the cuts, a chunk of one tree at a time, so no change waits for a rebuild.
    """

    __slots__ = ("_changes", "_members", "_renewal", "_trees", "attribute", "cell", "level")

    def __init__(self, attribute: int | None, level: int, cell: Code | None) -> None:
        self.attribute, self.level, self.cell = attribute, level, cell
        self._members = array("i")
        self._trees: dict[int, SVTree] | None = None
        self._renewal: Renewal | None = None
        self._changes = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    @property
    def is_renewing(self) -> bool:
        return self._renewal is not None

    def append(self, slot: int) -> int:
        """Add a slot whose vectors `settle` will set; its position."""
        self._members.append(slot)
        return len(self._members) - 1

    def settle(self, rows: Rows, start: int) -> None:
        """Set the vectors of all positions from `start` on."""
        if self._trees is None and len(self._members) < MANY:
            return
        self._changes += len(self._members) - start
        self._renewal = None
        if self._trees is None or self._changes >= len(self._members):
            self._trees, self._changes = {}, 0
        for column in range(rows.columns):
            if column in self._trees:
                self._fill(self._trees[column], rows, column, start // CHUNK * CHUNK)
            else:
                self._plant(rows, column)

    def add(self, slot: int, row: Row, rows: Rows) -> int:
        """Add a slot; its position."""
        position = self.append(slot)
        if self._trees is None:
            self.settle(rows, position)
            return position
        bounds, refuses, _ = row
        for column in range(len(bounds) // 2):
            low, above, refused = bounds[2 * column], bounds[2 * column + 1], bool(refuses >> column & 1)
            tree = self._trees.get(column)
            if tree is not None:
                tree.put(position, low, above, refused)
            elif refused or low != INT64_MIN or above != INT64_MIN:
                self._plant(rows, column)
        self._renew(rows)
        return position

    def change(self, position: int, column: int, row: Row, rows: Rows) -> None:
        """Let a member have other bounds in a column; its row is already written."""
        if self._trees is None:
            return
        tree, renewal = self._trees.get(column), self._renewal
        if tree is None:
            self._plant(rows, column)
            return
        trees = [tree]
        if renewal and renewal.tree and renewal.column == column and position < renewal.filled:
            trees.append(renewal.tree)
        for tree in trees:
            tree.clear(position)
            self._put(tree, position, column, row)
        self._renew(rows)

    def remove(self, position: int, rows: Rows) -> int | None:
        """Take out a position; the slot that is there now, if another has come in its place."""
        members, last = self._members, len(self._members) - 1
        moved = members.pop()
        if position != last:
            members[position] = moved
        if self._trees is not None:
            for tree in self._trees.values():
                if position == last:
                    tree.clear(last)
                else:
                    tree.move(last, position)
            renewal = self._renewal
            if renewal and renewal.tree and position < renewal.filled:
                renewal.tree.clear(position)
                self._put(renewal.tree, position, renewal.column, rows.get(moved))
            if len(members) < MANY // 4:
                self._trees, self._renewal, self._changes = None, None, 0
            else:
                self._renew(rows)
        return moved if position != last else None

    @staticmethod
    def _put(tree: SVTree, position: int, column: int, row: Row) -> None:
        bounds, refuses, _ = row
        tree.put(position, bounds[2 * column], bounds[2 * column + 1], bool(refuses >> column & 1))

    def candidates(self, question: Question) -> Slots:
        """The members that may hold an attribute vector; a view, to be let go before the next change."""
        members = np.frombuffer(self._members, np.int32)
        if not self._trees:
            return members
        codes, count = question.codes, len(members)
        counted = [(tree.count(codes[column]), column) for column, tree in self._trees.items()]
        counted.sort()
        chunks, common = -(-count // CHUNK), None
        for admitted, column in counted:
            if admitted == count or (common is not None and counted[0][0] <= ENOUGH):
                break
            if not admitted:
                return members[:0]
            vector = self._trees[column].vector(codes[column], chunks)
            common = vector if common is None else common & vector
        return members if common is None else members.take(positions(common))

    def _vector(self) -> Slots:
        return np.frombuffer(self._members, np.int32)

    def _plant(self, rows: Rows, column: int) -> None:
        """A tree for a column, unless no member constrains it."""
        assert self._trees is not None
        low, above, refuses = rows.bounds(self._vector(), column)
        if refuses.any() or (low != INT64_MIN).any() or (above != INT64_MIN).any():
            step = max(1, len(low) // SAMPLE)
            self._trees[column] = tree = SVTree(quantiles(low[::step], above[::step]))
            self._fill(tree, rows, column, 0)

    def _fill(self, tree: SVTree, rows: Rows, column: int, start: int) -> None:
        members = self._vector()
        for at in range(start, len(members), CHUNK):
            tree.fill(at, *rows.bounds(members[at : at + CHUNK], column))

    def _renew(self, rows: Rows) -> None:
        """One step towards new cuts, when they are due."""
        assert self._trees is not None
        self._changes += 1
        renewal = self._renewal
        if renewal is None:
            if self._changes >= max(RENEW, len(self._members)):
                self._renewal, self._changes = Renewal(list(self._trees)), 0
            return
        members = self._vector()
        if renewal.tree is None:
            if not renewal.pending:
                self._renewal = None
                return
            renewal.column, renewal.filled = renewal.pending.pop(), 0
            low, above, _ = rows.bounds(members[:: max(1, len(members) // SAMPLE)], renewal.column)
            renewal.tree = SVTree(quantiles(low, above))
        renewal.tree.fill(
            renewal.filled,
            *rows.bounds(members[renewal.filled : renewal.filled + CHUNK], renewal.column),
        )
        renewal.filled += CHUNK
        if renewal.filled >= len(members):
            self._trees[renewal.column], renewal.tree = renewal.tree, None

    @property
    def nbytes(self) -> int:
        return 4 * len(self._members) + sum(tree.nbytes for tree in (self._trees or {}).values())

    def check(self, rows: Rows) -> None:
        """Assert that each tree has the bits of its members, and that other columns are not constrained."""
        assert len(self._members)
        assert len(set(self._members)) == len(self._members)
        if self._trees is None:
            assert self._renewal is None
            return
        members = self._vector()
        for column in range(rows.columns):
            low, above, refuses = rows.bounds(members, column)
            if column in self._trees:
                self._trees[column].check(low, above, refuses)
            else:
                assert not refuses.any()
                assert (low == INT64_MIN).all()
                assert (above == INT64_MIN).all()
        renewal = self._renewal
        if renewal and renewal.tree:
            filled = members[: renewal.filled]
            assert len(filled) < len(members)
            renewal.tree.check(*rows.bounds(filled, renewal.column))
