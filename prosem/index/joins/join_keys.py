"""Rows of one table by join key, and under each key by a routing code: neighbours, ranges and nearest codes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

from sortedcontainers import SortedList

from cn.match import kernels
from cn.model.geometry import Code
from prosem.index.order import HIGHEST

LONG_LIST = 1024  # from here on shifting a plain list costs more than a sorted list of lists
Entry = tuple[Any, ...]  # (code, primary key, …): the two order and identify the rows of one key
NOTHING: Sequence[Entry] = ()


class JoinKeys:
    """For each join key the entries with it, in the order of (code, primary key).

    A key with one entry holds it bare, others a list, or a `SortedList` if they have many: a foreign key with a
    million values costs a dictionary slot each. Entries are shared with other indexes of the table. A change and every
    question take O(log n) for n rows of the key.

    >>> rows = JoinKeys([("IBM", (10, (1,))), ("IBM", (30, (2,))), ("SAP", (20, (3,)))])
    >>> rows.neighbours("IBM", 20), rows.neighbours("IBM", 30), rows.neighbours("GE", 20)
    ((10, 30), None, (None, None))
    >>> list(rows.within("IBM", 11, None))
    [(30, (2,))]
    """

    __slots__ = ("_count", "_held")

    def __init__(self, entries: Iterable[tuple[Hashable, Entry]] = ()) -> None:
        grouped: dict[Hashable, list[Entry]] = {}
        self._count = 0
        for key, entry in entries:
            grouped.setdefault(key, []).append(entry)
            self._count += 1
        self._held: dict[Hashable, Any] = {}
        for key, some in grouped.items():
            some.sort(key=_order)
            self._held[key] = (
                some[0] if len(some) == 1 else some if len(some) < LONG_LIST else SortedList(some)
            )

    def __len__(self) -> int:
        """How many entries there are."""
        return self._count

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._held)

    @property
    def keys(self) -> int:
        """How many keys have entries."""
        return len(self._held)

    # -- changes -------------------------------------------------------------------------------------------
    def add(self, key: Hashable, entry: Entry) -> None:
        """Put an entry in; no other of the key has its code and primary key."""
        held = self._held.get(key)
        if held is None:
            self._held[key] = entry
        elif type(held) is list:
            held.insert(bisect_left(held, entry[:2]), entry)
            if len(held) >= LONG_LIST:
                self._held[key] = SortedList(held)
        elif type(held) is SortedList:
            held.add(entry)
        else:
            self._held[key] = [held, entry] if held[:2] < entry[:2] else [entry, held]
        self._count += 1

    def remove(self, key: Hashable, entry: Entry) -> None:
        """Take out the entry with this code and primary key; KeyError if there is none."""
        held, wanted = self._held[key], entry[:2]
        if type(held) is tuple:
            if held[:2] != wanted:
                raise KeyError(wanted)
            del self._held[key]
        elif type(held) is list:
            at = bisect_left(held, wanted)
            if at == len(held) or held[at][:2] != wanted:
                raise KeyError(wanted)
            del held[at]
            if len(held) == 1:
                self._held[key] = held[0]
        else:
            found = next(held.irange(wanted), None)  # places would be counted anew after every change
            if found is None or found[:2] != wanted:
                raise KeyError(wanted)
            held.remove(found)
            if len(held) < LONG_LIST // 4:
                self._held[key] = list(held)
        self._count -= 1

    # -- questions -----------------------------------------------------------------------------------------
    def at(self, key: Hashable) -> Sequence[Entry]:
        """All entries of a key in their order; to be let go before the next change."""
        held = self._held.get(key)
        if held is None:
            return NOTHING
        return (held,) if type(held) is tuple else held

    def holds(self, key: Hashable, entry: Entry) -> bool:
        """Whether the key has an entry with this code and primary key."""
        held = self.at(key)
        at = place_of(held, entry[:2])
        return at < len(held) and bool(held[at][:2] == entry[:2])

    def neighbours(self, key: Hashable, code: Code) -> tuple[Code | None, Code | None] | None:
        """The nearest codes on each side (None: there is none); None alone if an entry has the code itself."""
        return neighbours(self.at(key), code)

    def span(self, key: Hashable, low: Code | None, high: Code | None) -> tuple[int, int]:
        """Where in `at(key)` the entries with `low <= code <= high` (None: no end) start and stop."""
        held = self.at(key)
        start = 0 if low is None else place_of(held, (low,))
        return start, len(held) if high is None else place_of(held, (high, HIGHEST))

    def within(self, key: Hashable, low: Code | None, high: Code | None) -> Iterator[Entry]:
        """The entries of a key with `low <= code <= high`; to be used up before the next change."""
        held = self.at(key)
        start, stop = self.span(key, low, high)
        return held.islice(start, stop) if isinstance(held, SortedList) else iter(held[start:stop])

    def any_within(self, key: Hashable, low: Code | None, high: Code | None) -> bool:
        start, stop = self.span(key, low, high)
        return start < stop

    def check(self) -> None:
        """Assert the forms of the keys and the order of their entries."""
        count = 0
        for key, held in self._held.items():
            if type(held) is SortedList:
                held._check()
                assert len(held) >= LONG_LIST // 4, "a sorted list of lists is long"
            elif type(held) is list:
                assert 2 <= len(held) < LONG_LIST, "a plain list is short, and one entry stands bare"
            entries = self.at(key)
            assert all(a[:2] < b[:2] for a, b in pairwise(entries)), "entries ascend"
            count += len(entries)
        assert count == self._count, "the count is kept"


def takes_null(int64: bool) -> bool:
    """Whether primary keys may hold None, as those of a view with groups may: compiled, it comes before all values."""
    return int64 and kernels.compiled() is not None


def join_keys(int64: bool, entries: Iterable[tuple[Hashable, Entry]] = ()) -> JoinKeys:
    """Compiled where all codes fit 64 bits. What its `at` gives raises RuntimeError if it is used after a change."""
    module = kernels.compiled() if int64 else None
    return JoinKeys(entries) if module is None else cast(JoinKeys, module.JoinKeys(entries))


def _order(entry: Entry) -> Entry:
    return entry[:2]


def place_of(held: Sequence[Entry], wanted: Entry) -> int:
    """Where the first entry that is not before `wanted` stands: O(log n) also in a sorted list of lists."""
    some: Any = held
    return some.bisect_left(wanted) if type(some) is SortedList else bisect_left(some, wanted)


def neighbours(held: Sequence[Entry], code: Code) -> tuple[Code | None, Code | None] | None:
    """The nearest codes of entries on each side (None: there is none); None alone if an entry has the code itself."""
    at = place_of(held, (code,))
    if at < len(held) and held[at][0] == code:
        return None
    return held[at - 1][0] if at else None, held[at][0] if at < len(held) else None
