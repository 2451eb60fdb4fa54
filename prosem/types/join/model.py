"""What the modes of a select-join share: the rows, the points, and how an event changes the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from cn.match.point_index import PointIndex
from cn.model.geometry import Box, Point, Region
from optimizer.plan import Descriptor
from optimizer.sketch import Sketch
from prosem.types.base import Draft, Rows
from prosem.types.join.message import JoinCodec, Joined
from prosem.types.join.shape import JoinShape
from prosem.types.join.table import JoinTable, Placed, Sides, box
from prosem.values.model import Row


class Change(NamedTuple):
    """An event on one table: its row before and after, as far as they take part. `stays`: only its payload changes."""

    table: JoinTable
    old: Placed | None
    new: Placed | None
    stays: bool


class JoinModel:
    """The server's own copy of the rows, and all active points."""

    def __init__(self, shape: JoinShape, points: PointIndex, rows: Sequence[Rows]) -> None:
        self.shape, self.points, self.codec = shape, points, JoinCodec(shape)
        self.tables = [JoinTable(shape, number, some) for number, some in enumerate(rows)]

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
                rows[table] = entry[2]
                yield from extend(at + 1)

        return extend(0)


class Mode(Protocol):
    """What edges hold, and the plans that keep it so."""

    def came(self, sids: Sequence[int], places: Sequence[Point]) -> None:
        """Points were added."""

    def went(self, sid: int, place: Point) -> None:
        """A point was removed."""

    def describe(self, change: Change) -> Any | None:
        """The subscriptions that a change affects; called while the table is without the row. None: there are none."""

    def messages(self, description: Any, plan: str) -> list[Draft]: ...
    def outlines(self, description: Any) -> Sequence[Region]:
        """Regions that hold all subscriptions of a description, at little cost."""

    def descriptor(self, description: Any, sketch: Sketch, population: int) -> Descriptor | None:
        """What the costs of this mode's plans depend on; None: on the outlines."""

    def held(self, point: Point) -> list[list[Row]]:
        """The rows of each table that the edge holds for a subscription."""

    def check(self) -> None:
        """Assert the invariants."""
