"""The shape that all range aggregates share: ranges on some columns, equality on others.

Equality values make the topic; each range is two dimensions of the space, (lo, hi). Without a range every subscription
is at (0, 0) and every row at x = 0, so that the same rules serve. With `IN` a subscription has a topic for each combination
of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from operator import itemgetter
from typing import Any, cast

import msgspec

from cn.model.geometry import BOTTOM, TOP, Box, Extent, Interval
from prosem.language.resolve import column, conjunction
from prosem.language.syntax import Aggregate, Atom, Parameter, Query
from prosem.types.base import Bound, Form, Replay, is_composed
from prosem.types.shared.narrowed import RangeReplay
from prosem.types.shared.replay import Stateless
from prosem.types.shared.words import equal_values, range_ends
from prosem.values.columns import INT64_MAX, INT64_MIN, ColumnType
from prosem.values.errors import InputError, LanguageError, pointer
from prosem.values.model import JsonObject, Row, Table

_new = tuple.__new__  # a third quicker than calling the class of a named tuple
_RANGE = {"<", "<=", ">", ">="}
MOST_TOPICS = 1_000  # combinations of the values of IN
STATELESS = Stateless()
Codes = tuple[Any, ...]


@dataclass(frozen=True)
class Ranges:
    """Positions of the columns with a range, of those with equality or `IN`, and of those among the latter with `IN`."""

    table: Table
    ranged: tuple[int, ...]
    equal: tuple[int, ...]
    listed: tuple[int, ...] = ()

    @property
    def dimensions(self) -> int:
        return 2 * max(1, len(self.ranged))

    @cached_property
    def int64(self) -> bool:
        return all(self.table.columns[at].type.int64 for at in self.ranged)

    def where(self) -> str:
        """The conditions without their constants, for the label of a group."""
        names = self.table.names
        parts = [f"{names[at]!r} IN RANGE" for at in self.ranged] + [
            f"{names[at]!r} IN ?" if at in self.listed else f"{names[at]!r} = ?" for at in self.equal
        ]
        return " WHERE " + " AND ".join(parts) if parts else ""

    def reads(self, *others: int | None) -> frozenset[int]:
        """The positions of the columns with conditions, and of others."""
        return frozenset((*self.ranged, *self.equal, *(at for at in others if at is not None)))

    def source(self) -> str:
        return f"{self.table.tenant}.{self.table.name!r}#{self.table.id}"

    def binder(self, query: Query) -> Callable[[Mapping[str, Any]], Bound]:
        """A function that places the subscriptions of a query by their parameters.

        Where every condition compares an integer column with a bare parameter, integers are taken the short way:
        a million subscriptions are placed in seconds, at a registration and at every start.
        """
        short = _short_way(self, query)

        def bind(params: Mapping[str, Any]) -> Bound:
            if short is not None:
                ends = dict(self._open_ends)
                for name, at, is_low, shift in short:
                    value = params[name]
                    if type(value) is not int or not INT64_MIN < value < INT64_MAX:
                        return self.bind(query, params)
                    low, high = ends[at]
                    if is_low:
                        ends[at] = (max(low, value + shift), high)
                    else:
                        ends[at] = (low, min(high, value + shift))
                if all(low <= high for low, high in ends.values()):
                    return Bound(b"", tuple([code for at in self.ranged for code in ends[at]]))
            return self.bind(query, params)

        return bind

    @cached_property
    def _open_ends(self) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(self.ranged, (INT64_MIN, INT64_MAX))

    def bind(self, query: Query, params: Mapping[str, Any]) -> Bound:
        """The place of a subscription; nowhere if no row can satisfy its conditions."""
        extents = conjunction(query.where[0], self.table, params, query.sql)
        if extents is None:
            return Bound(b"", None)
        topic, *others = self._topics(query, [extents[at] for at in self.equal])
        point: list[Any] = [] if self.ranged else [0, 0]
        for at in self.ranged:
            (interval,) = extents[at].intervals
            point += self._ends(interval, self.table.columns[at].type)
        return Bound(topic, tuple(point), tuple(others))

    def _topics(self, query: Query, extents: Sequence[Extent]) -> list[bytes]:
        """One for each combination of the values that the equality columns may have."""
        if not self.listed:
            return [topic_of([extent.intervals[0].low for extent in extents]) if extents else b""]
        if prod(len(extent.intervals) for extent in extents) > MOST_TOPICS:
            raise self._too_many(query.where[0])
        values = [[interval.low for interval in extent.intervals] for extent in extents]
        return [topic_of(codes) for codes in product(*values)]

    def _too_many(self, atoms: Sequence[Atom]) -> InputError:
        detail = (
            f"IN has more than {MOST_TOPICS:,} combinations of values; use fewer, or several subscriptions"
        )
        for atom in atoms:
            if atom.list_name is not None and self.table.position[atom.column.name] in self.listed:
                return InputError(detail, pointer("params", atom.list_name))
        return LanguageError(detail)

    def _ends(self, interval: Interval, kind: ColumnType) -> tuple[Any, Any]:
        low, high = interval.low, interval.high
        if self.int64:
            return INT64_MIN if low is None else low, INT64_MAX if high is None else high
        return BOTTOM if low is None else low, TOP if high is None else high

    def placer(self) -> Callable[[Row], tuple[bytes, Codes] | None]:
        """A function that gives topic and coordinates of a row; a NULL in one of the columns means that it is no point.

        It is called twice per event, so what it needs is looked up once, here.
        """
        encoders = [(at, _encoder(self.table, at)) for at in self.ranged]
        equals = [(at, _encoder(self.table, at)) for at in self.equal]

        def place(row: Row) -> tuple[bytes, Codes] | None:
            topic = b""
            if equals:
                codes = []
                for at, encode in equals:
                    value = row[at]
                    if value is None:
                        return None
                    codes.append(encode(value))
                topic = topic_of(codes)
            point = []
            for at, encode in encoders:
                value = row[at]
                if value is None:
                    return None
                point.append(encode(value))
            return topic, tuple(point) or (0,)

        if equals or len(encoders) != 1:
            return place
        ((only, encode_only),) = encoders

        def place_flat(row: Row) -> tuple[bytes, Codes] | None:
            value = row[only]
            return None if value is None else (b"", (encode_only(value),))

        return place_flat

    def flat_codes(self, rows: Collection[Row]) -> list[Any] | None:
        """The coordinate of every row, None if a NULL keeps it out: all at once, where there is one range and no equality.

        None where there is more: then rows are placed one by one.
        """
        if self.equal or len(self.ranged) != 1:
            return None
        (at,) = self.ranged
        column = map(itemgetter(at), rows)
        if self.table.columns[at].type.name in ("integer", "bigint"):
            return list(column)  # they are their own codes
        encode = _encoder(self.table, at)
        return [None if value is None else encode(value) for value in column]

    def data_box(self, place: Codes) -> tuple[Interval, ...]:
        """The rows a subscription's ranges select, as one interval per range column."""
        return tuple(
            [
                _new(Interval, (None if low is BOTTOM else low, None if high is TOP else high, False, False))
                for low, high in zip(place[::2], place[1::2], strict=True)
            ]
        )


class RangeForm:
    """What the forms of all range aggregates share: one space per group, placed by the shape of the conditions."""

    shape: Ranges
    query: Query

    @property
    def label(self) -> str:
        raise NotImplementedError

    @property
    def space_label(self) -> str:
        return self.label

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.shape.table,)

    @property
    def attributes(self) -> tuple[int, ...]:
        return tuple(at for at in self.shape.ranged for _ in ("low", "high"))

    @property
    def replay(self) -> Replay:
        return self._replayed_from_log or STATELESS

    @property
    def _replayed_from_log(self) -> Replay | None:
        """The replay of a composed form: one message does not say what the others of its seq did."""
        return RangeReplay(self.shape.table, self.shape.ranged) if is_composed(cast(Form, self)) else None

    @cached_property
    def bind(self) -> Callable[[Mapping[str, Any]], Bound]:
        return self.shape.binder(self.query)

    def place_in_words(self, bound: Bound) -> JsonObject:
        shape, table = self.shape, self.shape.table
        ranged = [(table, at, table.names[at]) for at in shape.ranged]
        each = [equal_values(table, shape.equal, topic) for topic in (bound.topic, *bound.others)]
        listed = {table.names[at] for at in shape.listed}
        return {
            "equal": {
                name: list(dict.fromkeys(one[name] for one in each)) if name in listed else value
                for name, value in each[0].items()
            },
            "point": range_ends(ranged, bound.place or ()),
        }


_SHIFTS = {
    ">=": ((True, 0),),
    ">": ((True, 1),),
    "<=": ((False, 0),),
    "<": ((False, -1),),
    "=": ((True, 0), (False, 0)),
}  # of each operator: whether it is a lower end, and the shift


def _short_way(shape: Ranges, query: Query) -> list[tuple[str, int, bool, int]] | None:
    """The conditions as (parameter, column, whether it is a lower end, shift), if all are of that kind."""
    if shape.equal or not shape.ranged or len(query.where) != 1:
        return None
    found = []
    for atom in query.where[0]:
        at = shape.table.position[atom.column.name]
        is_integer = shape.table.columns[at].type.name in ("integer", "bigint")
        term = atom.args[0] if atom.args else None
        if atom.op not in _SHIFTS or not isinstance(term, Parameter) or not is_integer:
            return None
        found += [(term.name, at, *side) for side in _SHIFTS[atom.op]]
    return found


def _encoder(table: Table, at: int) -> Callable[[Any], Any]:
    encode = table.columns[at].type.encode
    assert encode is not None, "ranges and equality stand on ordered columns"
    return encode


def reader(kind: ColumnType) -> Callable[[Any], int] | None:
    """How compiled structures get 64-bit codes from the values of a column; None: these are integers, their own codes."""
    return None if kind.name in ("integer", "bigint") else cast("Callable[[Any], int]", kind.encode)


def around(point: Codes) -> Box:
    """The ranges that contain a row: lo <= x <= hi for each of its coordinates."""
    sides: list[Interval] = []
    for code in point:
        sides += (Interval(None, code), Interval(code, None))
    return tuple(sides)


def topic_of(codes: Sequence[Any]) -> bytes:
    """The equality values of a row or a subscription as one name."""
    return msgspec.json.encode(codes)


def aggregated(query: Query, tables: Sequence[Table], function: str) -> Aggregate | None:
    """The selection of a query over one table, if it is this aggregate."""
    selection = query.selection
    if len(tables) == 1 and isinstance(selection, Aggregate) and selection.function.upper() == function:
        return selection
    return None


def recognise_ranges(query: Query, table: Table) -> Ranges:
    """The shape of the conditions; refuses every other condition than ranges, equality and `IN` joined by AND.

    A range on a column with `IN` only says which of the values count, and so does `IN` on a column with equality.
    """
    if not query.where:
        raise LanguageError("the condition is never true; drop the subscription, or the condition")
    if len(query.where) > 1:
        raise LanguageError(
            "OR is supported in SELECT * | columns, not in an aggregate; use ranges joined by AND"
        )
    found: dict[str, set[int]] = {"range": set(), "=": set(), "in": set()}
    for atom in query.where[0]:
        name = column(query, table, atom.column).name
        op = "range" if atom.op in _RANGE else atom.op
        if op not in found:
            raise LanguageError(
                f"{atom.op.upper()} is supported in SELECT * | columns, not in an aggregate; "
                "an aggregate takes =, IN, <, <=, >, >= and BETWEEN joined by AND"
            )
        found[op].add(table.position[name])
    listed = found["in"] - found["="]
    ranged = found["range"] - listed
    equal = (found["="] | listed) - ranged
    return Ranges(table, tuple(sorted(ranged)), tuple(sorted(equal)), tuple(sorted(listed)))
