"""Top-k: `SELECT cols FROM t [WHERE …] ORDER BY y [ASC|DESC] [NULLS FIRST|LAST] LIMIT k`, at most one range, `=` and IN.

Rows are ranked by y and then by their key, so that the order is total. The edge holds the first k rows of a subscription
and is notified which row comes in or goes out; a change is the difference of the ordered lists before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from cn.model.message import Message
from prosem.language.resolve import column
from prosem.language.syntax import Query, TopK
from prosem.types.base import MOVED, Bound, Replay, Rows, Space, SpaceContext, SubscriptionType
from prosem.types.shared.narrowed import RangeReplay
from prosem.types.shared.ranges import Codes, RangeForm, Ranges, recognise_ranges
from prosem.types.top_k.client_rules import RULES
from prosem.types.top_k.shape import TopKShape
from prosem.types.top_k.space import TopKSpace
from prosem.types.top_k.state import Held, TopKFold
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject, Table
from prosem.values.wire import decode, encode


@dataclass(frozen=True)
class TopKForm(RangeForm):
    query: Query
    top: TopKShape
    type: str = "top-k"

    @property
    def shape(self) -> Ranges:  # type: ignore[override]
        return self.top.ranges

    @cached_property
    def label(self) -> str:
        top, names = self.top, self.shape.table.names
        what = ", ".join(
            f"{names[at]!r} AS {name!r}" for at, name in zip(top.columns, top.names, strict=True)
        )
        order = f"{names[top.y]!r} {'DESC' if top.is_descending else 'ASC'} NULLS {'FIRST' if top.nulls_first else 'LAST'}"
        return f"{what} FROM {self.shape.source()}{self.shape.where()} ORDER BY {order} LIMIT {top.count}"

    @property
    def folding(self) -> JsonObject:
        return self.top.folding

    @cached_property
    def replay(self) -> Replay:
        return RangeReplay(self.shape.table, self.shape.ranged)

    @cached_property
    def fold(self) -> TopKFold:
        return TopKFold(self.top)

    @property
    def columns_read(self) -> frozenset[int]:
        return self.top.reads

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return TopKSpace(self.top, space_id, context)

    # -- answers ---------------------------------------------------------------------------------------------------
    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        return self.top.result(self.fold.answer(self.state(space, bound)))

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        return self.top.change(self.top.read_rows(before), self.top.read_rows(after))

    def state(self, space: Space, bound: Bound) -> Held:
        opened = cast(TopKSpace, space)
        return {topic: opened.first(topic, cast(Codes, bound.place)) for topic in bound.topics}

    def change(self, messages: Sequence[Message], bound: Bound, state: Held) -> tuple[bytes | None, Held]:
        if messages[-1].kind == MOVED:  # the state came with the move
            return messages[-1].payload, state
        assert bound.place is not None, "a message concerns a place"
        after = self.fold.apply(state, messages, bound.place)
        change = self.top.change(self.fold.answer(state), self.fold.answer(after))
        return (None if change is None else encode(change)), after

    def pack_state(self, state: Held) -> bytes:
        return self.fold.pack(state)

    def unpack_state(self, packed: bytes) -> Held:
        return self.fold.unpack(packed)

    # -- raw streams -----------------------------------------------------------------------------------------------
    def opening(self, snapshot: bytes, state: Held | None) -> JsonObject:
        return {"message": "state", "rows": list(map(self._ranked, decode(snapshot)["rows"]))}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        changed = {} if change is None else decode(change)
        gone = [
            {"message": "row", "key": self._identity(key), "row": None} for key in changed.get("remove", ())
        ]
        rows = [*changed.get("update", ()), *changed.get("add", ())]
        return gone + [{"message": "row", **self._ranked(row)} for row in rows]

    def _ranked(self, row: JsonObject) -> JsonObject:
        rank, values = self.top.read([row[name] for name in self.top.names])
        return {"key": self.top.identity(values), "rank": rank.hex(), "row": row}

    def _identity(self, key: JsonObject) -> str:
        return self.top.identity(self.top.read([key.get(name) for name in self.top.names])[1])


class TopKType(SubscriptionType):
    name = "top-k"

    def recognise(self, query: Query, tables: Sequence[Table], notify: JsonObject | None) -> TopKForm | None:
        selection = query.selection
        if not isinstance(selection, TopK) or len(tables) != 1:
            return None
        table = tables[0]
        selected = [column(query, table, item.column).name for item in selection.items]
        y = column(query, table, selection.order)
        if not y.type.ordered:
            raise LanguageError(f"ORDER BY needs an ordered column, and {y.name} is {y.type.name}")
        _check_selected(selected, [item.name for item in selection.items], table, y.name)
        ranges = recognise_ranges(query, table)
        if len(ranges.ranged) > 1:
            names = ", ".join(table.names[at] for at in ranges.ranged)
            raise LanguageError(
                f"ORDER BY … LIMIT takes one range, not one on each of {names}; equality and IN on the others are fine"
            )
        shape = TopKShape(
            ranges,
            tuple(table.position[name] for name in selected),
            tuple(item.name for item in selection.items),
            table.position[y.name],
            selection.is_descending,
            selection.nulls_first,
            selection.limit,
        )
        return TopKForm(query, shape)

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": "SELECT key, y, … FROM t [WHERE x BETWEEN :lo AND :hi] [AND e = :c | e IN :list …] "
            "ORDER BY y [ASC|DESC] [NULLS FIRST|LAST] LIMIT k",
            "notify": [],
            "messages": [
                {
                    "name": "put",
                    "region": "ranges that have the row among their first k after the event",
                    "payload": "the selected columns of the row, and the rank it had",
                },
                {
                    "name": "take",
                    "region": "ranges that had the row among their first k, and have it no more",
                    "payload": "the rank it had, and the rows that may come in for it, by rank",
                },
            ],
            "update": "replace the row, or take it out and add the first in the range of those that may come in",
            "transform": "the rows by rank, at most k",
            "rules": RULES.document(),
        }


def _check_selected(selected: Sequence[str], names: Sequence[str], table: Table, y: str) -> None:
    """The key identifies rows and y orders them, so an answer has both; each column once."""
    for what in (selected, names):
        if twice := [name for at, name in enumerate(what) if name in what[:at]]:
            raise LanguageError(f"{twice[0]} is selected twice; name each column once")
    missing = [name for name in table.primary_key if name not in selected]
    if missing:
        raise LanguageError(
            f"the key column {', '.join(missing)} is not selected; the key identifies rows and orders ties, "
            "so select it too"
        )
    if y not in selected:
        raise LanguageError(
            f"the column {y} of ORDER BY is not selected; answers are sorted by it, so select it too"
        )
