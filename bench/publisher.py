"""A publisher process: batches of 100 random updates, as fast as they are answered or at a steady rate."""

from __future__ import annotations

import asyncio
import random
import sys
import time

import httpx
import msgspec

BATCH = 100


async def main(url: str, tuples: int, seconds: float, seed: int, rate: float) -> int:
    """Events sent; with a `rate` (events per second) over one connection and only such as affect few."""
    chance, count, deadline = random.Random(seed), 0, time.perf_counter() + seconds
    lowest = 5_000 if rate else 0
    bodies = [
        msgspec.json.encode({"events": [_event(chance, tuples, lowest) for _ in range(BATCH)]})
        for _ in range(200)
    ]

    async def one(client: httpx.AsyncClient, at: int) -> None:
        nonlocal count
        due = time.perf_counter()
        while time.perf_counter() < deadline:
            at += 1
            answer = await client.post(
                "/v1/tables/stocks/events",
                content=bodies[at % 200],
                headers={"Content-Type": "application/json"},
            )
            if answer.status_code == 503:
                await asyncio.sleep(0.05)
                continue
            answer.raise_for_status()
            count += BATCH
            if rate:
                due += BATCH / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))

    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        await asyncio.gather(*(one(client, at * 50) for at in range(1 if rate else 4)))
    return count


def _event(chance: random.Random, tuples: int, lowest: int) -> dict[str, object]:
    return {
        "op": "update",
        "key": {"k": chance.randrange(tuples)},
        "set": {"y": chance.randrange(lowest, 10_000)},
    }


if __name__ == "__main__":
    where, size, span, number, *steady = sys.argv[1:]
    print(asyncio.run(main(where, int(size), float(span), int(number), float(steady[0]) if steady else 0.0)))
