"""Single subscriptions: those whose last notified value of an item is not that of a whole range of radii.

A subscription that was given another radius keeps its last notified value. Messages name it from then on, wherever it is.
"""

from __future__ import annotations

from typing import Any

from prosem.index.radii.ba_tree_ends import Radius
from prosem.index.radii.single_ends import SingleEnds
from prosem.types.value.items import Items
from prosem.values.undo import NO_UNDO, UndoLog


class SingleTold:
    """`items`: the last notified values of single subscriptions, by item. None without a subscription."""

    def __init__(self, kind: Items) -> None:
        self._kind = kind
        self.undo: UndoLog = NO_UNDO
        self.items: dict[bytes, SingleEnds] = {}
        self._topics: dict[int, set[bytes]] = {}  # the items of each, and some that it has left

    def __contains__(self, sid: object) -> bool:
        return sid in self._topics

    def add(self, topic: bytes, sid: int, radius: Radius, last_notified: Any) -> None:
        """One more of an item."""
        single = self.items.get(topic)
        if single is None:
            single = self.items[topic] = SingleEnds(self._kind.ends)
        single.add(sid, radius, last_notified)
        self._topics.setdefault(sid, set()).add(topic)
        self.undo.add(self._take_out, topic, sid)

    def leave(self, topic: bytes, sid: int) -> None:
        """One less of an item."""
        single = self.items[topic]
        self.undo.add(self.add, topic, sid, *single.remove(sid))
        if not len(single):
            del self.items[topic]

    def _take_out(self, topic: bytes, sid: int) -> None:
        """Undo an `add`."""
        self.leave(topic, sid)
        topics = self._topics[sid]
        topics.discard(topic)
        if not topics:
            del self._topics[sid]

    def event(self, topic: bytes, value: Any) -> list[tuple[int, Any]]:
        """Those of an item that are notified of the value now, each with its last notified value."""
        single = self.items.get(topic)
        fired = [] if single is None else single.event(value)
        if fired:
            self.undo.add(self._untell, topic, fired)
        return fired

    def _untell(self, topic: bytes, fired: list[tuple[int, Any]]) -> None:
        single = self.items[topic]
        for sid, before in fired:
            radius, _ = single.remove(sid)
            single.add(sid, radius, before)

    def remove(self, sid: int) -> list[bytes]:
        """A subscription goes; the items that knew it."""
        self.undo.keep(self._topics, sid)
        topics = [topic for topic in self._topics.pop(sid, ()) if self.holds(topic, sid)]
        for topic in topics:
            self.leave(topic, sid)
        return topics

    def topics(self, sid: int) -> frozenset[bytes]:
        """The items that may know a subscription."""
        return frozenset(self._topics.get(sid, ()))

    def holds(self, topic: bytes, sid: int) -> bool:
        return topic in self.items and sid in self.items[topic]

    def check(self) -> None:
        """The invariants, in O(N)."""
        for topic, single in self.items.items():
            single.check()
            assert len(single), "no item without a subscription"
            assert all(topic in self._topics[sid] for sid, _, _ in single), "each knows its items"


class BesideItems:
    """A space with single subscriptions beside its items: both record in one undo log, set before the first subscription."""

    _single: SingleTold
    _undo: UndoLog

    @property
    def undo(self) -> UndoLog:
        return self._undo

    @undo.setter
    def undo(self, log: UndoLog) -> None:
        self._undo = self._single.undo = log
