"""What events do to rows."""

from __future__ import annotations

from typing import NamedTuple

from prosem.values.model import Key, Row


class Effect(NamedTuple):
    """What an event does: the row of `key` goes from `old` to `new` (None: there was or is none)."""

    op: str
    key: Key
    old: Row | None
    new: Row | None
