"""Rows read over several connections: all of them, once, of one snapshot, and errors are not lost."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import psycopg
import pytest

from prosem.store import reading, recovery
from prosem.store.catalog import relation
from prosem.store.log import Writer, WriteSet
from prosem.values.packed_columns import Arrays
from tests.support.database import put, rows_of, table_of

COUNT = 3_000


@pytest.fixture
def many_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_PER_CHUNK", 100)
    monkeypatch.setattr(
        recovery,
        "block_ranges",
        lambda connection, tables, columns: reading.block_ranges(connection, tables, columns, 2),
    )


def filled(url: str) -> tuple[Any, Any]:
    """A table of some forty blocks, with holes, and an empty one."""
    writer = Writer.connect(url)
    large, empty = table_of(["integer", "text"]), table_of(["integer"], 2, "u")
    for table in (large, empty):
        writer.write(WriteSet(created=table))
    put(writer, large, {(at,): (at, "x" * 80) for at in range(COUNT)})
    put(writer, large, {(at,): None for at in range(0, COUNT, 7)}, 1)
    writer.close()
    return large, empty


@pytest.mark.usefixtures("many_ranges")
@pytest.mark.parametrize("readers", [1, 3])
def test_every_row_is_read_once_and_of_the_snapshot(url: str, readers: int) -> None:
    large, empty = filled(url)
    with recovery.load(url) as loaded:
        with psycopg.connect(url) as connection:
            connection.execute(f"DELETE FROM {relation(large).as_string()}")  # type: ignore[call-overload]
        assert len(reading.block_ranges(loaded._connection, [large, empty], blocks_per_range=2)) > 8
        chunks = list(loaded.rows(large, empty, readers=readers))
    assert {table.name for table, _ in chunks} == {"t"}
    assert all(isinstance(rows, Arrays) for _, rows in chunks)
    found = sorted(rows_of(chunks))
    assert found == [(at, "x" * 80) for at in range(COUNT) if at % 7]


@pytest.mark.usefixtures("many_ranges")
def test_a_table_with_values_outside_of_it_is_read_row_by_row(url: str) -> None:
    writer, table = Writer.connect(url), table_of(["integer", "text", "timestamptz", "numeric(9,2)"])
    writer.write(WriteSet(created=table))
    random = Random(1)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = {(n,): (n, random.randbytes(5_000).hex(), at, Decimal("1.50")) for n in range(250)}
    put(writer, table, dict(rows))
    writer.close()
    with recovery.load(url) as loaded:
        chunks = list(loaded.rows(table))
    assert len(chunks) > 1
    assert not any(isinstance(some, Arrays) for _, some in chunks)
    assert sorted(rows_of(chunks)) == sorted(rows.values())


@pytest.mark.usefixtures("many_ranges")
def test_an_error_of_one_reader_is_raised(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large, _ = filled(url)
    read = reading._read

    def failing(connection: reading.Connection, one: reading.Range) -> Any:
        if one.first == 10:
            raise psycopg.OperationalError("the connection was lost")
        return read(connection, one)

    monkeypatch.setattr(reading, "_read", failing)
    with recovery.load(url) as loaded, pytest.raises(psycopg.OperationalError, match="was lost"):
        list(loaded.rows(large))


@pytest.mark.usefixtures("many_ranges")
def test_a_database_without_free_connections_is_read_over_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, _ = filled(url)
    with recovery.load(url) as loaded:

        def refused(url: str) -> Any:
            raise psycopg.OperationalError("sorry, too many clients already")

        monkeypatch.setattr(recovery, "_connect", refused)
        assert len(rows_of(loaded.rows(large))) == COUNT - len(range(0, COUNT, 7))
