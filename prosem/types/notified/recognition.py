"""The queries that are notifications on an aggregate."""

from __future__ import annotations

from collections.abc import Sequence

from prosem.language.dimensions import Dimension, radii
from prosem.language.syntax import Aggregate, Query
from prosem.types import extreme, sums
from prosem.types.base import SubscriptionType
from prosem.types.extreme.form import ExtremeForm
from prosem.types.notified.client_rules import RULES
from prosem.types.notified.condition import condition_of
from prosem.types.notified.form import NotifiedForm
from prosem.types.notified.values import NotifiedValues
from prosem.types.sums.form import SumForm
from prosem.types.value.measure import measure_of
from prosem.values.columns import column_type
from prosem.values.errors import InputError
from prosem.values.model import JsonObject, Table


class NotifiedType(SubscriptionType):
    """One aggregate of the types `extreme` and `sums`, with `notify`."""

    name = "notified-aggregate"
    takes_notify = True

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> NotifiedForm | None:
        if notify is None or not isinstance(query.selection, Aggregate):
            return None
        for kind in (*extreme.TYPES, *sums.TYPES):
            aggregate = kind.recognise(query, tables, None)
            if isinstance(aggregate, SumForm):
                return self._form(aggregate, notify)
            if isinstance(
                aggregate, ExtremeForm
            ):  # compared at the server, so that no edge holds its answers
                shape, is_maximum, y = aggregate.shape, aggregate.maximum, aggregate.y
                return self._form(ExtremeForm(self.name, query, shape, is_maximum, y), notify)
        return None

    def _form(self, aggregate: ExtremeForm | SumForm, notify: JsonObject) -> NotifiedForm:
        """Distances are those of the answered values: whole numbers of COUNT, and of SUM and AVG numbers of any scale."""
        is_count = isinstance(aggregate, SumForm) and aggregate.function == "COUNT"
        table, at = aggregate.shape.table, aggregate.y
        kind = column_type("bigint") if is_count or at is None else table.columns[at].type
        measure = measure_of(kind)
        if measure is None:
            assert at is not None
            raise InputError(
                f"notify needs numbers, dates or timestamps, and {table.names[at]} is {kind.name}; leave it out, and "
                "every change is sent",
                "/notify",
            )
        words = f"these values are of type {kind.name}"
        condition = condition_of(notify, measure.is_double, measure.unit, words)
        return NotifiedForm(self.name, NotifiedValues(aggregate, condition))

    def dimensions(self, form: NotifiedForm) -> tuple[Dimension, ...]:
        condition = form.values.condition
        return (*super().dimensions(form), *radii({condition.form: condition.size}))

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": "SELECT MIN(y) | MAX(y) | COUNT(*) | COUNT(y) | SUM(y) | AVG(y) FROM t [WHERE x BETWEEN :lo AND :hi …] "
            "[AND e = :c …] [AND e IN :list …]",
            "notify": [
                '`{"change": r}`: from previous + r or previous - r on (a duration for dates and timestamps)',
                '`{"percent": p}`: the same with r = |previous| * p / 100',
                '`{"factor": f}`: from previous * f or previous / f on',
            ],
            "messages": [
                {
                    "name": "notified",
                    "region": "by name: subscriptions whose value is far enough from the one they were last notified of",
                    "payload": "the new value and the previous one; of MIN and MAX also a row that attains it",
                }
            ],
            "update": "replace the value (and the row) by the message's",
            "transform": "the value (and the row), and the previous one",
            "rules": RULES.document(),
        }
