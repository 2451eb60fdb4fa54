"""Timelines: which history a `seq` belongs to.

A database that was restored from a backup goes on from an earlier `seq`, and gives the numbers after it to other events. So
a seq alone does not say what a subscriber has seen; a seq and a timeline do. The server's own timeline descends from
others, one after the other; each parted from its parent at a seq, up to which both have the same events.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Timeline(NamedTuple):
    """`parted`: the last seq that it shares with its parent; `first_sid`: subscriptions from here on were made in it."""

    id: str
    parted: int
    first_sid: int


class Timelines:
    """The server's timeline and its ancestors, oldest first. Never changed.

    >>> known = Timelines([Timeline("a", 0, 1), Timeline("b", 100, 7), Timeline("c", 150, 9)])
    >>> known.current, known.shares("a", 100), known.shares("a", 101), known.shares("b", 120)
    ('c', True, False, True)
    >>> known.shares("elsewhere", 5), known.shares("c", 900), known.shares(None, 900)
    (False, True, True)
    """

    def __init__(self, known: Sequence[Timeline] = ()) -> None:
        self.current = known[-1].id if known else ""
        self._next = {one.id: other for one, other in pairwise(known)}

    def shares(self, timeline: str | None, seq: int) -> bool:
        """Whether everything up to `seq` of that timeline also happened in the present one (None: it is meant)."""
        if timeline is None or timeline == self.current:
            return True
        following = self._next.get(timeline)
        return following is not None and seq <= following.parted

    def knows(self, timeline: str | None, sid: int) -> bool:
        """False if the subscription was made after that timeline and the present one had parted.

        Numbers are given again after a restore: the subscription that had this one before is another.
        """
        following = None if timeline is None else self._next.get(timeline)
        return following is None or sid < following.first_sid
