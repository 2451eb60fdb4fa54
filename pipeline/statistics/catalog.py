"""What the job asks PostgreSQL itself before Spark reads: tables, groups, and how far the log goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.statistics.database import Connection
from pipeline.statistics.joins import Edge, Side, edges, side_query
from pipeline.statistics.source import ranges
from prosem.store.catalog import column_names, key_name, relation, table_from
from prosem.values.model import Table

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
        tables: dict[int, Table] = {}
        for number, tenant, definition in connection.execute(
            "SELECT id, tenant, definition FROM prosem.tenant_table ORDER BY id"
        ):
            tables[number] = table_from(number, tenant, definition, list(tables.values()))
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


def family(tables: Mapping[int, Table], table_id: int) -> list[Table]:
    """A table and all that extend it: their rows are rows of it too."""
    top = tables[table_id]
    return [table for table in tables.values() if table is top or top in table.ancestors]


def key_queries(connection: Connection, catalog: Catalog, sides: Sequence[Side]) -> list[str]:
    """The queries that read the keys of all sides, in parts of some blocks."""
    made = []
    for number, side in enumerate(sides):
        for table in family(catalog.tables, side.table):
            name = relation(table).as_string(connection)
            row = connection.execute(
                "SELECT pg_relation_size(conrelid) / current_setting('block_size')::int FROM pg_constraint"
                " WHERE conname = %s AND contype = 'p' AND conrelid = to_regclass(%s)",
                [key_name(table), name],
            ).fetchone()
            if row is None:
                continue  # dropped since; one of that name made later has another key
            names = column_names(table)
            columns = [names[table.position[column]].as_string(connection) for column in side.columns]
            parts = max(2, -(-row[0] // BLOCKS_A_PART))
            made += [side_query(number, name, columns, part) for part in ranges(0, row[0] + 1, parts)]
    return made
