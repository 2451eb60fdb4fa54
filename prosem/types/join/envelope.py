"""The envelope mode of select-joins: an edge holds the rows that join with a partner which satisfies *all* conditions on it.

The semijoin mode looks at one column of the partner, its routing column; edges hold rows whose partners satisfy that
condition alone. Here a subscription is a box in the space of all conditions on a table ([ProSem thesis] 5.6.3). An event on
T, all relative to the table without its row:

- X^T: the row goes to those that select it and whose box on the partner holds one of the joining rows. Of these the skyline
  envelopes of the anchors suffice: a box that holds an anchor and a row holds a row of the envelope.
- X^U of each U whose partner is T: rows of its key are lost or gained where the box holds the row and no other row of the
  key. Of these the skyline envelope of the row suffices: a box that holds the row and another one holds one of the envelope.

Edges hold other rows than by semijoins, so it is a mode (`--plan auto:ref-sj-env`), not a plan that competes per event. It
wins where bytes count and each of several conditions is narrow: with three of 5 % and 8 brokers, 3 to 27 % of the bytes to
brokers that the best plan of the semijoin mode sends, and at most 3 % of those to subscriptions; with two of 5 %, 0.4 to 2
times the bytes to brokers, and 7 to 18 % of those to subscriptions. It loses with one condition per table (1.1 to 2.9 times
the bytes), with wide ones (30 %: 0.9 to 5 times), and in server time always: all rows of a key are looked at, in Python; an
event takes 0.2 to 14 ms where compiled semijoins take 0.05 to 0.4. By equal weights it won in one of 36 settings (1,000 and
10,000 subscriptions; 1, 5 and 30 rows per key; one to three conditions). Beyond a limit of boxes the subscriptions are found
and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from cn.model.geometry import Box, Point, Region, difference
from optimizer.sketch import Sketch
from prosem.index.joins.stabbing_set import StabbingSet
from prosem.types.base import Bound, Draft
from prosem.types.join.decomposition import Decomposition
from prosem.types.join.model import Change, JoinModel
from prosem.types.join.shape import Codes, JoinKey
from prosem.types.join.stepping import RowsInPython
from prosem.types.join.table import Classes, JoinTable, Placed
from prosem.values.model import Row


class Reached(NamedTuple):
    """Subscriptions: those in a region, or those with these ids."""

    region: Region
    targets: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.region or self.targets)


class Exposure(NamedTuple):
    """Rows of `table` with a join key that some subscriptions lose or gain as a whole."""

    table: JoinTable
    classes: Classes
    key: JoinKey
    reached: Reached
    gained: bool


class Seen(NamedTuple):
    """`old` and `new` where a subscription may see them."""

    table: JoinTable
    old: Placed | None
    new: Placed | None
    exposures: list[Exposure]


def envelope(points: Sequence[Codes], centre: Codes) -> list[Codes]:
    """Sky(X, z): the points between which and the centre there is no other point. O(n²) for n points.

    >>> envelope([(1, 1), (2, 2), (5, 0), (0, 5), (6, 6)], (3, 3))
    [(2, 2), (5, 0), (0, 5), (6, 6)]
    """
    return [
        one for one in points if not any(other != one and _is_between(centre, other, one) for other in points)
    ]


def _is_between(centre: Codes, other: Codes, one: Codes) -> bool:
    """Whether a point lies in the box that the centre and another one span."""
    return all(a <= b <= c if a <= c else c <= b <= a for a, b, c in zip(centre, other, one, strict=True))


class EnvelopeMode(RowsInPython):
    """Anchors for the ranges on every condition of a partner; `locate` returns the place of a subscription."""

    def __init__(
        self,
        model: JoinModel,
        decomposition: Decomposition,
        locate: Callable[[int], Bound],
        max_boxes: int,
    ) -> None:
        super().__init__(model)
        self.decomposition, self._locate = decomposition, locate
        self._max_boxes = max_boxes
        shape, tables = model.shape, model.tables
        orders: list[set[Classes]] = [set() for _ in tables]
        for number, partner in enumerate(decomposition):
            for one in (number, partner):
                orders[one].add(shape.shared(number, partner))
        for table, wanted in zip(tables, orders, strict=True):
            table.hold(wanted)
        self._holds = [shape.holder(number) for number in range(len(tables))]
        self._anchors: dict[int, list[tuple[int, int, StabbingSet]]] = {
            number: [
                (
                    *shape.sides(number, at),
                    StabbingSet(shape.tables[number].columns[at].type.int64 and shape.int64),
                )
                for at in shape.ranged[number]
            ]
            for number in set(decomposition)
        }
        placed = [(sid, place) for sid, _, place in model.points.items()]
        self.came([sid for sid, _ in placed], [place for _, place in placed])

    # -- points --------------------------------------------------------------------------------------------------
    def came(self, sids: Sequence[int], places: Sequence[Point]) -> None:
        for sid, place in zip(sids, places, strict=True):
            for low, high, anchors in self._every():
                anchors.add(place[low], place[high], sid)

    def went(self, sid: int, place: Point) -> None:
        for low, high, anchors in self._every():
            anchors.remove(place[low], place[high], sid)

    def _every(self) -> Iterator[tuple[int, int, StabbingSet]]:
        for some in self._anchors.values():
            yield from some

    def _place_of(self, sid: int) -> Point:
        place: Point | None = self._locate(sid).place
        assert place is not None, "a subscription with a range has a place"
        return place

    # -- events --------------------------------------------------------------------------------------------------
    def _describe(self, change: Change) -> Seen | None:
        table, old, new, stays = change
        old = old if old is not None and old.takes_part else None
        new = new if new is not None and new.takes_part else None
        exposures = [] if stays else [*self._exposures(table, old, new)]
        seen = Seen(table, None if stays else self._joining(table, old), self._joining(table, new), exposures)
        return seen if seen.old or seen.new or exposures else None

    def _joining(self, table: JoinTable, placed: Placed | None) -> Placed | None:
        """The row, if a row of the partner has its key and a subscription selects it."""
        if placed is None or not self._partner_codes(table, placed):
            return None
        return placed if self._model.points.any(b"", (table.around_box(placed.codes),)) else None

    def _partner_codes(self, table: JoinTable, placed: Placed) -> list[Codes]:
        """The codes of the partner's rows that join with a row, each once."""
        partner, classes = self._partner(table)
        return _codes(partner, classes, table.getter(classes)(placed.row))

    def _partner(self, table: JoinTable) -> tuple[JoinTable, Classes]:
        number = self.decomposition[table.number]
        return self._model.tables[number], self._model.shape.shared(table.number, number)

    def _exposures(self, table: JoinTable, old: Placed | None, new: Placed | None) -> Iterator[Exposure]:
        """Where the row alone of its key is held; with one key those that lose and gain do neither."""
        for number, partner in enumerate(self.decomposition):
            if partner != table.number:
                continue
            follower, classes = self._model.tables[number], self._model.shape.shared(number, partner)
            keys = [None if one is None else table.getter(classes)(one.row) for one in (old, new)]
            for one, other, key, gained in ((old, new, keys[0], False), (new, old, keys[1], True)):
                if one is None or key is None or not follower.by(classes).at(key):
                    continue
                also = [other.codes] if other is not None and keys[0] == keys[1] else []
                reached = self._alone(table, one.codes, [*_codes(table, classes, key), *also])
                if reached:
                    yield Exposure(follower, classes, key, reached, gained)

    def _alone(self, table: JoinTable, codes: Codes, others: Sequence[Codes]) -> Reached:
        """The subscriptions whose conditions on a table admit a row and none of the others."""
        if codes in others:
            return Reached(())
        own, outer = table.around_box(codes), envelope(others, codes)
        boxes, holds = [own], self._holds[table.number]
        for one in outer:
            hole = table.around_box(one)
            boxes = [piece for box in boxes for piece in difference(box, hole)]
            if len(boxes) > self._max_boxes:
                return self._named(own, lambda place: not any(holds(place, one) for one in outer))
        return self._populated(tuple(boxes))

    def _named(self, box: Box, is_reached: Callable[[Point], bool]) -> Reached:
        """The subscriptions of a box for which something holds, one by one."""
        found = self._model.points.find(b"", (box,)).tolist()
        return Reached((), tuple([sid for sid in found if is_reached(self._place_of(sid))]))

    def _populated(self, region: Region) -> Reached:
        return Reached(region if region and self._model.points.any(b"", region) else ())

    # -- messages ------------------------------------------------------------------------------------------------
    def messages(self, description: Seen, plan: str) -> list[Draft]:
        return [*self._own_drafts(description), *self._exposed(description)]

    def _own_drafts(self, seen: Seen) -> Iterator[Draft]:
        codec, number = self._model.codec, seen.table.number
        if seen.old is not None and (reached := self.visible(seen.table, seen.old)):
            yield codec.remove(number, seen.old.row, *reached)
        if seen.new is not None and (reached := self.visible(seen.table, seen.new)):
            yield codec.upsert(number, seen.new.row, *reached)

    def visible(self, table: JoinTable, placed: Placed) -> Reached:
        """The subscriptions that select a row and whose conditions on the partner admit a row that joins with it."""
        partner, _ = self._partner(table)
        own, rows = table.around_box(placed.codes), self._partner_codes(table, placed)
        described, boxes, holds = self._described(partner, rows), list[Box](), self._holds[partner.number]
        for at, codes in enumerate(described):
            pieces = [_both(own, partner.around_box(codes))]
            for before in described[:at]:
                hole = partner.around_box(before)
                pieces = [rest for piece in pieces for rest in difference(piece, hole)]
            boxes += pieces
            if len(boxes) > self._max_boxes:
                return self._named(own, lambda place: any(holds(place, one) for one in described))
        return self._populated(tuple(boxes))

    def _described(self, partner: JoinTable, rows: Sequence[Codes]) -> list[Codes]:
        """Of the codes of rows those on the envelope of an anchor, if that is less to look at than all of them."""
        anchors = [some.anchors for _, _, some in self._anchors[partner.number]]
        if not prod(map(len, anchors)) < len(rows):
            return list(rows)
        return list(dict.fromkeys(one for centre in product(*anchors) for one in envelope(rows, centre)))

    def _exposed(self, seen: Seen) -> Iterator[Draft]:
        codec = self._model.codec
        for table, classes, key, reached, gained in seen.exposures:
            if not gained:
                yield codec.lose(table.number, classes, key, *reached)
                continue
            holds = self._holds[table.number]
            for entry in table.by(classes).at(key):
                codes = table.codes(entry[2])
                if codes is None:
                    continue
                if reached.targets is None:
                    around = table.around_box(codes)
                    inside = self._populated(tuple(_both(box, around) for box in reached.region))
                else:
                    some = (sid for sid in reached.targets if holds(self._place_of(sid), codes))
                    inside = Reached((), tuple(some))
                if inside:
                    yield codec.upsert(table.number, entry[2], *inside)

    # -- for the optimizer ---------------------------------------------------------------------------------------
    def outlines(self, description: Seen) -> list[Region]:
        """Where the row is selected."""
        seen = [placed for placed in (description.old, description.new) if placed is not None]
        own: list[Region] = [(description.table.around_box(placed.codes),) for placed in seen]
        return own + [one.reached.region for one in description.exposures if one.reached.region]

    def descriptor(self, description: Seen, sketch: Sketch, population: int) -> None:
        """Of the outlines."""

    # -- what an edge holds --------------------------------------------------------------------------------------
    def held(self, point: Point) -> list[list[Row]]:
        """X^T of each table, from its partner's rows."""
        return [list(self._semijoin(table, point)) for table in self._model.tables]

    def _semijoin(self, table: JoinTable, point: Point) -> Iterator[Row]:
        partner, classes = self._partner(table)
        key_of = partner.getter(classes)
        found = partner.by(()).within((), *partner.range_of(point))
        for key in dict.fromkeys(key_of(entry[2]) for entry in found if partner.admits(point, entry)):
            for entry in table.by(classes).within(key, *table.range_of(point)):
                if table.admits(point, entry):
                    yield entry[2]

    def check(self) -> None:
        """Assert that the anchors stand for the points there are."""
        for _, _, anchors in self._every():
            anchors.check()
            assert len(anchors) == len(self._model.points), "every point has a range on each condition"


def _codes(table: JoinTable, classes: Classes, key: JoinKey) -> list[Codes]:
    """The codes of the rows with a key that take part, each once."""
    found = (table.codes(entry[2]) for entry in table.by(classes).at(key))
    return list(dict.fromkeys(codes for codes in found if codes is not None))


def _both(one: Box, other: Box) -> Box:
    return tuple([a & b for a, b in zip(one, other, strict=True)])
