"""Matching by chains of tests that filters share from their beginning, as Rete does; the matcher of EV in [Beretta]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.poset import Poset
from cn.model.geometry import Extent, Filter, Filters


class _Test:
    """A condition on one attribute, the tests that follow it, and the filters whose last condition it is."""

    __slots__ = ("attribute", "extent", "ids", "then")

    def __init__(self, attribute: int, extent: Extent) -> None:
        self.attribute, self.extent = attribute, extent
        self.then: dict[tuple[int, Extent], _Test] = {}
        self.ids: dict[int, None] = {}


class Rete:
    """Filters as chains of tests, by attribute; chains with the same beginning share it. Each id has one filter.

    Matching evaluates every test that a chain of fulfilled ones leads to: O(N) if few conditions are the same.

    >>> from cn.model.geometry import Interval
    >>> rete = Rete()
    >>> for id, high in enumerate([10, 5, 30]):
    ...     rete.insert(id, ({0: Extent((Interval(None, high),))},))
    >>> rete.update(1, ({0: Extent((Interval(None, 8),))},))
    >>> sorted(rete.match((7,))), sorted(rete.match((20,)))
    ([0, 1, 2], [2])
    """

    def __init__(self) -> None:
        self._first: dict[tuple[int, Extent], _Test] = {}
        self._always: dict[int, None] = {}  # without a condition
        self._filters: dict[int, Filter] = {}

    def insert(self, id: int, filters: Filters) -> None:
        self._filters[id] = filters[0]
        tests, ids = self._first, self._always
        for condition in sorted(filters[0].items(), key=lambda one: one[0]):
            test = tests.get(condition)
            if test is None:
                test = tests[condition] = _Test(*condition)
            tests, ids = test.then, test.ids
        ids[id] = None

    def update(self, id: int, filters: Filters) -> None:
        self.remove(id)
        self.insert(id, filters)

    def remove(self, id: int) -> None:
        """Tests that no chain needs any more go with it."""
        path = []
        tests, ids = self._first, self._always
        for condition in sorted(self._filters.pop(id).items(), key=lambda one: one[0]):
            path.append((tests, condition))
            ids, tests = tests[condition].ids, tests[condition].then
        del ids[id]
        for tests, condition in reversed(path):
            test = tests[condition]
            if test.ids or test.then:
                return
            del tests[condition]

    def match(self, attributes: Sequence[Any]) -> list[int]:
        found = [*self._always]
        stack = [*self._first.values()]
        while stack:
            test = stack.pop()
            if attributes[test.attribute] in test.extent:
                found += test.ids
                stack += test.then.values()
        return found


class ReteWithPoset(Rete):
    """EV: events are matched by the chains, and filters are ordered by covering besides, for summaries."""

    def __init__(self) -> None:
        super().__init__()
        self._poset = Poset()

    def insert(self, id: int, filters: Filters) -> None:
        super().insert(id, filters)
        self._poset.insert(id, filters)

    def update(self, id: int, filters: Filters) -> None:
        Rete.remove(self, id)
        Rete.insert(self, id, filters)
        self._poset.update(id, filters)

    def remove(self, id: int) -> None:
        super().remove(id)
        self._poset.remove(id)
