"""What the store's tests share: an empty database, a writer, and small batches."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from prosem.store import recovery, schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.log import Writer, WriteSet
from prosem.store.retention import Retention
from prosem.values.columns import column_type
from prosem.values.model import Column, Key, Row, Table

_numbers = itertools.count(1)
_migrated: dict[str, str] = {}


def empty_database(server: EmbeddedPostgres) -> str:
    """The address of a new database without our schema."""
    name = f"store_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url.replace("/prosem?", f"/{name}?")


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> str:
    """One for the whole run: a database has 300 files, and PostgreSQL syncs them all when it stops."""
    if postgres.url not in _migrated:
        _migrated[postgres.url] = empty_database(postgres)
        schema.migrate(_migrated[postgres.url])
    return _migrated[postgres.url]


@pytest.fixture
def url(database: str) -> str:
    """A database of the store's own, as empty as after its migration."""
    with psycopg.connect(database) as connection:
        names = connection.execute(
            "SELECT relname, relispartition FROM pg_class WHERE relnamespace = 'prosem'::regnamespace"
            " AND relkind IN ('r', 'p') AND relname <> 'alembic_version' ORDER BY relispartition DESC"
        ).fetchall()
        for name, is_partition in names:
            action = "DROP TABLE {}" if is_partition else "TRUNCATE {} CASCADE"
            connection.execute(sql.SQL(action).format(sql.Identifier("prosem", name)))
        connection.execute("INSERT INTO prosem.engine_state DEFAULT VALUES")
        connection.execute("DROP SCHEMA IF EXISTS tenant_default CASCADE")
    return database


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    writer = Writer.connect(url, partition_size=100)
    yield writer
    writer.close()


@pytest.fixture
def retention(writer: Writer) -> Iterator[Retention]:
    made = Retention(writer.session)
    yield made
    made.close()


def table_of(types: tuple[str, ...] | list[str], number: int = 1, name: str = "t", keys: int = 1) -> Table:
    columns = tuple(Column(f"c{at}", column_type(kind)) for at, kind in enumerate(types))
    return Table(number, name, columns, tuple(column.name for column in columns[:keys]))


def rows_in(url: str, table: Table) -> list[Row]:
    with recovery.load(url) as loaded:
        assert table.definition() in [known.definition() for known in loaded.tables]
        return [row for _, chunk in loaded.rows(table) for row in chunk]


def put(writer: Writer, table: Table, rows: dict[Key, Row | None], last_seq: int = 0) -> None:
    writer.write(WriteSet(last_seq=last_seq, rows={table.id: rows}, tables={table.id: table}))


def events(*seqs: int) -> WriteSet:
    """A batch with an event and a message of space 7 at each seq."""
    return WriteSet(
        last_seq=max(seqs),
        events=[(seq, 1, "upsert", None, b"[%d]" % seq) for seq in seqs],
        messages=[(7, seq, 0, "range-min", "reformulate", b"m%d" % seq) for seq in seqs],
    )
