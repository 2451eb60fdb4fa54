"""Input becomes values: table definitions and events. Nothing here changes anything.

An error points at the first bad value by JSON pointer, relative to the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET

from prosem.engine.effect import Effect
from prosem.engine.sizes import MAX_KEY_BYTES, MAX_ROW_BYTES, SAFE_COLUMNS, key_bytes, row_bytes
from prosem.engine.table_request import (
    COLUMNS_EXPECTED,
    KEY_EXPECTED,
    NewColumn,
    NewTable,
    no_column,
    no_parent,
)
from prosem.engine.typed_events import TypedEvents
from prosem.values.columns import Value, check_text, column_type
from prosem.values.errors import ConflictError, InputError, NotFoundError, pointer
from prosem.values.model import DEFAULT_TENANT, Column, Key, Row, Table, View
from prosem.values.request_model import read

MAX_COLUMNS = 400  # a row of toasted values must fit PostgreSQL's 8 kB page
MAX_NAME_BYTES = 63
_MISSING = object()


# -- tables --------------------------------------------------------------------------------------------------------
def table_definition(
    body: Any, table_id: int = 0, tables: Mapping[str, Table] | None = None, tenant: str = DEFAULT_TENANT
) -> Table:
    """The table that the body of POST /v1/tables describes; `tables` are those it may extend."""
    given = read(NewTable, body)
    name, described = identifier(given.name, "/name"), given.columns
    parent = None if given.extends is None else (tables or {}).get(given.extends)
    if given.extends is not None and parent is None:
        raise InputError(no_parent(given.extends), "/extends")
    if not described and parent is None:
        raise InputError(COLUMNS_EXPECTED, "/columns")
    columns = {column.name: column for column in parent.columns} if parent else {}
    if len(described) + len(columns) > MAX_COLUMNS:
        raise InputError(
            f"a table has at most {MAX_COLUMNS} columns, not {len(described)}; use jsonb for the rest",
            "/columns",
        )
    own: set[str] = set()
    for at, item in enumerate(described):
        column = _column(item, pointer("columns", at))
        inherited = columns.get(column.name)
        if column.name in own or (inherited is not None and inherited.type != column.type):
            raise InputError(f"the column {column.name!r} is defined twice", pointer("columns", at, "name"))
        own.add(column.name)
        columns.setdefault(column.name, column)
    if parent is not None:
        if given.primary_key is not UNSET and given.primary_key != list(parent.primary_key):
            raise InputError(
                f"the key is that of {parent.name!r}: {', '.join(parent.primary_key)}", "/primary_key"
            )
        return Table(table_id, name, tuple(columns.values()), parent.primary_key, tenant, parent)
    if given.primary_key is UNSET:
        raise InputError(KEY_EXPECTED, "/primary_key")
    key = _primary_key(given.primary_key, columns)
    for name_ in key:
        columns[name_] = Column(name_, columns[name_].type, nullable=False)
    return Table(table_id, name, tuple(columns.values()), key, tenant)


def _column(given: NewColumn, at: str) -> Column:
    name = identifier(given.name, at + "/name")
    try:
        return Column(name, column_type(given.type), given.nullable)
    except ValueError as error:
        raise InputError(str(error), at + "/type") from None


def _primary_key(names: Sequence[str], columns: Mapping[str, Column]) -> tuple[str, ...]:
    for at, name in enumerate(names):
        if name not in columns:
            raise InputError(no_column(name), pointer("primary_key", at))
        if not columns[name].type.ordered:
            raise InputError(
                f"a column of type {columns[name].type.name} cannot be in a key", pointer("primary_key", at)
            )
    if len(set(names)) < len(names):
        raise InputError("a column is named twice", "/primary_key")
    if len(names) > 32:
        raise InputError("a key has at most 32 columns", "/primary_key")
    return tuple(names)


def identifier(name: Any, at: str) -> str:
    """A name that PostgreSQL can hold whole."""
    if not isinstance(name, str) or not name:
        raise InputError("expected a name", at)
    try:
        check_text(name)
    except ValueError as error:
        raise InputError(str(error).replace("a text", "a name"), at) from None
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InputError(f"a name has at most {MAX_NAME_BYTES} bytes, this one has {len(name.encode())}", at)
    return name


# -- events --------------------------------------------------------------------------------------------------------
def effects(
    table: Table,
    rows: Mapping[Key, Row],
    events: Sequence[Any],
    at: str = "/events",
    family: Mapping[Key, Row] | None = None,
) -> list[Effect]:
    """What the events do to the rows one after the other; raises at the first that is wrong, so all count or none.

    `family` holds the keys of all tables that this one extends or that extend it.
    """
    if isinstance(events, TypedEvents) and events.table is table and family is None:
        typed = events.effects(rows)
        if typed is not None:
            return typed
    overlay: dict[Key, Row | None] = {}
    found = []
    for number, event in enumerate(events):
        try:
            one = _effect(table, rows, overlay, event, family)
        except (InputError, ConflictError) as error:
            raise error.moved(f"{at}/{number}") from None
        overlay[one.key] = one.new
        found.append(one)
    return found


def effect(
    table: Table,
    rows: Mapping[Key, Row],
    event: Any,
    at: str,
    family: Mapping[Key, Row] | None = None,
    overlay: Mapping[Key, Row | None] = MappingProxyType({}),
) -> Effect:
    """What a single event does to the rows, with `overlay` lying over them."""
    try:
        return _effect(table, rows, overlay, event, family)
    except (InputError, ConflictError) as error:
        raise error.moved(at) from None


def _effect(
    table: Table,
    rows: Mapping[Key, Row],
    overlay: Mapping[Key, Row | None],
    event: Any,
    family: Mapping[Key, Row] | None,
) -> Effect:
    found = _own_effect(table, rows, overlay, event)
    if family is not None and found.old is None and found.key in family and found.key not in rows:
        where = "a table that this one extends, or that extends it"
        raise ConflictError(f"a row with the key {_show(table, found.key)} exists in {where}", "")
    return found


def _own_effect(
    table: Table, rows: Mapping[Key, Row], overlay: Mapping[Key, Row | None], event: Any
) -> Effect:
    if not isinstance(event, dict):
        raise InputError('expected an event like {"op": "insert", "row": {…}}', "")
    op = event.get("op")
    if op in ("insert", "upsert"):
        _only(event, ("op", "row"))
        new = _row(table, event.get("row"))
        key = sized(table, table.key_of(new), new)
        old = _current(key, rows, overlay)
        if old is not None and op == "insert":
            raise ConflictError(f"a row with the key {_show(table, key)} exists; use upsert or update", "")
        return Effect(op, key, old, new)
    if op == "update":
        _only(event, ("op", "key", "set"))
        key = _key(table, event.get("key"))
        cells = _cells(table, event.get("set"), key)
        old = _existing(table, key, rows, overlay, op)
        changed = list(old)
        for position, value in cells:
            changed[position] = value
        new = tuple(changed)
        check_row(table, new, "/set")
        return Effect(op, key, old, new)
    if op == "delete":
        _only(event, ("op", "key"))
        key = _key(table, event.get("key"))
        return Effect(op, key, _existing(table, key, rows, overlay, op), None)
    if "op" not in event:
        raise InputError('"op" is missing; it is insert, upsert, update or delete', "/op")
    raise InputError(f"unknown op {op!r}; it is insert, upsert, update or delete", "/op")


def _only(event: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if len(event) > len(names) or any(name not in names for name in event):
        extra = next(name for name in event if name not in names)
        raise InputError(
            f"unknown member {extra!r}; an event of this op has {', '.join(names)}", pointer(extra)
        )


def _current(key: Key, rows: Mapping[Key, Row], overlay: Mapping[Key, Row | None]) -> Row | None:
    row = overlay.get(key, _MISSING)
    return rows.get(key) if row is _MISSING else row  # type: ignore[return-value]


def _existing(
    table: Table, key: Key, rows: Mapping[Key, Row], overlay: Mapping[Key, Row | None], op: str
) -> Row:
    row = _current(key, rows, overlay)
    if row is None:
        raise ConflictError(f"there is no row with the key {_show(table, key)} to {op}", "")
    return row


def _row(table: Table, given: Any) -> Row:
    if not isinstance(given, dict):
        raise InputError("expected an object with a value for each column", "/row")
    get, out, present = given.get, [], 0
    for column in table.columns:
        value = get(column.name, _MISSING)
        if value is _MISSING:
            value = None
        else:
            present += 1
        out.append(_value(column, value, "/row"))
    if present < len(given):
        unknown = next(name for name in given if name not in table.position)
        raise InputError(f"unknown column {unknown!r} of table {table.name!r}", pointer("row", unknown))
    return tuple(out)


def _value(column: Column, value: Any, at: str) -> Value:
    if value is None:
        if column.nullable:
            return None
        raise InputError(f"the column {column.name!r} cannot be NULL", at + pointer(column.name))
    try:
        return column.type.read(value)
    except ValueError as error:
        raise InputError(str(error), at + pointer(column.name)) from None


def _key(table: Table, given: Any) -> Key:
    if not isinstance(given, dict):
        raise InputError("expected an object with the key's columns", "/key")
    for name in given:
        if name not in table.primary_key:
            raise InputError(
                f"{name!r} is no key column; the key is {', '.join(table.primary_key)}", pointer("key", name)
            )
    out = []
    for name in table.primary_key:
        if name not in given:
            raise InputError(f"the key column {name!r} is missing", "/key")
        out.append(_value(table.columns[table.position[name]], given[name], "/key"))
    return tuple(out)


def _cells(table: Table, given: Any, key: Key) -> list[tuple[int, Value]]:
    if not isinstance(given, dict):
        raise InputError("expected an object with the columns to change", "/set")
    cells = []
    for name, value in given.items():
        position = table.position.get(name)
        if position is None:
            raise InputError(f"unknown column {name!r} of table {table.name!r}", pointer("set", name))
        read = _value(table.columns[position], value, "/set")
        if name in table.primary_key and read != key[table.primary_key.index(name)]:
            raise InputError(
                "a key cannot be changed; delete the row and insert another", pointer("set", name)
            )
        cells.append((position, read))
    return cells


def sized(table: Table, key: Key, row: Row, at: str = "/row") -> Key:
    """The key, if PostgreSQL can hold it in an index, and the row in a page."""
    size_bytes = key_bytes(key)
    if size_bytes > MAX_KEY_BYTES:
        name = max(zip(table.primary_key, key, strict=True), key=lambda item: key_bytes((item[1],)))[0]
        raise InputError(
            f"the key takes {size_bytes} bytes in its index, and at most {MAX_KEY_BYTES} fit; use a shorter one, "
            "or a digest of it",
            at + pointer(name),
        )
    check_row(table, row, at)
    return key


def check_row(table: Table, row: Row, at: str) -> None:
    if len(table.columns) > SAFE_COLUMNS and row_bytes(table, row) > MAX_ROW_BYTES:
        raise InputError(
            f"a row of {len(table.columns)} columns with these values does not fit a page of PostgreSQL "
            f"({row_bytes(table, row)} bytes of at most {MAX_ROW_BYTES}): leave some NULL, or put them into a jsonb",
            at,
        )


def _show(table: Table, key: Key) -> str:
    text = msgspec.json.encode(table.key_object(key)).decode()
    return text if len(text) <= 120 else text[:117] + "..."


def known_table(tables: Mapping[str, Table], name: str) -> Table:
    """The table of this name; a view is none."""
    table = tables.get(name)
    if table is None:
        raise NotFoundError(f"there is no table {name!r}; create it with POST /v1/tables")
    if isinstance(table, View):
        bases = ", ".join(base.name for base in table.bases)
        raise InputError(f"{name!r} is a view, which follows its tables; publish to {bases}", "")
    return table


def known_view(tables: Mapping[str, Table], name: str) -> View:
    view = tables.get(name)
    if not isinstance(view, View):
        raise NotFoundError(f"there is no view {name!r}; create it with POST /v1/views")
    return view
