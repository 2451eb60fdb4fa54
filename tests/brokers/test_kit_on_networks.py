"""The acceptance kit behind a balancer and three brokers, on every network, with contents that brokers remember (CN*).

A fourth broker, which the others may stand below, is killed again and again.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cn.networks.node import star
from cn.networks.registry import SCHEMES
from tests.support.kit import KIT, ROOT

pytestmark = pytest.mark.slow
CONTENTS = "repository=400"
CHAIN = ",fan_out=1"  # the broker that is killed is above the others


@pytest.mark.skipif(not (KIT / "run.py").is_file(), reason=f"there is no acceptance kit in {KIT}")
@pytest.mark.parametrize("network", SCHEMES)
def test_the_kit_behind_a_balancer(network: str) -> None:
    options = CONTENTS + ("" if SCHEMES[network].overlay is star else CHAIN)
    front = "-m tests.support.brokers_front --data-dir {dir} --port {port} --killed-s 10"
    serve = f"{sys.executable} {front} --network {network} --network-options {options}"
    sizes = ("--subs", "40", "--events", "120", "--timeout", "60")
    done = subprocess.run(
        [sys.executable, str(KIT / "run.py"), "--serve", serve, *sizes],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
