"""How top-k takes part in replays: from rows and the event log, narrowed to the ranges of the places.

What a message took out of an answer cannot be put back: it does not say what the edge held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prosem.types.shared.ranges import Ranges
from prosem.types.shared.replay import FromLog
from prosem.values.codes import Boxes, Span, value_at

MAX_BOXES = 16  # in one query; more ranges are read as one around all


class TopKReplay(FromLog):
    """Rows outside all ranges are in no answer, and move none."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def selection(self, table: int, places: Sequence[Any]) -> Boxes:
        if not self._ranges.ranged:
            return [{}]
        (at,) = self._ranges.ranged
        kind = self._ranges.table.columns[at].type
        spans: list[Span] = list(
            dict.fromkeys((value_at(kind, low), value_at(kind, high)) for low, high in places)
        )
        if len(spans) > MAX_BOXES:
            lows, highs = zip(*spans, strict=True)
            spans = [(None if None in lows else min(lows), None if None in highs else max(highs))]
        return [{at: span} for span in spans]
