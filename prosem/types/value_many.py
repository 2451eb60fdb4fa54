"""Value notification of many items: `SELECT y FROM t` and `… WHERE key IN (…)`; every row is an item of its own.

A subscription has another told value for each item, and so no one place in a space: an event's messages name whom they
concern, one message for each value that was told before. It carries the whole change, so the edge holds no state.

An event looks at every subscription that selects its row, O(N): it loses to subscriptions of single items, which trees
hold, where many thousands select the same rows. A new subscription takes a step for each of its rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import msgspec

from cn.message import Message
from cn.networks.base import Space as NetworkSpace
from prosem.errors import LanguageError
from prosem.index.ba_tree_ends import Radius
from prosem.language.resolve import conjunction
from prosem.model import Delta, JsonObject, Mark
from prosem.types.base import Bound, Draft, Rows, Space, Surroundings
from prosem.types.ranges import topic_of
from prosem.types.value_space import ItemForm, Items
from prosem.wire import decode, encode

MAX_KEYS = 10_000


class Selected(NamedTuple):
    """The items of a subscription (None: all), by the codes of their keys, and its radius."""

    topics: tuple[bytes, ...] | None
    radius: Radius


class Told(NamedTuple):
    """An event on an item: its key, the new value, and who was told each of the values before."""

    topic: bytes
    value: Any
    before: list[tuple[Any, list[int]]]


@dataclass(frozen=True)
class ManyForm(ItemForm):
    """Of some items, or all."""

    @property
    def label(self) -> str:
        names = {atom.column.name for atom in self.query.where[0]}
        keys = " AND ".join(f"{name!r} IN (?)" for name in self.items.table.primary_key if name in names)
        return f"{self._column} BY {self.notify}{self._source} WHERE {keys or 'TRUE'}"

    @property
    def space_label(self) -> str:
        return f"VALUES OF {self._column} BY {self.items.form}{self._source}, MANY"

    def bind(self, params: Mapping[str, Any]) -> Bound:
        """What is selected; where it stands is the space's to say."""
        if not self.query.where[0]:
            return Bound(b"", Selected(None, self.radius))
        extents = conjunction(self.query.where[0], self.items.table, params, self.query.sql)
        if extents is None:
            return Bound(b"", Selected((), self.radius))
        codes = [
            [interval.low for interval in extents[at].intervals] for at in self.items.table.key_positions
        ]
        if math.prod(map(len, codes)) > MAX_KEYS:
            raise LanguageError(
                f"at most {MAX_KEYS} keys can be listed; leave the condition out for all rows"
            )
        topics = (topic_of(list(key)) for key in itertools.product(*codes))
        return Bound(b"", Selected(tuple(topics), self.radius))

    def open_space(self, space_id: int, surroundings: Surroundings) -> Space:
        return ManySpace(self.items, space_id, surroundings.rows[0])

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        return {"items": cast(ManySpace, space).told(bound)}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        """The items whose values differ: one as it is told after an event, several as a list."""
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
        return messages[-1].payload, None


class ManySpace:
    """For each item that has a value: who selects it, and what each was told."""

    plans: ClassVar[tuple[str, ...]] = ("enumerate",)

    def __init__(self, items: Items, space_id: int, rows: Rows) -> None:
        self.network = NetworkSpace(space_id, 2, True)
        self._kind, self._rows = items, rows
        self._ends = None if items.measure is None else items.measure.ends(items.form)
        self._selected: dict[int, Selected] = {}
        self._of_all: dict[int, None] = {}  # those that select every row
        self._of_topic: dict[bytes, dict[int, None]] = {}  # the others
        self._told: dict[bytes, dict[int, Any]] = {}
        self.visits = 0

    # -- subscriptions -------------------------------------------------------------------------------------------
    def add(self, sids: Sequence[int], bounds: Sequence[Bound]) -> None:
        for sid, bound in zip(sids, bounds, strict=True):
            self._select(sid, bound.place)
            for topic, number in self._present(bound.place):
                self._told.setdefault(topic, {})[sid] = number

    def _select(self, sid: int, selected: Any) -> None:
        self._selected[sid] = selected
        if selected.topics is None:
            self._of_all[sid] = None
        else:
            for topic in selected.topics:
                self._of_topic.setdefault(topic, {})[sid] = None

    def _present(self, selected: Any) -> list[tuple[bytes, Any]]:
        """The selected items that have a value."""
        kind, rows = self._kind, self._rows
        if selected.topics is None:
            found = [(kind.topic(key), kind.number(row)) for key, row in rows.items()]
        else:
            found = [(topic, kind.number(rows.get(kind.key(topic)))) for topic in selected.topics]
        return [(topic, number) for topic, number in found if number is not None]

    def move(self, sid: int, before: Bound, after: Bound) -> None:
        self.remove(sid, before)
        self.add([sid], [after])

    def remove(self, sid: int, bound: Bound) -> None:
        topics = self._selected.pop(sid).topics
        for topic in list(self._told) if topics is None else topics:
            for held in (self._told, self._of_topic):
                members: Any = held.get(topic)
                if members is not None and sid in members:
                    del members[sid]
                    if not members:
                        held.pop(topic)
        self._of_all.pop(sid, None)

    def told(self, bound: Bound) -> list[JsonObject]:
        """The items of a subscription with what it was told; of a mere selection with their present values."""
        if bound.place is not None:
            found = dict(self._present(bound.place))
        else:
            found = self._told_to(int(bound.topic))
        names, kind = self._kind.table.primary_key, self._kind
        return [
            {"key": dict(zip(names, kind.key(topic), strict=True)), "value": kind.value(found[topic])}
            for topic in sorted(found, key=decode)
        ]

    def _told_to(self, sid: int) -> dict[bytes, Any]:
        topics = self._selected[sid].topics
        return {
            topic: self._told[topic][sid]
            for topic in (self._told if topics is None else topics)
            if sid in self._told.get(topic, ())
        }

    # -- marks ---------------------------------------------------------------------------------------------------
    def locate(self, sid: int) -> Bound:
        """Nowhere: messages name it. The topic says who it is."""
        return Bound(b"%d" % sid, None)

    def mark(self, sid: int) -> Mark:
        told = {
            topic.decode(): msgspec.Raw(encode(self._kind.value(number)))
            for topic, number in self._told_to(sid).items()
        }
        return Mark(b"", None, items=told)

    def relabelled(self) -> list[int]:
        return []

    def restore(self, sids: Sequence[int], bounds: Sequence[Bound], marks: Sequence[Mark]) -> None:
        for sid, bound, mark in zip(sids, bounds, marks, strict=True):
            self._select(sid, bound.place)
            for topic, told in (mark.items or {}).items():
                self._told.setdefault(topic.encode(), {})[sid] = self._kind.read(bytes(told))

    # -- events --------------------------------------------------------------------------------------------------
    def step(self, delta: Delta) -> Told | None:
        if not self._selected:
            return None
        topic, number = self._kind.topic(delta.key), self._kind.number(delta.new)
        members = self._told.get(topic)
        if members is None:
            if number is None:
                return None
            fired: dict[int, Any] = dict.fromkeys([*self._of_all, *self._of_topic.get(topic, ())])
            members = self._told[topic] = {}
        elif number is None:
            fired = self._told.pop(topic)
        else:
            fired = {sid: told for sid, told in members.items() if self._fires(sid, told, number)}
        if not fired:
            if not members:
                self._told.pop(topic, None)
            return None
        self.visits += len(members)
        if number is not None:
            members.update(dict.fromkeys(fired, number))
        before: dict[Any, list[int]] = {}
        for sid, told in fired.items():
            before.setdefault(encode(self._kind.value(told)), []).append(sid)
        value = None if delta.new is None else delta.new[self._kind.y]
        return Told(topic, value, list(before.items()))

    def _fires(self, sid: int, told: Any, number: Any) -> bool:
        if self._ends is None:
            return bool(told != number)
        radius = self._selected[sid].radius
        return bool(number >= self._ends.right(told, radius) or number <= self._ends.left(told, radius))

    def messages(self, description: Told, plan: str) -> list[Draft]:
        topic, value, before = description
        key = encode(dict(zip(self._kind.table.primary_key, self._kind.key(topic), strict=True)))
        now = encode(value)
        return [
            Draft(
                "item",
                topic,
                targets=tuple(sids),
                payload=b'{"key":%b,"value":%b,"previous":%b}' % (key, now, previous),
            )
            for previous, sids in before
        ]

    def check(self) -> None:
        """The invariants, in O(N): exactly the selected items that have a value were told."""
        for sid, selected in self._selected.items():
            assert set(self._told_to(sid)) == {topic for topic, _ in self._present(selected)}
        assert all(self._told.values()), "no item without a subscription"
        assert {sid for members in self._told.values() for sid in members} <= set(self._selected)
