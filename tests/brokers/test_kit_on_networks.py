"""The acceptance kit behind three brokers on every network, a part of its scenarios on each; `make soak` runs them all.

Every scenario meets a network, another one every day. That every network loses servers and streams is in
`test_brokers_long.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.networks.registry import SCHEMES
from tests.support.effort import today
from tests.support.kit import KIT, run_on, scenarios

pytestmark = pytest.mark.skipif(not (KIT / "run.py").is_file(), reason=f"there is no acceptance kit in {KIT}")
PARTS = len(SCHEMES)  # all networks together run the whole kit, and each another part of it every day


def test_sockets_outlive_their_broker(tmp_path: Path) -> None:
    """Two scenarios in miniature on the network of the day: what resumed sockets are sent is exact."""
    network, report = [*SCHEMES][today() % PARTS], tmp_path / "resumed"
    killed = f"--brokers 1 --killed-s 1 --resumed {report} --lease-s 2"
    chosen = ("filter", "resume")
    done = run_on(network, chosen, "--subs", "24", "--events", "60", killed=killed)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.splitlines()[-1] == f"{len(chosen)} passed, 0 failed"
    assert int(report.read_text()) > 0, "a broker with sockets was killed"


@pytest.mark.slow
@pytest.mark.parametrize("network", SCHEMES)
def test_the_kit_behind_a_balancer(network: str) -> None:
    chosen = scenarios()[(list(SCHEMES).index(network) + today()) % PARTS :: PARTS]
    done = run_on(network, chosen, "--kills", "3")
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.splitlines()[-1] == f"{len(chosen)} passed, 0 failed"
