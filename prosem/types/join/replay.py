"""How joins take part in replays: from rows and the event log, narrowed to what the places select.

A message like "drop all rows with this join key" cannot be taken back, so the outbox does not say what an edge held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prosem.types.join.shape import JoinShape
from prosem.types.shared.replay import FromLog
from prosem.values.codes import Boxes, Span, value_at

MAX_BOXES = 16  # in one query; more places are read as one box around all


class JoinReplay(FromLog):
    """Of one shape: only rows that the conditions of a place admit are read."""

    def __init__(self, shape: JoinShape) -> None:
        self._shape = shape

    def selection(self, table: int, places: Sequence[Any]) -> Boxes:
        """What the conditions select of a table, in values; a superset if there are many places."""
        shape, columns = self._shape, self._shape.tables[table].columns
        found: dict[tuple[Span, ...], None] = {}
        for place in places:
            spans = []
            for at in shape.ranged[table]:
                low, high = shape.sides(table, at)
                kind = columns[at].type
                spans.append((value_at(kind, place[low]), value_at(kind, place[high])))
            found[tuple(spans)] = None
        boxes = list(found) if len(found) <= MAX_BOXES else [_around(list(found))]
        return [dict(zip(shape.ranged[table], box, strict=True)) for box in boxes]


def _around(boxes: list[tuple[Span, ...]]) -> tuple[Span, ...]:
    """One box around many."""
    spans = []
    for sides in zip(*boxes, strict=True):
        lows, highs = zip(*sides, strict=True)
        spans.append((_end(min, lows), _end(max, highs)))
    return tuple(spans)


def _end(pick: Any, ends: Sequence[Any]) -> Any:
    return None if None in ends else pick(ends)
