"""The acceptance kit: where it is, what it has, and the kit on every network (`python -m tests.support.kit`; `make soak`).

On a network it runs behind a balancer and three brokers, with contents that brokers remember (CN*). A fourth broker, which
the others may be below and where sockets begin, is killed every ten seconds meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cn.networks.node import star
from cn.networks.registry import SCHEMES

ROOT = Path(__file__).parents[2]
KIT = Path(os.environ.get("PROSEM_ACCEPTANCE") or ROOT.parent / "shared" / "acceptance")
CONTENTS = "repository=400"
CHAIN = ",fan_out=1"  # the broker that is killed is above the others


def scenarios() -> list[str]:
    """The names of all scenarios, in the kit's order."""
    listed = subprocess.run(
        [sys.executable, "-c", "import run; print(*run.SCENARIOS)"],
        cwd=KIT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


def run_kit(
    serve: str, chosen: Sequence[str], *options: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """These scenarios on servers started by that command; what the kit printed, and its exit code."""
    return subprocess.run(
        [sys.executable, str(KIT / "run.py"), "--serve", serve, "--scenario", ",".join(chosen), *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_on(
    network: str, chosen: Sequence[str], *options: str, killed: str = "--killed-s 10"
) -> subprocess.CompletedProcess[str]:
    """The same on a network of brokers; `killed` is for `brokers_front`."""
    more = CONTENTS + ("" if SCHEMES[network].overlay is star else CHAIN)
    front = f"-m tests.support.brokers_front --data-dir {{dir}} --port {{port}} {killed}"
    serve = f"{sys.executable} {front} --network {network} --network-options {more}"
    return run_kit(serve, chosen, "--subs", "40", "--events", "120", "--timeout", "60", *options)


def main() -> int:
    """Every scenario on every network."""
    failed = 0
    for network in SCHEMES:
        print(f"the kit on {network}", flush=True)
        done = run_on(network, scenarios())
        print(done.stdout, flush=True)
        failed += done.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
