"""The aggregates of a query, and what must be kept to answer them.

Aggregates of one column share what is kept: COUNT(y), SUM(y) and AVG(y) need how many values there are and their exact
total, so they are one *sum*. MIN(y) and MAX(y) are an *extreme* each. Rows are counted for COUNT(*), and for groups: a group
exists in a range while it has rows there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from prosem.language.resolve import column
from prosem.language.syntax import Aggregate, Query
from prosem.types.shared.exact import BIGINT, NUMERIC, aggregate_type, average_value, sum_value, written
from prosem.values.codes import value_of
from prosem.values.columns import ColumnType
from prosem.values.errors import LanguageError
from prosem.values.model import Table


class Sum(NamedTuple):
    """The values of a column that are not NULL: how many, and with `has_total` their sum."""

    y: int
    has_total: bool


class Extreme(NamedTuple):
    """The lowest value of a column, or the highest."""

    y: int
    maximum: bool


class Part(NamedTuple):
    """What is kept of some rows: how many, (number, total in units) of each sum, the code of each extreme (None: none)."""

    rows: int
    sums: tuple[tuple[int, int], ...]
    extremes: tuple[Any, ...]


@dataclass(frozen=True)
class Output:
    """One aggregate: `at` is the number of its sum or extreme; `y` is None for COUNT(*)."""

    function: str
    y: int | None
    at: int
    kind: ColumnType  # of the column; of COUNT(*) any

    def value(self, part: Part) -> Any:
        """A number, or the code of an extreme: equal where PostgreSQL says that the answers are."""
        if self.y is None:
            return part.rows
        if self.function in ("MIN", "MAX"):
            return part.extremes[self.at]
        number, total = part.sums[self.at]
        if self.function == "COUNT":
            return number
        if not number:
            return None
        return (
            sum_value(self.kind, total) if self.function == "SUM" else average_value(self.kind, total, number)
        )

    def shown(self, value: Any) -> Any:
        """A value as it is answered."""
        if value is None or self.function not in ("MIN", "MAX"):
            return written(value)
        return value_of(self.kind, value)

    def read(self, shown: Any) -> Any:
        """What was answered, so that equal answers compare so."""
        if shown is None or self.function == "COUNT":
            return shown
        if self.function in ("MIN", "MAX"):
            return self.kind.code(self.kind.read(shown))
        return NUMERIC.constant(shown)

    def words(self, table: Table) -> str:
        """As a label has it, without its name."""
        return f"{self.function}({'*' if self.y is None else repr(table.names[self.y])})"

    @cached_property
    def type(self) -> ColumnType:
        return aggregate_type(self.function, self.kind)


class Kept:
    """What must be kept for some aggregates."""

    def __init__(
        self, outputs: Iterable[Output], sums: Sequence[Sum], extremes: Sequence[Extreme], rows: bool
    ) -> None:
        self.outputs = tuple(outputs)
        self.sums, self.extremes, self.counts_rows = tuple(sums), tuple(extremes), rows
        self.empty = Part(0, ((0, 0),) * len(self.sums), (None,) * len(self.extremes))

    def merged(self, parts: Sequence[Part]) -> Part:
        """What is kept of the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return self.empty
        sums = zip(*[part.sums for part in parts], strict=True)
        extremes = zip(self.extremes, zip(*[part.extremes for part in parts], strict=True), strict=True)
        return Part(
            sum(part.rows for part in parts),
            tuple([(sum(number for number, _ in some), sum(total for _, total in some)) for some in sums]),
            tuple([_extreme(extreme.maximum, codes) for extreme, codes in extremes]),
        )


def _extreme(maximum: bool, codes: Iterable[Any]) -> Any:
    found = [code for code in codes if code is not None]
    return None if not found else max(found) if maximum else min(found)


def kept(query: Query, table: Table, aggregates: Sequence[Aggregate], counts_rows: bool) -> Kept:
    """What must be kept for these aggregates; LanguageError if a column is not of the right type."""
    found = [
        (one.function.upper(), None if one.column is None else column(query, table, one.column))
        for one in aggregates
    ]
    totals = {y.name for function, y in found if y is not None and function in ("SUM", "AVG")}
    sums: dict[str, Sum] = {}
    extremes: dict[tuple[str, str], Extreme] = {}
    outputs = []
    for function, y in found:
        if y is None:
            outputs.append(Output(function, None, 0, BIGINT))
            continue
        position = table.position[y.name]
        if function in ("MIN", "MAX"):
            if not y.type.ordered:
                raise LanguageError(f"{function} needs an ordered column, and {y.name} is {y.type.name}")
            extremes.setdefault((function, y.name), Extreme(position, function == "MAX"))
            at = list(extremes).index((function, y.name))
        else:
            if function != "COUNT" and not y.type.numeric:
                raise LanguageError(f"{function} needs a column of numbers, not {y.name} ({y.type.name})")
            sums.setdefault(y.name, Sum(position, y.name in totals))
            at = list(sums).index(y.name)
        outputs.append(Output(function, position, at, y.type))
    rows = counts_rows or any(output.y is None for output in outputs)
    return Kept(outputs, list(sums.values()), list(extremes.values()), rows)
