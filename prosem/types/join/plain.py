"""The two plain modes of select-joins: joined rows without a state at the edge, and whole selections joined there.

They are what systems without semijoins do ([ProSem thesis] 5.2.4), kept as plans and to compare with. `join` wins where a
row joins with one or two others; its messages repeat a row as often as it joins. `selection` knows nothing of the join: it
wins where nearly every row joins, and else sends and stores rows that no subscription needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cn.model.geometry import Box, Point, Region
from optimizer.sketch import Sketch
from prosem.types.base import Draft
from prosem.types.join.message import Joined
from prosem.types.join.model import Change, JoinModel
from prosem.types.join.stepping import RowsInPython
from prosem.types.join.table import JoinTable, Placed
from prosem.values.model import Row


class Seen(NamedTuple):
    """`old` and `new` where a subscription selects them."""

    table: JoinTable
    old: Placed | None
    new: Placed | None
    stays: bool


class _Plain(RowsInPython):
    def came(self, sids: Sequence[int], places: Sequence[Point]) -> None:
        """Nothing is kept of the points."""

    def went(self, sid: int, place: Point) -> None:
        """Nothing is kept of the points."""

    def _describe(self, change: Change) -> Seen | None:
        table, old, new, stays = change
        before, after = self._selected(table, old), self._selected(table, new)
        return Seen(table, before, after, stays) if before or after else None

    def _selected(self, table: JoinTable, placed: Placed | None) -> Placed | None:
        if placed is None or not placed.takes_part:
            return None
        return placed if self._model.is_selected(table.around(placed.codes)) else None

    def outlines(self, description: Seen) -> list[Region]:
        """Where subscriptions select the row before or after the event."""
        seen = [placed for placed in (description.old, description.new) if placed is not None]
        return [(self._model.box(description.table.around(placed.codes)),) for placed in seen]

    def descriptor(self, description: Seen, sketch: Sketch, population: int) -> None:
        """Of the outlines."""

    def check(self) -> None:
        """Nothing to assert."""


class JoinedMode(_Plain):
    """Joined rows travel as they are: `ref-j` all of them, `ref-j+` the selected ones, `enum-j` to each by name."""

    def __init__(self, model: JoinModel) -> None:
        super().__init__(model)
        walks = [model.shape.walk(number) for number in range(len(model.tables))]
        for table in model.tables:
            table.hold({hop.classes for walk in walks for hop in walk if hop.table == table.number})

    def messages(self, description: Seen, plan: str) -> list[Draft]:
        changes = list(self._changes(description))
        codec, points = self._model.codec, self._model.points
        if plan != "enum-j":
            return [
                codec.joined(added, removed, (place,))
                for place, added, removed in changes
                if plan == "ref-j" or points.any(b"", (place,))
            ]
        each: dict[int, tuple[list[Joined], list[Joined]]] = {}
        for place, added, removed in changes:
            for sid in points.find(b"", (place,)).tolist():
                mine = each.setdefault(sid, ([], []))
                mine[0].extend(added)
                mine[1].extend(removed)
        return [codec.joined(*each[sid], targets=(sid,)) for sid in sorted(each)]

    def _changes(self, seen: Seen) -> Iterator[tuple[Box, list[Joined], list[Joined]]]:
        """The joined rows that come and go, with the box of those that select them."""
        number = seen.table.number
        if seen.stays and seen.old is not None and seen.new is not None:
            before = self._model.joined(number, seen.old.row)
            for old, new in zip(before, self._model.joined(number, seen.new.row), strict=True):
                yield self._box(new), [new], [old]
            return
        if seen.old is not None:
            yield from ((self._box(gone), [], [gone]) for gone in self._model.joined(number, seen.old.row))
        if seen.new is not None:
            yield from ((self._box(come), [come], []) for come in self._model.joined(number, seen.new.row))

    def _box(self, joined: Joined) -> Box:
        parts = []
        for table, row in zip(self._model.tables, joined, strict=True):
            placed = table.placed(row)
            assert placed is not None, "absent rows join with nothing"
            parts.append(table.around(placed.codes))
        return self._model.box(*parts)

    def held(self, point: Point) -> list[list[Row]]:
        return [[] for _ in self._model.tables]


class SelectionMode(_Plain):
    """Every row goes to all that select it; the edge joins."""

    def __init__(self, model: JoinModel) -> None:
        super().__init__(model)
        for table in model.tables:
            table.hold(())

    def messages(self, description: Seen, plan: str) -> list[Draft]:
        table, old, new, _ = description
        codec, drafts = self._model.codec, []
        if old is not None and (new is None or old.codes != new.codes):
            region = (self._model.box(table.around(old.codes)),)
            drafts.append(codec.remove(table.number, old.row, region))
        if new is not None:
            region = (self._model.box(table.around(new.codes)),)
            drafts.append(codec.upsert(table.number, new.row, region))
        return drafts

    def held(self, point: Point) -> list[list[Row]]:
        return self._model.selected(point)
