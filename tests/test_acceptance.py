"""The acceptance kit drives a server of its own from outside and compares everything with its oracle."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from tests.support.effort import today
from tests.support.kit import KIT, run_kit, scenarios

RANGES = "range-min,range-max,range-count,range-sum,range-avg,range-2d,distinct,filter"
VALUES = "value-change,value-percent,value-factor"
SCENARIOS = (
    f"tables,bad-input,{RANGES},{VALUES},params,resume,concurrent,ndjson,idempotency,durability".split(",")
)
KINDS = f"{RANGES},value-change"
PARTS = 3
SERVE = f"{sys.executable} -m api.commands.cli serve --data-dir {{dir}} --port {{port}}"

pytestmark = pytest.mark.skipif(
    not (KIT / "run.py").is_file(),
    reason=f"there is no acceptance kit in {KIT}; PROSEM_ACCEPTANCE names its folder",
)


def check_kit(named: Sequence[str], *options: str, timeout_s: float) -> None:
    """Each of these scenarios ran, passed, and none was skipped."""
    done = run_kit(SERVE, named, *options, timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    for name in named:
        assert any(line.startswith(f"{name}: ok (") for line in lines), done.stdout
    assert lines[-1] == f"{len(named)} passed, 0 failed"


def test_scenarios_in_miniature() -> None:
    """A third of them each day; `make stress` runs them all."""
    sizes = ("--subs", "16", "--events", "50", "--kills", "1")
    check_kit(SCENARIOS[today() % PARTS :: PARTS], "--kinds", KINDS, *sizes, timeout_s=180)


@pytest.mark.slow
def test_every_scenario() -> None:
    """Of every version of the contract, with the seed of the day."""
    check_kit(scenarios(), "--seed", str(today()), timeout_s=1200)


@pytest.mark.slow
def test_every_scenario_in_larger_domains() -> None:
    sizes = ("--realistic", "--subs", "120", "--events", "600")
    check_kit(SCENARIOS, "--kinds", KINDS, "--seed", "6", *sizes, timeout_s=1200)
