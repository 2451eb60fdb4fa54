"""Range COUNT, SUM and AVG: `SELECT SUM(y) FROM t WHERE x BETWEEN a AND b [AND e = c …]`, one range or several.

A message carries what the event adds to the state (count, total) of the subscriptions in its region: those that only the
old row concerned, only the new row, or both (docs/explanation.md). At most three messages per event. The edge holds the
state of the subscriptions it hosts, and sends a change only when the answer differs.

It loses where hardly any event leaves the answers as they are: every subscriber in the region is notified of every event,
and no plan can avoid that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec

from cn.model.geometry import Region
from cn.model.message import Message
from prosem.language.resolve import column
from prosem.language.syntax import Query
from prosem.types.base import Bound, Draft, Replay, Rows, Space, SpaceContext, SubscriptionType, draft_of
from prosem.types.shared.exact import (
    BIGINT,
    aggregate_type,
    are_int64,
    average_value,
    exact_text,
    pack_units,
    sum_value,
    units,
    unpack_units,
    written,
)
from prosem.types.shared.point_space import PointSpace
from prosem.types.shared.ranges import Codes, RangeForm, Ranges, aggregated, reader, recognise_ranges
from prosem.types.shared.replay import Undone
from prosem.types.sums import client_rules
from prosem.types.sums.trees import (
    CompiledSums,
    Entry,
    Gain,
    RangeSums,
    compiled_sums,
    range_sums,
    spot_of,
)
from prosem.values.columns import ColumnType, column_type
from prosem.values.errors import LanguageError
from prosem.values.model import Delta, JsonObject, Row, Table
from prosem.values.wire import encode

_ANSWERS = {  # of a client, in its SQL
    "COUNT": "count",
    "SUM": "CASE WHEN count > 0 THEN exact_sum(sum, type) ELSE 'null' END",
    "AVG": "CASE WHEN count > 0 THEN exact_average(sum, count, type) ELSE 'null' END",
}
_read_delta = msgspec.json.Decoder(tuple[int, str]).decode


class SumState(NamedTuple):
    """How many rows (or values that are not NULL) are in the range, and their exact total."""

    number: int = 0
    total: int = 0


class Contribution(NamedTuple):
    """Where a row counts, and what it adds."""

    topic: bytes
    point: Codes
    number: int
    total: int


@dataclass(frozen=True)
class SumForm(RangeForm):
    """`y` is None for COUNT(*)."""

    type: str
    function: str
    query: Query
    shape: Ranges
    y: int | None

    @property
    def label(self) -> str:
        what = "*" if self.y is None else repr(self.shape.table.names[self.y])
        return f"{self.function}({what}) FROM {self.shape.source()}{self.shape.where()}"

    @property
    def folding(self) -> JsonObject:
        kind = BIGINT if self.y is None else self.shape.table.columns[self.y].type
        return {"type": aggregate_type(self.function, kind).name}

    @property
    def columns_read(self) -> frozenset[int]:
        return self.shape.reads(self.y)

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return SumSpace(self, space_id, context.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        return {"value": written(self.value(self.state(space, bound)))}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """Averages may have other digits and still be the same number."""
        one, other = before["value"], after["value"]
        if isinstance(one, str) and isinstance(other, str):
            one, other = Decimal(one), Decimal(other)
        return None if one == other else after

    def contributor(self) -> Callable[[Row | None], Contribution | None]:
        """A function that gives what a row adds to the ranges that contain it; NULL in a range column: to none."""
        place, at, is_sum = self.shape.placer(), self.y, self.function != "COUNT"
        kind = self.shape.table.columns[at or 0].type

        def contribution(row: Row | None) -> Contribution | None:
            placed = None if row is None else place(row)
            if row is None or placed is None:
                return None
            if at is None:
                return Contribution(*placed, 1, 0)
            value = row[at]
            if value is None:
                return Contribution(*placed, 0, 0)
            return Contribution(*placed, 1, units(kind, value) if is_sum else 0)

        return contribution

    def amounts(self, rows: Collection[Row]) -> tuple[list[int], list[int]]:
        """How many values each row adds, and how many units."""
        if self.y is None:
            return [1] * len(rows), [0] * len(rows)
        values, kind = list(map(itemgetter(self.y), rows)), self.shape.table.columns[self.y].type
        numbers = [0 if value is None else 1 for value in values]
        if self.function == "COUNT":
            return numbers, [0] * len(rows)
        return numbers, [0 if value is None else units(kind, value) for value in values]

    # -- the state at the edge -----------------------------------------------------------------------------------
    @property
    def replay(self) -> Replay:
        return self._replayed_from_log or Undone(self)

    def state(self, space: Space, bound: Bound) -> SumState:
        """With `IN` the sum over all topics: what each of them gains is added to it."""
        if len(bound.topics) == 1:
            return cast(SumSpace, space).total(bound.topics[0], cast(Codes, bound.place))
        number = total = 0
        for topic in bound.topics:
            more, units_ = cast(SumSpace, space).total(topic, cast(Codes, bound.place))
            number, total = number + more, total + units_
        return SumState(number, total)

    def value(self, state: SumState) -> Any:
        """The answer: 0 or NULL of nothing as SQL has it."""
        if self.function == "COUNT":
            return state.number
        if not state.number:
            return None
        assert self.y is not None
        kind = self.shape.table.columns[self.y].type
        if self.function == "SUM":
            return sum_value(kind, state.total)
        return average_value(kind, state.total, state.number)

    def change(
        self, messages: Sequence[Message], bound: Bound, state: SumState
    ) -> tuple[bytes | None, SumState]:
        if messages[-1].kind == "change":  # a move of the point: the state came with it
            return messages[-1].payload, state
        after = self._shifted(state, messages, 1)
        value = self.value(after)
        return (None if self.value(state) == value else encode({"value": written(value)})), after

    def undo(self, messages: Sequence[Message], state: SumState) -> SumState:
        """The state before the messages."""
        return self._shifted(state, messages, -1)

    def _shifted(self, state: SumState, messages: Sequence[Message], sign: int) -> SumState:
        number, total = state
        for message in messages:
            more, units_ = _read_delta(message.payload)
            number += sign * more
            total += sign * unpack_units(units_)
        return SumState(number, total)

    def opening(self, snapshot: bytes, state: SumState | None) -> JsonObject:
        begun = {"message": "state", "type": self._kind.name}
        if state is None:
            return begun | {"count": None, "sum": None, "frozen": msgspec.Raw(snapshot)}
        return begun | {"count": state.number, "sum": exact_text(self._kind, state.total), "frozen": None}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        deltas = [_read_delta(message.payload) for message in messages if message.kind == "delta"]
        return [
            {"message": "delta", "count": count, "sum": exact_text(self._kind, unpack_units(total))}
            for count, total in deltas
        ]

    @property
    def _kind(self) -> ColumnType:
        """Of the values that are summed up; those of COUNT(*) are none, and their sum stays 0."""
        return column_type("integer") if self.y is None else self.shape.table.columns[self.y].type

    def pack_state(self, state: SumState) -> bytes:
        return encode((state.number, pack_units(state.total)))

    def unpack_state(self, packed: bytes) -> SumState:
        count, total = _read_delta(packed)
        return SumState(count, unpack_units(total))


class SumSpace(PointSpace):
    """The trees over the rows, and the points, of one group."""

    def __init__(self, form: SumForm, space_id: int, rows: Rows) -> None:
        super().__init__(form.shape, space_id)
        self.reads = form.columns_read
        self._form, self._contribution = form, form.contributor()
        self._trees, self._compiled = self._sums()
        entries: dict[Hashable, list[Entry]] = {}
        codes = form.shape.flat_codes(rows.values())
        if codes is not None:
            added = zip(codes, *form.amounts(rows.values()), strict=True)
            flat = [(x, 1, number, total) for x, number, total in added if x is not None]
            if flat:
                entries[b""] = flat
        else:
            for row in rows.values():
                found = self._contribution(row)
                if found is not None:
                    spot = spot_of(found.point)
                    entries.setdefault(found.topic, []).append((spot, 1, found.number, found.total))
        self._trees.build(entries)

    def _sums(self) -> tuple[RangeSums, CompiledSums | None]:
        """The trees; and again if they take whole rows: compiled ones, where there are no equality values."""
        form, shape = self._form, self._form.shape
        is_summed = form.function != "COUNT"
        kind = shape.table.columns[form.y or 0].type
        ranges, int64 = len(shape.ranged), shape.int64 and (not is_summed or are_int64(kind))
        compiled = compiled_sums(self.points, ranges, int64)
        if compiled is None or shape.equal:
            return compiled or range_sums(self.points, ranges, int64), None
        x = shape.ranged[0] if shape.ranged else -1
        encode_y = None if reader(kind) is None else partial(units, kind)
        compiled.read_rows(
            x, reader(shape.table.columns[x].type), -1 if form.y is None else form.y, encode_y, is_summed
        )
        return compiled, compiled

    @property
    def visits(self) -> int:
        return self.points.visits + self._trees.visits

    def total(self, topic: bytes, place: Codes) -> SumState:
        """Count and total in the ranges; O(log N) with one range."""
        _, values, total = self._trees.total(topic, self._form.shape.data_box(place))
        return SumState(values, total)

    def step_all(self, deltas: Sequence[Delta]) -> Sequence[list[Gain] | None] | None:
        return None if self._compiled is None else self._compiled.step_rows(deltas)

    def step(self, delta: Delta) -> list[Gain] | None:
        if self._compiled is not None:
            return self._compiled.step_row(delta.old, delta.new)
        old, new = self._contribution(delta.old), self._contribution(delta.new)
        if old == new:
            return None
        if old is not None and new is not None and old.topic == new.topic:
            return self._trees.step(old.topic, old.topic, old[1:], new[1:]) or None
        found: list[Gain] = []
        if old is not None:
            found += self._trees.step(old.topic, old.topic, old[1:], None)
        if new is not None:
            found += self._trees.step(new.topic, new.topic, None, new[1:])
        return found or None

    def regions(self, description: list[Gain]) -> list[tuple[bytes, Region]]:
        return [(topic, region) for topic, region, _, _ in description]

    def drafts(self, description: list[Gain]) -> list[Draft]:
        return [
            draft_of("delta", topic, region, encode((count, pack_units(total))))
            for topic, region, count, total in description
        ]


class SumType(SubscriptionType):
    """`function` is COUNT, SUM or AVG."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.name = f"range-{function.lower()}"

    def recognise(self, query: Query, tables: Sequence[Table], notify: JsonObject | None) -> SumForm | None:
        selection = aggregated(query, tables, self.function)
        if selection is None:
            return None
        table = tables[0]
        y = None if selection.column is None else column(query, table, selection.column)
        if self.function != "COUNT" and (y is None or not y.type.numeric):
            kind = "*" if y is None else f"{y.name} ({y.type.name})"
            raise LanguageError(f"{self.function} needs a column of numbers, not {kind}")
        shape = recognise_ranges(query, table)
        return SumForm(self.name, self.function, query, shape, None if y is None else table.position[y.name])

    def describe(self) -> JsonObject:
        what = "COUNT(*) | COUNT(y)" if self.function == "COUNT" else f"{self.function}(y)"
        return {
            "name": self.name,
            "sql": f"SELECT {what} FROM t [WHERE x BETWEEN :lo AND :hi …] [AND e = :c …] [AND e IN :list …]",
            "notify": [],
            "messages": [
                {
                    "name": "delta",
                    "region": "ranges that hold only the old row, only the new row, or both",
                    "payload": "what is added to the count and to the exact sum",
                }
            ],
            "update": "add the message's count and sum to those held",
            "transform": {"COUNT": "the count", "SUM": "the sum, NULL of nothing", "AVG": "sum / count"}[
                self.function
            ],
            "rules": client_rules.rules(_ANSWERS[self.function]).document(),
        }
