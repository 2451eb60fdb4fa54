"""A market with skewed joins and several columns under ranges: the workload of `bench.with_statistics`.

Offers of shops, reviews of products. Products and shops are drawn by Zipf distributions, so that few join keys have most of
the rows. Stocks change with nearly every update of an offer, prices seldom; reviews come and the oldest go; shops change
rarely. Subscriptions compare several columns of a table by ranges of different widths; the first of them by position is the
best to find subscriptions by in some joins, and not in others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.parse import parse

DOMAIN = 10_000
SEEDS = {"rows": 17, "subscriptions": 5, "events": 29}
PRODUCTS, SHOPS = 300, 80
NOTE = "x" * 80  # what no condition looks at
EVENTS = {"offers": 60, "reviews": 36, "shops": 4}  # percent
PRICED = 0.1  # of the updates of offers change the price, the others the stock

_OFFERS_REVIEWS = "SELECT * FROM offers JOIN reviews USING (product) WHERE"
_OFFERS_SHOPS = "SELECT * FROM offers JOIN shops USING (shop) WHERE"
_ALL = "SELECT * FROM offers JOIN reviews USING (product) JOIN shops USING (shop) WHERE"


class Template(NamedTuple):
    """A statement without its conditions, and the columns under a range with its width in percent of the domain."""

    statement: str
    widths: Mapping[str, int]

    @property
    def sql(self) -> str:
        conditions = [f"{name} BETWEEN :lo{at} AND :hi{at}" for at, name in enumerate(self.widths)]
        return f"{self.statement} {' AND '.join(conditions)}"

    def parameters(self, chance: random.Random) -> dict[str, int]:
        found: dict[str, int] = {}
        for at, percent in enumerate(self.widths.values()):
            width = round(DOMAIN * percent / 100 * chance.uniform(0.5, 1.5))
            low = chance.randrange(max(1, DOMAIN - width))
            found |= {f"lo{at}": low, f"hi{at}": low + width}
        return found


TEMPLATES = (
    Template(_OFFERS_REVIEWS, {"offers.price": 10, "reviews.rating": 60, "reviews.age": 5}),
    Template(_OFFERS_REVIEWS, {"offers.price": 20, "offers.stock": 8, "reviews.rating": 10}),
    Template(_OFFERS_SHOPS, {"offers.price": 5, "offers.stock": 50, "shops.distance": 10}),
    Template(_ALL, {"offers.price": 30, "reviews.rating": 40, "shops.distance": 5}),
    Template(_ALL, {"reviews.age": 4, "shops.distance": 50, "shops.score": 8}),
    Template("SELECT MIN(price) FROM offers WHERE", {"stock": 3}),
    Template("SELECT * FROM reviews WHERE", {"rating": 10, "age": 10}),
)


def _table(name: str, *columns: str) -> dict[str, Any]:
    described = [{"name": column, "type": "integer"} for column in columns]
    return {"name": name, "columns": [*described, {"name": "note", "type": "text"}], "primary_key": ["k"]}


TABLES = (
    _table("offers", "k", "product", "shop", "stock", "price"),
    _table("reviews", "k", "product", "age", "rating"),
    _table("shops", "k", "shop", "distance", "score"),
)
ROWS = {"offers": 6_000, "reviews": 4_000, "shops": 400}


class Market:
    """Rows and events; the same for the same seeds. `share`: of the rows that there are at full size."""

    def __init__(self, share: float = 1.0, seed: int = SEEDS["rows"]) -> None:
        self.chance = random.Random(seed)
        self.counts = {name: max(40, round(count * share)) for name, count in ROWS.items()}
        self._weights = {
            "product": [1 / (rank + 1) for rank in range(PRODUCTS)],
            "shop": [(rank + 1) ** -0.8 for rank in range(SHOPS)],
        }
        self._reviews = range(0)  # those that there are

    def fill(self, state: EngineState) -> Iterator[None]:
        """Tables and rows; the batch is to be closed at each step."""
        for table in TABLES:
            state.execute(c.CreateTable(table))
            yield
        for name, count in self.counts.items():
            rows = [self._row(name, key) for key in range(count)]
            state.execute(c.Publish(name, [{"op": "insert", "row": row} for row in rows]))
            yield

    def _row(self, name: str, key: int) -> dict[str, Any]:
        columns = next(table["columns"] for table in TABLES if table["name"] == name)
        row: dict[str, Any] = {"k": key, "note": NOTE}
        for column in columns[1:-1]:
            row[column["name"]] = self._drawn(column["name"])
        return row

    def _drawn(self, column: str) -> int:
        weights = self._weights.get(column)
        return (
            self.chance.randrange(DOMAIN)
            if weights is None
            else self.chance.choices(range(len(weights)), weights)[0]
        )

    def go_on(self, state: EngineState, seed: int) -> None:
        """Make events from here on by another seed, over the rows of a state."""
        self.chance = random.Random(seed)
        keys = [key for (key,) in state.rows[state.tables()["reviews"].id]]
        self._reviews = range(min(keys), max(keys) + 1)

    def events(self, count: int) -> Iterator[c.Publish]:
        """So many, each a request; as many reviews come as go."""
        for _ in range(count):
            (table,) = self.chance.choices(list(EVENTS), list(EVENTS.values()))
            yield c.Publish(table, [self._event(table)])

    def _event(self, table: str) -> dict[str, Any]:
        if table == "reviews":
            if len(self._reviews) > self.counts["reviews"]:
                oldest, self._reviews = self._reviews[0], self._reviews[1:]
                return {"op": "delete", "key": {"k": oldest}}
            self._reviews = range(self._reviews.start, self._reviews.stop + 1)
            return {"op": "insert", "row": self._row("reviews", self._reviews[-1])}
        if table == "offers":
            column = "price" if self.chance.random() < PRICED else "stock"
        else:
            column = self.chance.choice(("distance", "score"))
        key = self.chance.randrange(self.counts[table])
        return {"op": "update", "key": {"k": key}, "set": {column: self.chance.randrange(DOMAIN)}}


def subscribe(state: EngineState, each: int) -> Iterator[None]:
    """So many of each template; the batch is to be closed at each step."""
    chance = random.Random(SEEDS["subscriptions"])
    for template in TEMPLATES:
        rows: list[tuple[str | None, dict[str, Any]]] = [
            (None, dict(template.parameters(chance))) for _ in range(each)
        ]
        state.execute(c.Subscribe(parse(template.sql), None, rows, batch=True))
        yield
