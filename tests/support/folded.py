"""A space with subscriptions at an edge of its own: events become messages, messages changes, and changes are folded.

For tests of subscription types without a server. Every step is checked: a subscription is notified if and only if its
answer differs, once, and the folded answer is the one that the space would give. States are packed and unpacked on the way,
as for an edge in another process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cn.model.message import Message
from cn.networks.local import LocalNetwork
from prosem.language.syntax import Query
from prosem.types.base import MOVED, SID_MASK, Bound, Form, PackedForm, SpaceContext, placements
from prosem.types.registry import recognise
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, JsonObject, Key, Row, Table
from prosem.values.wire import decode, encode

Selects = Callable[[JsonObject, Mapping[str, Any]], bool]  # whether a row is selected with these parameters
Answer = Callable[[list[JsonObject], Mapping[str, Any]], JsonObject]  # what is expected of the rows selected


def table_of(columns: Mapping[str, str], key: Sequence[str] = ("k",), kind: type[Table] = Table) -> Table:
    made = tuple(Column(name, column_type(type_)) for name, type_ in columns.items())
    return kind(7, "t", made, tuple(key))


def plain(answer: JsonObject) -> Any:
    """An answer as it compares: the row of a MIN is any that attains it, rows and groups come in any order."""
    for name in ("rows", "groups"):
        if name in answer:
            return sorted(map(repr, answer[name]))
    return answer.get("value", answer.get("values", answer.get("columns")))


def folded(answer: JsonObject, change: JsonObject, key: Sequence[str]) -> JsonObject:
    """The answer after a change."""
    if "values" in answer:
        for value in change["remove"]:
            assert value in answer["values"]
        kept = [value for value in answer["values"] if value not in change["remove"]]
        assert not [value for value in change["add"] if value in kept]
        return {"values": sorted([*kept, *change["add"]], key=lambda value: (value is None, value))}
    for name in ("rows", "groups"):
        if name in answer:
            held = {encode([row[at] for at in key]): row for row in answer[name]}
            for row in change["remove"]:
                del held[encode([row[at] for at in key])]
            for row in change["update"]:
                assert held[encode([row[at] for at in key])] != row
            for row in change["add"]:
                assert encode([row[at] for at in key]) not in held
            held |= {encode([row[at] for at in key]): row for row in (*change["add"], *change["update"])}
            return {name: list(held.values())}
    return change


class FoldedSpace:
    """`key`: the names by which rows or groups of the answers are found again. Plans are chosen at random by `seed`."""

    def __init__(
        self,
        query: Query,
        table: Table,
        rows: Mapping[Key, Row],
        selects: Selects,
        answer: Answer,
        key: Sequence[str] = ("k",),
        seed: int = 0,
        max_boxes: int = 128,
    ) -> None:
        self.form: Form = recognise(query, [table], None)
        self.table, self.rows, self._key = table, dict(rows), key
        self._selects, self._answer = selects, answer
        self._chance = random.Random(seed)
        self._bounds: dict[int, Bound] = {}
        self._params: dict[int, Mapping[str, Any]] = {}
        self.answers: dict[int, JsonObject] = {}
        self._states: dict[int, Any] = {}
        self._ids: dict[int, list[int]] = {}
        self._seq = 0
        self._folding: dict[int, list[Message]] = {}
        context = SpaceContext((self.rows,), self._bounds.__getitem__, max_boxes)
        self.space = self.form.open_space(1, context)
        self._network = LocalNetwork(self._deliver, lambda seq: None)

    # -- subscriptions -------------------------------------------------------------------------------------------
    def subscribe(self, sid: int, params: Mapping[str, Any]) -> None:
        bound = self.form.bind(params)
        self._bounds[sid], self._params[sid] = bound, params
        self.space.add([sid], [bound])
        self.answers[sid] = self._snapshot(bound)
        self._place(sid, bound)

    def move(self, sid: int, params: Mapping[str, Any]) -> None:
        before, after = self._bounds[sid], self.form.bind(params)
        was = self._snapshot(before)
        self._bounds[sid], self._params[sid] = after, params
        self.space.move(sid, before, after)
        self._place(sid, after)
        change = self.form.difference(was, self._snapshot(after))
        if change is not None:
            self._seq += 1
            moved = Message(self._seq, 0, 1, MOVED, targets=(sid,), payload=encode(change))
            body, self._states[sid] = self.form.change([moved], after, self._states[sid])
            assert body == moved.payload
            self._fold(sid, body)
        self.check(sid)

    def remove(self, sid: int) -> None:
        self.space.remove(sid, self._bounds.pop(sid))
        for id in self._ids.pop(sid):
            self._network.remove(id)
        del self.answers[sid], self._states[sid], self._params[sid]

    def _place(self, sid: int, bound: Bound) -> None:
        before, self._ids[sid] = self._ids.get(sid, []), []
        for id, topic, place in placements(sid, bound):
            self._network.register(self.space.network, id, topic, place)
            self._ids[sid].append(id)
        for id in set(before) - set(self._ids[sid]):
            self._network.remove(id)
        self._states[sid] = self.form.state(self.space, bound)

    def _snapshot(self, bound: Bound) -> JsonObject:
        made: JsonObject = decode(encode(self.form.snapshot(self.space, self.rows, bound)))
        return made

    # -- events --------------------------------------------------------------------------------------------------
    def apply(self, changes: Sequence[tuple[Key, Row | None]]) -> None:
        """Several deltas of one seq, of different keys."""
        self._seq += 1
        deltas = []
        for key, new in changes:
            old = self.rows.get(key)
            if encode(old) != encode(new):
                deltas.append(Delta(self._seq, self.table, key, old, new))
        for delta in deltas:
            if delta.new is None:
                del self.rows[delta.key]
            else:
                self.rows[delta.key] = delta.new
        part = 0
        for outcome in self.space.take(deltas, lambda space, _: self._chance.choice(space.plans)):
            for draft in outcome.drafts:
                message = Message(self._seq, part, 1, *draft)
                assert message.targets is None or message.region == ()
                assert self._network.covers(message), "a message matches a subscription"
                self._network.inject(message)
                part += 1
        folding, self._folding = self._folding, {}
        for sid, messages in folding.items():
            state = self._states[sid]
            if isinstance(self.form, PackedForm):
                state = self.form.unpack_state(self.form.pack_state(state))
                assert state == self._states[sid]
            body, self._states[sid] = self.form.change(messages, self._bounds[sid], state)
            if body is not None:
                self._fold(sid, body)
        for sid in self.answers:
            self.check(sid)

    def _deliver(self, message: Message, ids: Any) -> None:
        for id in ids if isinstance(ids, Sequence) else ids.tolist():
            self._folding.setdefault(id & SID_MASK, []).append(message)

    def _fold(self, sid: int, body: bytes) -> None:
        change = decode(body)
        after = folded(self.answers[sid], change, self._key)
        assert plain(after) != plain(self.answers[sid]), f"a change that changes nothing: {change}"
        assert self.form.difference(self.answers[sid], after) is not None
        self.answers[sid] = after
        if change.get("row") is not None:
            assert change["row"] in decode(encode(self._selected(sid))), "a row that is not there"

    def _selected(self, sid: int) -> list[JsonObject]:
        named = [dict(zip(self.table.names, row, strict=True)) for row in self.rows.values()]
        return [row for row in named if self._selects(row, self._params[sid])]

    def check(self, sid: int) -> None:
        """The folded answer is the expected one, and so is that of the space."""
        expected = self._answer(self._selected(sid), self._params[sid])
        folded, fresh = self.answers[sid], self._snapshot(self._bounds[sid])
        assert plain(folded) == plain(fresh) == plain(decode(encode(expected))), (sid, self._params[sid])
        if fresh.get("row") is not None:
            assert fresh["row"] in decode(encode(self._selected(sid)))
            assert fresh["row"][self.form.query.selection.column.name] == fresh["value"]  # type: ignore[union-attr]
