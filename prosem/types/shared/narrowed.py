"""Replay from rows and the event log, narrowed to the rows that the ranges of the places select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prosem.types.shared.replay import FromLog
from prosem.values.codes import Boxes, Span, value_at
from prosem.values.model import Table

MAX_BOXES = 16  # in one query; more places are read as one box around all
Side = tuple[int, int, int]  # a column, and where its lower and its upper end are in a place


class RangeReplay(FromLog):
    """Of a form over one table whose places have two ends for each column with a range."""

    def __init__(self, table: Table, ranged: Sequence[int]) -> None:
        self._table = table
        self._sides = [(at, 2 * number, 2 * number + 1) for number, at in enumerate(ranged)]

    def selection(self, table: int, places: Sequence[Any]) -> Boxes:
        return selected(self._table, self._sides, places)


def selected(table: Table, sides: Sequence[Side], places: Sequence[Any]) -> Boxes:
    """What the ranges of some places select of a table, in values; a superset if there are many places."""
    kinds = [table.columns[at].type for at, _, _ in sides]
    found: dict[tuple[Span, ...], None] = {}
    for place in places:
        spans = [
            (value_at(kind, place[low]), value_at(kind, place[high]))
            for kind, (_, low, high) in zip(kinds, sides, strict=True)
        ]
        found[tuple(spans)] = None
    boxes = list(found) if len(found) <= MAX_BOXES else [_around(list(found))]
    return [{side[0]: span for side, span in zip(sides, box, strict=True)} for box in boxes]


def _around(boxes: list[tuple[Span, ...]]) -> tuple[Span, ...]:
    """One box around many."""
    spans = []
    for sides in zip(*boxes, strict=True):
        lows, highs = zip(*sides, strict=True)
        spans.append((_end(min, lows), _end(max, highs)))
    return tuple(spans)


def _end(pick: Any, ends: Sequence[Any]) -> Any:
    return None if None in ends else pick(ends)
