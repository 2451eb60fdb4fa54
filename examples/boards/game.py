"""Generated data: players that score, and a shop that takes orders."""

from __future__ import annotations

import random
from typing import Any

COUNTRIES = ("AT", "BR", "CA", "DE", "JP", "KE", "NZ")
PRODUCTS = (("Lamp", "39.90"), ("Chair", "129.00"), ("Desk", "349.00"), ("Shelf", "89.50"), ("Rug", "74.00"))
STATES = ("new", "packed", "shipped")
TABLES: dict[str, tuple[dict[str, str], list[str]]] = {
    "players": ({"name": "text", "country": "text", "points": "integer"}, ["name"]),
    "products": ({"product": "text", "price": "numeric(10,2)"}, ["product"]),
    "orders": ({"no": "integer", "customer": "text", "status": "text"}, ["no"]),
    "lines": (
        {"order_no": "integer", "line": "integer", "product": "text", "quantity": "integer"},
        ["order_no", "line"],
    ),
}
# A view over a join of three tables; its rows change when a line, a price or the status of an order does.
WORTH = (
    "SELECT l.order_no, l.line, o.no, p.product, o.customer, o.status, l.quantity * p.price AS worth FROM lines l"
    " JOIN orders o ON o.no = l.order_no JOIN products p ON p.product = l.product"
)
Event = dict[str, Any]


class World:
    """The same seed gives the same players, orders and events."""

    def __init__(self, players: int = 400, seed: int = 3) -> None:
        self._chance = random.Random(seed)
        self.players = {self._name(number): self._chance.choice(COUNTRIES) for number in range(players)}
        self.points = {name: self._chance.randrange(0, 5000, 10) for name in self.players}
        self.orders: dict[int, str] = {}

    def _name(self, number: int) -> str:
        sound = "".join(
            self._chance.choice(letters) for letters in ("BDFGKLMNRSTV", "aeiou", "klmnrst", "aeio")
        )
        return f"{sound}{number}"

    def begin(self) -> dict[str, list[Event]]:
        """The rows of the tables at the start."""
        return {
            "players": [
                {"op": "upsert", "row": {"name": name, "country": country, "points": self.points[name]}}
                for name, country in self.players.items()
            ],
            "products": [
                {"op": "upsert", "row": {"product": name, "price": price}} for name, price in PRODUCTS
            ],
        }

    def scores(self) -> list[Event]:
        """Some players score."""
        events = []
        for name in self._chance.sample(sorted(self.players), 5):
            self.points[name] += self._chance.choice((10, 20, 50, 300))
            events.append({"op": "update", "key": {"name": name}, "set": {"points": self.points[name]}})
        return events

    def order(self) -> list[Event]:
        """A new order with its lines, one that moves on, and now and then another price: one transaction."""
        chance, no = self._chance, len(self.orders) + 1
        self.orders[no] = STATES[0]
        customer = chance.choice(sorted(self.players))
        events: list[Event] = [
            {"table": "orders", "op": "insert", "row": {"no": no, "customer": customer, "status": STATES[0]}}
        ]
        for line, (product, _) in enumerate(chance.sample(PRODUCTS, chance.randint(1, 3)), 1):
            row = {"order_no": no, "line": line, "product": product, "quantity": chance.randint(1, 4)}
            events.append({"table": "lines", "op": "insert", "row": row})
        if waiting := [number for number, status in self.orders.items() if status != STATES[-1]]:
            moved = chance.choice(waiting[:5])
            self.orders[moved] = STATES[STATES.index(self.orders[moved]) + 1]
            status = {"status": self.orders[moved]}
            events.append({"table": "orders", "op": "update", "key": {"no": moved}, "set": status})
        if chance.random() < 0.2:
            product, price = chance.choice(PRODUCTS)
            changed = {"price": f"{float(price) * chance.uniform(0.9, 1.1):.2f}"}
            events.append({"table": "products", "op": "update", "key": {"product": product}, "set": changed})
        return events
