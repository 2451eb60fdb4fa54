"""The Python client: transactions over several tables, and answers as Arrow tables and pandas frames."""

from __future__ import annotations

import sys
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas
import pyarrow
import pytest
from prosem_client import AsyncClient, Client, ProsemError
from prosem_client.frames import Column, to_arrow, to_pandas

COLUMNS = {
    "k": "integer",
    "b": "bigint",
    "is_on": "boolean",
    "n": "numeric(8,2)",
    "d": "double precision",
    "s": "text",
    "day": "date",
    "at": "timestamptz",
    "raw": "bytea",
    "j": "jsonb",
}
ROW = {
    "k": 1,
    "b": 2**60,
    "is_on": True,
    "n": "1.50",
    "d": 0.1,
    "s": "é",
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00.5Z",
    "raw": "AP8=",
    "j": {"a": [1, None]},
}
AS_PYTHON = {
    **ROW,
    "n": Decimal("1.50"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC),
    "raw": b"\0\xff",
    "j": '{"a": [1, null]}',
}


@pytest.fixture
def table(client: Client) -> str:
    name = f"frames_{uuid.uuid4().hex[:12]}"
    client.create_table(name, COLUMNS, ["k"])
    nothing: dict[str, Any] = dict.fromkeys(COLUMNS)
    client.publish(name, [{"op": "insert", "row": row} for row in (ROW, nothing | {"k": 2})])
    return name


def test_rows_as_arrow(client: Client, table: str) -> None:
    found = client.subscribe(f"SELECT * FROM {table} WHERE k > 0").to_arrow()
    assert found.column_names == list(COLUMNS)
    assert [str(kind) for kind in found.schema.types] == [
        *("int32", "int64", "bool", "decimal128(8, 2)", "double", "string"),
        *("date32[day]", "timestamp[us, tz=UTC]", "binary", "string"),
    ]
    first, second = sorted(found.to_pylist(), key=lambda row: row["k"])
    assert first == AS_PYTHON
    assert second == dict.fromkeys(COLUMNS) | {"k": 2}


def test_rows_as_pandas(client: Client, table: str) -> None:
    rows = client.subscribe(f"SELECT k, n, at, s FROM {table} WHERE k > 0")
    found = rows.to_pandas().set_index("k").sort_index()
    assert list(found.columns) == ["n", "at", "s"]
    assert dict(found.loc[1]) == {name: AS_PYTHON[name] for name in ("n", "at", "s")}
    assert found.loc[2].isna().all()
    assert isinstance(found["at"].dtype, pandas.DatetimeTZDtype)
    client.publish(table, [{"op": "delete", "key": {"k": k}} for k in (1, 2)])
    rows.next(10), rows.next(10)
    assert list(rows.to_pandas().columns) == ["k", "n", "at", "s"]
    assert rows.to_arrow().num_rows == 0


def test_the_other_answers(client: Client, table: str) -> None:
    def of(sql: str, **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.subscribe(sql.format(table), **options).to_arrow().to_pylist()
        return found

    assert of("SELECT DISTINCT day FROM {}") == [{"day": date(2024, 2, 29)}, {"day": None}]
    assert of("SELECT COUNT(*) FROM {}") == [{"value": 2}]
    assert of("SELECT SUM(n) FROM {}") == [{"value": Decimal("1.50")}]
    assert of("SELECT AVG(d) FROM {} WHERE k = 7") == [{"value": None}]
    assert of("SELECT MIN(at) FROM {}")[0]["value"] == AS_PYTHON["at"]
    assert of("SELECT MIN(at) FROM {}")[0]["row.raw"] == AS_PYTHON["raw"]
    assert of("SELECT n FROM {} WHERE k = 1") == [{"value": Decimal("1.50")}]
    assert of("SELECT d FROM {}", notify={"change": 1}) == [{"k": 1, "value": 0.1}]


def test_single_aggregates_over_joins_and_views(client: Client, table: str) -> None:
    other, view = f"{table}_more", f"{table}_view"
    client.create_table(other, {"id": "text", "k": "integer", "p": "numeric(8,2)"}, ["id"])
    rows = [{"id": "a", "k": 1, "p": "2.50"}, {"id": "b", "k": 1, "p": "4.25"}]
    client.publish(other, [{"op": "insert", "row": row} for row in rows])
    client.create_view(
        view, f"SELECT o.id, t.k, o.p * 2 AS twice, t.day FROM {other} o JOIN {table} t ON o.k = t.k"
    )

    def of(sql: str, **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.subscribe(sql, **options).to_arrow().to_pylist()
        return found

    join = f"FROM {other} o JOIN {table} t ON o.k = t.k"
    assert of(f"SELECT COUNT(*) {join}") == [{"value": 2}]
    assert of(f"SELECT SUM(o.p) {join} WHERE t.k < 5") == [{"value": Decimal("6.75")}]
    assert of(f"SELECT AVG(t.b) {join}") == [{"value": Decimal(2**60)}]
    (lowest,) = of(f"SELECT MIN(o.p) {join}")
    assert lowest["value"] == Decimal("2.50")
    assert {"a", 1} <= {*lowest.values()}
    (highest,) = of(f"SELECT MAX(twice) FROM {view}")
    assert highest == {
        "value": Decimal("8.50"),
        "row.id": "b",
        "row.k": 1,
        "row.twice": Decimal("8.50"),
        "row.day": date(2024, 2, 29),
    }
    assert of(f"SELECT SUM(twice) FROM {view}", notify={"change": 1}) == [{"value": Decimal("13.50")}]
    assert of(f"SELECT twice FROM {view} WHERE id = 'a' AND k = 1") == [{"value": Decimal("5.00")}]
    many = of(f"SELECT twice FROM {view}", notify={"change": 1})
    assert sorted(many, key=lambda row: row["id"])[0] == {"id": "a", "k": 1, "value": Decimal("5.00")}


async def test_a_transaction_and_a_join(server: str, client: Client, table: str) -> None:
    other = f"{table}_more"
    client.create_table(other, {"id": "text", "k": "integer"}, ["id"])

    async with AsyncClient(server) as client:
        joined = await client.subscribe(f"SELECT * FROM {table} JOIN {other} USING (k)")
        new = {"table": other, "op": "insert", "row": {"id": "a", "k": 3}}
        partner = {"table": table, "op": "upsert", "row": ROW | {"k": 3}}
        made = await client.transact([new, partner], idempotency_key=table)
        assert made.count == 2
        assert await client.transact([new, partner], idempotency_key=table) == made, "applied once"
        assert (await joined.next(10)).seq == made.last_seq
        frame = await joined.to_pandas()
        assert frame[f"{other}.id"].tolist() == ["a"]
        assert frame[f"{table}.n"].tolist() == [Decimal("1.50")]
        with pytest.raises(ProsemError) as caught:
            await client.transact([{"table": other, "op": "truncate"}, new, new])
        assert caught.value.status == 409
        assert caught.value.errors[0]["at"].startswith("/events/2")


@pytest.mark.parametrize(("library", "extra"), [("pandas", "pandas"), ("pyarrow", "arrow")])
def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch, library: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'prosem-client\[{extra}\]'"):
        (to_pandas if extra == "pandas" else to_arrow)([Column("k", "integer", [1])])


def test_wide_numerics() -> None:
    found = to_arrow([Column("w", "numeric(50,2)", [Decimal("1.25")])])
    assert found.schema.types == [pyarrow.decimal256(50, 2)]
    with pytest.raises(ValueError, match="at most 76 digits"):
        to_arrow([Column("w", "numeric(99,2)", [])])
