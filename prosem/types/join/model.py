"""What the modes of a select-join share: the rows, the points, and how an event changes the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from cn.match.point_index import PointIndex
from cn.model.geometry import Box, Point, Region
from optimizer.plan import Descriptor
from optimizer.sketch import Sketch
from prosem.index.shared_indexes import SharedIndexes
from prosem.types.base import Draft, Rows
from prosem.types.join.adaptation import FEWEST_POINTS, SAMPLE_POINTS
from prosem.types.join.decomposition import Cost, formula, rows_per_key, simulation
from prosem.types.join.message import JoinCodec, Joined
from prosem.types.join.pricing import USUAL, Counted, Pricing
from prosem.types.join.shape import JoinShape
from prosem.types.join.table import Classes, JoinTable, Placed, Sides, box
from prosem.values.model import Delta, Key, Row


class Change(NamedTuple):
    """An event on one table: its row before and after, as far as orders hold them. `stays`: only its payload changes."""

    table: JoinTable
    old: Placed | None
    new: Placed | None
    stays: bool


class JoinModel:
    """The rows of all tables, in orders that `shared` has once for all joins, and all active points."""

    def __init__(
        self,
        shape: JoinShape,
        points: PointIndex,
        rows: Sequence[Rows],
        shared: SharedIndexes | None = None,
        pricing: Pricing = USUAL,
    ) -> None:
        self.shape, self.points, self.codec, self.pricing = shape, points, JoinCodec(shape), pricing
        self._shared = SharedIndexes() if shared is None else shared
        self.tables = [JoinTable(shape, number, some, self._shared) for number, some in enumerate(rows)]

    @property
    def is_sharing(self) -> bool:
        """Whether any order of the server is used by several joins."""
        return self._shared.sharing > 0

    def rewind(self, deltas: Sequence[Delta]) -> None:
        """Have the rows as before these deltas, which another space may have taken. O(1) if no order is shared."""
        if not self.is_sharing:
            return
        ends: dict[tuple[int, Key], tuple[Row | None, Row | None]] = {}
        for delta in deltas:
            at = self.shape.index[delta.table.id], delta.key
            first = ends.get(at)
            ends[at] = delta.old if first is None else first[0], delta.new
        for (number, _), (before, after) in ends.items():
            self.tables[number].rewind(before, after)

    @property
    def row_count(self) -> int:
        return sum(map(len, self.tables))

    def cost(self, shares: Sequence[float], moved: Sequence[float], chance: Random) -> Cost:
        """What each semijoin would cost with these shares of the events, by a sample of the points."""
        places = self.points.sample(SAMPLE_POINTS, chance) if len(self.points) >= FEWEST_POINTS else []
        return self.sampled_cost(places, shares, moved)

    def sampled_cost(self, places: Sequence[Point], shares: Sequence[float], moved: Sequence[float]) -> Cost:
        """By simulation on these points; by the formula where they are too few to say anything."""
        if len(places) >= FEWEST_POINTS:
            return simulation(
                self.shape,
                self.tables,
                places,
                shares,
                moved=moved,
                subscriptions=len(self.points),
                pricing=self.pricing,
            )

        def per_key(table: int, classes: Classes) -> float:
            one = self.tables[table]
            return rows_per_key((entry[2] for entry in one.entries()), one.getter(classes))

        return formula(self.shape, Counted(shares, per_key, moved=moved))

    def box(self, *parts: Sides) -> Box:
        return box(self.shape.dimensions, *parts)

    def is_selected(self, *parts: Sides) -> bool:
        """Whether a subscription lies in the box with these sides: one lookup."""
        return self.points.any(b"", (self.box(*parts),))

    def selected(self, point: Point) -> list[list[Row]]:
        """The rows of each table that a subscription's own conditions admit."""
        return [
            [
                entry[2]
                for entry in table.by(()).within((), *table.range_of(point))
                if table.admits(point, entry)
            ]
            for table in self.tables
        ]

    def joined(self, number: int, row: Row) -> Iterator[Joined]:
        """The joined rows that a row of one table is part of; the orders along its walk must be held."""
        hops = self.shape.walk(number)
        rows: list[Row] = [()] * len(self.tables)
        rows[number] = row

        def extend(at: int) -> Iterator[Joined]:
            if at == len(hops):
                yield tuple(rows)
                return
            table, classes, values = hops[at]
            key = tuple([rows[other][column] for other, column in values])
            for entry in self.tables[table].by(classes).at(key):
                if self.tables[table].codes(entry[2]) is not None:
                    rows[table] = entry[2]
                    yield from extend(at + 1)

        return extend(0)


class Mode(Protocol):
    """What edges hold, and the plans that keep it so."""

    def came(self, sids: Sequence[int], places: Sequence[Point]) -> None:
        """Points were added."""

    def went(self, sid: int, place: Point) -> None:
        """A point was removed."""

    def rewind(self, deltas: Sequence[Delta]) -> None:
        """Have the rows as before these deltas, which another space may have taken."""

    def step(self, table: JoinTable, old: Row | None, new: Row | None) -> Any | None:
        """Take a row of a table from `old` to `new`, and describe the affected subscriptions (None: there are none)."""

    def messages(self, description: Any, plan: str) -> list[Draft]: ...
    def outlines(self, description: Any) -> Sequence[Region]:
        """Regions that hold all subscriptions of a description, at little cost."""

    def descriptor(self, description: Any, sketch: Sketch, population: int) -> Descriptor | None:
        """What the costs of this mode's plans depend on; None: on the outlines."""

    def held(self, point: Point) -> list[list[Row]]:
        """The rows of each table that the edge holds for a subscription."""

    def check(self) -> None:
        """Assert the invariants."""
