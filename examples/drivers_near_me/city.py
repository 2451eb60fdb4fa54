"""A generated city: streets on a grid, and drivers that follow them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

SIZE_M = 10_000
BLOCK_M = 500  # between two streets
TURNS = ((1, 0), (0, 1), (-1, 0), (0, -1))


@dataclass
class Driver:
    """On a street at all times: x or y is a multiple of BLOCK_M."""

    id: int
    name: str
    x: int
    y: int
    direction: tuple[int, int]
    speed_m: int
    is_free: bool
    stars: str

    def row(self) -> dict[str, Any]:
        status = "free" if self.is_free else "busy"
        return {
            "id": self.id,
            "name": self.name,
            "x": self.x,
            "y": self.y,
            "status": status,
            "stars": self.stars,
        }


class City:
    """The same seed gives the same drivers and the same moves."""

    def __init__(self, count: int, seed: int = 11) -> None:
        self._chance = random.Random(seed)
        self.drivers = [self._driver(number) for number in range(count)]

    def _driver(self, number: int) -> Driver:
        chance = self._chance
        street, along = chance.randrange(0, SIZE_M + 1, BLOCK_M), chance.randrange(0, SIZE_M + 1, 10)
        turn = chance.randrange(4)
        x, y = (along, street) if turn % 2 == 0 else (street, along)
        name = (
            chance.choice("BCDFGKLMNPRSTV")
            + chance.choice("aeiou")
            + chance.choice("klmnrst")
            + chance.choice("aeio")
        )
        is_free = chance.random() < 0.6
        return Driver(
            number,
            name,
            x,
            y,
            TURNS[turn],
            chance.randrange(20, 60, 10),
            is_free,
            f"{chance.uniform(3.5, 5):.1f}",
        )

    def move(self, share: float = 0.2) -> list[dict[str, Any]]:
        """Some drivers move on, turn at crossings, and pick up or drop passengers: events of one transaction."""
        events = []
        for driver in self._chance.sample(self.drivers, max(1, int(share * len(self.drivers)))):
            self._advance(driver)
            set = {"x": driver.x, "y": driver.y, "status": "free" if driver.is_free else "busy"}
            events.append({"op": "update", "key": {"id": driver.id}, "set": set})
        return events

    def _advance(self, driver: Driver) -> None:
        if driver.x % BLOCK_M == 0 and driver.y % BLOCK_M == 0 and self._chance.random() < 0.4:
            driver.direction = self._chance.choice(TURNS)
        dx, dy = driver.direction
        if not (0 <= driver.x + dx <= SIZE_M and 0 <= driver.y + dy <= SIZE_M):
            driver.direction = dx, dy = -dx, -dy
        step = driver.speed_m
        position = driver.x if dx else driver.y
        to_crossing = -position % BLOCK_M if dx + dy > 0 else position % BLOCK_M
        step = min(step, to_crossing or BLOCK_M)  # a crossing is not passed unseen
        driver.x += step * dx
        driver.y += step * dy
        if self._chance.random() < 0.01:
            driver.is_free = not driver.is_free
