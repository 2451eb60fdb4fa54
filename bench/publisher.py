"""A publisher process: batches of 100 random updates, as fast as they are answered or at a steady rate.

It speaks HTTP over raw connections, so that what is measured is the server and not a client library.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from urllib.parse import urlsplit

import msgspec

BATCH = 100
BODIES = 200
IN_FLIGHT = 4  # requests of one process


async def main(
    url: str, tuples: int, seconds: float, seed: int, rate: float, lowest: int
) -> tuple[int, float]:
    """Events sent, and in how many seconds.

    `rate`: events per second over one connection; `lowest`: the least y, 5000 affects few.
    """
    chance, place = random.Random(seed), urlsplit(url)
    bodies = [
        msgspec.json.encode({"events": [_event(chance, tuples, lowest) for _ in range(BATCH)]})
        for _ in range(BODIES)
    ]
    requests = [_request(place.netloc, body) for body in bodies]
    start = time.perf_counter()
    deadline = start + seconds

    async def one(at: int) -> int:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        count, due = 0, time.perf_counter()
        while time.perf_counter() < deadline:
            at += 1
            writer.write(requests[at % BODIES])
            status = await _status(reader)
            if status == 503:
                await asyncio.sleep(0.05)
                continue
            if status != 200:
                raise RuntimeError(f"the server answered {status}")
            count += BATCH
            if rate:
                due += BATCH / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
        writer.close()
        return count

    connections = 1 if rate else IN_FLIGHT
    counts = await asyncio.gather(*(one(at * BODIES // connections) for at in range(connections)))
    return sum(counts), time.perf_counter() - start


def _request(host: str, body: bytes) -> bytes:
    head = f"POST /v1/tables/stocks/events HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of a response, whose body is read over."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(size))
    return int(head.split(b" ", 2)[1])


def _event(chance: random.Random, tuples: int, lowest: int) -> dict[str, object]:
    return {
        "op": "update",
        "key": {"k": chance.randrange(tuples)},
        "set": {"y": chance.randrange(lowest, 10_000)},
    }


if __name__ == "__main__":
    where, size, span, number, steady, least = sys.argv[1:]
    print(*asyncio.run(main(where, int(size), float(span), int(number), float(steady), int(least))))
