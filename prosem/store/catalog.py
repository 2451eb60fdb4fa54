"""A table of a tenant as it is stored in PostgreSQL: its definition, and the statements that keep its rows.

Each tenant has a schema of its own. A table and its columns keep their names there, so that any client can
query them with psql; only a name PostgreSQL cannot hold (too long, empty, or a system column's) is made
to fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from prosem.store.packing import Packed, pack
from prosem.values.columns import ColumnType, column_type
from prosem.values.model import Column, JsonObject, Key, Row, Table

MAX_NAME_BYTES = 63
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_NUMBERED = re.compile(r"~\d+$")


def table_from(table_id: int, tenant: str, definition: JsonObject, known: Sequence[Table] = ()) -> Table:
    """The table whose `definition()` this is; `known` holds the one it extends."""
    columns = tuple(Column(c["name"], column_type(c["type"]), c["nullable"]) for c in definition["columns"])
    parent = None
    if "extends" in definition:
        (parent,) = (t for t in known if (t.tenant, t.name) == (tenant, definition["extends"]))
    return Table(table_id, definition["name"], columns, tuple(definition["primary_key"]), tenant, parent)


def fitted(name: str, number: int) -> str:
    """The name itself, or, if PostgreSQL cannot hold it, its beginning with a number that makes it unique.

    Names that end like that themselves get a number too, so that none can be taken for another.

    >>> fitted("Ünï cödé", 3), fitted("x" * 70, 3) == "x" * 61 + "~3", fitted("", 3)
    ('Ünï cödé', True, '~3')
    """
    data = name.encode()
    if data and len(data) <= MAX_NAME_BYTES and name not in _SYSTEM_COLUMNS and not _NUMBERED.search(name):
        return name
    suffix = f"~{number}"
    return data[: MAX_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix


def schema_of(table: Table) -> sql.Identifier:
    return sql.Identifier(fitted(f"tenant_{table.tenant}", table.id))


def relation(table: Table) -> sql.Identifier:
    """The table's qualified name."""
    return sql.Identifier(fitted(f"tenant_{table.tenant}", table.id), fitted(table.name, table.id))


def column_names(table: Table) -> list[sql.Identifier]:
    """The columns' names in PostgreSQL, in the table's order."""
    return [sql.Identifier(fitted(column.name, at)) for at, column in enumerate(table.columns)]


def key_name(table: Table) -> str:
    """The name of the primary key's constraint, by id: `a_pkey` may be another table's name."""
    return f"key~{table.id}"


def create(table: Table) -> list[sql.Composed]:
    """The statements that make the table."""
    names = column_names(table)
    columns = [
        sql.SQL("{} {}{}{}").format(
            name,
            sql.SQL(column.type.name),  # one of ColumnType's own names
            sql.SQL(' COLLATE "C"' if column.type.name == "text" else ""),
            sql.SQL("" if column.nullable else " NOT NULL"),
        )
        for name, column in zip(names, table.columns, strict=True)
    ]
    key = sql.SQL("CONSTRAINT {} PRIMARY KEY ({})").format(
        sql.Identifier(key_name(table)), sql.SQL(", ").join([names[at] for at in table.key_positions])
    )
    return [
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema_of(table)),
        sql.SQL("CREATE TABLE {} ({}) {} WITH (fillfactor = 90)").format(
            relation(table), sql.SQL(", ").join([*columns, key]), _inherits(table)
        ),
    ]


def _inherits(table: Table) -> sql.Composable:
    """PostgreSQL's own inheritance: a query on the parent sees the rows of its children there too."""
    return sql.SQL("INHERITS ({})").format(relation(table.parent)) if table.parent else sql.SQL("")


def drop(table: Table) -> sql.Composed:
    return sql.SQL("DROP TABLE {}").format(relation(table))


@dataclass(frozen=True)
class RowStatements:
    """How the rows of one table are written: `upsert` takes one array per column, `delete` one per key column."""

    table: Table
    upsert: bytes
    delete: bytes

    def pack_rows(self, rows: Sequence[Row]) -> list[Packed]:
        return _pack([column.type for column in self.table.columns], rows)

    def pack_keys(self, keys: Sequence[Key]) -> list[Packed]:
        return _pack([self.table.columns[at].type for at in self.table.key_positions], keys)


def row_statements(table: Table) -> RowStatements:
    """The statements of one table; made once and prepared by PostgreSQL."""
    names, keys = column_names(table), list(table.key_positions)
    types = [column.type for column in table.columns]
    rest = [names[at] for at in range(len(names)) if at not in keys]
    action = sql.SQL("NOTHING")
    if rest:
        pairs = [sql.SQL("{} = excluded.{}").format(name, name) for name in rest]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(pairs))  # type: ignore[assignment]
    upsert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}").format(
        relation(table),
        sql.SQL(", ").join(names),
        sql.SQL(", ").join([_element(at, kind) for at, kind in enumerate(types)]),
        _unnest(types),
        sql.SQL(", ").join([names[at] for at in keys]),
        action,
    )
    of_key = [types[at] for at in keys]
    delete = sql.SQL("DELETE FROM ONLY {} t USING {} WHERE {}").format(
        relation(table), _unnest(of_key), _same_key(names, keys, of_key)
    )
    return RowStatements(table, upsert.as_bytes(), delete.as_bytes())


@dataclass(frozen=True)
class ReadStatement:
    """How some columns of rows are read by key: `text` takes one array per key column, and gives the key first."""

    table: Table
    text: bytes

    def pack_keys(self, keys: Sequence[Key]) -> list[Packed]:
        return _pack([self.table.columns[at].type for at in self.table.key_positions], keys)


def read_statement(table: Table, columns: Sequence[int]) -> ReadStatement:
    names, keys = column_names(table), list(table.key_positions)
    types = [table.columns[at].type for at in keys]
    text = sql.SQL("SELECT {} FROM ONLY {} t, {} WHERE {}").format(
        sql.SQL(", ").join([sql.SQL("t.{}").format(names[at]) for at in (*keys, *columns)]),
        relation(table),
        _unnest(types),
        _same_key(names, keys, types),
    )
    return ReadStatement(table, text.as_bytes())


def _same_key(
    names: Sequence[sql.Identifier], keys: Sequence[int], types: Sequence[ColumnType]
) -> sql.Composed:
    """A row `t` has the key of an element of the arrays."""
    same = [
        sql.SQL("t.{} = {}").format(names[at], _element(place, kind))
        for place, (at, kind) in enumerate(zip(keys, types, strict=True))
    ]
    return sql.SQL(" AND ").join(same)


def _kind(kind: ColumnType) -> str:
    return "number" if kind.name.startswith("numeric") else kind.name


def _unnest(types: Sequence[ColumnType]) -> sql.SQL:
    arrays = [
        f"${at + 1}::{'text' if _kind(kind) == 'number' else kind.name}[]" for at, kind in enumerate(types)
    ]
    names = [f"v{at}" for at in range(len(types))]
    return sql.SQL(f"unnest({', '.join(arrays)}) AS v({', '.join(names)})")


def _element(at: int, kind: ColumnType) -> sql.SQL:
    return sql.SQL(f"v.v{at}::{kind.name}" if _kind(kind) == "number" else f"v.v{at}")


def _pack(types: Sequence[ColumnType], rows: Sequence[tuple[Any, ...]]) -> list[Packed]:
    return [pack(_kind(kind), values) for kind, values in zip(types, zip(*rows, strict=True), strict=True)]
