"""The acceptance kit drives a server of its own from outside and compares everything with its oracle."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.kit import KIT, ROOT

RANGES = "range-min,range-max,range-count,range-sum,range-avg,range-2d,distinct,filter"
VALUES = "value-change,value-percent,value-factor"
SCENARIOS = f"tables,bad-input,{RANGES},{VALUES},params,resume,concurrent,ndjson,idempotency,durability"
KINDS = f"{RANGES},value-change"
SERVE = f"{sys.executable} -m api.commands.cli serve --data-dir {{dir}} --port {{port}}"

pytestmark = pytest.mark.skipif(
    not (KIT / "run.py").is_file(),
    reason=f"there is no acceptance kit in {KIT}; PROSEM_ACCEPTANCE names its folder",
)


def run_kit(*options: str, timeout_s: float) -> str:
    command = [
        sys.executable,
        str(KIT / "run.py"),
        "--serve",
        SERVE,
        "--scenario",
        SCENARIOS,
        "--kinds",
        KINDS,
    ]
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


def check(output: str) -> None:
    """Every scenario ran and none was skipped."""
    lines = output.splitlines()
    for name in SCENARIOS.split(","):
        assert any(line.startswith(f"{name}: ok (") for line in lines), output
    assert lines[-1] == f"{len(SCENARIOS.split(','))} passed, 0 failed"


def test_every_scenario_in_miniature() -> None:
    check(run_kit("--subs", "16", "--events", "50", "--kills", "1", timeout_s=180))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_every_scenario(seed: int) -> None:
    check(run_kit("--seed", str(seed), timeout_s=1200))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7])
def test_every_scenario_in_larger_domains(seed: int) -> None:
    check(run_kit("--seed", str(seed), "--realistic", "--subs", "120", "--events", "600", timeout_s=1200))
