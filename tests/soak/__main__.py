"""A mixed load for a time, or so many kills under load, as a command; for `make soak`.

python -m tests.soak --seconds 3600 --image docs/images/soak.svg
python -m tests.soak --kills 1000
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import time
from pathlib import Path

from tests.soak.curves import Curves
from tests.soak.kills import CHECK_EVERY, PARTS, Kills
from tests.soak.load import Load, Pace
from tests.support import scratch
from tests.support.deployed import Deployed

WEIGHTS = (1, 2, 2, 2)  # the server lives longer, so that its memory can be seen to grow
FAST = Pace(publish_s=0.05, move_s=0.2, register_s=0.5, view_s=5)


async def kill_often(deployed: Deployed, seed: int, count: int) -> None:
    kills = Kills()
    async with Load(deployed, seed, FAST).running() as load:
        for done in range(0, count, CHECK_EVERY):
            await kills.strike_often(load, min(CHECK_EVERY, count - done))
            print(f"{kills.count} kills: {load.summary}", flush=True)
    print(kills.summary)


async def soak(
    deployed: Deployed, seed: int, seconds: float, kill_every_s: float, image: Path | None
) -> None:
    kills, end = Kills(), time.monotonic() + seconds
    async with Load(deployed, seed).running() as load:
        curves = Curves(load)
        sampling = asyncio.create_task(curves.sample())
        try:
            while time.monotonic() < end:
                await asyncio.sleep(max(0.0, min(kill_every_s, end - time.monotonic())))
                if time.monotonic() >= end:
                    break
                (part,) = load.chance.choices(PARTS, WEIGHTS)
                curves.kills.append((curves.now_min, part))
                await kills.strike(load, part)
                await load.check()
                print(f"minute {curves.now_min:.0f}: killed {part}; {load.summary}", flush=True)
        finally:
            sampling.cancel()
            if image is not None:
                curves.draw(image)
    print(*curves.summary, f"killed: {kills.summary}", load.summary, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long the mixed load goes on")
    parser.add_argument("--kill-every-s", type=float, default=240, help="after so long, a part is killed")
    parser.add_argument("--kills", type=int, help="so many kills one after another, instead of a time")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument(
        "--image", type=Path, help="where the curves of memory and latency are drawn (svg, png)"
    )
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    scratch.begin()
    try:
        with Deployed(2) as deployed:
            if given.kills:
                asyncio.run(kill_often(deployed, given.seed, given.kills))
            else:
                asyncio.run(soak(deployed, given.seed, given.seconds, given.kill_every_s, given.image))
    finally:
        scratch.end()
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"CPU: load {own.ru_utime + own.ru_stime:.0f} s, parts {children.ru_utime + children.ru_stime:.0f} s"
    )


if __name__ == "__main__":
    main()
