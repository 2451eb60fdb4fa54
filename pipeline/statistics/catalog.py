"""What the job asks PostgreSQL itself before Spark reads: tables, groups, and how far the log goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from pipeline.statistics.database import Connection
from pipeline.statistics.histograms import Column, Table
from pipeline.statistics.joins import Edge, Side, edges, side_query
from pipeline.statistics.source import ranges

BLOCKS_A_PART = 4_096  # 32 MB


@dataclass(frozen=True)
class Catalog:
    """Tables, groups and bounds, read in one snapshot."""

    database: str
    last_seq: int
    retained_after: int
    last_sid: int
    first_measurement: int
    last_measurement: int
    tables: dict[int, Table]
    groups: dict[int, tuple[Table, ...]]
    edges: list[Edge]


def read_catalog(connection: Connection) -> Catalog:
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        bounds = connection.execute(
            "SELECT (SELECT id::text FROM prosem.statistics_archive), last_seq, retained_after, next_sid - 1,"
            " (SELECT coalesce(min(seq), 1) FROM prosem.plan_measurement),"
            " (SELECT coalesce(max(seq), 0) FROM prosem.plan_measurement) FROM prosem.engine_state"
        ).fetchone()
        assert bounds is not None, "the schema makes the only row"
        tables = {
            number: Table(
                number,
                tenant,
                definition["name"],
                tuple(Column(column["name"], column["type"]) for column in definition["columns"]),
                definition.get("extends"),
            )
            for number, tenant, definition in connection.execute(
                "SELECT id, tenant, definition FROM prosem.tenant_table ORDER BY id"
            )
        }
        groups: dict[int, tuple[Table, ...]] = {}
        statements = []
        for number, names, text, tenant in connection.execute(
            "SELECT id, tables, sample_sql, tenant FROM prosem.group_ ORDER BY id"
        ):
            by_name = {table.name: table for table in tables.values() if table.tenant == tenant}
            groups[number] = tuple(by_name[name] for name in names if name in by_name)
            statements.append((text, groups[number]))
    database, last_seq, retained_after, last_sid, first, last = bounds
    return Catalog(
        database, last_seq, retained_after, last_sid, first, last, tables, groups, edges(statements)
    )


def family(tables: dict[int, Table], table_id: int) -> list[Table]:
    """A table and all that extend it: their rows are rows of it too."""
    found = [tables[table_id]]
    for one in found:
        found += [
            table for table in tables.values() if (table.tenant, table.parent) == (one.tenant, one.name)
        ]
    return found


def key_queries(connection: Connection, catalog: Catalog, sides: Sequence[Side]) -> list[str]:
    """The queries that read the keys of all sides, in parts of some blocks.

    A relation is found by the name of its key, and a column by its place: their own names may have been made to fit.
    """
    made = []
    for number, side in enumerate(sides):
        names = [column.name for column in catalog.tables[side.table].columns]
        places = [names.index(column) + 1 for column in side.columns]
        for table in family(catalog.tables, side.table):
            row = connection.execute(
                "SELECT conrelid::regclass::text, pg_relation_size(conrelid) / current_setting('block_size')::int"
                " FROM pg_constraint WHERE conname = %s AND contype = 'p'",
                [f"key~{table.id}"],
            ).fetchone()
            if row is None:
                continue  # dropped since
            found: dict[int, str] = dict(
                connection.execute(
                    "SELECT attnum, attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0",
                    [row[0]],
                ).fetchall()
            )
            columns = [sql.Identifier(found[place]).as_string(connection) for place in places]
            parts = max(2, -(-row[1] // BLOCKS_A_PART))
            made += [side_query(number, row[0], columns, part) for part in ranges(0, row[1] + 1, parts)]
    return made
