"""Filters: `SELECT * | columns FROM t WHERE …`, the stateless type.

Here the event is the point and the subscription the region: a message carries the codes of the row before and after the
event, and the network finds the filters that hold one of them ([Beretta]'s normal form, one `Extent` an attribute). All
filters of a table share one space, so an event is one message however many templates there are. Columns that no condition
looks at are the message's content, which a network may carry once for many events.

It loses where a result is large and changes with nearly every event: then every subscriber is notified of nearly all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import msgspec

from cn.model.geometry import Extent
from cn.model.message import Message
from prosem.language.resolve import column, normal_form
from prosem.language.syntax import Columns, Query, Star
from prosem.types.base import (
    Bound,
    Draft,
    Replay,
    Rows,
    Space,
    SpaceContext,
    SubscriptionType,
    described_columns,
    is_composed,
)
from prosem.types.filter.client_rules import RULES
from prosem.types.filter.message import row_change, row_draft, union
from prosem.types.filter.space import FilterSpace
from prosem.types.filter.words import in_words
from prosem.types.shared import rules
from prosem.types.shared.replay import FromLog, Stateless
from prosem.values.errors import LanguageError
from prosem.values.model import JsonObject, Key, Row, Table
from prosem.values.narrow_rows import answer_rows
from prosem.values.numerics import is_unconstrained
from prosem.values.wire import encode

Filters = tuple[dict[int, Extent], ...]


class FilterReplay(Stateless):
    """The outbox has only the numbers of the events that were sent; their rows are in the event log."""

    def remake(self, kind: str, table: Table, old: Row | None, new: Row | None) -> Draft:
        return row_draft(table, old, new, range(len(table.columns)))


_REPLAY, _FROM_LOG = FilterReplay(), FromLog()


@dataclass(frozen=True)
class FilterForm:
    """`columns`: positions of the selected columns; the key is always among them."""

    label: str
    query: Query
    table: Table
    columns: tuple[int, ...]
    type: str = "filter"

    @property
    def space_label(self) -> str:
        return f"ROWS OF {self.table.tenant}.{self.table.name!r}#{self.table.id}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)

    @property
    def attributes(self) -> tuple[int, ...]:
        return tuple(range(len(self.table.columns)))

    @property
    def replay(self) -> Replay:
        return _FROM_LOG if self._is_composed else _REPLAY

    @cached_property
    def _is_composed(self) -> bool:
        return is_composed(self)

    @property
    def folding(self) -> JsonObject:
        chosen = [self.table.columns[at] for at in self.columns]
        return {
            "key": list(self.table.primary_key),
            "columns": described_columns((one.name, one.type) for one in chosen),
        }

    @property
    def columns_read(self) -> frozenset[int]:
        conditions = [atom.column.name for conjunction in self.query.where for atom in conjunction]
        return frozenset(self.table.position[name] for name in conditions)

    def bind(self, params: Mapping[str, Any]) -> Bound:
        return Bound(b"", normal_form(self.query, self.table, params) or None)

    def open_space(self, space_id: int, context: SpaceContext) -> Space:
        return FilterSpace(self.table, space_id)

    def snapshot(self, space: Space, rows: Rows, bound: Bound) -> JsonObject:
        names, columns, key_of = self.table.names, self.columns, self.table.key_of
        found = select(self.table, rows, bound.place)
        whole = answer_rows(rows, map(key_of, found))
        if whole is not rows:
            found = [whole[key_of(row)] for row in found]
        return {"rows": [{names[at]: row[at] for at in columns} for row in found]}

    def difference(self, before: JsonObject, after: JsonObject) -> JsonObject | None:
        was, now = self._by_key(before), self._by_key(after)
        key = self.table.primary_key
        change = {
            "add": [row for identity, row in now.items() if identity not in was],
            "remove": [
                {name: row[name] for name in key} for identity, row in was.items() if identity not in now
            ],
            "update": [
                row for identity, row in now.items() if identity in was and self._differs(was[identity], row)
            ],
        }
        return change if any(change.values()) else None

    def _differs(self, was: JsonObject, now: JsonObject) -> bool:
        """Numerics of a view may have other decimals and still be the same number."""
        if was == now:
            return False
        return any(
            was[name] != value
            and not (
                is_unconstrained(self.table.columns[self.table.position[name]].type)
                and was[name] is not None
                and value is not None
                and Decimal(was[name]) == Decimal(value)
            )
            for name, value in now.items()
        )

    def _by_key(self, result: JsonObject) -> dict[bytes, JsonObject]:
        return {encode([row[name] for name in self.table.primary_key]): row for row in result["rows"]}

    def state(self, space: Space, bound: Bound) -> None:
        return None

    def change(self, messages: Sequence[Message], bound: Bound, state: None) -> tuple[bytes | None, None]:
        message = messages[-1]
        if message.kind != "row":
            return message.payload, None
        if self._is_composed and len(messages) > 1:
            changes = [self._change(message, bound) for message in messages]
            return union([change for change in changes if change is not None]), None
        return self._change(message, bound), None

    def _change(self, message: Message, bound: Bound) -> bytes | None:
        """What one message does to the answer."""
        assert message.attributes is not None
        was, now = (vector is not None and holds(bound.place, vector) for vector in message.attributes)
        return row_change(message.payload, message.contents, was, now, self.table, self.columns)

    def opening(self, snapshot: bytes, state: None) -> JsonObject:
        rows = rules.listed(snapshot)["rows"]
        return {"message": "state", "rows": [{"key": self._identity(row), "row": row} for row in rows]}

    def raw(self, messages: Sequence[Message], bound: Bound, change: bytes | None) -> list[JsonObject]:
        changed = {} if change is None else rules.listed(change)
        return [
            {"message": "row", "key": self._identity(row), "row": None if kind == "remove" else row}
            for kind in ("remove", "update", "add")
            for row in changed.get(kind, ())
        ]

    def place_in_words(self, bound: Bound) -> JsonObject:
        names, columns = self.table.names, self.table.columns
        return {
            "any": [
                {names[at]: in_words(extent, columns[at].type) for at, extent in filter.items()}
                for filter in bound.place or ()
            ]
        }

    def _identity(self, row: Mapping[str, msgspec.Raw]) -> str:
        return rules.identity(self.table, row)


def holds(filters: Filters | None, vector: Sequence[Any]) -> bool:
    """Whether one of the conjunctions admits the attribute vector."""
    return filters is not None and any(
        all(vector[at] in extent for at, extent in conjunction.items()) for conjunction in filters
    )


def select(table: Table, rows: Rows, filters: Filters | None) -> list[Row]:
    """The rows that satisfy the filters: by key where every conjunction fixes it, else by a scan."""
    if not filters:
        return []
    keys = _keys(table, rows, filters)
    candidates = rows.values() if keys is None else [rows[key] for key in keys]
    used = sorted({at for conjunction in filters for at in conjunction})
    types = {at: table.columns[at].type.encode for at in used}
    found = []
    for row in candidates:
        vector: dict[int, Any] = {}
        for at in used:
            value, encode = row[at], types[at]
            vector[at] = None if value is None else 0 if encode is None else encode(value)
        if any(all(vector[at] in extent for at, extent in conjunction.items()) for conjunction in filters):
            found.append(row)
    return found


def _keys(table: Table, rows: Rows, filters: Filters) -> list[Key] | None:
    """The existing keys the filters name, if each names one integer or text key by equality or IN."""
    if len(table.key_positions) != 1 or table.columns[table.key_positions[0]].type.name not in (
        "integer",
        "bigint",
    ):
        return None
    at = table.key_positions[0]
    keys: dict[Key, None] = {}
    for conjunction in filters:
        extent = conjunction.get(at)
        if extent is None or any(i.low is None or i.low != i.high for i in extent.intervals):
            return None
        keys |= {(i.low,): None for i in extent.intervals}
    return [key for key in keys if key in rows]


class FilterType(SubscriptionType):
    name = "filter"

    def recognise(
        self, query: Query, tables: Sequence[Table], notify: JsonObject | None
    ) -> FilterForm | None:
        selection = query.selection
        if len(tables) != 1 or not isinstance(selection, Star | Columns):
            return None
        table = tables[0]
        if isinstance(selection, Star):
            names = list(table.names)
        else:
            names = [column(query, table, name).name for name in selection.names]
            if len(set(names)) < len(names):
                raise LanguageError("a column is selected twice; name each column once")
            missing = [name for name in table.primary_key if name not in names]
            if missing:
                if len(names) == 1:
                    return None  # the shape of a value notification
                raise LanguageError(
                    f"the key column {', '.join(missing)} is not selected; rows are identified by their key, "
                    "so select it too, or use SELECT *"
                )
            aliased = next((item for item in selection.items if item.name != item.column.name), None)
            if aliased is not None:
                raise LanguageError(
                    f"the alias {aliased.alias} is not supported here: rows of a table have the names of its "
                    f"columns; select {aliased.column.name} itself"
                )
        for conjunction in query.where:
            for atom in conjunction:
                column(query, table, atom.column)
        shapes = sorted(
            " AND ".join(f"{atom.column.name!r} {atom.op} ?" for atom in conjunction) or "TRUE"
            for conjunction in query.where
        )
        columns = tuple(table.position[name] for name in names)
        what = "*" if isinstance(selection, Star) else ", ".join(map(repr, names))
        label = f"{what} FROM {table.tenant}.{table.name!r}#{table.id} WHERE {' OR '.join(shapes)}"
        return FilterForm(label, query, table, columns)

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "sql": "SELECT * | columns FROM t WHERE conditions joined by AND, and OR of such",
            "notify": [],
            "messages": [
                {
                    "name": "row",
                    "region": "filters that hold the row before or after the event",
                    "payload": "the row after the event and which columns changed; those no condition looks at apart",
                }
            ],
            "update": "add, replace or drop the row with the key of the message's row",
            "transform": "the selected columns of the rows held",
            "rules": RULES.document(),
        }
