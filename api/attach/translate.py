"""Messages of the source's log as events of the server, encoded as they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from api.attach.catalog import what_to_do
from api.attach.pgoutput import Cells, Changed, Relation, Truncated, Unchanged
from api.attach.source import SourceTable
from api.attach.values import NUMERIC_OID
from prosem.values.errors import SetupError

Event = dict[str, Any]


class Translation:
    """Invariant: an event is made only of a table that is exactly as it was when it was copied."""

    def __init__(self, tables: Sequence[SourceTable]) -> None:
        self._tables = {table.oid: table for table in tables}
        self._names = {(table.schema, table.name): table for table in tables}
        self._known: dict[int, tuple[SourceTable, list[int]]] = {}

    def relation(self, relation: Relation) -> None:
        """The source says what a table looks like; it does so again after the table was altered."""
        table = self._tables.get(relation.id)
        if table is None:
            other = self._names.get((relation.schema, relation.name))
            if other is not None:
                raise _altered(other, "is another table in the source now: it was dropped or renamed")
            return  # of a publication that has other tables too
        if (relation.schema, relation.name) != (table.schema, table.name):
            raise _altered(table, f"was renamed to {relation.schema}.{relation.name} in the source")
        places = {column.name: at for at, column in enumerate(relation.columns)}
        for column in table.columns:
            if column.name not in places:
                raise _altered(
                    table, f"has lost the column {column.name!r} in the source: dropped or renamed"
                )
            sent = relation.columns[places[column.name]]
            if sent.type != column.oid or (sent.type == NUMERIC_OID and sent.modifier != column.modifier):
                raise _altered(table, f"has another type in the source for the column {column.name!r}")
        found = [places[column.name] for column in table.columns]
        if found != sorted(found):
            raise _altered(table, "has columns in the source that have exchanged their names")
        key = {column.name for column in relation.columns if column.is_key}
        if relation.identity == "n" or (relation.identity != "f" and key != set(table.key)):
            raise _altered(table, "has another key in the source: its primary key or replica identity")
        self._known[relation.id] = table, found

    def events(self, message: Changed | Truncated) -> Iterator[bytes]:
        return map(msgspec.json.encode, self._events(message))

    def _events(self, message: Changed | Truncated) -> Iterator[Event]:
        if isinstance(message, Truncated):
            for number in message.relations:
                if number in self._known:
                    yield {"table": self._known[number][0].target, "op": "truncate"}
            return
        if message.relation not in self._known:
            return
        table, places = self._known[message.relation]
        if message.new is None:
            assert message.old is not None
            yield {"table": table.target, "op": "delete", "key": _key(table, places, message.old)}
            return
        row = _row(table, places, message.new)
        if message.op == "insert":
            yield {"table": table.target, "op": "insert", "row": row}
            return
        if message.old is None:  # the key is as it was
            key = {name: row[name] for name in table.key}
            changed = {name: value for name, value in row.items() if name not in key}
        else:
            key = _key(table, places, message.old)
            changed = {name: value for name, value in row.items() if name not in key or key[name] != value}
        yield {"table": table.target, "op": "update", "key": key, "set": changed}


def _altered(table: SourceTable, what: str) -> SetupError:
    return SetupError(f"{table.schema}.{table.name} {what}. {what_to_do(table.target)}")


def _row(table: SourceTable, places: Sequence[int], cells: Cells) -> dict[str, object]:
    """The values that were sent; what the update left as it was is not among them."""
    found = {}
    for column, place in zip(table.columns, places, strict=True):
        cell = cells[place]
        if not isinstance(cell, Unchanged):
            found[column.name] = table.value(column, cell)
    return found


def _key(table: SourceTable, places: Sequence[int], cells: Cells) -> dict[str, object]:
    row = {}
    for column, place in zip(table.columns, places, strict=True):
        cell = cells[place]
        if column.name in table.key:
            assert isinstance(cell, str), "a key is neither NULL nor left out"
            row[column.name] = table.value(column, cell)
    return row
