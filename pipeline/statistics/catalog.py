"""What the job asks PostgreSQL itself before Spark reads: tables, groups, and how far the log goes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pipeline.statistics.database import Connection
from pipeline.statistics.definitions import Definition
from pipeline.statistics.joins import Edge, Side, edges
from pipeline.statistics.source import ranges
from prosem.store.catalog import column_names, key_name, relation, table_from
from prosem.store.partitions import HOLD_LOG
from prosem.values.columns import ColumnType
from prosem.values.model import Table

BLOCKS_A_PART = 4_096  # 32 MB


@dataclass(frozen=True)
class Catalog:
    """Tables, joins and bounds, read in one snapshot, whose name in PostgreSQL it has.

    `definitions` are the tables and views as they are archived: kind, id, tenant, name, and JSON or SQL.
    """

    database: str
    snapshot: str
    last_seq: int
    retained_after: int
    last_sid: int
    first_measurement: int
    last_measurement: int
    tables: dict[int, Table]
    edges: list[Edge]
    definitions: list[Definition]

    @cached_property
    def sides(self) -> list[Side]:
        """The sides of all edges, each once."""
        return sorted({side for edge in self.edges for side in edge})


@contextmanager
def open_catalog(connection: Connection) -> Iterator[Catalog]:
    """The catalog; while it is open, other sessions can read tables and log in its snapshot, and no log is dropped."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL lock_timeout = 0")
        connection.execute(HOLD_LOG)
        yield _read(connection)


def archive_id(connection: Connection) -> str:
    """The name of the database's folder in an archive."""
    row = connection.execute("SELECT id::text FROM prosem.statistics_archive").fetchone()
    assert row is not None, "the schema makes the only row"
    return str(row[0])


def _read(connection: Connection) -> Catalog:
    bounds = connection.execute(
        "SELECT (SELECT id::text FROM prosem.statistics_archive), pg_export_snapshot(),"
        " last_seq, retained_after, next_sid - 1,"
        " (SELECT coalesce(min(seq), 1) FROM prosem.plan_measurement),"
        " (SELECT coalesce(max(seq), 0) FROM prosem.plan_measurement) FROM prosem.engine_state"
    ).fetchone()
    assert bounds is not None, "the schema makes the only row"
    tables: dict[int, Table] = {}
    for number, tenant, definition in connection.execute(
        "SELECT id, tenant, definition FROM prosem.tenant_table ORDER BY id"
    ):
        tables[number] = table_from(number, tenant, definition, list(tables.values()))
    statements = []
    for names, text, tenant in connection.execute(
        "SELECT tables, sample_sql, tenant FROM prosem.group_ ORDER BY id"
    ):
        by_name = {table.name: table for table in tables.values() if table.tenant == tenant}
        statements.append((text, tuple(by_name[name] for name in names if name in by_name)))
    definitions: list[Definition] = [
        ("table", one.id, one.tenant, one.name, json.dumps(one.definition())) for one in tables.values()
    ]
    definitions += [
        ("view", *row)
        for row in connection.execute("SELECT id, tenant, name, sql FROM prosem.view_ ORDER BY id")
    ]
    database, snapshot, last_seq, retained_after, last_sid, first, last = bounds
    return Catalog(
        database,
        snapshot,
        last_seq,
        retained_after,
        last_sid,
        first,
        last,
        tables,
        edges(statements),
        definitions,
    )


def family(tables: Mapping[int, Table], table_id: int) -> list[Table]:
    """A table and all that extend it: their rows are rows of it too."""
    top = tables[table_id]
    return [table for table in tables.values() if table is top or top in table.ancestors]


def row_queries(connection: Connection, table: Table) -> list[str]:
    """The queries that read all rows of a table, as the event log writes them, in parts of some blocks."""
    names = [name.as_string(connection) for name in column_names(table)]
    values = ", ".join(_logged(name, column.type) for name, column in zip(names, table.columns, strict=True))
    return [
        f"SELECT array_to_json(ARRAY[{values}]::json[])::text FROM ONLY {relation(table).as_string(connection)}"
        f" WHERE ctid >= '({first},0)'::tid AND ctid < '({last},0)'::tid"
        for first, last in _parts(connection, table)
    ]


def _parts(connection: Connection, table: Table) -> list[tuple[int, int]]:
    """The blocks of a table in parts; none if it was dropped: one of that name made later has another key."""
    row = connection.execute(
        "SELECT pg_relation_size(conrelid) / current_setting('block_size')::int FROM pg_constraint"
        " WHERE conname = %s AND contype = 'p' AND conrelid = to_regclass(%s)",
        [key_name(table), relation(table).as_string(connection)],
    ).fetchone()
    return [] if row is None else ranges(0, row[0] + 1, max(2, -(-row[0] // BLOCKS_A_PART)))


def _logged(name: str, type: ColumnType) -> str:
    """A column's value as JSON as the event log has it: numerics are texts, bytes base64, and -0.0 keeps its sign."""
    if type.name.startswith("numeric"):
        return f"to_json({name}::text)"
    if type.name == "bytea":
        return f"to_json(translate(encode({name}, 'base64'), E'\\n', ''))"
    if type.name == "double precision":
        return f"CASE WHEN {name} = 0 THEN ({name}::text || '.0')::json ELSE to_json({name}) END"
    return f"to_json({name})"
