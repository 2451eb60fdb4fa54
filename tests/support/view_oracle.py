"""PostgreSQL beside a server: the same tables, views and events, in a session of its own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.support.live import Json
from tests.support.random_views import Origin, Term
from tests.support.view_questions import Answer, Question, Reader

KINDS = {16: "boolean", 20: "bigint", 23: "integer", 25: "text", 701: "double precision", 1082: "date",
         1184: "timestamptz", 1700: "numeric", 3802: "jsonb", 17: "bytea"}  # fmt: skip
DEFAULTS: dict[str, list[Any]] = {"boolean": [True], "text": ["a"], "date": ["2024-02-28"],
                                  "timestamptz": ["2024-02-28T00:00:01Z"]}  # fmt: skip


class BaseTable:
    """A table, and its rows as they were published."""

    def __init__(self, name: str, columns: dict[str, str], key: Sequence[str]) -> None:
        self.name, self.columns, self.key = name, columns, tuple(key)
        self.rows: dict[tuple[Any, ...], Json] = {}

    def origin(self) -> Origin:
        terms = {name: Term(name, kind.partition("(")[0]) for name, kind in self.columns.items()}
        return Origin(self.name, terms, self.key)

    def key_of(self, cells: Json) -> tuple[Any, ...]:
        return tuple(cells[name] for name in self.key)


class Oracle:
    """Everything is temporary, and gone with the session."""

    def __init__(self, connection: psycopg.Connection[Any], tables: Sequence[BaseTable]) -> None:
        self._connection = connection
        self.tables = {table.name: table for table in tables}
        connection.execute("SET TIME ZONE 'UTC'")
        for table in tables:
            columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
            self._run(f"CREATE TEMP TABLE {table.name} ({columns}, PRIMARY KEY ({', '.join(table.key)}))")

    def create(self, origin: Origin, text: str) -> tuple[Origin, list[tuple[str, str]]]:
        """Make a view: what it is, with PostgreSQL's types, and its columns as PostgreSQL names their types."""
        self._run(f"CREATE TEMP VIEW {origin.text} AS {text}")
        rows = self._connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass"
            " ORDER BY attnum",
            [origin.text],
        ).fetchall()
        plain = {"timestamp with time zone": "timestamptz"}
        types = [(name, plain.get(kind, kind)) for name, kind in rows]
        terms = {name: replace(origin.columns[name], kind=kind.partition("(")[0]) for name, kind in types}
        return replace(origin, columns=terms), types

    def apply(self, event: Json) -> None:
        table = self.tables[event["table"]]
        if event["op"] == "delete":
            self._delete(table, table.key_of(event["key"]))
            return
        cells = event["row"] if "row" in event else table.rows[table.key_of(event["key"])] | event["set"]
        key = table.key_of(cells)
        if key in table.rows:
            self._delete(table, key)
        table.rows[key] = cells
        marks = sql.SQL(", ").join([sql.Placeholder()] * len(table.columns))
        insert = sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(table.name), marks)
        self._connection.execute(insert, [_stored(kind, cells[name]) for name, kind in table.columns.items()])

    def _delete(self, table: BaseTable, key: tuple[Any, ...]) -> None:
        del table.rows[key]
        where = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in table.key)
        self._connection.execute(
            sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(table.name), where), key
        )

    def values(self, origin: Origin, name: str) -> list[Any]:
        """The values of a column, or some of its type if it has none."""
        term = origin.columns[name]
        rows = self._run(f"SELECT DISTINCT {term.sql} FROM {origin.text} LIMIT 20").fetchall()
        return [value for (value,) in rows if value is not None] or DEFAULTS.get(term.kind, [1])

    def ask(self, question: Question) -> Answer:
        return self._asked(question)[1]

    def reader(self, question: Question) -> Reader:
        return self._asked(question)[0]

    def _asked(self, question: Question) -> tuple[Reader, Answer]:
        cursor = self._run(question.asked())
        described = cursor.description or []
        names = tuple(column.name for column in described)
        kinds = tuple(KINDS[column.type_code] for column in described)
        return Reader(question, names, kinds), question.read(names, kinds, cursor.fetchall())

    def _run(self, text: str) -> psycopg.Cursor[Any]:
        return self._connection.execute(text.encode())


def _stored(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "jsonb":
        return Jsonb(value)
    return base64.b64decode(value) if kind == "bytea" else value
