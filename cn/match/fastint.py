"""FASTINT: conjunctions of extents parted by hash maps and canonical nodes, intersected by SV trees.

After [Beretta] 5, with three changes. A conjunction is stored at one place only, not at every attribute: at a
code of an equality (a hash map), at canonical nodes of a segment tree where its interval is narrow, else at
the root. Within a place the attributes' bit vectors have few leaves (`sv_tree`) and the most selective come
first. Candidates are verified against their rows and nothing else is touched.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from cn.match import partition as partitions
from cn.match.block import Ids
from cn.match.image import NOWHERE, POINT, Node, canonical_nodes, cell_at, interval_bounds, point
from cn.match.partition import MANY, SAMPLE, Partition
from cn.match.rows import Rows
from cn.match.sv_tree import quantiles
from cn.model.geometry import Code, Extent, Filter

ALTERNATIVES = 64  # places at which one conjunction may stand
NARROW = 0  # cuts within an interval that still counts as narrow
GAIN = 8  # times smaller a node must be than the place of an equality, to be taken instead
Piece = tuple[Node, Extent]  # a part of an extent and where it is stored
Placing = tuple[int | None, list[Piece]]  # the attribute, None for the root


class Fastint:
    """Conjunctions by slot. One conjunction has a slot for each code or node at which it is stored, usually one.

    A match visits the root, and for each attribute one partition of each level of nodes that are in use;
    `visits` counts the candidates verified. Adding, changing and discarding cost O(columns) for each slot.
    `module` is the compiled one: its partitions hold the vectors and match in one call; placing is the same.
    """

    __slots__ = (
        "_cuts",
        "_cuts_due",
        "_module",
        "_partitions",
        "_places",
        "_positions",
        "_root",
        "_rows",
        "visits",
    )

    def __init__(self, module: Any | None = None) -> None:
        self.visits = 0
        self._module = module
        self._rows = Rows()
        self._root = self._made(None, POINT, None)
        self._places: dict[int, dict[int, dict[Code | None, Partition]]] = {}  # attribute → level → cell
        self._partitions: list[Partition] = []  # of each slot
        self._positions = array("i")
        self._cuts: dict[int, list[int]] = {}  # attribute → quantiles of all ends; they define what is narrow
        self._cuts_due = MANY

    def __len__(self) -> int:
        return len(self._rows)

    # -- changes ---------------------------------------------------------------------------------------------
    def add(self, owner: int, filter: Filter) -> tuple[int, ...]:
        """Add a conjunction; its slots, none if nothing can satisfy it."""
        return tuple([self._enter(owner, *part) for part in self._parts(filter, self._placing(filter))])

    def add_many(self, owned: Iterable[tuple[int, Filter]]) -> list[tuple[int, ...]]:
        """Add conjunctions, their vectors all at once."""
        started: dict[Partition, int] = {}
        try:
            return [
                tuple(
                    [
                        self._enter(owner, *part, started)
                        for part in self._parts(filter, self._placing(filter))
                    ]
                )
                for owner, filter in owned
            ]
        finally:
            for partition, start in started.items():
                partition.settle(self._rows, start)

    def change(self, slots: Sequence[int], owner: int, filter: Filter) -> tuple[int, ...]:
        """Give a conjunction other extents; its slots. A part that stays is touched only where it differs."""
        left = {self._key(slot): slot for slot in slots}
        parts = self._parts(filter, self._placing(filter, next(iter(left), (None, (POINT, None)))[0]))
        kept, moving = [], []
        for part in parts:
            slot = left.pop(part[:2], None)
            if slot is None:
                moving.append(part)
            else:
                self._rewrite(slot, *part)
                kept.append(slot)
        spare = list(left.values())
        for part in moving:
            if spare:
                self._move(slot := spare.pop(), *part)
            else:
                slot = self._enter(owner, *part)
            kept.append(slot)
        for slot in spare:
            self.discard(slot)
        return tuple(kept)

    def discard(self, slot: int) -> None:
        """Take out a slot."""
        self._leave(slot)
        self._rows.discard(slot)

    def _enter(
        self,
        owner: int,
        attribute: int | None,
        node: Node,
        filter: Filter,
        started: dict[Partition, int] | None = None,
    ) -> int:
        row = self._rows.row(filter, attribute if node[0] == POINT else None)
        slot = self._rows.add(owner, row)
        partition = self._partition(attribute, node)
        if slot == len(self._partitions):
            self._partitions.append(partition)
            self._positions.append(0)
        self._partitions[slot] = partition
        if started is None:
            self._positions[slot] = partition.add(slot, row, self._rows)
        else:
            self._positions[slot] = position = partition.append(slot)
            started.setdefault(partition, position)
        if len(self._rows) >= self._cuts_due:
            self._measure()
        return slot

    def _rewrite(self, slot: int, attribute: int | None, node: Node, filter: Filter) -> None:
        row = self._rows.row(filter, attribute if node[0] == POINT else None)
        for column in self._rows.write(slot, row):
            self._partitions[slot].change(self._positions[slot], column, row, self._rows)

    def _move(self, slot: int, attribute: int | None, node: Node, filter: Filter) -> None:
        self._leave(slot)
        row = self._rows.row(filter, attribute if node[0] == POINT else None)
        self._rows.write(slot, row)
        self._partitions[slot] = partition = self._partition(attribute, node)
        self._positions[slot] = partition.add(slot, row, self._rows)

    def _leave(self, slot: int) -> None:
        partition, position = self._partitions[slot], self._positions[slot]
        moved = partition.remove(position, self._rows)
        if moved is not None:
            self._positions[moved] = position
        if not len(partition) and partition.attribute is not None:
            levels = self._places[partition.attribute]
            del levels[partition.level][partition.cell]
            if not levels[partition.level]:
                del levels[partition.level]
            if not levels:
                del self._places[partition.attribute]

    # -- places ----------------------------------------------------------------------------------------------
    def _key(self, slot: int) -> tuple[int | None, Node]:
        partition = self._partitions[slot]
        return partition.attribute, (partition.level, partition.cell)

    def _partition(self, attribute: int | None, node: Node) -> Partition:
        if attribute is None:
            return self._root
        level, cell = node
        cells = self._places.setdefault(attribute, {}).setdefault(level, {})
        found = cells.get(cell)
        if found is None:
            found = cells[cell] = self._made(attribute, level, cell)
        return found

    def _made(self, attribute: int | None, level: int, cell: Code | None) -> Partition:
        if self._module is None:
            return Partition(attribute, level, cell)
        limits = partitions.MANY, partitions.RENEW, partitions.SAMPLE
        return cast(Partition, self._module.FilterPartition(attribute, level, cell, *limits))

    def _parts(self, filter: Filter, placing: Placing) -> list[tuple[int | None, Node, Filter]]:
        """A conjunction as disjoint parts, one for each place; none if an extent is empty."""
        for extent in filter.values():
            if extent.is_empty():
                return []
        attribute, pieces = placing
        if attribute is None:
            return [(None, (POINT, None), filter)]
        return [(attribute, node, {**filter, attribute: extent}) for node, extent in pieces]

    def _placing(self, filter: Filter, favoured: int | None = None) -> Placing:
        """Where a conjunction is stored: where fewest others do, but at the favoured attribute if it can."""
        best: Placing = None, []
        least = -1
        for attribute, extent in filter.items():
            pieces = _points(extent)
            if pieces is not None:
                longest = self._longest(attribute, pieces)
                if attribute == favoured:
                    return attribute, pieces
                if least < 0 or longest < least:
                    best, least = (attribute, pieces), longest
        if least < 0:
            least = len(self._root)
        for attribute, extent in filter.items():
            if (least >= MANY and len(extent.intervals) <= ALTERNATIVES) or attribute == favoured:
                pieces = self._pieces(attribute, extent)
                if pieces is not None:
                    longest = self._longest(attribute, pieces) * GAIN
                    if attribute == favoured:
                        return attribute, pieces
                    if longest < least:
                        best, least = (attribute, pieces), max(longest, MANY)
        return best

    def _longest(self, attribute: int, pieces: list[Piece]) -> int:
        levels = self._places.get(attribute, {})
        found = [levels.get(level, {}).get(cell) for (level, cell), _ in pieces]
        return max((len(partition) for partition in found if partition is not None), default=0)

    def _pieces(self, attribute: int, extent: Extent) -> list[Piece] | None:
        """An extent as single codes and narrow intervals at their nodes; None if another interval is in it."""
        pieces: list[Piece] = []
        for interval in extent.intervals:
            low, above, _ = bounds = interval_bounds(interval)
            if bounds == NOWHERE:
                continue
            if not self._is_narrow(attribute, low, ~above):
                return None
            node = point(interval)
            nodes = canonical_nodes(interval) if node is None else [node]
            if nodes is None:
                return None
            pieces += [(node, Extent((interval,))) for node in nodes]
        if extent.null:
            pieces.append(((POINT, None), Extent((), True)))
        return _merged(pieces) if len(pieces) <= ALTERNATIVES else None

    def _is_narrow(self, attribute: int, low: int, high: int) -> bool:
        """Whether few cuts part its ends; or none can, as of texts that begin alike."""
        cuts = self._cuts.get(attribute)
        return low == high or (
            cuts is not None and bisect_right(cuts, high) - bisect_right(cuts, low) <= NARROW
        )

    def _measure(self) -> None:
        """See where the ends of all rows lie; O(columns) on a sample, whenever the rows have doubled."""
        self._cuts_due = 2 * len(self._rows)
        slots = self._rows.sample(SAMPLE)
        for column, attribute in enumerate(self._rows.attributes):
            low, above, _ = self._rows.bounds(slots, column)
            cuts = quantiles(low, above)
            if len(cuts) > 2 * (NARROW + 1):
                self._cuts[attribute] = cuts

    # -- matching --------------------------------------------------------------------------------------------
    def match(self, attributes: Sequence[Any]) -> list[int]:
        """The owners of the conjunctions that hold a vector; an owner of several may come twice."""
        if self._module is not None:
            found: list[int] = self._matched(((attributes,),))[0].tolist()
            return found
        partitions = self._reached(attributes)
        question = self._rows.question(attributes)
        some = [slots for one in partitions if len(slots := one.candidates(question))]
        if not some:
            return []
        slots = some[0] if len(some) == 1 else np.concatenate(some)
        self.visits += len(slots)
        return self._rows.owners(slots, question)

    def match_each(self, groups: Sequence[Sequence[Sequence[Any]]]) -> list[Ids]:
        """For each group of vectors the owners of conjunctions that hold one of them, each once."""
        if self._module is not None:
            return self._matched(groups)
        found = [set(chain(*map(self.match, vectors))) for vectors in groups]
        return [np.fromiter(owners, np.int64, len(owners)) for owners in found]

    def _matched(self, groups: Sequence[Sequence[Sequence[Any]]]) -> list[Ids]:
        """By the compiled partitions, in one call."""
        assert self._module is not None, "partitions are compiled"
        owners, verified = self._module.match_filters(self._root, self._places, self._rows, groups)
        self.visits += verified
        return cast(list[Ids], owners)

    def _reached(self, attributes: Sequence[Any]) -> list[Partition]:
        """The partitions whose conjunctions may hold a vector."""
        reached = [self._root] if len(self._root) else []
        for attribute, levels in self._places.items():
            code = attributes[attribute]
            for level, cells in levels.items():
                if level == POINT:
                    found = cells.get(code)
                elif code is not None:
                    found = cells.get(cell_at(code, level))
                else:
                    continue
                if found is not None:
                    reached.append(found)
        return reached

    # -- accounts --------------------------------------------------------------------------------------------
    def owner(self, slot: int) -> int:
        return self._rows.owner(slot)

    def partitions(self) -> Iterator[Partition]:
        if len(self._root):
            yield self._root
        for levels in self._places.values():
            for cells in levels.values():
                yield from cells.values()

    def check(self) -> None:
        """Assert that every slot in use is at one position of the partition its place names."""
        self._rows.check()
        count = 0
        for partition in self.partitions():
            partition.check(self._rows)
            for position, slot in enumerate(partition):
                assert self._partitions[slot] is partition
                assert self._positions[slot] == position
                count += 1
        assert count == len(self._rows)
        for attribute, levels in self._places.items():
            assert levels
            for level, cells in levels.items():
                assert cells
                for cell, partition in cells.items():
                    assert (partition.attribute, partition.level, partition.cell) == (attribute, level, cell)


def _points(extent: Extent) -> list[Piece] | None:
    """An extent as single codes and NULL; None if it is more."""
    if len(extent.intervals) + extent.null > ALTERNATIVES:
        return None
    if len(extent.intervals) == 1 and not extent.null:  # most extents; the rest is slower for them
        node = point(extent.intervals[0])
        return None if node is None else [(node, extent)]
    pieces: list[Piece] = []
    for interval in extent.intervals:
        node = point(interval)
        if node is None:
            return None
        pieces.append((node, Extent((interval,))))
    if extent.null:
        pieces.append(((POINT, None), Extent((), True)))
    return pieces


def _merged(pieces: list[Piece]) -> list[Piece]:
    """One piece per node: intervals that share a node share a slot."""
    merged: dict[Node, Extent] = {}
    for node, extent in pieces:
        known = merged.get(node)
        merged[node] = (
            extent if known is None else Extent(known.intervals + extent.intervals, known.null or extent.null)
        )
    return list(merged.items())
