"""The simulation as a command, for `make soak`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.campaign import keep, read_plan, regressions, search
from tests.simulation.world import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long to search")
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1000, help="the first seed")
    parser.add_argument("--seeds", type=int, help="how many, instead of a time")
    given = parser.parse_args()
    for path in regressions():
        if problems := run(read_plan(path)).problems:
            print(f"{path.name} fails again: {problems[0]}")
            return 1
    print(f"seeds from {given.seed} on", flush=True)
    found = search(given.seed, given.seconds, given.seeds)
    if found.failure is not None:
        print(found.failure)
        print(f"kept as {keep(found.failure).name}")
    print(found.summary)
    return 0 if found.failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
