"""The rows of a wider range, of which the exact range shows some.

Rows are folded as they are told; `show` moves the exact range over them. A row's place in each column
stands in a sorted list, so a moved end looks only at the rows it has passed: O(log n) and the rows passed,
against a scan of all rows for every assignment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from prosem_client.errors import OutOfStep
from prosem_client.folding import row_identity
from prosem_client.scales import Place, Scale
from prosem_client.values import JsonObject

Places = tuple[Place | None, ...]


class End(NamedTuple):
    """One end of a range as it is registered: `column >= :parameter` and the like."""

    column: str
    parameter: str
    is_lower: bool
    is_open: bool


class Limit(NamedTuple):
    """An end of the range with the scale of its column."""

    end: End
    scale: Scale

    def constant(self, params: Mapping[str, Any]) -> Place | None:
        """Where the parameters put the end, None for NULL; ValueError if it has no place in the column."""
        value = params.get(self.end.parameter)
        return None if value is None else self.scale.constant(value)

    def admits(self, place: Place | None, constant: Place | None) -> bool:
        """Whether a value at this place satisfies the end; a NULL on either side never does."""
        if place is None or constant is None:
            return False
        if place == constant:
            return not self.end.is_open
        return (place > constant) is self.end.is_lower

    def reaches(self, wide: Place | None, exact: Place | None) -> bool:
        """Whether the end at `wide` lets through all that the end at `exact` does."""
        if exact is None or wide is None:
            return exact is None
        return wide <= exact if self.end.is_lower else wide >= exact


class Limits:
    """All ends of a query that are checked here."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = tuple(limits)
        self.names = frozenset(limit.end.parameter for limit in limits)

    def __iter__(self) -> Iterator[Limit]:
        return iter(self._limits)

    def constants(self, params: Mapping[str, Any]) -> Places:
        """Where the parameters put the ends."""
        return tuple([limit.constant(params) for limit in self._limits])

    def places(self, row: Mapping[str, Any]) -> Places:
        """Where a row lies in the column of each end."""
        values = [(limit.scale.place, row[limit.end.column]) for limit in self._limits]
        return tuple([None if value is None else place(value) for place, value in values])

    def admit(self, places: Places, constants: Places) -> bool:
        """Whether a row at these places is in the range."""
        return all(map(Limit.admits, self._limits, places, constants))

    def select(self, rows: Sequence[JsonObject], constants: Places) -> list[JsonObject]:
        """The rows in the range."""
        return [row for row in rows if self.admit(self.places(row), constants)]

    def reach(self, wide: Places, exact: Places) -> bool:
        """Whether the wide range holds the exact one."""
        return None in exact or all(map(Limit.reaches, self._limits, wide, exact))


class HeldRows:
    """The rows of the wider range by identity, those shown, and how what is shown differs from what was told.

    Invariant: `_shown` holds exactly the rows that the ends at `_constants` admit, and `_told` what the user
    last saw of every row touched since.
    """

    def __init__(
        self, limits: Limits, key: tuple[str, ...], rows: Sequence[JsonObject], constants: Places
    ) -> None:
        self._limits, self._key, self._constants = limits, key, constants
        self._rows: dict[Hashable, tuple[JsonObject, Places, int]] = {}
        self._shown: dict[Hashable, JsonObject] = {}
        self._told: dict[Hashable, JsonObject | None] = {}
        self._sorted: list[list[tuple[Place, int]]] = [[] for _ in limits]
        self._by_number: dict[int, Hashable] = {}
        self._numbers = 0
        for row in rows:
            self._add(row_identity(row, key), row)
        self._told.clear()

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, change: Mapping[str, Any]) -> None:
        """Fold a change of the wider answer."""
        for row in change.get("remove", ()):
            self._drop(row_identity(row, self._key), row)
        for row in change.get("update", ()):
            identity = row_identity(row, self._key)
            self._drop(identity, row)
            self._add(identity, row)
        for row in change.get("add", ()):
            identity = row_identity(row, self._key)
            if identity in self._rows:
                raise OutOfStep(f"the row {row!r:.120} is added, but it is already in the answer")
            self._add(identity, row)

    def show(self, constants: Places) -> None:
        """Move the exact range."""
        before, self._constants = self._constants, constants
        if None in before or None in constants:
            passed = set(self._rows)
        else:
            passed = {
                self._by_number[number]
                for places, old, new in zip(self._sorted, before, constants, strict=True)
                if old != new
                for number in _between(places, old, new)
            }
        for identity in passed:
            row, places, _ = self._rows[identity]
            self._set_shown(identity, row if self._limits.admit(places, constants) else None)

    def take(self) -> JsonObject | None:
        """What differs from what was last told, as a change; None if nothing does."""
        change: JsonObject = {"add": [], "remove": [], "update": []}
        for identity, before in self._told.items():
            after = self._shown.get(identity)
            if before is None and after is not None:
                change["add"].append(after)
            elif before is not None and after is None:
                change["remove"].append({name: before[name] for name in self._key})
            elif before != after:
                change["update"].append(after)
        self._told.clear()
        return change if any(change.values()) else None

    def result(self) -> JsonObject:
        """The exact answer."""
        return {"rows": list(self._shown.values())}

    def check(self) -> None:
        """The rows shown are those in the range, and every place is where it is sorted."""
        for identity, (row, places, number) in self._rows.items():
            assert places == self._limits.places(row)
            assert (identity in self._shown) == self._limits.admit(places, self._constants)
            assert self._by_number[number] == identity
        assert self._shown.keys() <= self._rows.keys()
        for at, column in enumerate(self._sorted):
            assert all(before < after for before, after in pairwise(column))
            assert len(column) == sum(places[at] is not None for _, places, _ in self._rows.values())

    def _add(self, identity: Hashable, row: JsonObject) -> None:
        self._numbers += 1
        places = self._limits.places(row)
        self._rows[identity] = (row, places, self._numbers)
        self._by_number[self._numbers] = identity
        for column, place in zip(self._sorted, places, strict=True):
            if place is not None:
                insort(column, (place, self._numbers))
        if self._limits.admit(places, self._constants):
            self._set_shown(identity, row)

    def _drop(self, identity: Hashable, row: JsonObject) -> None:
        held = self._rows.pop(identity, None)
        if held is None:
            raise OutOfStep(f"the row {row!r:.120} is removed or updated, but it is not in the answer")
        _, places, number = held
        del self._by_number[number]
        for column, place in zip(self._sorted, places, strict=True):
            if place is not None:
                del column[bisect_left(column, (place, number))]
        self._set_shown(identity, None)

    def _set_shown(self, identity: Hashable, row: JsonObject | None) -> None:
        before = self._shown.get(identity)
        if before is row:
            return
        self._told.setdefault(identity, before)
        if row is None:
            del self._shown[identity]
        else:
            self._shown[identity] = row


def _between(places: list[tuple[Place, int]], one: Place | None, other: Place | None) -> Iterator[int]:
    """The numbers of the rows from one place to the other, both included."""
    assert one is not None
    assert other is not None
    low, high = (one, other) if one < other else (other, one)
    start = bisect_left(places, low, key=lambda entry: entry[0])
    stop = bisect_right(places, high, key=lambda entry: entry[0])
    return (number for _, number in places[start:stop])
