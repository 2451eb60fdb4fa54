"""A publisher process: batches of 100 random updates over two connections, as fast as they are answered."""

from __future__ import annotations

import asyncio
import random
import sys
import time

import httpx
import msgspec

BATCH = 100


async def main(url: str, tuples: int, seconds: float, seed: int) -> int:
    chance, count, deadline = random.Random(seed), 0, time.perf_counter() + seconds
    bodies = [
        msgspec.json.encode({"events": [_event(chance, tuples) for _ in range(BATCH)]}) for _ in range(200)
    ]

    async def one(client: httpx.AsyncClient, at: int) -> None:
        nonlocal count
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

    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        await asyncio.gather(*(one(client, at * 50) for at in range(4)))
    return count


def _event(chance: random.Random, tuples: int) -> dict[str, object]:
    return {"op": "update", "key": {"k": chance.randrange(tuples)}, "set": {"y": chance.randrange(10_000)}}


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))))
