"""Least upper bounds: what covers many filters, attribute by attribute ([Beretta] 5.4 and 5.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sortedcontainers import SortedList

from cn.model.geometry import Code, Extent, Filter, Filters, Interval, Region
from cn.model.message import Message
from cn.model.network import Place, Space

TOPIC = -1  # the attribute of the topic of a point
VALUES = 16  # so many single values are kept as a set; beyond, as the interval around them
NOTHING = Extent(())


def as_filters(space: Space, topic: bytes, place: Place | None) -> Filters:
    """A place of either kind as filters: a point asks for its topic and for one value in each dimension."""
    if place is None:
        return ()
    if not space.dimensions:
        return tuple(place)
    sides = {at: Extent((Interval(code, code),)) for at, code in enumerate(place)}
    return ({TOPIC: Extent((Interval(topic, topic),)), **sides},)


def may_concern(filters: Filters, message: Message) -> bool:
    """Whether a message may concern a place that these filters cover; messages to names are not asked for here."""
    if message.attributes is not None:
        rows = [row for row in message.attributes if row is not None]
        return any(all(row[at] in extent for at, extent in one.items()) for one in filters for row in rows)
    topic: Code = message.topic
    return any(topic in one.get(TOPIC, ANY) and _meets(one, message.region) for one in filters)


def _meets(one: Filter, region: Region) -> bool:
    for box in region:
        for at, side in enumerate(box):
            extent = one.get(at)
            if extent is not None and not any(side.meets(part) for part in extent.intervals):
                break
        else:
            return True
    return False


ANY = Extent((Interval(),), null=True)


class _Bounds:
    """The ends of all extents of one attribute, in order: add, remove and bounds cost O(log N)."""

    __slots__ = ("_highs", "_lows", "_no_high", "_no_low", "_nulls", "_ranges", "_values", "count")

    def __init__(self) -> None:
        self.count = 0
        self._lows: Any = SortedList()
        self._highs: Any = SortedList()
        self._values: Counter[Any] = Counter()
        self._no_low = self._no_high = self._nulls = self._ranges = 0

    def change(self, extent: Extent, by: int) -> None:
        self.count += by
        self._nulls += by * extent.null
        for low, high, _, _ in extent.intervals:
            if low is None:
                self._no_low += by
            elif by > 0:
                self._lows.add(low)
            else:
                self._lows.remove(low)
            if high is None:
                self._no_high += by
            elif by > 0:
                self._highs.add(high)
            else:
                self._highs.remove(high)
            if low is None or low != high:
                self._ranges += by
            else:
                self._values[low] += by
                if not self._values[low]:
                    del self._values[low]

    def bound(self) -> Extent:
        """The smallest set of values, or else the smallest interval, that holds all extents."""
        null = self._nulls > 0
        if not self._ranges and len(self._values) <= VALUES:
            return Extent(tuple(Interval(value, value) for value in sorted(self._values)), null)
        low = None if self._no_low else self._lows[0]
        high = None if self._no_high else self._highs[-1]
        return Extent((Interval(low, high),), null)


class Lub:
    """The least upper bound of many filters: for each attribute that all of them constrain, what covers them.

    Adding, removing and changing a filter costs O(K log N) for K attributes, the bound itself O(K).

    >>> lub = Lub()
    >>> lub.add({0: Extent((Interval(None, 10),)), 1: Extent((Interval("IBM", "IBM"),))})
    >>> lub.add({0: Extent((Interval(5, 30),))})
    >>> lub.bound()
    {0: Extent(intervals=(Interval(low=None, high=30, low_open=False, high_open=False),), null=False)}
    """

    def __init__(self) -> None:
        self._count = 0
        self._attributes: dict[int, _Bounds] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, filter: Filter) -> None:
        self._count += 1
        for attribute, extent in filter.items():
            self._attributes.setdefault(attribute, _Bounds()).change(extent, 1)

    def remove(self, filter: Filter) -> None:
        self._count -= 1
        for attribute, extent in filter.items():
            bounds = self._attributes[attribute]
            bounds.change(extent, -1)
            if not bounds.count:
                del self._attributes[attribute]

    def change(self, attribute: int, old: Extent | None, new: Extent | None) -> None:
        """One attribute of one filter has another extent; None: it does not constrain it."""
        bounds = self._attributes.setdefault(attribute, _Bounds())
        if old is not None:
            bounds.change(old, -1)
        if new is not None:
            bounds.change(new, 1)
        if not bounds.count:
            del self._attributes[attribute]

    def bound(self) -> dict[int, Extent]:
        """What covers all filters; of an empty set, what holds everything: ask for the length first."""
        return {
            attribute: bounds.bound()
            for attribute, bounds in sorted(self._attributes.items())
            if bounds.count == self._count
        }


def _key(filter: Filter) -> tuple[tuple[int, Extent], ...]:
    return tuple(sorted(filter.items()))


class Aggregate:
    """Many filters and their summary: themselves while they are few, their least upper bound beyond a threshold.

    The switch is [Beretta]'s (5.6): a disjunction of few filters is exact and small; a bound is one conjunction however
    many they are, and lets through what none of them asked for.
    """

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self._lub = Lub()
        self._distinct: Counter[tuple[tuple[int, Extent], ...]] = Counter()

    def __len__(self) -> int:
        return len(self._lub)

    def add(self, filters: Iterable[Filter]) -> None:
        for one in filters:
            self._lub.add(one)
            self._distinct[_key(one)] += 1

    def remove(self, filters: Iterable[Filter]) -> None:
        for one in filters:
            self._lub.remove(one)
            key = _key(one)
            self._distinct[key] -= 1
            if not self._distinct[key]:
                del self._distinct[key]

    def summary(self) -> tuple[dict[int, Extent], ...]:
        if len(self._distinct) > self.threshold:
            return (self._lub.bound(),)
        return tuple(dict(one) for one in self._distinct)

    def check(self) -> None:
        """Assert that the bound covers every filter it is made of."""
        assert self._distinct.total() == len(self._lub)
        bound = self._lub.bound()
        for one in self._distinct:
            extents = dict(one)
            for attribute, whole in bound.items():
                assert covers(whole, extents[attribute])


def covers(whole: Extent, part: Extent) -> bool:
    """Whether one interval of an extent holds each interval of another, and NULL if it does."""
    return (whole.null or not part.null) and all(
        any(_holds(outer, inner) for outer in whole.intervals) for inner in part.intervals
    )


def covers_filter(outer: Filter, inner: Filter) -> bool:
    """Whether every attribute that a filter asks for is asked for by another at least as narrowly."""
    return all(at in inner and covers(extent, inner[at]) for at, extent in outer.items())


def covers_all(outer: Filters, inner: Filters) -> bool:
    """Whether each of some filters is covered by one of others: what holds the former holds the latter."""
    return all(any(covers_filter(one, other) for one in outer) for other in inner)


def _holds(outer: Interval, inner: Interval) -> bool:
    low, high, low_open, high_open = outer
    is_beyond = (
        low is not None
        and (inner.low is None or inner.low < low or (low_open and not inner.low_open and inner.low == low))
    ) or (
        high is not None
        and (
            inner.high is None
            or inner.high > high
            or (high_open and not inner.high_open and inner.high == high)
        )
    )
    return not is_beyond or inner.is_empty()
