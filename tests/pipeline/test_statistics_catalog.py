"""What the statistics job asks PostgreSQL itself: tables of one name belong to their tenants."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from pipeline.statistics.catalog import family, open_catalog
from pipeline.statistics.database import connect
from pipeline.statistics.joins import Edge, Side
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support.database import empty_database

JOIN = "SELECT * FROM stocks JOIN reviews USING (symbol) WHERE per < :a"


def definition(name: str, *columns: str, extends: str | None = None) -> str:
    described: list[dict[str, Any]] = [
        {"name": column, "type": "integer", "nullable": True} for column in columns
    ]
    parent = {} if extends is None else {"extends": extends}
    return json.dumps({"name": name, "columns": described, "primary_key": [columns[0]], **parent})


@pytest.fixture
def url(postgres: EmbeddedPostgres) -> str:
    found = empty_database(postgres)
    schema.migrate(found)
    return found


def test_tables_of_one_name_belong_to_their_tenants(url: str) -> None:
    tables = [
        (1, "north", "stocks", definition("stocks", "k", "symbol", "per")),
        (2, "south", "stocks", definition("stocks", "per", "k", "symbol", "more")),
        (3, "south", "reviews", definition("reviews", "k", "symbol")),
        (4, "north", "reviews", definition("reviews", "k", "symbol")),
        (5, "south", "bonds", definition("bonds", "k", extends="stocks")),
    ]
    with psycopg.connect(url) as connection:
        for row in tables:
            connection.execute(
                "INSERT INTO prosem.tenant_table (id, tenant, name, definition, created_seq) VALUES (%s, %s, %s, %s, 0)",
                row,
            )
        for number, tenant in ((1, "north"), (2, "south")):
            connection.execute(
                "INSERT INTO prosem.group_ (id, name, type, label, space, tables, sample_sql, tenant)"
                " VALUES (%s, %s, 'join', %s, %s, '{stocks,reviews}', %s, %s)",
                [number, f"g{number}", f"g{number}", number, JOIN, tenant],
            )
    with connect(url) as connection, open_catalog(connection) as catalog:
        pass
    assert catalog.edges == [
        Edge(Side(1, ("symbol",)), Side(4, ("symbol",))),
        Edge(Side(2, ("symbol",)), Side(3, ("symbol",))),
    ]
    assert [table.id for table in family(catalog.tables, 1)] == [1], (
        "what extends the other tenant's is not its"
    )
    assert [table.id for table in family(catalog.tables, 2)] == [2, 5]
