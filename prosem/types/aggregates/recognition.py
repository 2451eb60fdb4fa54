"""The queries that select several aggregates, and those with GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence

from prosem.language.dimensions import Dimension, constant_of
from prosem.language.resolve import column
from prosem.language.syntax import Aggregate, Aggregates, ColumnName, Grouped, Query
from prosem.types.aggregates.client_rules import GROUPS, SEVERAL
from prosem.types.aggregates.columns import kept
from prosem.types.aggregates.form import GroupByForm, SeveralForm
from prosem.types.aggregates.having import Condition
from prosem.types.base import SubscriptionType
from prosem.types.shared.ranges import recognise_ranges
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject, Table

_WHERE = "[WHERE x BETWEEN :lo AND :hi …] [AND e = :c …] [AND e IN :list …]"
_MESSAGES = [
    {
        "name": "sums",
        "region": "ranges that hold only the old row, only the new row, or both",
        "payload": "the group, and what is added to its rows, and to the count and the exact sum of each column",
    },
    {
        "name": "extreme",
        "region": "L < lo <= l AND r <= hi < R",
        "payload": "the group, and its lowest or highest value of a column after the event",
    },
]


class SeveralType(SubscriptionType):
    name = "aggregates"

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> SeveralForm | None:
        if not isinstance(query.selection, Aggregates) or len(tables) != 1:
            return None
        items = query.selection.items
        keeping = kept(query, tables[0], items, counts_rows=False)
        columns = tuple([(item.name, output) for item, output in zip(items, keeping.outputs, strict=True)])
        return SeveralForm(query, recognise_ranges(query, tables[0]), keeping, columns)

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": f"SELECT MIN(y) AS low, MAX(y) AS high, COUNT(*), AVG(z) FROM t {_WHERE}",
            "notify": [],
            "messages": _MESSAGES,
            "update": "replace all columns by the message's",
            "transform": "the columns",
            "rules": SEVERAL.document(),
        }


class GroupByType(SubscriptionType):
    name = "group-by"

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> GroupByForm | None:
        selection = query.selection
        if not isinstance(selection, Grouped) or len(tables) != 1:
            return None
        table, selected = tables[0], selection.aggregates
        grouped = tuple([_grouped(query, table, name) for name in selection.by])
        having = [one.aggregate for one in selection.having]
        keeping = kept(query, table, [*selected, *having], counts_rows=True)
        outputs = iter(keeping.outputs)
        items = tuple(
            [
                (
                    item.name,
                    next(outputs) if isinstance(item, Aggregate) else _grouped(query, table, item.column),
                )
                for item in selection.items
            ]
        )
        conditions = tuple([Condition(next(outputs), one) for one in selection.having])
        return GroupByForm(query, recognise_ranges(query, table), keeping, grouped, items, conditions)

    def dimensions(self, form: GroupByForm) -> tuple[Dimension, ...]:
        table = form.shape.table
        having = [
            constant_of(f"HAVING {one.output.words(table)}", one.having.op, one.output.type, one.having.term)
            for one in form.conditions
        ]
        return (*super().dimensions(form), *having)

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": f"SELECT g, COUNT(*) AS n, MIN(y) FROM t {_WHERE} GROUP BY g [HAVING COUNT(*) >= :n AND …]",
            "notify": [],
            "messages": _MESSAGES,
            "update": "add, replace or drop the group with the key of the message's group",
            "transform": "the groups held",
            "rules": GROUPS.document(),
        }


def _grouped(query: Query, table: Table, name: ColumnName) -> int:
    found = column(query, table, name)
    if not found.type.ordered:
        raise LanguageError(f"GROUP BY needs an ordered column, and {found.name} is {found.type.name}")
    return table.position[found.name]
