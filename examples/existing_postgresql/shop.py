"""An application that exists already: it writes to its PostgreSQL and knows nothing of ProSem."""

from __future__ import annotations

import random

import psycopg

TENANTS = ("acme", "bolt", "core")
SCHEMA = """
    CREATE TABLE orders (no integer PRIMARY KEY, tenant text NOT NULL, status text NOT NULL, total numeric(10,2) NOT NULL);
    CREATE TABLE payments (
        no integer PRIMARY KEY, tenant text NOT NULL, of_order integer NOT NULL, amount numeric(10,2) NOT NULL
    );
"""


class Shop:
    """Each call is one transaction of the application."""

    def __init__(self, url: str, seed: int = 2) -> None:
        self._connection = psycopg.connect(url)
        self._chance = random.Random(seed)
        self._last = 0
        with self._connection.transaction():
            self._connection.execute(SCHEMA)

    def sell(self) -> tuple[str, int]:
        """Some orders of one tenant, each paid in one or two payments: the tenant, and the number of rows written."""
        chance, tenant, written = self._chance, self._chance.choice(TENANTS), 0
        with self._connection.transaction():
            for _ in range(chance.randint(1, 3)):
                self._last += 1
                total = chance.randrange(1000, 50_000)
                self._connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, 'paid', %s)",
                    [self._last, tenant, f"{total / 100:.2f}"],
                )
                parts = [total] if chance.random() < 0.5 else [total // 2, total - total // 2]
                for number, amount in enumerate(parts):
                    row = [2 * self._last + number, tenant, self._last, f"{amount / 100:.2f}"]
                    self._connection.execute("INSERT INTO payments VALUES (%s, %s, %s, %s)", row)
                written += 1 + len(parts)
        return tenant, written

    def close(self) -> None:
        self._connection.close()
