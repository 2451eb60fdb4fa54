"""Notify on an aggregate: `SELECT SUM(y) FROM t WHERE …` with `notify`, notified when the value has moved far enough.

The server knows what each subscription was notified of last. An event's regions give the subscriptions whose value it
changes; those that are far enough from what they were notified of are addressed, with the whole change. So the edge holds
nothing, and replays read the messages alone.

It loses where subscriptions are notified of most events: each of them is evaluated and addressed, and the aggregate without
`notify` would send regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cn.model.message import Message
from prosem.language.syntax import Query
from prosem.types.base import Bound, Replay, Rows, Space, SpaceContext
from prosem.types.extreme.form import ExtremeForm
from prosem.types.notified.space import NotifiedSpace
from prosem.types.notified.values import NotifiedValues
from prosem.types.shared.ranges import STATELESS
from prosem.types.shared.rules import fields
from prosem.values.model import JsonObject, Table


@dataclass(frozen=True)
class NotifiedForm:
    """The form of an aggregate, with the condition under which its values are notified."""

    type: str
    values: NotifiedValues

    @property
    def query(self) -> Query:
        return self.values.aggregate.query

    @property
    def label(self) -> str:
        return f"{self.values.aggregate.label} BY {self.values.condition.form}"

    @property
    def space_label(self) -> str:
        return self.label

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.values.aggregate.tables

    @property
    def replay(self) -> Replay:
        return STATELESS

    @property
    def folding(self) -> JsonObject:
        return self.values.aggregate.folding

    def bind(self, params: Mapping[str, Any]) -> Bound:
        """Its topics, its place in the space of the aggregate, and its radius; the network knows it by name only."""
        radius = self.values.condition.radius(params)
        return self.values.aggregate.bind(params)._replace(constants=(radius,))

    @property
    def columns_read(self) -> frozenset[int] | None:
        """All of MIN and MAX: what was notified has the whole row."""
        aggregate = self.values.aggregate
        return None if isinstance(aggregate, ExtremeForm) else aggregate.columns_read

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return NotifiedSpace(self.values, space_id, context)

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        """What a subscription was notified of; at a mere place the present answer."""
        notified = cast(NotifiedSpace, space)
        if bound.constants:
            return self.values.result(notified.present(bound))
        assert bound.place is not None
        return self.values.result(notified.last_notified(bound.place[0]))

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        return self.values.difference(before, after)

    def state(self, space: Space, bound: Bound) -> None:
        return None

    def change(self, messages: Sequence[Message], bound: Bound, state: None) -> tuple[bytes | None, None]:
        return messages[-1].payload, None

    def opening(self, snapshot: bytes, state: None) -> JsonObject:
        return {"message": "state", **fields(snapshot)}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        return [] if change is None else [{"message": "notified", **fields(change)}]

    def place_in_words(self, bound: Bound) -> JsonObject:
        return self.values.aggregate.place_in_words(bound)
