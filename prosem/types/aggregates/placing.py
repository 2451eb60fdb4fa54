"""Where a row counts: its topic, its group and its coordinates, and what it adds to each aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prosem.types.aggregates.columns import Kept
from prosem.types.aggregates.state import ALONE
from prosem.types.extreme.heights import height
from prosem.types.shared.exact import units
from prosem.types.shared.ranges import Codes, Ranges, topic_of
from prosem.values.codes import value_of
from prosem.values.model import Row, Table
from prosem.values.wire import decode

_COUNTED = ((0, 0),)  # of a tree that counts rows alone


class Placed(NamedTuple):
    """`sums`: (number, total) for each sum; `heights` are those of the extremes, None for NULL."""

    topic: bytes
    group: bytes
    point: Codes
    sums: tuple[tuple[int, int], ...]
    heights: tuple[Any, ...]
    amounts: tuple[tuple[int, int], ...]  # what each tree of sums gets


def placer(shape: Ranges, kept: Kept, grouped: tuple[int, ...]) -> Callable[[Row | None], Placed | None]:
    """A function that places a row; a NULL in a column of a condition keeps it out. NULL is a group."""
    place, columns = shape.placer(), shape.table.columns
    keys = [(at, columns[at].type.code) for at in grouped]
    sums = [(one.y, columns[one.y].type if one.has_total else None) for one in kept.sums]
    heights = [(one.y, height(columns[one.y].type, one.maximum)) for one in kept.extremes]
    counted = _COUNTED if kept.counts_rows and not sums else ()

    def placed(row: Row | None) -> Placed | None:
        found = None if row is None else place(row)
        if row is None or found is None:
            return None
        group = ALONE
        if keys:
            group = topic_of([None if row[at] is None else code(row[at]) for at, code in keys])
        added = []
        for at, kind in sums:
            value = row[at]
            if value is None:
                added.append((0, 0))
            else:
                added.append((1, 0 if kind is None else units(kind, value)))
        values = tuple(added)
        tall = tuple([None if row[at] is None else encode(row[at]) for at, encode in heights])
        return Placed(*found[:1], group, found[1], values, tall, values or counted)

    return placed


def group_values(table: Table, grouped: tuple[int, ...], group: bytes) -> dict[int, Any]:
    """The values of a group's columns, by position."""
    return {
        at: None if code is None else value_of(table.columns[at].type, code)
        for at, code in zip(grouped, decode(group), strict=True)
    }
