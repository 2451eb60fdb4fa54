"""What a top-k selects and how it orders: rows to values, values to ranks, two answers to a change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import msgspec

from prosem.types.base import described_columns
from prosem.types.shared.ranges import Ranges
from prosem.types.shared.rules import written
from prosem.types.top_k.rank import Ranker, ranker
from prosem.values.columns import ColumnType
from prosem.values.equality import are_equal
from prosem.values.model import JsonObject, Row, View

Values = tuple[Any, ...]  # the selected columns of a row
Entry = tuple[bytes, Values]  # rank and values; no two rows have the same rank
Placed = tuple[bytes, Any, bytes]  # topic, x and rank of a row


@dataclass(frozen=True)
class TopKShape:
    """`columns`: positions of the selected columns, which answers call `names`; `y`: that of the column of ORDER BY."""

    ranges: Ranges
    columns: tuple[int, ...]
    names: tuple[str, ...]
    y: int
    is_descending: bool
    nulls_first: bool
    count: int

    @property
    def reads(self) -> frozenset[int]:
        """The columns that ranges, order and answers are made of."""
        return self.ranges.reads(self.y, *self.columns)

    # -- rows ------------------------------------------------------------------------------------------------------
    @cached_property
    def values(self) -> Callable[[Row], Values]:
        """A function that gives the selected columns of a row."""
        columns = self.columns
        if columns == tuple(range(len(self.ranges.table.columns))):
            return tuple
        return itemgetter(*columns) if len(columns) > 1 else lambda row: (row[columns[0]],)

    @cached_property
    def rank(self) -> Ranker:
        """A function that ranks the selected columns of a row."""
        return self._ranker({at: number for number, at in enumerate(self.columns)})

    @cached_property
    def placer(self) -> Callable[[Row | None], Placed | None]:
        """A function that gives topic, x and rank of a row; None if it is in no range."""
        place, rank = self.ranges.placer(), self._ranker({at: at for at in range(len(self._types))})

        def placed(row: Row | None) -> Placed | None:
            found = None if row is None else place(row)
            return None if row is None or found is None else (found[0], found[1][0], rank(row))

        return placed

    def _ranker(self, place: Mapping[int, int]) -> Ranker:
        types, table = self._types, self.ranges.table
        return ranker(
            (place[self.y], types[self.y]),
            [(place[at], types[at]) for at in table.key_positions],
            is_descending=self.is_descending,
            nulls_first=self.nulls_first,
            keys_may_be_null=isinstance(table, View),
        )

    @cached_property
    def _types(self) -> tuple[ColumnType, ...]:
        return tuple(column.type for column in self.ranges.table.columns)

    # -- as they travel --------------------------------------------------------------------------------------------
    def read(self, written: Sequence[Any]) -> Entry:
        """A row from the JSON of its selected columns."""
        types = self._types
        values = tuple(
            [
                None if value is None else types[at].read(value)
                for at, value in zip(self.columns, written, strict=True)
            ]
        )
        return self.rank(values), values

    def read_rows(self, result: JsonObject) -> list[Entry]:
        """The rows of an answer in JSON."""
        return [self.read([row[name] for name in self.names]) for row in result["rows"]]

    @cached_property
    def record(self) -> Callable[..., Any]:
        """Makes an object of selected columns that is written as JSON with their names."""
        fields = [f"f{number}" for number in range(len(self.names))]
        return msgspec.defstruct(
            "Record", [(field, Any) for field in fields], rename=dict(zip(fields, self.names, strict=True))
        )

    def result(self, answer: Sequence[Entry]) -> JsonObject:
        record = self.record
        return {"rows": [record(*values) for _, values in answer]}

    def key_object(self, values: Values) -> JsonObject:
        return {self.names[number]: values[number] for number in self._keys}

    def identity(self, values: Values) -> str:
        """The key of a row as the text by which a client finds it again."""
        return ",".join([written(values[number]) for number in self._keys])

    @cached_property
    def _keys(self) -> tuple[int, ...]:
        """Where the key stands among the selected columns."""
        return tuple(self.columns.index(at) for at in self.ranges.table.key_positions)

    @property
    def folding(self) -> JsonObject:
        """How a client sorts the rows: by y, then by the key, ascending with NULLs last."""
        types = dict(zip(self.names, [self._types[at] for at in self.columns], strict=True))
        keys = [self.names[number] for number in self._keys]
        y = self.names[self.columns.index(self.y)]
        order = [(y, self.is_descending, self.nulls_first), *((name, False, False) for name in keys)]
        return {
            "key": keys,
            "order": [
                {"column": name, "descending": down, "nulls_first": first, "type": types[name].name}
                for name, down, first in order
            ],
            "columns": described_columns(types.items()),
        }

    # -- answers ---------------------------------------------------------------------------------------------------
    def change(self, before: Sequence[Entry], after: Sequence[Entry]) -> JsonObject | None:
        """What takes one ordered list to the other; None if they are equal. Rows that are the same object cost little."""
        if before is after:
            return None
        first, last, other = 0, len(before), len(after)
        while first < last and first < other and before[first] is after[first]:
            first += 1
        while first < last and first < other and before[last - 1] is after[other - 1]:
            last, other = last - 1, other - 1
        key = itemgetter(*self._keys)
        was = {key(values): values for _, values in before[first:last]}
        now = {key(values): values for _, values in after[first:other]}
        record = self.record
        change = {
            "add": [record(*values) for name, values in now.items() if name not in was],
            "update": [
                record(*values)
                for name, values in now.items()
                if name in was and not are_equal(was[name], values)
            ],
            "remove": [self.key_object(values) for name, values in was.items() if name not in now],
        }
        return change if any(change.values()) else None
