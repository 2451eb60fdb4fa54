"""Drivers near me: `python -m examples.drivers_near_me`, then open the address that it prints."""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path

from prosem_client import AsyncClient

from examples.drivers_near_me.city import SIZE_M, City
from examples.running import Pages, own_folder, own_server, run, say

HERE = Path(__file__).parent
COLUMNS = {
    "id": "integer",
    "name": "text",
    "x": "integer",
    "y": "integer",
    "status": "text",
    "stars": "numeric(2,1)",
}
# A box around a moving point: the page subscribes to the same query, with its own position.
NEAR = "x BETWEEN :x - :reach AND :x + :reach AND y BETWEEN :y - :reach AND :y + :reach"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.drivers_near_me", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0, help="end after so many seconds (default: at Ctrl-C)"
    )
    parser.add_argument("--port", type=int, default=8090, help="port of the page")
    parser.add_argument("--drivers", type=int, default=600)
    parser.add_argument(
        "--riders", type=int, default=2000, help="other subscriptions, each around its own position"
    )
    parser.add_argument(
        "--rate", type=float, default=10, help="transactions per second; each moves a fifth of the drivers"
    )
    options = parser.parse_args()
    with (
        Pages(HERE, options.port) as pages,
        own_folder() as folder,
        own_server(folder, "--origins", pages.url) as url,
    ):
        pages.config = {"server": url, "near": NEAR, "size": str(SIZE_M)}
        run(lambda: drive(url, pages.url, options.drivers, options.riders, options.rate), options.seconds)


async def drive(url: str, page: str, drivers: int, riders: int, rate: float) -> None:
    async with AsyncClient(url) as client:
        city = City(drivers)
        await client.create_table("drivers", COLUMNS, ["id"])
        await client.publish("drivers", [{"op": "upsert", "row": one.row()} for one in city.drivers])
        await client.subscribe_many(
            f"SELECT COUNT(*) FROM drivers WHERE status = 'free' AND {NEAR}", crowd(riders)
        )
        say(f"open {page}/")
        while True:
            await client.publish("drivers", city.move())
            await asyncio.sleep(1 / rate)


def crowd(count: int) -> list[dict[str, object]]:
    """Other riders: subscriptions that the server maintains beside the page's."""
    chance = random.Random(5)
    return [
        {
            "params": {
                "x": chance.randrange(SIZE_M),
                "y": chance.randrange(SIZE_M),
                "reach": chance.randrange(200, 2000),
            }
        }
        for _ in range(count)
    ]


if __name__ == "__main__":
    main()
