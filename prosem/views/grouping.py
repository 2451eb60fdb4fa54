"""The rows of a view with GROUP BY: one per group that HAVING lets through.

A group keeps the number of its joined rows, the accumulators of its aggregates, and its row as the view has it (the same
object). It exists while it has a joined row. NULL is a group, and values that PostgreSQL calls equal are one.

Cost: O(aggregates) per changed joined row and per touched group, O(log n) for MIN and MAX. It loses to recomputing only
where most rows of a group change at one event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prosem.values.columns import Value
from prosem.values.errors import ViewRowError
from prosem.values.model import Key, Row, RowChange, View
from prosem.views.accumulators import Accumulator
from prosem.views.aggregates import Aggregate, accumulate
from prosem.views.expressions import EvaluationError
from prosem.views.joined import JoinedChange, Keys, Rows, difference
from prosem.views.row_error import RowErrors

Member = tuple[Key, tuple[Any, ...]]  # a joined row's group, and what each accumulator takes of it


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on an aggregate, by its number; NULL satisfies none."""

    aggregate: int
    holds: Callable[[Value], bool]


@dataclass(frozen=True, slots=True)
class Grouping:
    """`values` gives of a joined row the key of its group (`by` values), then the arguments of the aggregates.

    `items` are the view's columns: numbers among the values of the key, then those of the aggregates.
    """

    values: Callable[[Rows], Row]
    by: int
    aggregates: tuple[Aggregate, ...]
    items: tuple[int, ...]
    having: tuple[Having, ...] = ()


class Group:
    __slots__ = ("accumulators", "count", "key", "row")

    def __init__(self, key: Key, accumulators: list[Accumulator]) -> None:
        self.key, self.accumulators = key, accumulators
        self.count = 0
        self.row: Row | None = None


class Groups:
    def __init__(
        self, view: View, errors: RowErrors, where: Callable[[Rows], Value] | None, grouping: Grouping
    ) -> None:
        self._names, self._errors, self._where = view.primary_key, errors, where
        self._values, self._by = grouping.values, grouping.by
        slots, self._read = accumulate(grouping.aggregates)
        self._slots = [(slot.argument, slot.encode) for slot in slots]
        self._make = [slot.make for slot in slots]
        self._items, self._having = grouping.items, grouping.having
        self._differs = difference(view.columns)
        self._groups: dict[Key, Group] = {}

    def apply(self, changes: Sequence[JoinedChange]) -> list[RowChange]:
        """The net changes of the view's rows. The state is unchanged if it raises."""
        added: list[Member] = []
        removed: list[Member] = []
        for keys, old, new in changes:
            before = None if old is None else self._member(keys, old)
            after = None if new is None else self._member(keys, new)
            if before == after:
                continue
            if after is not None:
                added.append(after)
            if before is not None:
                removed.append(before)
        touched = self._rows_of(removed, added)
        self._shift(added, removed)
        try:
            return self._settle(touched)
        except ViewRowError:
            self._shift(removed, added)
            for key in touched.keys() & self._groups.keys():
                self._groups[key].row = touched[key]
            raise

    def build(self, joined: Iterable[tuple[Keys, Rows]]) -> Iterator[tuple[Key, Row]]:
        """The rows of the view, from all joined rows; the first is given when all have been read."""
        for keys, rows in joined:
            member = self._member(keys, rows)
            if member is not None:
                self._add(member)
        for group in self._groups.values():
            group.row = self._row(group)
            if group.row is not None:
                yield group.key, group.row

    def _member(self, keys: Keys, rows: Rows) -> Member | None:
        try:
            if self._where is not None and self._where(rows) is not True:
                return None
            values = self._values(rows)
        except EvaluationError as error:
            raise self._errors.at(keys, error) from error
        encoded = []
        for at, encode in self._slots:
            value = values[at]
            encoded.append(value if encode is None or value is None else encode(value))
        return values[: self._by], tuple(encoded)

    def _rows_of(self, *lists: Sequence[Member]) -> dict[Key, Row | None]:
        """The rows of the groups concerned, as they are."""
        rows: dict[Key, Row | None] = {}
        for some in lists:
            for key, _ in some:
                if key not in rows:
                    group = self._groups.get(key)
                    rows[key] = None if group is None else group.row
        return rows

    def _shift(self, added: Sequence[Member], removed: Sequence[Member]) -> None:
        for member in added:
            self._add(member)
        for key, encoded in removed:
            group = self._groups[key]
            group.count -= 1
            if not group.count:
                del self._groups[key]
                continue
            for accumulator, one in zip(group.accumulators, encoded, strict=True):
                if one is not None:
                    accumulator.remove(one)

    def _add(self, member: Member) -> None:
        key, encoded = member
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, [make() for make in self._make])
        group.count += 1
        for accumulator, one in zip(group.accumulators, encoded, strict=True):
            if one is not None:
                accumulator.add(one)

    def _settle(self, touched: dict[Key, Row | None]) -> list[RowChange]:
        """Give each group concerned its new row; one that did not change keeps its object."""
        found = []
        for key, old in touched.items():
            group = self._groups.get(key)
            new = None if group is None else self._row(group)
            if self._differs(old, new):
                found.append(RowChange(key, old, new))
            else:
                new = old
            if group is not None:
                group.row = new
        return found

    def _row(self, group: Group) -> Row | None:
        try:
            values = [*group.key, *(read(group.count, group.accumulators) for read in self._read)]
        except EvaluationError as error:
            raise self._errors.of_group(self._names, group.key, error) from error
        for condition in self._having:
            value = values[self._by + condition.aggregate]
            if value is None or not condition.holds(value):
                return None
        return tuple([values[at] for at in self._items])

    def state(self) -> object:
        return {
            key: (group.count, group.row, [one.state() for one in group.accumulators])
            for key, group in self._groups.items()
        }
