"""Value notification of many items: `SELECT y FROM t` and `… WHERE key IN (…)`; every row is an item of its own.

A subscription is the point (radius, birth): the birth numbers the moment at which it was added, when it was notified of
the current value of every item. What it was notified of since is a function of these two, so an item knows it for all
subscriptions at once, and nothing of a subscription is stored for each of its items. See `Epochs`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cn.model.message import Message
from prosem.language.resolve import conjunction
from prosem.types.base import MOVED, Bound, Replay, Rows, Space, SpaceContext
from prosem.types.shared import rules
from prosem.types.shared.ranges import STATELESS, topic_of
from prosem.types.value.items import ItemForm
from prosem.types.value.many_places import Selected
from prosem.types.value.many_space import ManySpace
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject
from prosem.values.wire import encode

MAX_KEYS = 10_000


@dataclass(frozen=True)
class ManyForm(ItemForm):
    """Of some items, or all."""

    @property
    def label(self) -> str:
        names = {atom.column.name for atom in self.query.where[0]}
        keys = " AND ".join(f"{name!r} IN (?)" for name in self.items.table.primary_key if name in names)
        return f"{self._column} BY {self.radii.name}{self._source} WHERE {keys or 'TRUE'}"

    @property
    def space_label(self) -> str:
        return f"VALUES OF {self._column} BY {self.items.form}{self._source}, MANY"

    def bind(self, params: Mapping[str, Any]) -> Bound:
        """What is selected; where it stands is the space's to say."""
        radius = self.radii.radius(params)
        if not self.query.where[0]:
            return Bound(b"", Selected(None, radius))
        extents = conjunction(self.query.where[0], self.items.table, params, self.query.sql)
        if extents is None:
            return Bound(b"", Selected((), radius))
        codes = [
            [interval.low for interval in extents[at].intervals] for at in self.items.table.key_positions
        ]
        if math.prod(map(len, codes)) > MAX_KEYS:
            raise LanguageError(
                f"at most {MAX_KEYS} keys can be listed; leave the condition out for all rows"
            )
        topics = (topic_of(list(key)) for key in itertools.product(*codes))
        return Bound(b"", Selected(tuple(dict.fromkeys(topics)), radius))

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return ManySpace(self.items, space_id, context.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        return {"items": cast(ManySpace, space).last_notified(bound)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """The items whose values differ: one as it is sent after an event, several as a list."""
        was = {encode(item["key"]): item for item in before["items"]}
        now = {encode(item["key"]): item for item in after["items"]}
        changes = []
        for key in was | now:
            item = now.get(key) or was[key]
            value, previous = (side[key]["value"] if key in side else None for side in (now, was))
            if value != previous:
                changes.append({"key": item["key"], "value": value, "previous": previous})
        if len(changes) > 1:
            return {"items": changes}
        return changes[0] if changes else None

    def state(self, space: Space, bound: Bound) -> None:
        return None

    def change(self, messages: Sequence[Message], bound: Bound, state: None) -> tuple[bytes | None, None]:
        if len(messages) == 1 or messages[-1].kind == MOVED:
            return messages[-1].payload, None
        return b'{"items":[%b]}' % b",".join([message.payload for message in messages]), None

    @property
    def replay(self) -> Replay:
        return STATELESS

    def place_in_words(self, bound: Bound) -> JsonObject:
        return {}

    def opening(self, snapshot: bytes, state: None) -> JsonObject:
        return {"message": "state", **rules.fields(snapshot)}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        items = [message for message in messages if message.kind == "item"]
        return [{"message": "item", **rules.fields(message.payload)} for message in items]
