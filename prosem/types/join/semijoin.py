"""The semijoin mode of select-joins: an edge holds of each table the rows that join with a row of its partner.

Each table T has a partner P(T), a neighbour in the join graph. A subscription holds X^T: the rows of T that satisfy its
conditions on T and join with a row of P(T) whose routing column is in its range. An event on T, all relative to the table
*without* its row ([ProSem thesis] 5.3 and 5.4.1):

- X^T: the old row goes from `V_o`, the new one comes to `V_n`: those that select the row and lie under the skyline of P(T)'s
  rows of its key.
- X^U of each U whose partner is T: in `L`, where the old row alone of its key was held, every row of U with that key is
  lost, in one message without rows; in `G`, where the new row alone is held, the rows of U with its key are gained, one
  message each. If the key stays, `L` without `G` loses and `G` without `L` gains.

Loses to whole selections where nearly every row joins, and to joined rows where keys are unique on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from cn.model.geometry import (
    BOTTOM,
    INT64_MAX,
    INT64_MIN,
    TOP,
    Box,
    Point,
    Region,
)
from optimizer.plan import Descriptor
from optimizer.sketch import Sketch
from prosem.index.joins.join_keys import Entry
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.base import Bound, Draft
from prosem.types.join.decomposition import Decomposition
from prosem.types.join.descriptor import semijoin_descriptor
from prosem.types.join.model import Change, JoinModel
from prosem.types.join.preparation import orders_of
from prosem.types.join.regions import OneOfKey, join_regions, under
from prosem.types.join.skyline import (
    Skyline,
    cluster_skyline,
    subscription_skyline,
    tuple_skyline,
)
from prosem.types.join.stepping import Link, compiled_step, take_row
from prosem.types.join.table import Classes, JoinTable, Placed, Sides
from prosem.types.join.watching import watching
from prosem.values.model import Delta, Row

_new = tuple.__new__  # a third quicker than calling the class of a named tuple


class Shift(NamedTuple):
    """Rows of `table` with a join key that some subscriptions lose or gain as a whole."""

    table: JoinTable
    classes: Classes
    row: Row  # of the event's table: it has the key
    region: Region
    gained: bool


class Described(NamedTuple):
    """`old` and `new` where a subscription may see them."""

    table: JoinTable
    old: Placed | None
    new: Placed | None
    shifts: list[Shift]


class SemijoinMode:
    """The decomposition, and anchors for the ranges on every table that is a partner.

    `locate` returns the place of a subscription.
    """

    def __init__(
        self, model: JoinModel, decomposition: Decomposition, locate: Callable[[int], Bound]
    ) -> None:
        self._model, self.decomposition, self._locate = model, decomposition, locate
        self._unused: frozenset[int] = frozenset()
        shape, tables = model.shape, model.tables
        for table, wanted in zip(tables, orders_of(shape, decomposition), strict=True):
            table.hold(wanted)
        self._partners = [self._link(number, partner) for number, partner in enumerate(decomposition)]
        self._followers: list[list[Link]] = [[] for _ in tables]
        for number, partner in enumerate(decomposition):
            self._followers[partner].append(self._link(partner, number))
        self._regions = join_regions(model.points, shape.dimensions, shape.int64, self._place_of)
        self._compiled = compiled_step(model, self._regions, self._partners, self._followers)
        self.clusters = {
            number: StabbingSet(shape.int64)
            for number in set(decomposition)
            if tables[number].routing is not None
        }
        placed = [(sid, place) for sid, _, place in model.points.items()]
        self.came([sid for sid, _ in placed], [place for _, place in placed])

    def _link(self, number: int, other: int) -> Link:
        tables, classes = self._model.tables, self._model.shape.shared(number, other)
        table = tables[number]
        return Link(
            tables[other], classes, table.getter(classes), table.by(classes), tables[other].by(classes)
        )

    # -- points --------------------------------------------------------------------------------------------------
    def came(self, sids: Sequence[int], places: Sequence[Point]) -> None:
        self._regions.came(sids, places)
        for number, clusters in self.clusters.items():
            low, high = self._model.tables[number].routing or (0, 1)
            ends = [(place[low], place[high]) for place in places]
            if len(ends) == 1:
                clusters.add(*ends[0], sids[0])
            else:
                clusters.add_many(np.array(ends, np.int64) if self._model.shape.int64 else ends, sids)

    def went(self, sid: int, place: Point) -> None:
        self._regions.went(sid)
        for number, clusters in self.clusters.items():
            low, high = self._model.tables[number].routing or (0, 1)
            clusters.remove(place[low], place[high], sid)

    @property
    def unused(self) -> frozenset[int]:
        """Tables whose semijoin no subscription holds."""
        return self._unused

    @unused.setter
    def unused(self, numbers: frozenset[int]) -> None:
        self._unused = numbers
        if self._compiled is not None:
            self._compiled.set_unused(numbers)

    # -- events --------------------------------------------------------------------------------------------------
    def rewind(self, deltas: Sequence[Delta]) -> None:
        if self._compiled is None:
            self._model.rewind(deltas)
        elif self._model.is_sharing:
            self._compiled.rewind(deltas, [table.shared_orders() for table in self._model.tables])

    def step(self, table: JoinTable, old: Row | None, new: Row | None) -> Described | None:
        if self._compiled is None:
            described: Described | None = take_row(self._model, table, old, new, self.describe)
            return described
        found = self._compiled.step(table.number, old, new)
        if found is None:
            return None
        before, after, shifted = found
        shifts: list[Shift] = []
        if shifted:
            links = self._followers[table.number]
            shifts = [
                Shift(links[at].other, links[at].classes, row, region, gained)
                for at, row, region, gained in shifted
            ]
        return _new(Described, (table, before, after, shifts))

    def describe(self, change: Change) -> Described | None:
        """In Python; called while the table is without the row."""
        table, old, new, stays = change
        shifts = [] if stays else [*self._shifts(table, old, new)]
        if table.number in self.unused:
            old = new = None
        seen = Described(
            table, None if stays else self._joining(table, old), self._joining(table, new), shifts
        )
        return seen if seen.old or seen.new or shifts else None

    def _partner(self, table: JoinTable) -> tuple[JoinTable, Classes]:
        link = self._partners[table.number]
        return link.other, link.classes

    def _joining(self, table: JoinTable, placed: Placed | None) -> Placed | None:
        """The row, if it joins with one of the partner and a subscription selects it."""
        if placed is None or not placed.takes_part:
            return None
        link = self._partners[table.number]
        if link.key_of(placed.row) not in link.others:
            return None
        return placed if self._model.points.any(b"", (table.around_box(placed.codes),)) else None

    def _shifts(self, table: JoinTable, old: Placed | None, new: Placed | None) -> Iterator[Shift]:
        for link in self._followers[table.number]:
            if link.other.number in self.unused:
                continue
            lost = None if old is None else _one_of_key(link, old)
            gained = None if new is None else _one_of_key(link, new)
            if lost is None and gained is None:
                continue
            is_one_key = old is not None and new is not None and link.key_of(old.row) == link.key_of(new.row)
            losing, gaining = self._regions.shifts(
                table.routing, link.other.routing, lost, gained, is_one_key
            )
            if losing and old is not None:
                yield Shift(link.other, link.classes, old.row, losing, False)
            if gaining and new is not None:
                yield Shift(link.other, link.classes, new.row, gaining, True)

    # -- messages ------------------------------------------------------------------------------------------------
    def messages(self, description: Described, plan: str) -> list[Draft]:
        """By `enum-sj` they name the affected subscriptions; rows need no skyline then, see `watching`."""
        table, old, new, shifts = description
        if plan != "enum-sj":
            drafts = self._own_drafts(table, old, new, plan)
            return [*drafts, *self._shifted(table, shifts)] if shifts else drafts
        codec, find = self._model.codec, self._model.points.find
        addressed = []
        rows = [one for one in (old, new) if one is not None]
        watchers = watching(self._model, table, rows, *self._partner(table), self._place_of)
        if old is not None:
            addressed.append((codec.remove(table.number, old.row), next(watchers)))
        if new is not None:
            addressed.append((codec.upsert(table.number, new.row), next(watchers)))
        addressed += [(draft, find(b"", draft.region)) for draft in self._shifted(table, shifts)]
        return [
            draft._replace(region=(), targets=tuple(sids.tolist())) for draft, sids in addressed if len(sids)
        ]

    def _place_of(self, sid: int) -> Point:
        place = self._locate(sid).place
        assert place is not None, "a subscription with a range has a place"
        return cast(Point, place)

    def outlines(self, description: Described) -> list[Region]:
        """Where the row is selected, and where others are lost or gained: without the skylines."""
        table, old, new, shifts = description
        seen = [placed for placed in (old, new) if placed is not None]
        own: list[Region] = [(self._model.box(table.around(placed.codes)),) for placed in seen]
        return own + [shift.region for shift in shifts]

    def descriptor(self, description: Described, sketch: Sketch, population: int) -> Descriptor:
        return semijoin_descriptor(description, *self._partner(description.table), sketch, population)

    def _own_drafts(self, table: JoinTable, old: Placed | None, new: Placed | None, plan: str) -> list[Draft]:
        """Of the event's own row, to those that see it."""
        drafts = []
        if old is not None and (region := self.visible(table, old, plan)):
            drafts.append(self._model.codec.remove(table.number, old.row, region))
        if new is not None and (region := self.visible(table, new, plan)):
            drafts.append(self._model.codec.upsert(table.number, new.row, region))
        return drafts

    def _shifted(self, table: JoinTable, shifts: Sequence[Shift]) -> Iterator[Draft]:
        """Of the rows that some lose or gain with it."""
        codec = self._model.codec
        for shift in shifts:
            key = table.key(shift.classes, shift.row)
            if not shift.gained:
                yield codec.lose(shift.table.number, shift.classes, key, shift.region)
                continue
            rows = shift.table.by(shift.classes).at(key)
            for entry, region in self._exposed(shift.table, rows, shift.region):
                yield codec.upsert(shift.table.number, entry[2], region)

    def visible(self, table: JoinTable, placed: Placed, plan: str) -> Region:
        """Where subscriptions select a row and have a range with the code of a joining row; empty if there are none."""
        partner = self._partners[table.number].other
        is_clustered = plan in ("ref-sj-clu+", "ref-sj-clu")
        if self._compiled is not None and is_clustered and partner.routing is not None:
            clusters = self.clusters[partner.number]
            return self._compiled.visible(table.number, placed, clusters, plan == "ref-sj-clu+")
        own = table.around_box(placed.codes)
        if partner.routing is None:
            return (own,)
        if is_clustered:
            clusters, rows = self.clusters[partner.number], self._joining_rows(table, placed)
            return self._regions.visible(own, rows, partner.routing, clusters, plan == "ref-sj-clu+")
        skyline = self._points_of(own, self._joining_rows(table, placed), partner, plan)
        region = under(skyline, own, partner.routing)
        return region if self._model.points.any(b"", region) else ()

    def _joining_rows(self, table: JoinTable, placed: Placed) -> Sequence[Entry]:
        link = self._partners[table.number]
        return link.others.at(link.key_of(placed.row))

    def _points_of(self, own: Box, rows: Sequence[Entry], partner: JoinTable, plan: str) -> Skyline:
        """The skyline of a row by -Tup or -Sub."""
        routing = partner.routing
        assert routing is not None, "a table without conditions has no skyline"
        if plan == "ref-sj-tup":
            return tuple_skyline(rows)
        region = under(cluster_skyline(rows, self.clusters[partner.number]), own, routing)
        lows, highs = (self._model.points.codes(b"", region, dimension) for dimension in routing)
        return subscription_skyline(*_ended(lows, highs, rows))

    def skyline(self, table: JoinTable, placed: Placed, plan: str) -> Skyline:
        """The descriptive skyline of a row, of the flavour that the plan names; empty if no subscription sees the row."""
        routing = self._partners[table.number].other.routing
        assert routing is not None, "a table without conditions has no skyline"
        low, high = routing
        return [(box[low].high, box[high].low) for box in self.visible(table, placed, plan)]

    def _exposed(
        self, table: JoinTable, rows: Sequence[Entry], region: Region
    ) -> Iterator[tuple[Entry, Region]]:
        """The rows that subscriptions in the region select, each with the part of the region that does.

        Halves in which no range lies are left out at once: O(e log s) lookups for e of s rows.
        """
        todo = [(0, len(rows))]
        while todo:
            start, stop = todo.pop()
            if stop - start > 1:
                reach = _within(region, table.reach(rows[start], rows[stop - 1]))
                if table.routing is None or self._model.points.any(b"", reach):
                    middle = (start + stop) // 2
                    todo += [(middle, stop), (start, middle)]
                continue
            codes = table.codes(rows[start][2])
            inside = () if codes is None else _within(region, table.around(codes))
            if inside and self._model.points.any(b"", inside):
                yield rows[start], inside

    # -- what an edge holds --------------------------------------------------------------------------------------
    def held(self, point: Point) -> list[list[Row]]:
        """X^T of each table, from the side with fewer rows in the subscription's range."""
        return [[entry[2] for entry in self.semijoin(table, point)] for table in self._model.tables]

    def semijoin(self, table: JoinTable, point: Point) -> Iterator[Entry]:
        partner, classes = self._partner(table)
        own, other = table.range_of(point), partner.range_of(point)
        mine, its = table.by(classes), partner.by(classes)
        counts = []
        for one, ends in ((table, own), (partner, other)):
            start, stop = one.by(()).span((), *ends)
            counts.append(stop - start)
        if counts[0] <= counts[1]:
            for entry in table.by(()).within((), *own):
                if its.any_within(table.key(classes, entry[2]), *other) and table.admits(point, entry):
                    yield entry
            return
        keys = dict.fromkeys(partner.key(classes, entry[2]) for entry in partner.by(()).within((), *other))
        for key in keys:
            yield from (entry for entry in mine.within(key, *own) if table.admits(point, entry))

    def check(self) -> None:
        """Assert that the anchors stand for the points there are."""
        for number, clusters in self.clusters.items():
            clusters.check()
            assert len(clusters) == len(self._model.points), f"every point has a range on table {number}"


def _one_of_key(link: Link, placed: Placed) -> OneOfKey | None:
    """A row of the table among those of its key; None if no row of the other table has it."""
    key = link.key_of(placed.row)
    others = link.others.at(key)
    return OneOfKey(placed.entry[0], link.own.at(key), others) if others else None


def _ended(lows: Any, highs: Any, rows: Sequence[Entry]) -> tuple[Any, Any]:
    """Ranges with the first and the last joining code for missing ends: these hold the same rows, and can travel."""
    first, last = rows[0][0], rows[-1][0]
    if isinstance(lows, np.ndarray):
        return np.where(lows == INT64_MIN, first, lows), np.where(highs == INT64_MAX, last, highs)
    return [first if low is BOTTOM else low for low in lows], [
        last if high is TOP else high for high in highs
    ]


def _within(region: Region, sides: Sides) -> Region:
    """The region's boxes with these sides, which lie within its own."""
    found = []
    for box in region:
        within = list(box)
        for at, side in sides.items():
            within[at] = side
        found.append(tuple(within))
    return tuple(found)
