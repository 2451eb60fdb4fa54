"""Filters around a point: which filters hold an attribute vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cn.geometry import Code, Extent, Filter, Filters

ALTERNATIVES = 16  # an extent of at most so many single codes counts as an equality
Entry = tuple[int, int]  # (id, which of its filters)
Bucket = dict[Entry, Filter]


class BoxIndex:
    """Filters by id; an id has several of which one must hold.

    A filter that asks one attribute for a few single codes (or NULL) stands in the bucket of each such code,
    at the attribute whose buckets are smallest; all others stand in one list that every match scans. A match
    looks at one bucket for each such attribute and at the list. Insert, update and remove cost O(buckets of
    the id). It loses where few filters have an equality: then a match is a scan.

    >>> from cn.geometry import Interval
    >>> index = BoxIndex()
    >>> index.insert(1, ({0: Extent((Interval(5, 5),)), 1: Extent((Interval(None, 9),))},))
    >>> index.insert(2, ({1: Extent((), null=True)}, {0: Extent((Interval(7, None),))}))
    >>> index.match((5, 8)), index.match((5, None)), index.match((7, None))
    ([1], [2], [2])
    """

    __slots__ = ("_buckets", "_filters", "_scanned", "visits")

    def __init__(self) -> None:
        self.visits = 0  # filters looked at since the start
        self._filters: dict[int, tuple[Filters, tuple[int | None, ...]]] = {}  # with each filter's attribute
        self._buckets: dict[int, dict[Code | None, Bucket]] = {}
        self._scanned: Bucket = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: int) -> bool:
        return id in self._filters

    def insert(self, id: int, filters: Filters) -> None:
        """Add an id that is not there yet; KeyError if it is."""
        if id in self._filters:
            raise KeyError(id)
        filters = tuple(filters)
        attributes = tuple([self._attribute(filter) for filter in filters])
        self._filters[id] = filters, attributes
        for number, (filter, attribute) in enumerate(zip(filters, attributes, strict=True)):
            if attribute is None:
                self._scanned[id, number] = filter
                continue
            for code in _codes(filter[attribute]) or ():
                self._buckets.setdefault(attribute, {}).setdefault(code, {})[id, number] = filter

    def update(self, id: int, filters: Filters) -> None:
        """Give an id other filters; KeyError if it is not there."""
        self.remove(id)
        self.insert(id, filters)

    def remove(self, id: int) -> None:
        """Take an id out; KeyError if it is not there."""
        filters, attributes = self._filters.pop(id)
        for number, (filter, attribute) in enumerate(zip(filters, attributes, strict=True)):
            if attribute is None:
                del self._scanned[id, number]
                continue
            for code in _codes(filter[attribute]) or ():
                buckets = self._buckets[attribute]
                del buckets[code][id, number]
                if not buckets[code]:
                    del buckets[code]
                if not buckets:
                    del self._buckets[attribute]

    def match(self, attributes: tuple[Any, ...]) -> list[int]:
        """The ids of which a filter holds the vector (None is NULL), each once, in no order."""
        found: dict[int, None] = {}
        for candidates in self._candidates(attributes):
            self.visits += len(candidates)
            for (id, _), filter in candidates.items():
                if id not in found and all(attributes[at] in extent for at, extent in filter.items()):
                    found[id] = None
        return list(found)

    def _candidates(self, attributes: tuple[Any, ...]) -> Iterator[Bucket]:
        yield self._scanned
        for attribute, buckets in self._buckets.items():
            bucket = buckets.get(attributes[attribute])
            if bucket:
                yield bucket

    def _attribute(self, filter: Filter) -> int | None:
        """The attribute in whose buckets a filter stands: the one that adds least to the longest of them."""
        best: tuple[int, int] | None = None
        for attribute, extent in filter.items():
            codes = _codes(extent)
            if codes is not None:
                buckets = self._buckets.get(attribute, {})
                longest = max((len(buckets.get(code, ())) for code in codes), default=0)
                best = min(best or (longest, attribute), (longest, attribute))
        return best[1] if best else None

    def check(self) -> None:
        """Assert that every filter stands exactly where its attribute says, and nothing else does."""
        places: dict[tuple[int | None, Code | None], Bucket] = {}
        for id, (filters, attributes) in self._filters.items():
            for number, (filter, attribute) in enumerate(zip(filters, attributes, strict=True)):
                codes = [None] if attribute is None else _codes(filter[attribute])
                assert codes is not None
                for code in codes:
                    places.setdefault((attribute, code), {})[id, number] = filter
        kept: dict[tuple[int | None, Code | None], Bucket] = (
            {(None, None): self._scanned} if self._scanned else {}
        )
        for attribute, buckets in self._buckets.items():
            assert buckets
            kept |= {(attribute, code): bucket for code, bucket in buckets.items()}
        assert kept == places


def _codes(extent: Extent) -> list[Code | None] | None:
    """The members of an extent of few single codes, NULL among them as None; otherwise None."""
    if len(extent.intervals) > ALTERNATIVES:
        return None
    codes: list[Code | None] = [None] if extent.null else []
    for low, high, low_open, high_open in extent.intervals:
        if low is None or low_open or high_open or low != high:
            return None
        codes.append(low)
    return list(dict.fromkeys(codes))
