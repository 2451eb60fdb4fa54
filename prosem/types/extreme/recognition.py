"""The queries that are range MIN and MAX."""

from __future__ import annotations

from collections.abc import Sequence

from prosem.language.resolve import column
from prosem.language.syntax import Query
from prosem.types.base import SubscriptionType, is_composed
from prosem.types.extreme.client_rules import RULES
from prosem.types.extreme.form import ExtremeForm
from prosem.types.extreme.tracked import TrackedForm
from prosem.types.shared.ranges import aggregated, recognise_ranges
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject, Table


class ExtremeType(SubscriptionType):
    """`function` is MIN or MAX."""

    pictured = "a MIN or MAX over one range"

    def __init__(self, function: str) -> None:
        self.function = function
        self.name = f"range-{function.lower()}"

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> ExtremeForm | None:
        selection = aggregated(query, tables, self.function)
        if selection is None:
            return None
        table = tables[0]
        assert selection.column is not None
        y = column(query, table, selection.column)
        if not y.type.ordered:
            raise LanguageError(f"{self.function} needs an ordered column, and {y.name} is {y.type.name}")
        shape = recognise_ranges(query, table)
        form = ExtremeForm(self.name, query, shape, self.function == "MAX", table.position[y.name])
        if shape.listed or is_composed(form):
            return TrackedForm(self.name, query, shape, form.maximum, form.y)
        return form

    def describe(self) -> JsonObject:
        word = "lowest" if self.function == "MIN" else "highest"
        return {
            "name": self.name,
            "sql": f"SELECT {self.function}(y) FROM t [WHERE x BETWEEN :lo AND :hi …] [AND e = :c …] [AND e IN :list …]",
            "notify": [],
            "messages": [
                {
                    "name": "change",
                    "region": "L < lo <= l AND r <= hi < R",
                    "payload": f"the {word} y of the region's subscriptions after the event, and a row that has it",
                }
            ],
            "update": "replace the value and the row by the message's",
            "transform": "the value and the row",
            "rules": RULES.document(),
        }
