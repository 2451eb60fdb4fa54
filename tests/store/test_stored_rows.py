"""Reading some columns by key from PostgreSQL: every type comes back as it was put, whatever else is under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prosem.store.log import Writer, WriteSet
from prosem.store.stored_rows import StoredRows
from prosem.values.errors import BusyError
from prosem.values.model import Key, Row, Table
from prosem.values.narrow_rows import NarrowRows
from tests.support.database import put, table_of
from tests.support.effort import examples
from tests.values.test_packed_rows import FEW, VALUES, same

TYPES = sorted(set(VALUES) - {"jsonb"})
KEYS = ("integer", "text", "numeric(18,6)", "timestamptz", "double precision")


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    made = Writer.connect(url)
    yield made
    made.close()


@pytest.fixture
def stored(url: str) -> Iterator[StoredRows]:
    made = StoredRows(lambda: url)
    yield made
    made.close()


def loaded(stored: StoredRows, table: Table, columns: list[int]) -> NarrowRows:
    rows = NarrowRows(table, columns)
    for some in stored.load(table, rows.held):
        rows.load_held(some)
    return rows


@settings(
    deadline=None, max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_columns_come_back_as_they_were(writer: Writer, stored: StoredRows, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(KEYS))
    number = next(_numbers)
    table = table_of([key, *TYPES], number, f"t{number}")
    writer.write(WriteSet(created=table))
    keys = data.draw(st.lists(st.sampled_from(FEW[key]), unique=True))
    rows: dict[Key, Row] = {
        (one,): (one, *(data.draw(st.none() | VALUES[kind]) for kind in TYPES)) for one in keys
    }
    put(writer, table, rows)
    columns = data.draw(st.lists(st.integers(1, len(TYPES)), unique=True), "columns")
    found = dict(stored.read(table, columns, [*rows]))
    assert found.keys() == rows.keys()
    assert all(same(found[one], tuple(rows[one][at] for at in columns)) for one in rows)
    some = loaded(stored, table, columns)
    assert set(some) == set(rows)
    assert all(same(some.whole(one, tuple(rows[one][at] for at in some.unheld)), rows[one]) for one in rows)


_numbers = iter(range(1, 1_000_000))


def test_keys_of_several_columns_and_many_of_them(
    writer: Writer, stored: StoredRows, monkeypatch: Any
) -> None:
    monkeypatch.setattr("prosem.store.stored_rows.KEYS_AT_ONCE", 7)
    table = table_of(["integer", "text", "integer"], 1, "t", keys=2)
    writer.write(WriteSet(created=table))
    rows: dict[Key, Row] = {(at, str(at % 3)): (at, str(at % 3), -at) for at in range(30)}
    put(writer, table, rows)
    wanted = [*rows, (99, "0")]
    assert dict(stored.read(table, [2], wanted)) == {key: (row[2],) for key, row in rows.items()}


def test_a_connection_that_broke_is_opened_again(url: str, writer: Writer, stored: StoredRows) -> None:
    table = table_of(["integer", "integer"])
    writer.write(WriteSet(created=table))
    put(writer, table, {(1,): (1, 2)})
    assert stored.read(table, [1], [(1,)]) == [((1,), (2,))]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'prosem engine'"
        )
    assert stored.read(table, [1], [(1,)]) == [((1,), (2,))]


def test_a_database_that_cannot_be_read_is_an_error_for_later(writer: Writer, stored: StoredRows) -> None:
    missing = table_of(["integer", "integer"], 5, "nowhere")
    for _ in range(2):
        with pytest.raises(BusyError, match="nothing was applied"):
            stored.read(missing, [1], [(1,)])
        with pytest.raises(BusyError, match="nothing was applied"):
            list(stored.load(missing, [1]))
    nowhere = StoredRows(lambda: "postgresql://127.0.0.1:1/none")
    with pytest.raises(BusyError):
        nowhere.read(missing, [1], [(1,)])
