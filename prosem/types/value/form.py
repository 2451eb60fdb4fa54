"""Value notification: `SELECT y FROM t WHERE key = …`, notified when y has moved far enough from the last notified value.

`notify` says how far: `change` (absolute), `percent` of the last notified value, `factor`, `may`/`must`; without it every
change is notified. The affected subscriptions are a few ranges of radii and arcs of labels ([ProSem thesis] 4), and the
message carries the new value only: the last notified value of a subscriber is known at its edge.

It loses where every subscription has an item of its own: then a tree holds one point, and an address would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from cn.model.message import Message
from prosem.language.dimensions import Dimension, radii
from prosem.language.resolve import column, conjunction
from prosem.language.syntax import Columns, Parameter, Query
from prosem.types.base import Bound, Replay, Rows, Space, SpaceContext, SubscriptionType
from prosem.types.shared import rules
from prosem.types.shared.ranges import topic_of
from prosem.types.shared.replay import Marked
from prosem.types.shared.words import equal_values
from prosem.types.value.client_rules import RULES
from prosem.types.value.items import ItemForm, Items
from prosem.types.value.many import ManyForm
from prosem.types.value.measure import measure_of, radii_of
from prosem.types.value.space import RELAXED, FreeSpace, ValueSpace
from prosem.values.columns import INT64_MAX, INT64_MIN
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject, Table
from prosem.values.wire import encode


@dataclass(frozen=True)
class ValueForm(ItemForm):
    """Of one item."""

    @property
    def label(self) -> str:
        return f"{self._column} BY {self.radii.name}{self._where}"

    @property
    def space_label(self) -> str:
        return f"VALUES OF {self._column} BY {self.items.form}{self._where}"

    @property
    def _where(self) -> str:
        keys = " AND ".join(f"{name!r} = ?" for name in self.items.table.primary_key)
        return f"{self._source} WHERE {keys}"

    def bind(self, params: Mapping[str, Any]) -> Bound:
        """The item and the radius; the label is the space's to give."""
        place = (self.items.code(self.radii.radius(params)),)
        if self._names is not None:
            values = [params[name] for name in self._names]
            if all(type(value) is int and INT64_MIN <= value <= INT64_MAX for value in values):
                return Bound(topic_of(values), place)
        table = self.items.table
        extents = conjunction(self.query.where[0], table, params, self.query.sql)
        if extents is None:
            return Bound(b"", None)
        topic = topic_of([extents[at].intervals[0].low for at in table.key_positions])
        return Bound(topic, place)

    @cached_property
    def _names(self) -> list[str] | None:
        """The parameters that are the key, if it is one of integers: then binding is quick, which counts in batches."""
        given: dict[str, str] = {}
        for atom in self.query.where[0]:
            (term,) = atom.args
            kind = self.items.table.columns[self.items.table.position[atom.column.name]].type
            is_short = isinstance(term, Parameter) and kind.name in ("integer", "bigint")
            if not is_short or atom.column.name in given:
                return None
            given[atom.column.name] = cast(Parameter, term).name
        return [given[name] for name in self.items.table.primary_key]

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        kind = FreeSpace if self.items.form == "may" else ValueSpace
        return kind(self.items, space_id, context.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        return {"value": cast(ValueSpace, space).last_notified(bound)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        if before == after:
            return None
        return {"value": after["value"], "previous": before["value"]}

    # -- the state at the edge: the last notified value, as JSON ------------------------------------------------
    def state(self, space: Space, bound: Bound) -> bytes:
        return encode(cast(ValueSpace, space).last_notified(bound))

    def change(self, messages: Sequence[Message], bound: Bound, state: bytes) -> tuple[bytes | None, bytes]:
        message = messages[-1]
        if message.kind == "change":  # a move of the point: the state came with it
            return message.payload, state
        if message.kind == RELAXED and not self._is_far(bound, state, message.payload):
            return None, state
        return b'{"value":%b,"previous":%b}' % (message.payload, state), message.payload

    def opening(self, snapshot: bytes, state: bytes | None) -> JsonObject:
        return {"message": "state", **rules.fields(snapshot)}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        return [] if change is None else [{"message": "value", "value": rules.fields(change)["value"]}]

    def _is_far(self, bound: Bound, before: bytes, now: bytes) -> bool:
        """Whether a relaxed message concerns a subscription with this last notified value."""
        assert bound.place is not None
        items = self.items
        return items.is_told(items.radius(bound.place[0]), items.read(before), items.read(now))

    @property
    def replay(self) -> Replay:
        return Marked(self)

    def marked_state(self, notified: bytes) -> bytes:
        return notified

    def place_in_words(self, bound: Bound) -> JsonObject:
        table = self.items.table
        return {"equal": equal_values(table, table.key_positions, bound.topic)}


class ValueType(SubscriptionType):
    name = "value"
    takes_notify = True

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> ValueForm | ManyForm | None:
        selection = query.selection
        if len(tables) != 1 or not isinstance(selection, Columns) or len(selection.names) != 1:
            return None
        table = tables[0]
        y = column(query, table, selection.names[0])
        if y.name in table.primary_key and len(table.primary_key) == 1:
            return None
        is_one = self._is_one(query, table)
        measure = measure_of(y.type)
        radii = radii_of(measure, notify, y.name)
        items = Items(table, table.position[y.name], radii.form, measure)
        return (ValueForm if is_one else ManyForm)(query, items, radii)

    def _is_one(self, query: Query, table: Table) -> bool:
        """Whether the conditions give the whole key of one item, and not those of some or none at all."""
        wanted = " AND ".join(f"{name} = …" for name in table.primary_key) + " (or IN), or none"
        if not query.where:
            raise LanguageError("the condition is never true; drop the subscription, or the condition")
        named = set()
        for atom in query.where[0]:
            name = column(query, table, atom.column).name
            if len(query.where) > 1 or atom.op not in ("=", "in") or name not in table.primary_key:
                raise LanguageError(
                    f"a value notification (SELECT of one column without the key) takes WHERE {wanted}; "
                    "for other conditions select the key too, or use SELECT *"
                )
            named.add(name)
        if not named:
            return False
        missing = [name for name in table.primary_key if name not in named]
        if missing:
            raise LanguageError(
                f"the key column {', '.join(missing)} has no value: a value notification takes WHERE {wanted}"
            )
        return all(atom.op == "=" for atom in query.where[0])

    def dimensions(self, form: ItemForm) -> tuple[Dimension, ...]:
        return (*super().dimensions(form), *radii(form.radii.notify))

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": "SELECT y FROM t [WHERE key = :k | WHERE key IN (…)]",
            "notify": [
                '`{"change": r}`: from previous + r or previous - r on (a duration for dates and timestamps)',
                '`{"percent": p}`: the same with r = |previous| * p / 100',
                '`{"factor": f}`: from previous * f or previous / f on',
                '`{"may": r1, "must": r2}`: from r2 on, never below r1; between them where that makes fewer messages',
            ],
            "messages": [
                {
                    "name": "value",
                    "region": "ranges of radii with all labels, or one radius and arcs of its labels, at the item; "
                    "by name those whose radius was changed",
                    "payload": "the new value",
                },
                {
                    "name": "relaxed",
                    "region": "all radii up to the largest affected one, at the item",
                    "payload": "the new value; the edge applies the condition to the previous value",
                },
                {
                    "name": "item",
                    "region": "of many items: those last notified of the same value, by radius and by when they were added "
                    "if they select all rows, else and after a change of their radius by name",
                    "payload": "the key, the new value and the previous one",
                },
            ],
            "update": "replace the value by the message's",
            "transform": "the value, and the previous one",
            "rules": RULES.document(),
        }
