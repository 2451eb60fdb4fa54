"""An empty database, a table and small batches, for tests of the store."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

import psycopg
from psycopg import sql

from prosem.engine.tables import Tables
from prosem.store import recovery
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.log import Writer, WriteSet
from prosem.store.reading import Chunk
from prosem.values.columns import column_type
from prosem.values.model import Column, Key, Row, Table

_numbers = itertools.count(1)


def empty_database(server: EmbeddedPostgres) -> str:
    """The address of a new database without our schema."""
    name = f"store_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url.replace("/prosem?", f"/{name}?")


def table_of(types: tuple[str, ...] | list[str], number: int = 1, name: str = "t", keys: int = 1) -> Table:
    columns = tuple(Column(f"c{at}", column_type(kind)) for at, kind in enumerate(types))
    return Table(number, name, columns, tuple(column.name for column in columns[:keys]))


def rows_in(url: str, table: Table) -> list[Row]:
    with recovery.load(url) as loaded:
        assert table.definition() in [known.definition() for known in loaded.tables]
        return rows_of(loaded.rows(table))


def rows_of(chunks: Iterable[Chunk]) -> list[Row]:
    """The rows of what was read; each chunk is taken as the engine takes it."""
    found: list[Row] = []
    for table, chunk in chunks:
        tables = Tables()
        tables.add(table)
        tables.load(table, chunk)
        found += tables.rows[table.id].values()
    return found


def put(writer: Writer, table: Table, rows: dict[Key, Row | None], last_seq: int = 0) -> None:
    writer.write(WriteSet(last_seq=last_seq, rows={table.id: rows}, tables={table.id: table}))


def events(*seqs: int) -> WriteSet:
    """A batch with an event and a message of space 7 at each seq."""
    return WriteSet(
        last_seq=max(seqs),
        events=[(seq, 1, "upsert", None, b"[%d]" % seq, seq) for seq in seqs],
        messages=[(7, seq, 0, "range-min", "reformulate", b"m%d" % seq) for seq in seqs],
    )
