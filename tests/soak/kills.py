"""kill -9 of any part while the load goes on."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator

from tests.soak.load import Load
from tests.support.deployed import Deployed

PARTS = ("server", "broker", "nats", "postgres")
CHECK_EVERY = 10


class Kills:
    """`recovered_s`: by part, from each kill until a new event has come to every socket."""

    def __init__(self) -> None:
        self.recovered_s: dict[str, list[float]] = {part: [] for part in PARTS}

    @property
    def count(self) -> int:
        return sum(map(len, self.recovered_s.values()))

    async def strike(self, load: Load, part: str) -> None:
        since = time.monotonic()
        print(f"kill {self.count + 1}: {part}")
        await asyncio.to_thread(_kill, load.deployed, part, load.chance)
        await load.caught_up()
        self.recovered_s[part].append(time.monotonic() - since)

    async def strike_often(self, load: Load, count: int) -> None:
        """So many, of each part as often as of any other, with a check every so often."""
        for number, part in zip(range(1, count + 1), _shuffled(load.chance), strict=False):
            await asyncio.sleep(load.chance.random())
            await self.strike(load, part)
            if number % CHECK_EVERY == 0:
                await load.check()

    @property
    def summary(self) -> str:
        return ", ".join(
            f"{part} {len(times)} (recovered in {statistics.median(times):.1f} s, at most {max(times):.1f} s)"
            for part, times in self.recovered_s.items()
            if times
        )


def _shuffled(chance: random.Random) -> Iterator[str]:
    while True:
        yield from chance.sample(PARTS, len(PARTS))


def _kill(deployed: Deployed, part: str, chance: random.Random) -> None:
    """The server starts its NATS and its PostgreSQL again by itself; the others are started as systemd would."""
    if part == "nats":
        deployed.kill_nats()
    elif part == "postgres":
        deployed.kill_postgres()
    else:
        process = deployed.server if part == "server" else chance.choice(deployed.brokers)
        process.kill()
        process.start()
