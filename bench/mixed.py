"""The mixed workload of [ProSem thesis] 6.5.1: a stocks application with three tables, 14 types and 100,000 subscriptions.

Every number is [ProSem thesis]'s own, from 6.5.1 or from the chapter that evaluates the type, so that none can be chosen for
its result:

- Shares of the subscriptions (6.5.1): 30 % range aggregates and 10 % filters on `stocks`, 30 % values on `prices`; the
  rest are select-joins. A class is divided evenly among its types: the six aggregates; values by the three conditions
  of chapter 4 (absolute; relative; may and must); joins like example 5 by `per`, by `risk` and by both; filters of one and
  of two columns.
- Shares of the events: 6.5.1 replays about 800,000, of which the trace of 3.5.5 has 338,415 (`stocks`) and that of 4.7.2
  50,000 for each of 5 stocks (`prices`); what remains are `reviews`, which 6.5.1 makes up. So 42 %, 31 % and 27 %.
- `stocks`: 3,053 rows (3.5.5). `risk` is uniform in [0, 10000], and ranges on it have midpoints N(5000, 1500) and lengths
  N(1000, 1000) (table 3.1). `per` walks at random by steps that grow with the value, with 0.5 % spikes (3.5.3).
- `prices`: 5 rows (4.7.2), values AR1(400, 1, 1000), radii N(25000, 50000) in [1, 200000] (table 4.1, diff-rad). Prices
  begin in the middle of that domain; relative radii are the same in percent of it. One that may be told from r on must be
  told from 2 r on.
- Joins: table 5.2, a tenth of its domain: 100 symbols, `per` begins as N(N1, 800), 70 % of the symbols have reviews, by a
  Zipf distribution of 0.8; 2,300 reviews (5.7.2), which come, the oldest going (5.7.1). Ranges as there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from optimizer.choose import Chooser
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.runtime.metrics import Metrics

DOMAIN = 10_000
SEED = 11
SYMBOLS = 100
ROWS = {"stocks": 3_053, "prices": 5, "reviews": 2_300}
EVENTS = {"stocks": 338_415, "prices": 250_000, "reviews": 800_000 - 338_415 - 250_000}
SPIKES = 0.005
FIRST_PRICE = 100_000
_RISK, _PER, _RATING = (f"{name} BETWEEN :{name}_lo AND :{name}_hi" for name in ("risk", "per", "rating"))
_PRICE = "SELECT price FROM prices WHERE stock = :stock"
_JOIN = "SELECT * FROM stocks JOIN reviews USING (symbol) WHERE"


class Type(NamedTuple):
    """Its share of the subscriptions in percent, the statement, and the kind of its notification condition."""

    share: float
    sql: str
    notify: str | None = None


TYPES = (
    Type(5, f"SELECT MIN(per) FROM stocks WHERE {_RISK}"),
    Type(5, f"SELECT MAX(per) FROM stocks WHERE {_RISK}"),
    Type(5, f"SELECT COUNT(*) FROM stocks WHERE {_RISK}"),
    Type(5, f"SELECT SUM(per) FROM stocks WHERE {_RISK}"),
    Type(5, f"SELECT AVG(per) FROM stocks WHERE {_RISK}"),
    Type(5, f"SELECT DISTINCT symbol FROM stocks WHERE {_RISK}"),
    Type(10, _PRICE, "change"),
    Type(10, _PRICE, "percent"),
    Type(10, _PRICE, "may"),
    Type(10, f"{_JOIN} {_PER} AND {_RATING}"),
    Type(10, f"{_JOIN} {_RISK} AND {_RATING}"),
    Type(10, f"{_JOIN} {_PER} AND {_RISK} AND {_RATING}"),
    Type(5, f"SELECT * FROM stocks WHERE {_RISK}"),
    Type(5, f"SELECT * FROM stocks WHERE {_RISK} AND {_PER}"),
)


def _table(name: str, *columns: str) -> dict[str, Any]:
    described = [{"name": column, "type": "integer"} for column in columns]
    return {"name": name, "columns": described, "primary_key": [columns[0]]}


TABLES = (
    _table("stocks", "k", "symbol", "risk", "per"),
    _table("prices", "stock", "price"),
    _table("reviews", "review", "symbol", "rating"),
)


class Mixed:
    """A state with all tables and subscriptions, and the events that follow; the same for the same `seed`."""

    def __init__(self, chooser: Chooser, subscriptions: int, seed: int = SEED) -> None:
        self.chance = chance = random.Random(seed)
        self.state = state = EngineState(chooser, Metrics())
        self._per_means = [chance.gauss(chance.choice((2_500, 7_500)), 300) for _ in range(SYMBOLS)]
        self._rating_means = [chance.gauss(5_000, 1_000) for _ in range(SYMBOLS)]
        self._reviewed = chance.sample(range(SYMBOLS), SYMBOLS * 7 // 10)
        self._popularity = [(rank + 1) ** -0.8 for rank in range(len(self._reviewed))]
        self._reviews = range(0)  # those that stand
        for table in TABLES:
            state.execute(c.CreateTable(table))
            state.begin()
        stocks = [self._stock(key) for key in range(ROWS["stocks"])]
        prices = [{"stock": stock, "price": FIRST_PRICE} for stock in range(ROWS["prices"])]
        reviews = [self._review() for _ in range(ROWS["reviews"])]
        for name, rows in (("stocks", stocks), ("prices", prices), ("reviews", reviews)):
            state.execute(c.Publish(name, [{"op": "insert", "row": row} for row in rows]))
            state.begin()
        for kind in TYPES:
            self._subscribe(kind, round(subscriptions * kind.share / 100))

    # -- subscriptions -------------------------------------------------------------------------------------------
    def _subscribe(self, kind: Type, count: int) -> None:
        query = parse(kind.sql)
        notify: Any = {kind.notify: ":radius"} if kind.notify else None
        if kind.notify == "may":
            notify["must"] = ":limit"
        rows = []
        for _ in range(count):
            drawn = {"stock": self.chance.randrange(ROWS["prices"]), **self._ranges("JOIN" in kind.sql)}
            params: dict[str, Any] = {name: drawn[name] for name in query.parameters}
            if kind.notify:
                params["radius"] = self._radius(kind.notify)
            if kind.notify == "may":
                params["limit"] = 2 * params["radius"]
            rows.append((None, params))
        self.state.execute(c.Subscribe(query, notify, rows, batch=True))
        self.state.begin()

    def _radius(self, notify: str) -> float:
        radius = 0
        while not 1 <= radius <= 200_000:
            radius = round(self.chance.gauss(25_000, 50_000))
        return max(0.01, round(100 * radius / FIRST_PRICE, 2)) if notify == "percent" else radius

    def _ranges(self, joins: bool) -> dict[str, int]:
        """Ranges of table 3.1, and those of table 5.2 for joins."""
        gauss, either = self.chance.gauss, self.chance.choice
        if not joins:
            of_risk = gauss(5_000, 1_500), gauss(1_000, 1_000)
            return _range("risk", *of_risk) | _range("per", gauss(5_000, 1_500), gauss(1_000, 1_000))
        middle, width = gauss(either((3_000, 7_000)), 1_000), gauss(2_000, 500)
        rating = _range("rating", gauss(either((1_500, 8_500)), 600), gauss(600, 500))
        return _range("risk", middle, width) | _range("per", middle, width) | rating

    # -- rows and events -----------------------------------------------------------------------------------------
    def _stock(self, key: int) -> dict[str, int]:
        symbol = self.chance.randrange(SYMBOLS)
        per = _clipped(self.chance.gauss(self._per_means[symbol], 800))
        return {"k": key, "symbol": symbol, "risk": self.chance.randrange(DOMAIN + 1), "per": per}

    def _review(self) -> dict[str, int]:
        (symbol,) = self.chance.choices(self._reviewed, self._popularity)
        rating = _clipped(self.chance.gauss(self._rating_means[symbol], 300))
        self._reviews = range(self._reviews.start, self._reviews.stop + 1)
        return {"review": self._reviews[-1], "symbol": symbol, "rating": rating}

    def _present(self, table: str, key: int) -> int:
        """The last column of a row."""
        value: int = self.state.rows[self.state.tables()[table].id][key,][-1]
        return value

    def events(self, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """So many; each is to be published before the next is asked for, or its table's rows are not those it builds on."""
        chance = self.chance
        back: list[tuple[str, dict[str, Any]]] = []  # from a spike
        for _ in range(count):
            if back:
                yield back.pop()
                continue
            (table,) = chance.choices(list(EVENTS), list(EVENTS.values()))
            if table == "reviews":
                if len(self._reviews) > ROWS["reviews"]:
                    oldest = self._reviews[0]
                    self._reviews = self._reviews[1:]
                    yield table, {"op": "delete", "key": {"review": oldest}}
                else:
                    yield table, {"op": "insert", "row": self._review()}
                continue
            key = chance.randrange(ROWS[table])
            present = self._present(table, key)
            if table == "prices":
                yield (
                    table,
                    _moved("stock", key, "price", max(1, round(400 + present + chance.gauss(0, 1_000)))),
                )
            elif chance.random() < SPIKES:
                back.append((table, _moved("k", key, "per", present)))
                yield table, _moved("k", key, "per", present // 20)
            else:
                step = max(1, int(abs(chance.gauss(0, 0.05)) * (present + 100)))
                yield table, _moved("k", key, "per", _clipped(present + chance.choice((-step, step))))


def _moved(key_name: str, key: int, name: str, value: int) -> dict[str, Any]:
    return {"op": "update", "key": {key_name: key}, "set": {name: value}}


def _range(name: str, middle: float, length: float) -> dict[str, int]:
    half = abs(length) / 2
    return {f"{name}_lo": _clipped(middle - half), f"{name}_hi": _clipped(middle + half)}


def _clipped(value: float) -> int:
    return max(0, min(DOMAIN, round(value)))
