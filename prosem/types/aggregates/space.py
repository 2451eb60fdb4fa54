"""The server's side of several aggregates and of groups: one index of points, and a structure for each aggregate.

All aggregates of a query have one WHERE, so a subscription is one point. Rows are in trees by (topic, group). The sums of a
query have the same regions, so an event is at most three messages for all of them; an extreme has regions of its own. The
topic of a message leaves the group out: a subscription is notified of all groups in its ranges.

An event costs what it costs the single aggregates. A snapshot asks every group of its topics, O(G log N), or where it has
fewer rows than there are groups, those rows; for that rows are put in the order of a range column once many groups are
asked for. Every group has trees of its own, about 1 kB for each aggregate: it loses where nearly every row is a group.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, cast

from cn.model.geometry import Region
from prosem.index.ranges.row_order import RowOrder
from prosem.types.aggregates.columns import Kept, Part
from prosem.types.aggregates.placing import Placed, placer
from prosem.types.aggregates.state import EXTREME, SUMS, Parts, extreme_payload, sums_payload
from prosem.types.base import Bound, Draft, Rows, SpaceContext
from prosem.types.extreme.boxes import holds
from prosem.types.extreme.heights import coder
from prosem.types.extreme.rule import Piece
from prosem.types.extreme.several_ranges import BoxTrees
from prosem.types.extreme.trees import RangeMinima, range_minima
from prosem.types.shared.exact import are_int64
from prosem.types.shared.point_space import PointSpace
from prosem.types.shared.ranges import Codes, Ranges
from prosem.types.sums.trees import Entry, range_sums, seeing, spot_of
from prosem.values.model import Delta, Key

MANY_GROUPS = 32  # of a topic, from which on it is worth looking at the rows of a range first


class Gain(NamedTuple):
    """What the ranges of a region gain in a group: rows, and (number, total) of each sum."""

    topic: bytes
    group: bytes
    region: Region
    rows: int
    sums: tuple[tuple[int, int], ...]


class NewExtreme(NamedTuple):
    """The code of an extreme of a group from now on, in the ranges of a region, or of one id (then there is no region)."""

    topic: bytes
    group: bytes
    region: Region
    id: int | None
    at: int
    code: Any


class Description(NamedTuple):
    gains: list[Gain]
    extremes: list[NewExtreme]


def reads(shape: Ranges, kept: Kept, grouped: tuple[int, ...]) -> frozenset[int]:
    """The columns that groups and aggregates are made of."""
    return shape.reads(*grouped, *[y for y, _ in (*kept.sums, *kept.extremes)])


class AggregatesSpace(PointSpace):
    """`grouped` are the positions of the columns of GROUP BY; without any there is one group."""

    def __init__(
        self, shape: Ranges, kept: Kept, grouped: tuple[int, ...], space_id: int, context: SpaceContext
    ) -> None:
        super().__init__(shape, space_id)
        self._shape, self._kept = shape, kept
        self.reads = reads(shape, kept, grouped)
        self._place = placer(shape, kept, grouped)
        ranges = len(shape.ranged)
        self._is_flat = ranges <= 1
        # One for each sum; rows are counted beside the values, so that a tree for COUNT(*) is needed only without any.
        fitting = [not one.has_total or are_int64(shape.table.columns[one.y].type) for one in kept.sums]
        self._sums = [
            range_sums(self.points, ranges, shape.int64 and fits)
            for fits in fitting or [True] * kept.counts_rows
        ]
        self._extremes: list[RangeMinima | BoxTrees] = [
            range_minima(self.points, int64)
            if self._is_flat
            else BoxTrees(ranges, context.max_boxes, self.points, context.locate, int64)
            for int64 in (shape.int64 and shape.table.columns[one.y].type.int64 for one in kept.extremes)
        ]
        self._code_of = [coder(shape.table.columns[y].type, maximum) for y, maximum in kept.extremes]
        self._groups: dict[bytes, dict[bytes, int]] = {}  # topic → group → its rows
        self._rows = context.rows[0]
        # topic → its rows in order; None until many groups are asked for
        self._orders: dict[bytes, RowOrder] | None = None
        self._build(self._rows)

    def _build(self, rows: Rows) -> None:
        sums: list[dict[Hashable, list[Entry]]] = [{} for _ in self._sums]
        extremes: list[dict[Hashable, list[tuple[Any, Any, Any]]]] = [{} for _ in self._extremes]
        for ref, row in rows.items():
            placed = self._place(row)
            if placed is None:
                continue
            self._count(placed, 1)
            key = placed.topic, placed.group
            where = spot_of(placed.point)
            for entries, amount in zip(sums, placed.amounts, strict=True):
                entries.setdefault(key, []).append((where, 1, *amount))
            for spots, height in zip(extremes, placed.heights, strict=True):
                if height is not None:
                    spots.setdefault(key, []).append((where, height, ref))
        for summed, entries in zip(self._sums, sums, strict=True):
            summed.build(entries)
        for trees, spots in zip(self._extremes, extremes, strict=True):
            trees.build(spots)

    def _count(self, placed: Placed, sign: int) -> None:
        groups = self._groups.setdefault(placed.topic, {})
        left = groups.get(placed.group, 0) + sign
        if left:
            groups[placed.group] = left
            return
        del groups[placed.group]
        if not groups:
            del self._groups[placed.topic]

    @property
    def visits(self) -> int:
        trees = [*self._sums, *self._extremes]
        return self.points.visits + sum(one.visits for one in trees)

    # -- questions -----------------------------------------------------------------------------------------------
    def groups(self, bound: Bound) -> dict[bytes, Parts]:
        """What is kept of each group with rows in the ranges, by topic."""
        found: dict[bytes, Parts] = {}
        for topic in bound.topics:
            groups = self._groups.get(topic, {})
            parts = self._scanned(topic, bound.place, len(groups))
            for group in groups if parts is None else ():
                part = self._part(topic, group, bound.place)
                if part is not None:
                    found.setdefault(group, {})[topic] = part
            for group, part in (parts or {}).items():
                found.setdefault(group, {})[topic] = part
        return found

    def _scanned(self, topic: bytes, place: Any, groups: int) -> dict[bytes, Part] | None:
        """What is kept of the groups of a topic, from the rows in the ranges; None if asking each group costs less."""
        if groups < MANY_GROUPS or not self._shape.ranged:
            return None
        if self._orders is None:
            self._orders = self._ordered()
        box = self._shape.data_box(place)
        refs = self._orders[topic].within(box[0].low, box[0].high, groups)
        if refs is None:
            return None
        found: dict[bytes, list[Part]] = {}
        for ref in refs:
            placed = self._place(self._rows[cast(Key, ref)])
            assert placed is not None
            if holds(box, placed.point):
                codes = [code(height) for code, height in zip(self._code_of, placed.heights, strict=True)]
                part = Part(int(self._kept.counts_rows), placed.sums, tuple(codes))
                found.setdefault(placed.group, []).append(part)
        return {group: self._kept.merged(parts) for group, parts in found.items()}

    def _ordered(self) -> dict[bytes, RowOrder]:
        """All rows in order; O(N log N)."""
        found: dict[bytes, RowOrder] = {}
        for ref, row in self._rows.items():
            placed = self._place(row)
            if placed is not None:
                found.setdefault(placed.topic, RowOrder()).add(placed.point[0], ref)
        return found

    def _part(self, topic: bytes, group: bytes, place: Any) -> Part | None:
        """None if there are no rows, as far as they are counted."""
        box, key, kept = self._shape.data_box(place), (topic, group), self._kept
        totals = [trees.total(key, box) for trees in self._sums]
        if totals and not totals[0][0]:
            return None
        found = [trees.lowest(key, box) for trees in self._extremes]
        return Part(
            totals[0][0] if kept.counts_rows else 0,
            tuple([(values, total) for _, values, total in totals[: len(kept.sums)]]),
            tuple(
                [
                    None if lowest is None else code(lowest[0])
                    for lowest, code in zip(found, self._code_of, strict=True)
                ]
            ),
        )

    # -- events --------------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> Description | None:
        old, new = self._place(delta.old), self._place(delta.new)
        if old == new:
            return None
        for placed, sign in ((old, -1), (new, 1)):
            if placed is not None:
                self._count(placed, sign)
                if self._orders is not None:
                    self._reorder(self._orders, placed, delta.key, sign)
                key = placed.topic, placed.group
                for trees, (number, total) in zip(self._sums, placed.amounts, strict=True):
                    trees.change(key, placed.point, sign, sign * number, sign * total)
        extremes: list[NewExtreme] = []
        for at in range(len(self._extremes)):
            extremes += self._step_extreme(at, old, new, delta.key)
        if not len(self.points):
            return None
        has_point = self.points.any
        gains = self._gains(old, new) if self._sums else []
        gains = [gain for gain in gains if has_point(gain.topic, gain.region)]
        return Description(gains, extremes) if gains or extremes else None

    def _reorder(self, orders: dict[bytes, RowOrder], placed: Placed, ref: Key, sign: int) -> None:
        if sign > 0:
            orders.setdefault(placed.topic, RowOrder()).add(placed.point[0], ref)
            return
        orders[placed.topic].remove(placed.point[0], ref)
        if not len(orders[placed.topic]):
            del orders[placed.topic]

    def _gains(self, old: Placed | None, new: Placed | None) -> list[Gain]:
        if old is not None and new is not None and (old.topic, old.group) != (new.topic, new.group):
            return self._gains(old, None) + self._gains(None, new)
        either = old if new is None else new
        assert either is not None
        zeros = ((0, 0),) * len(self._kept.sums)
        was = zeros if old is None else old.sums
        now = zeros if new is None else new.sums
        found = []
        for topic, region, had_old, has_new in seeing(
            None if old is None else (old.topic, old.point), None if new is None else (new.topic, new.point)
        ):
            rows = (has_new - had_old) * self._kept.counts_rows
            before, after = was if had_old else zeros, now if has_new else zeros
            sums = tuple([(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after, strict=True)])
            if rows or sums != zeros:
                found.append(Gain(topic, either.group, region, rows, sums))
        return found

    def _step_extreme(self, at: int, old: Placed | None, new: Placed | None, ref: Key) -> list[NewExtreme]:
        """Take a row from one spot to another in the trees of one extreme."""
        if old is not None and old.heights[at] is None:
            old = None
        if new is not None and new.heights[at] is None:
            new = None
        if old is not None and new is not None and (old.topic, old.group) != (new.topic, new.group):
            return self._step_extreme(at, old, None, ref) + self._step_extreme(at, None, new, ref)
        either = old if new is None else new
        if either is None or (
            old is not None
            and new is not None
            and (old.point, old.heights[at]) == (new.point, new.heights[at])
        ):
            return []
        topic, group, trees, code = either.topic, either.group, self._extremes[at], self._code_of[at]
        single: list[tuple[int, Piece]] = []
        if isinstance(trees, BoxTrees):
            pieces, single = trees.step((topic, group), topic, _spot(old, at), _spot(new, at), ref)
        else:
            pieces = trees.step((topic, group), topic, _flat(old, at), _flat(new, at), ref)
        return [NewExtreme(topic, group, piece.region, None, at, code(piece.y)) for piece in pieces] + [
            NewExtreme(topic, group, (), id, at, code(piece.y)) for id, piece in single
        ]

    # -- messages ------------------------------------------------------------------------------------------------
    def regions(self, description: Description) -> list[tuple[bytes, Region]]:
        found = [(gain.topic, gain.region) for gain in description.gains]
        return found + [(one.topic, one.region) for one in description.extremes if one.id is None]

    def affected(self, description: Description) -> int:
        return super().affected(description) + sum(one.id is not None for one in description.extremes)

    def drafts(self, description: Description) -> list[Draft]:
        drafts = [
            Draft(SUMS, gain.topic, gain.region, payload=sums_payload(gain.group, gain.rows, gain.sums))
            for gain in description.gains
        ]
        for topic, group, region, id, at, code in description.extremes:
            payload = extreme_payload(group, at, code)
            drafts.append(Draft(EXTREME, topic, region, None if id is None else (id,), payload=payload))
        return drafts


def _spot(placed: Placed | None, at: int) -> tuple[Codes, Any] | None:
    return None if placed is None else (placed.point, placed.heights[at])


def _flat(placed: Placed | None, at: int) -> tuple[Any, Any] | None:
    return None if placed is None else (placed.point[0], placed.heights[at])
