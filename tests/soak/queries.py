"""What the mixed load subscribes to, with parameters drawn at random, and the same asked of PostgreSQL."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.live import Json

KEYS, SECTORS, REVIEWS, DOMAIN = 400, 12, 60, 1000
TABLES = {
    "stocks": (
        {
            "k": "integer",
            "sector": "integer",
            "risk": "integer",
            "per": "integer",
            "sent": "double precision",
        },
        ["k"],
    ),
    "reviews": ({"id": "integer", "sector": "integer", "rating": "integer"}, ["id"]),
}
VIEWS = {
    "sectors": "SELECT sector, COUNT(*) AS stocks, SUM(per) AS total FROM stocks GROUP BY sector",
    "rated": "SELECT id, k, per, rating FROM reviews JOIN stocks USING (sector) WHERE rating >= 9",
}
WITNESS = "SELECT k, sent FROM stocks WHERE k >= :k"  # has a change for every event of `stocks`
_RISK = "risk BETWEEN :low AND :high"
QUERIES: tuple[tuple[str, Json | None], ...] = (
    (f"SELECT MIN(per) FROM stocks WHERE {_RISK}", None),
    (f"SELECT MAX(per) FROM stocks WHERE {_RISK}", None),
    (f"SELECT COUNT(*) FROM stocks WHERE {_RISK}", None),
    (f"SELECT SUM(per) FROM stocks WHERE {_RISK}", None),
    (f"SELECT DISTINCT sector FROM stocks WHERE {_RISK}", None),
    (f"SELECT k, per FROM stocks WHERE {_RISK} AND per < :some", None),
    (f"SELECT sector, COUNT(*) AS n, SUM(per) AS total FROM stocks WHERE {_RISK} GROUP BY sector", None),
    (f"SELECT k, per FROM stocks WHERE {_RISK} ORDER BY per DESC LIMIT 5", None),
    (f"SELECT * FROM stocks JOIN reviews USING (sector) WHERE {_RISK} AND rating >= :rating", None),
    ("SELECT * FROM sectors WHERE total >= :some", None),
    ("SELECT MAX(total) FROM sectors WHERE stocks >= :few", None),
    ("SELECT COUNT(*) FROM rated WHERE per BETWEEN :low AND :high", None),
    ("SELECT per FROM stocks WHERE k = :k", {"change": 50}),
    (f"SELECT AVG(per) FROM stocks WHERE {_RISK}", {"percent": 5}),
)


def draw(sql: str, chance: random.Random) -> Json:
    """Parameters for a query."""
    low = chance.randrange(DOMAIN)
    drawn = {
        "low": low,
        "high": low + chance.randrange(DOMAIN // 5),
        "some": chance.randrange(DOMAIN),
        "few": chance.randrange(KEYS // SECTORS),
        "rating": chance.randrange(8, 11),
        "k": chance.randrange(KEYS),
    }
    return {name: drawn[name] for name in re.findall(r":(\w+)", sql)}


def stock(key: int, sent: float, chance: random.Random) -> Json:
    return {
        "k": key,
        "sector": chance.randrange(SECTORS),
        "risk": chance.randrange(DOMAIN),
        "per": chance.randrange(DOMAIN),
        "sent": sent,
    }


def review(key: int, chance: random.Random) -> Json:
    return {"id": key, "sector": chance.randrange(SECTORS), "rating": chance.randrange(11)}


class Oracle:
    """PostgreSQL, asked the query itself; views are common table expressions."""

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(
            address, autocommit=True, row_factory=dict_row, options="-c search_path=tenant_default"
        )

    def close(self) -> None:
        self._connection.close()

    def rows(self, table: str) -> list[Json]:
        return self._connection.execute(f"SELECT * FROM {table}").fetchall()  # type: ignore[call-overload,no-any-return]

    def answer(self, sql: str, params: Json) -> object:
        """In the form of `essence`."""
        names = ", ".join(f"{name} AS ({text})" for name, text in VIEWS.items())
        if "JOIN reviews" in sql:
            sql = sql.replace("SELECT *", "SELECT to_jsonb(stocks) AS stocks, to_jsonb(reviews) AS reviews")
        sql = sql.replace(" LIMIT", ", k LIMIT")  # ties are in the order of the primary key
        text = re.sub(r":(\w+)", r"%(\1)s", f"WITH {names} {sql}")
        rows = self._connection.execute(text, params).fetchall()  # type: ignore[call-overload]
        if "DISTINCT" in sql:
            return _sorted(row["sector"] for row in rows)
        if re.match(r"SELECT (MIN|MAX|COUNT|SUM)\(", sql):
            return _plain(next(iter(rows[0].values())))
        return _sorted(rows)


def essence(answer: Json) -> object:
    """What of an answer must be the same: not the order of rows, nor which row attains a minimum."""
    for held in ("rows", "groups", "values"):
        if held in answer:
            return _sorted(answer[held])
    return _plain(answer["value"])


def _sorted(values: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(_plain(value), sort_keys=True) for value in values)


def _plain(value: Any) -> Any:
    """Numbers of all types alike."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return None if value is None else float(value)
