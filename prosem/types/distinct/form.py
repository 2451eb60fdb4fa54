"""`SELECT DISTINCT y FROM t WHERE x BETWEEN a AND b [AND e = c …]`.

For each value the sorted positions of its rows. A row that leaves takes its value from the ranges that held no other row
with it: between the neighbours among the value's own positions; a row that comes brings it there (docs/explanation.md). An
event is at most two messages, and a subscription in both gets one change with both effects. NULL is a value like any other.

A snapshot asks every value for its range, O(V log N): it loses where nearly all values differ and ranges are narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

from cn.model.geometry import Box, Interval, Region, difference
from cn.model.message import Message
from prosem.index.ranges.positions import Positions
from prosem.language.resolve import column
from prosem.language.syntax import Distinct, Query
from prosem.types.base import (
    Bound,
    Draft,
    Rows,
    Space,
    SpaceContext,
    SubscriptionType,
    described_columns,
    is_composed,
)
from prosem.types.distinct.client_rules import RULES
from prosem.types.shared.point_space import PointSpace
from prosem.types.shared.ranges import Codes, RangeForm, Ranges, recognise_ranges
from prosem.values.codes import value_of
from prosem.values.errors import LanguageError
from prosem.values.model import Delta, JsonObject, Row, Table
from prosem.values.numerics import is_unconstrained
from prosem.values.wire import decode, encode

_NULL = (1, 0)  # the sort key of NULL: after all values


class Placed(NamedTuple):
    """A row of a DISTINCT: topic, position, and the sort key of its value."""

    topic: bytes
    x: Any
    rank: tuple[int, Any]


class Gain(NamedTuple):
    """A value appears in (kind "add") or disappears from (kind "remove") the ranges of a region."""

    kind: str
    topic: bytes
    region: Region
    value: Any


@dataclass(frozen=True)
class DistinctForm(RangeForm):
    query: Query
    shape: Ranges
    y: int
    type: str = "distinct"

    @property
    def label(self) -> str:
        return f"DISTINCT {self.shape.table.names[self.y]!r} FROM {self.shape.source()}{self.shape.where()}"

    @property
    def folding(self) -> JsonObject:
        y = self.shape.table.columns[self.y]
        return {"type": y.type.name, "columns": described_columns([(y.name, y.type)])}

    @property
    def columns_read(self) -> frozenset[int]:
        return self.shape.reads(self.y)

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return DistinctSpace(self, space_id, context.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        if bound.place is None:
            return {"values": []}
        return {"values": cast(DistinctSpace, space).values(bound.topic, bound.place)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        was = {self._ranked(value)["rank"]: value for value in before["values"]}
        now = {self._ranked(value)["rank"]: value for value in after["values"]}
        change = {
            "add": [value for rank, value in now.items() if rank not in was],
            "remove": [value for rank, value in was.items() if rank not in now],
        }
        return change if any(change.values()) else None

    def state(self, space: Space, bound: Bound) -> None:
        return None

    def change(self, messages: Sequence[Message], bound: Bound, state: None) -> tuple[bytes | None, None]:
        if messages[-1].kind == "change":
            return messages[-1].payload, None
        if self._is_composed:
            messages = self._net(messages)
            if not messages:
                return None, None
        parts = {kind: b",".join(m.payload for m in messages if m.kind == kind) for kind in ("add", "remove")}
        return b'{"add":[%b],"remove":[%b]}' % (parts["add"], parts["remove"]), None

    @cached_property
    def _is_composed(self) -> bool:
        return is_composed(self)

    def _net(self, messages: Sequence[Message]) -> list[Message]:
        """Several deltas may bring a value and take it again: of each value the last message, if one is left over."""
        gains: dict[Any, int] = {}
        last: dict[Any, Message] = {}
        for message in messages:
            rank = self._ranked(decode(message.payload))["rank"]
            gains[rank] = gains.get(rank, 0) + (1 if message.kind == "add" else -1)
            last[rank] = message
        return [message for rank, message in last.items() if gains[rank]]

    def opening(self, snapshot: bytes, state: None) -> JsonObject:
        return {"message": "state", "values": list(map(self._ranked, decode(snapshot)["values"]))}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        changed = {} if change is None else decode(change)
        return [
            {"message": kind, **self._ranked(value)}
            for kind in ("remove", "add")
            for value in changed.get(kind, ())
        ]

    def _ranked(self, value: Any) -> JsonObject:
        """A value with its place in the order; text and bytes without the mark that their codes have at the end."""
        kind = self.shape.table.columns[self.y].type
        rank = None if value is None else kind.code(kind.read(value))
        is_marked = kind.name in ("text", "bytea")
        return {"value": value, "rank": rank[:-2] if is_marked and isinstance(rank, str) else rank}

    def shown(self, value: Any) -> Any:
        """A value as all rows with it show it: 1.5 and 1.50 of a view are one value."""
        kind = self.shape.table.columns[self.y].type
        return value_of(kind, kind.code(value)) if value is not None and is_unconstrained(kind) else value

    def placer(self) -> Callable[[Row | None], Placed | None]:
        """A function that gives topic, position and rank of a row; NULL in a range column: it is in no range."""
        place, at, code = self.shape.placer(), self.y, self.shape.table.columns[self.y].type.code

        def placed(row: Row | None) -> Placed | None:
            found = None if row is None else place(row)
            if row is None or found is None:
                return None
            value = row[at]
            return Placed(found[0], found[1][0], _NULL if value is None else (0, code(value)))

        return placed


class DistinctSpace(PointSpace):
    """For each topic the values by rank, each with its positions."""

    def __init__(self, form: DistinctForm, space_id: int, rows: Rows) -> None:
        super().__init__(form.shape, space_id)
        self.reads = form.columns_read
        self._form, self._place = form, form.placer()
        self._values: dict[bytes, dict[tuple[int, Any], tuple[Any, Positions]]] = {}
        for row in rows.values():
            placed = self._place(row)
            if placed is not None:
                self._put(placed, row[form.y])

    def _put(self, placed: Placed, value: Any) -> None:
        values = self._values.setdefault(placed.topic, {})
        known = values.get(placed.rank)
        if known is None:
            known = values[placed.rank] = (self._form.shown(value), Positions())
        known[1].add(placed.x)

    def _take(self, placed: Placed) -> None:
        values = self._values[placed.topic]
        _, positions = values[placed.rank]
        positions.remove(placed.x)
        if not len(positions):
            del values[placed.rank]
            if not values:
                del self._values[placed.topic]

    def values(self, topic: bytes, place: Codes) -> list[Any]:
        """The values of a range in order, NULL last."""
        (interval,) = self._form.shape.data_box(place)
        found = [
            (rank, value)
            for rank, (value, positions) in self._values.get(topic, {}).items()
            if positions.any_in(interval.low, interval.high)
        ]
        return [value for _, value in sorted(found, key=lambda item: item[0])]

    def step(self, delta: Delta) -> list[Gain] | None:
        form = self._form
        old, new = self._place(delta.old), self._place(delta.new)
        if old == new:
            return None
        if old is not None:
            self._take(old)
        gone = self._alone(old)
        come = self._alone(new)
        if new is not None:
            assert delta.new is not None
            self._put(new, delta.new[form.y])
        if not len(self.points):
            return None
        gains = []
        for kind, placed, row, box, other in (
            ("remove", old, delta.old, gone, come),
            ("add", new, delta.new, come, gone),
        ):
            if placed is None or row is None or box is None:
                continue
            region: Region = (box,)
            if other is not None and old is not None and new is not None and old[0::2] == new[0::2]:
                region = tuple(difference(box, other))  # the same value leaves one place and comes to another
            if self.points.any(placed.topic, region):
                gains.append(Gain(kind, placed.topic, region, form.shown(row[form.y])))
        return gains or None

    def _alone(self, placed: Placed | None) -> Box | None:
        """The ranges that hold the row's position and no other row with its value; None if there are none."""
        if placed is None:
            return None
        known = self._values.get(placed.topic, {}).get(placed.rank)
        ends = (None, None) if known is None else known[1].neighbours(placed.x)
        if ends is None:
            return None
        return Interval(ends[0], placed.x, low_open=True), Interval(placed.x, ends[1], high_open=True)

    def regions(self, description: list[Gain]) -> list[tuple[bytes, Region]]:
        return [(gain.topic, gain.region) for gain in description]

    def drafts(self, description: list[Gain]) -> list[Draft]:
        return [
            Draft(kind, topic, region, payload=encode(value)) for kind, topic, region, value in description
        ]


class DistinctType(SubscriptionType):
    name = "distinct"

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> DistinctForm | None:
        if not isinstance(query.selection, Distinct) or len(tables) != 1:
            return None
        table = tables[0]
        y = column(query, table, query.selection.column)
        if not y.type.ordered:
            raise LanguageError(f"DISTINCT needs an ordered column, and {y.name} is {y.type.name}")
        shape = recognise_ranges(query, table)
        if shape.listed:
            names = ", ".join(table.names[at] for at in shape.listed)
            raise LanguageError(f"IN on {names} is supported in aggregates, not in DISTINCT; use equality")
        if len(shape.ranged) > 1:
            names = ", ".join(table.names[at] for at in shape.ranged)
            raise LanguageError(
                f"DISTINCT takes one range, not one on each of {names}; equality on the others is fine"
            )
        return DistinctForm(query, shape, table.position[y.name])

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": "SELECT DISTINCT y FROM t [WHERE x BETWEEN :lo AND :hi] [AND e = :c …]",
            "notify": [],
            "messages": [
                {
                    "name": "add",
                    "region": "L < lo <= x AND x <= hi < R, L and R the nearest rows with the value",
                    "payload": "the value that appears",
                },
                {
                    "name": "remove",
                    "region": "the same around the old row",
                    "payload": "the value that disappears",
                },
            ],
            "update": "put the value in, or take it out",
            "transform": "the values in order, NULL last",
            "rules": RULES.document(),
        }
