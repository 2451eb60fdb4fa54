"""The values of an aggregate: how they are compared, written and read."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from prosem.types.base import SpaceContext
from prosem.types.extreme.form import ExtremeForm
from prosem.types.notified.condition import Condition, Number
from prosem.types.notified.watched import Answer, Watched, WatchedExtreme, WatchedSum
from prosem.types.shared.exact import written
from prosem.types.shared.rules import fields
from prosem.types.sums.form import SumForm
from prosem.values.model import JsonObject, Row
from prosem.values.wire import decode


class LastNotified(NamedTuple):
    """The last notified value of a subscription; of MIN and MAX with a row that attained it then."""

    value: Any
    row: Row | None = None


@dataclass(frozen=True)
class NotifiedValues:
    """`aggregate` is the form of the query without `notify`."""

    aggregate: ExtremeForm | SumForm
    condition: Condition

    def watched(self, space_id: int, context: SpaceContext) -> Watched:
        """The aggregate over the rows, for subscriptions that `context` locates by slot."""
        if isinstance(self.aggregate, ExtremeForm):
            return WatchedExtreme(self.aggregate, space_id, context)
        return WatchedSum(self.aggregate, self.condition, space_id, context)

    def is_far(self, radius: Number, last: LastNotified, now: Answer) -> bool:
        """Whether a value is so far from the last notified one that the subscription is notified of it."""
        return self.condition.is_far(radius, self.number(last.value), self.number(now.value))

    def number(self, value: Any) -> Number | None:
        """A value as the number that is compared."""
        if isinstance(value, Decimal):
            return Fraction(value)
        if value is None or self.condition.unit is None:
            return value
        assert self.aggregate.y is not None
        return self.aggregate.shape.table.columns[self.aggregate.y].type.code(value)

    def read(self, notified: bytes) -> LastNotified:
        """What was notified, from JSON: a result or a change."""
        plain = fields(notified)
        value = decode(plain["value"])
        if value is None or isinstance(self.aggregate, SumForm):
            return LastNotified(Decimal(value) if isinstance(value, str) else value)
        table, row = self.aggregate.shape.table, fields(plain["row"])
        read = table.read([decode(row[name]) for name in table.names])
        return LastNotified(read[self.aggregate.y], read)

    def result(self, answer: LastNotified | Answer) -> JsonObject:
        if isinstance(self.aggregate, ExtremeForm):
            return self.aggregate.result(answer.row)
        return {"value": written(answer.value)}

    def change(self, before: JsonObject, after: JsonObject) -> JsonObject:
        """The change from one result to the other."""
        return {"value": after["value"], "previous": before["value"], **after}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """The same, None if they are equal: numbers may be written otherwise."""
        is_same = self._exact(before["value"]) == self._exact(after["value"])
        return None if is_same else self.change(before, after)

    def _exact(self, plain: Any) -> Any:
        return Fraction(plain) if isinstance(plain, str) and self.condition.unit is None else plain
