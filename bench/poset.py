"""Filters ordered by covering, as in [Siena]: the baseline of [Parametric]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cn.model.geometry import Filter, Filters
from cn.networks.lub import covers_filter


class _Entry:
    __slots__ = ("below", "filter", "id", "parent")

    def __init__(self, id: int, filter: Filter) -> None:
        self.id, self.filter = id, filter
        self.parent: _Entry | None = None
        self.below: list[_Entry] = []


class Poset:
    """A forest in which a filter stands below one that covers it; each id has one filter.

    Matching descends where a filter holds; inserting and removing compare with every sibling: all are O(N) where filters
    do not cover each other.

    >>> from cn.model.geometry import Extent, Interval
    >>> poset = Poset()
    >>> for id, high in enumerate([10, 5, 30]):
    ...     poset.insert(id, ({0: Extent((Interval(None, high),))},))
    >>> sorted(poset.match((7,))), sorted(poset.match((20,)))
    ([0, 2], [2])
    """

    def __init__(self) -> None:
        self._roots: list[_Entry] = []
        self._entries: dict[int, _Entry] = {}

    def insert(self, id: int, filters: Filters) -> None:
        entry = self._entries[id] = _Entry(id, filters[0])
        self._place(entry)

    def update(self, id: int, filters: Filters) -> None:
        """Another filter for an id: taken out of its place and put into another, found by the id."""
        entry = self._entries[id]
        self._detach(entry)
        entry.filter = filters[0]
        self._place(entry)

    def remove(self, id: int) -> None:
        """A filter is searched for, as an unsubscription names no place in the order."""
        wanted = self._entries.pop(id)
        stack = [*self._roots]
        while stack:
            entry = stack.pop()
            if entry.id == id:
                break
            stack += entry.below
        assert entry is wanted
        self._detach(entry)

    def match(self, attributes: Sequence[Any]) -> list[int]:
        found, stack = [], [*self._roots]
        while stack:
            entry = stack.pop()
            if all(attributes[at] in extent for at, extent in entry.filter.items()):
                found.append(entry.id)
                stack += entry.below
        return found

    def _place(self, entry: _Entry) -> None:
        siblings, parent = self._roots, None
        while (
            above := next((one for one in siblings if covers_filter(one.filter, entry.filter)), None)
        ) is not None:
            siblings, parent = above.below, above
        entry.below = [one for one in siblings if covers_filter(entry.filter, one.filter)]
        for one in entry.below:
            siblings.remove(one)
            one.parent = entry
        entry.parent = parent
        siblings.append(entry)

    def _detach(self, entry: _Entry) -> None:
        siblings = self._roots if entry.parent is None else entry.parent.below
        siblings.remove(entry)
        for one in entry.below:
            one.parent = entry.parent
        siblings += entry.below
        entry.below = []

    def check(self) -> None:
        """Assert that every filter is covered by the one above it, and that all are there."""
        count, stack = 0, [*self._roots]
        while stack:
            entry = stack.pop()
            count += 1
            for one in entry.below:
                assert one.parent is entry
                assert covers_filter(entry.filter, one.filter)
            stack += entry.below
        assert count == len(self._entries)
