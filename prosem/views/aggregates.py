"""Aggregates of a view as accumulators: what each takes of a value, and how the aggregate is read from it.

Aggregates of one expression share an accumulator: SUM, AVG and COUNT one total, MIN and MAX one sorted multiset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prosem.types.shared.exact import average_value, sum_value, units
from prosem.values.columns import ColumnType, Value
from prosem.values.numerics import display_scale, is_unconstrained
from prosem.views.accumulators import Accumulator, Count, Extremes, ScaledTotal, Total
from prosem.views.expressions import EvaluationError

Encode = Callable[[Value], Any]  # what an accumulator takes of a value that is not NULL
Read = Callable[
    [int, Sequence[Any]], Value
]  # an aggregate's value, from a group's row count and accumulators

_TOO_LARGE = (2**1024 - 2**970) << 1074  # units of the smallest sum that no double is nearest to


@dataclass(frozen=True, slots=True)
class Aggregate:
    """min, max, sum, count or avg of a value of each row: the number of the value, and its type. COUNT(*) has none."""

    function: str
    argument: int | None = None
    type: ColumnType | None = None
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Slot:
    """One accumulator of a group: `encode` is None if it takes the value itself."""

    argument: int
    make: Callable[[], Accumulator]
    encode: Encode | None


def accumulate(aggregates: Sequence[Aggregate]) -> tuple[list[Slot], list[Read]]:
    """The accumulators that a group needs for these aggregates, and how each aggregate is read."""
    slots: dict[tuple[int, str], Slot] = {}
    for one in aggregates:
        if one.argument is not None and one.function in _KINDS:
            assert one.type is not None
            kind = _KINDS[one.function]
            slots.setdefault((one.argument, kind), _MAKERS[kind](one.argument, one.type))
    for one in aggregates:
        if one.argument is None or one.function != "count" or not one.nullable:
            continue
        if (one.argument, "total") not in slots:
            slots.setdefault((one.argument, "count"), Slot(one.argument, Count, None))
    return list(slots.values()), [_read(one, list(slots)) for one in aggregates]


def _read(one: Aggregate, slots: list[tuple[int, str]]) -> Read:
    if one.argument is None or (one.function == "count" and not one.nullable):
        return lambda count, accumulators: count
    if one.function == "count":
        kind = "total" if (one.argument, "total") in slots else "count"
        return _count(slots.index((one.argument, kind)))
    assert one.type is not None
    return _READERS[one.function](slots.index((one.argument, _KINDS[one.function])), one.type)


def _total(argument: int, kind: ColumnType) -> Slot:
    if is_unconstrained(kind):
        return Slot(argument, ScaledTotal, lambda value: (units(kind, value), display_scale(value)))
    is_whole = kind.name in ("integer", "bigint")
    return Slot(argument, Total, None if is_whole else lambda value: units(kind, value))


def _extremes(argument: int, kind: ColumnType) -> Slot:
    return Slot(argument, Extremes, lambda value: (kind.code(value), value))


_KINDS = {"sum": "total", "avg": "total", "min": "extremes", "max": "extremes"}
_MAKERS: dict[str, Callable[[int, ColumnType], Slot]] = {"total": _total, "extremes": _extremes}


# -- values ---------------------------------------------------------------------------------------------------------
def _count(at: int) -> Read:
    return lambda count, accumulators: accumulators[at].count


def _sum(at: int, kind: ColumnType) -> Read:
    def read(count: int, accumulators: Sequence[Any]) -> Value:
        total = accumulators[at]
        if not total.count:
            return None
        if kind.name == "double precision" and abs(total.units) >= _TOO_LARGE:
            raise EvaluationError("value out of range: overflow")
        return sum_value(kind, total.units, total.scale)

    return read


def _average(at: int, kind: ColumnType) -> Read:
    def read(count: int, accumulators: Sequence[Any]) -> Value:
        total = accumulators[at]
        return average_value(kind, total.units, total.count, total.scale) if total.count else None

    return read


def _least(at: int, kind: ColumnType) -> Read:
    return lambda count, accumulators: accumulators[at].least


def _greatest(at: int, kind: ColumnType) -> Read:
    return lambda count, accumulators: accumulators[at].greatest


_READERS: dict[str, Callable[[int, ColumnType], Read]] = {
    "sum": _sum,
    "avg": _average,
    "min": _least,
    "max": _greatest,
}
