"""Prices that walk at random, some faster than others."""

from __future__ import annotations

import random
from typing import Any

SYMBOLS = ("AUR", "BEL", "CYG", "DRA", "ERI", "FOR", "GEM", "HYD", "IND", "LYR")


class Market:
    """The same seed gives the same prices. The first symbols move least."""

    def __init__(self, seed: int = 7) -> None:
        self._chance = random.Random(seed)
        self.prices = {symbol: round(self._chance.uniform(20, 200), 2) for symbol in SYMBOLS}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"op": "upsert", "row": {"symbol": name, "price": f"{at:.2f}"}}
            for name, at in self.prices.items()
        ]

    def step(self) -> list[dict[str, Any]]:
        """Three prices move."""
        events = []
        for symbol in self._chance.sample(SYMBOLS, 3):
            spread = 0.001 * (1 + SYMBOLS.index(symbol))
            self.prices[symbol] = max(1.0, self.prices[symbol] * self._chance.gauss(1, spread))
            events.append(
                {"op": "update", "key": {"symbol": symbol}, "set": {"price": f"{self.prices[symbol]:.2f}"}}
            )
        return events
