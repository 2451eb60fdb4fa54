"""A mixed workload like that of thesis 6.5.1: tables of a stocks application and fourteen types of subscriptions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from optimizer.choose import Chooser
from prosem import commands as c
from prosem.language.parse import parse
from prosem.metrics import Metrics
from prosem.state import State

DOMAIN = 10_000
SECTORS = 400
ROWS = {"stocks": 2_000, "prices": 500, "reviews": 2_000, "analysts": 1_000}


def _table(name: str, *columns: str) -> dict[str, Any]:
    described = [{"name": column, "type": "integer"} for column in columns]
    return {"name": name, "columns": described, "primary_key": [columns[0]]}


TABLES = (
    _table("stocks", "k", "risk", "per", "growth", "sector"),
    _table("prices", "symbol", "price"),
    _table("reviews", "review", "sector", "rating"),
    _table("analysts", "analyst", "sector", "experience"),
)
_RISK = "risk BETWEEN :lo AND :hi"
_BOTH = f"{_RISK} AND growth BETWEEN :lo2 AND :hi2"
# share of the subscriptions in percent, statement, notify: 30 aggregates, 30 values, 10 filters, 30 joins
TYPES: tuple[tuple[float, str, Any], ...] = (
    (4, f"SELECT MIN(per) FROM stocks WHERE {_RISK}", None),
    (4, f"SELECT MAX(per) FROM stocks WHERE {_RISK}", None),
    (3, f"SELECT COUNT(*) FROM stocks WHERE {_RISK}", None),
    (3, f"SELECT SUM(per) FROM stocks WHERE {_RISK}", None),
    (3, f"SELECT AVG(per) FROM stocks WHERE {_RISK}", None),
    (3, f"SELECT DISTINCT sector FROM stocks WHERE {_RISK}", None),
    (4, f"SELECT MIN(per) FROM stocks WHERE {_RISK} AND sector = :sector", None),
    (3, f"SELECT MIN(per) FROM stocks WHERE {_BOTH}", None),
    (3, f"SELECT COUNT(*) FROM stocks WHERE {_BOTH}", None),
    (15, "SELECT price FROM prices WHERE symbol = :symbol", "change"),
    (15, "SELECT price FROM prices WHERE symbol = :symbol", "percent"),
    (5, f"SELECT * FROM stocks WHERE {_RISK}", None),
    (5, f"SELECT * FROM stocks WHERE {_BOTH}", None),
    (
        30,
        "SELECT * FROM reviews JOIN analysts USING (sector) WHERE rating BETWEEN :lo AND :hi"
        " AND experience BETWEEN :lo2 AND :hi2",
        None,
    ),
)


def populated(chooser: Chooser, subscriptions: int, chance: random.Random) -> State:
    """A state with all tables filled and all subscriptions made."""
    state = State(chooser, Metrics())
    for table in TABLES:
        state.execute(c.CreateTable(table))
        state.begin()
    for name, number in ROWS.items():
        for key in range(number):
            state.execute(c.Publish(name, [{"op": "upsert", "row": _row(name, key, chance)}]))
        state.begin()
    for share, sql, kind in TYPES:
        query = parse(sql)
        for notify, rows in _subscriptions(int(subscriptions * share / 100), kind, query.parameters, chance):
            state.execute(c.Subscribe(query, notify, rows, batch=True))
            state.begin()
    return state


def _subscriptions(
    count: int, kind: str | None, names: Any, chance: random.Random
) -> Iterator[tuple[Any, Any]]:
    """Narrow and wide ranges, crowded in the middle; few radii, a template each."""
    templates = [None] if kind is None else [{kind: radius} for radius in (1, 2, 5, 10, 20)]
    for notify in templates:
        rows: list[tuple[None, dict[str, int]]] = []
        for _ in range(count // len(templates)):
            given: dict[str, int] = {
                "sector": chance.randrange(SECTORS),
                "symbol": min(chance.randrange(ROWS["prices"]) for _ in range(3)),
            }
            for low, high in (("lo", "hi"), ("lo2", "hi2")):
                middle, length = chance.gauss(DOMAIN / 2, 0.15 * DOMAIN), chance.expovariate(1 / 400)
                given |= {low: int(middle - length / 2), high: int(middle + length / 2)}
            rows.append((None, {name: given[name] for name in names}))
        yield notify, rows


def _row(table: str, key: int, chance: random.Random) -> dict[str, int]:
    names = next(one["columns"] for one in TABLES if one["name"] == table)
    row = {column["name"]: chance.randrange(DOMAIN) for column in names}
    if table == "prices":
        row["price"] = chance.randrange(50, 1_000)
    if "sector" in row:
        row["sector"] = int(
            SECTORS * chance.random() ** 1.5
        )  # few sectors have most stocks, and most reviews
    row[names[0]["name"]] = key
    return row


def events(count: int, state: State, chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ratios and prices move a little, now and then far; reviews come and are changed."""
    for _ in range(count):
        table = chance.choices(("stocks", "prices", "reviews"), (50, 40, 10))[0]
        key = chance.randrange(ROWS[table])
        rows = state.rows[state.tables()[table].id]
        if table == "reviews" or chance.random() < 0.05:
            yield table, {"op": "upsert", "row": _row(table, key, chance)}
            continue
        name, at = ("per", 2) if table == "stocks" else ("price", 1)
        present = rows[key,][at]
        moved = max(1, int(present + chance.gauss(0, 0.03 * present + 3)))
        key_name = "k" if table == "stocks" else "symbol"
        yield table, {"op": "update", "key": {key_name: key}, "set": {name: moved}}
