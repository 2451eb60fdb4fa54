"""The same tables and views in PostgreSQL: it is the oracle of a world of views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from prosem.language.view_parse import parse_view
from prosem.values.model import Key, Row, Table, View
from prosem.views.definition import ViewDefinition, define
from prosem.views.expressions import EvaluationError
from tests.support.view_world import World


class PostgresWorld(World):
    """Every table and view is a real one; a view must have the rows that PostgreSQL gives, and the columns."""

    def __init__(self, connection: psycopg.Connection[Any], tables: Sequence[Table]) -> None:
        super().__init__(tables)
        self._connection = connection
        for one in tables:
            columns = ", ".join(f"{column.name} {column.type.name}" for column in one.columns)
            self._run(f"CREATE TEMP TABLE {one.name} ({columns}, PRIMARY KEY ({', '.join(one.primary_key)}))")

    def view(self, id: int, name: str, text: str) -> View | None:
        """Define and add a view by its SQL; None if it cannot have a row."""
        known: dict[str, Table] = {one.name: one for one in [*self.tables, *self.graph]}
        definition = define(parse_view(text), known, id, name, "default")
        self._run(f"CREATE TEMP VIEW {name} AS {text}")
        self._check_columns(definition.view)
        return definition.view if self.add(definition) else None

    def recompute(self, definition: ViewDefinition, rows: Mapping[int, Mapping[Key, Row]]) -> dict[Key, Row]:
        view = definition.view
        try:
            found = self._connection.execute(
                sql.SQL("SELECT * FROM {}").format(sql.Identifier(view.name))
            ).fetchall()
        except psycopg.DataError as error:
            raise EvaluationError(str(error)) from error
        by_key = {view.key_of(row): row for row in found}
        assert len(by_key) == len(found), f"two rows of {view.name} have one key"
        for at, column in enumerate(view.columns):
            assert column.nullable or all(row[at] is not None for row in found), column.name
        return by_key

    def put_base(self, table: Table, key: Key, row: Row | None) -> None:
        super().put_base(table, key, row)
        where = sql.SQL(" AND ").join(
            sql.SQL("{} = %s").format(sql.Identifier(name)) for name in table.primary_key
        )
        self._connection.execute(
            sql.SQL("DELETE FROM {} WHERE ").format(sql.Identifier(table.name)) + where, key
        )
        if row is not None:
            marks = sql.SQL(", ").join([sql.Placeholder()] * len(row))
            insert = sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(table.name), marks)
            self._connection.execute(insert, row)

    def check_decimals(self) -> None:
        """Numerics of a view that was built at once have PostgreSQL's decimals too."""
        for definition in self.definitions:
            fresh = dict(definition.open(self.rows_of).build())
            expected = self.recompute(definition, self.rows)
            assert _shown(fresh) == _shown(expected), definition.view.sql

    def _check_columns(self, view: View) -> None:
        rows = self._connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass"
            " ORDER BY attnum",
            [view.name],
        ).fetchall()
        plain = {"timestamp with time zone": "timestamptz"}
        expected = [(name, plain.get(kind, kind)) for name, kind in rows]
        assert [(column.name, column.type.name) for column in view.columns] == expected, view.sql

    def _run(self, text: str) -> None:
        self._connection.execute(text.encode())


def _shown(rows: Mapping[Key, Row]) -> dict[Key, list[Any]]:
    """Rows with numerics as they are written; other values are compared as values (0.0 is -0.0)."""
    return {
        key: [str(value) if isinstance(value, Decimal) else value for value in row]
        for key, row in rows.items()
    }
