"""Backtests beside a server as a command, at full size; for `make soak`.

python -m tests.exactness --subscriptions 10000 --events 1000000
"""

from __future__ import annotations

import argparse
import random
import shutil

from pipeline.statistics.session import open_session
from prosem.store.embedded import EmbeddedPostgres
from tests.exactness.checking import check
from tests.exactness.recording import Size
from tests.support import scratch
from tests.support.processes import open_folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactness", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000, help="of all statements together")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    scratch.begin()
    folder = open_folder("prosem-exactness-")
    postgres = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    try:
        postgres.start()
        with open_session("local[2]") as session:
            size = Size.of(given.subscriptions, given.events)
            checked = check(postgres, session, folder, size, given.seed, lambda said: print(said, flush=True))
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
        scratch.end()
    print(*checked.differences, checked.summary, sep="\n")
    return 1 if checked.differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
