"""The acceptance kit drives a server of its own from outside and compares everything with its oracle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from tests.support.kit import KIT, ROOT, scenarios

RANGES = "range-min,range-max,range-count,range-sum,range-avg,range-2d,distinct,filter"
VALUES = "value-change,value-percent,value-factor"
SCENARIOS = (
    f"tables,bad-input,{RANGES},{VALUES},params,resume,concurrent,ndjson,idempotency,durability".split(",")
)
KINDS = f"{RANGES},value-change"
DAY_S = 86_400
PARTS = 3
SERVE = f"{sys.executable} -m api.commands.cli serve --data-dir {{dir}} --port {{port}}"

pytestmark = pytest.mark.skipif(
    not (KIT / "run.py").is_file(),
    reason=f"there is no acceptance kit in {KIT}; PROSEM_ACCEPTANCE names its folder",
)


def today() -> int:
    return int(time.time()) // DAY_S


def run_kit(*options: str, timeout_s: float) -> str:
    command = [sys.executable, str(KIT / "run.py"), "--serve", SERVE]
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def check(output: str, named: Sequence[str]) -> None:
    """Each of these scenarios ran and none was skipped."""
    lines = output.splitlines()
    for name in named:
        assert any(line.startswith(f"{name}: ok (") for line in lines), output
    assert lines[-1] == f"{len(named)} passed, 0 failed"


def test_scenarios_in_miniature() -> None:
    """A third of them each day; `make stress` runs them all."""
    chosen = SCENARIOS[today() % PARTS :: PARTS]
    sizes = ("--subs", "16", "--events", "50", "--kills", "1")
    check(run_kit("--scenario", ",".join(chosen), "--kinds", KINDS, *sizes, timeout_s=180), chosen)


@pytest.mark.slow
def test_every_scenario() -> None:
    """Of every version of the contract, with the seed of the day."""
    check(run_kit("--seed", str(today()), timeout_s=1200), scenarios())


@pytest.mark.slow
def test_every_scenario_in_larger_domains() -> None:
    sizes = ("--realistic", "--subs", "120", "--events", "600")
    chosen = ("--scenario", ",".join(SCENARIOS), "--kinds", KINDS)
    check(run_kit("--seed", "6", *chosen, *sizes, timeout_s=1200), SCENARIOS)
