"""How joins take part in replays: from rows and the event log, narrowed to what the places select.

A message like "drop all rows with this join key" cannot be taken back, so the outbox does not say what an edge held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prosem.types.join.shape import JoinShape
from prosem.types.shared.narrowed import selected
from prosem.types.shared.replay import FromLog
from prosem.values.codes import Boxes


class JoinReplay(FromLog):
    """Of one shape: only rows that the conditions of a place admit are read."""

    def __init__(self, shape: JoinShape) -> None:
        self._shape = shape

    def selection(self, table: int, places: Sequence[Any]) -> Boxes:
        """What the conditions select of a table, in values; a superset if there are many places."""
        sides = [(at, *self._shape.sides(table, at)) for at in self._shape.ranged[table]]
        return selected(self._shape.tables[table], sides, places)
