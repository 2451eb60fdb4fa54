"""A view recomputed from the rows of its tables: every combination is looked at, nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from prosem.values.model import Key, Row, Table
from prosem.views.definition import ViewDefinition
from prosem.views.grouping import Grouping

Rows = tuple[Row | None, ...]


def recomputed(definition: ViewDefinition, rows_of: Callable[[Table], Mapping[Key, Row]]) -> dict[Key, Row]:
    """The view's rows by key. EvaluationError if an expression fails."""
    where = definition.where
    joined = [rows for rows in _joined(definition, rows_of) if where is None or where.evaluate(rows) is True]
    if isinstance(definition.rows, Grouping):
        found = _grouped(definition.rows, joined)
    else:
        found = [definition.rows.evaluate(rows) for rows in joined]
    by_key = {definition.view.key_of(row): row for row in found}
    assert len(by_key) == len(found), f"two rows of {definition.view.name} have one key"
    return by_key


def _joined(definition: ViewDefinition, rows_of: Callable[[Table], Mapping[Key, Row]]) -> list[Rows]:
    found: list[Rows] = [(row,) for row in rows_of(definition.sources[0][1]).values()]
    for (_, table), columns in zip(definition.sources[1:], definition.joins, strict=True):
        longer: list[Rows] = []
        for rows in found:
            left = [None if rows[at] is None else rows[at][position] for at, position in columns.left]  # type: ignore[index]
            partners = [
                row
                for row in rows_of(table).values()
                if all(_equal(one, row[at]) for one, at in zip(left, columns.right, strict=True))
            ]
            longer += [(*rows, row) for row in partners]
            if columns.is_left and not partners:
                longer.append((*rows, None))
        found = longer
    return found


def _equal(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one == other


def _grouped(grouping: Grouping, joined: Sequence[Rows]) -> list[Row]:
    groups: dict[Key, list[Row]] = {}
    for rows in joined:
        values = grouping.values(rows)
        groups.setdefault(values[: grouping.by], []).append(values)
    found = []
    for key, members in groups.items():
        aggregates = []
        for one in grouping.aggregates:
            arguments = [1 if one.argument is None else values[one.argument] for values in members]
            aggregates.append(aggregate(one.function, [value for value in arguments if value is not None]))
        conditions = [(aggregates[one.aggregate], one.holds) for one in grouping.having]
        if all(value is not None and holds(value) for value, holds in conditions):
            columns = [*key, *aggregates]
            found.append(tuple(columns[at] for at in grouping.items))
    return found


def aggregate(function: str, values: Sequence[Any]) -> Any:
    """An aggregate of values that are not NULL; an average of exact numbers to 12 decimals."""
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        return min(values) if function == "min" else max(values)
    total = sum(map(Fraction, values))
    if isinstance(values[0], float):
        return float(total) if function == "sum" else float(total / len(values))
    exact = total if function == "sum" else total / len(values)
    return Decimal(exact.numerator) / exact.denominator if function == "avg" else _whole(exact)


def _whole(exact: Fraction) -> int | Decimal:
    return (
        exact.numerator if exact.denominator == 1 else Decimal(exact.numerator) / Decimal(exact.denominator)
    )
