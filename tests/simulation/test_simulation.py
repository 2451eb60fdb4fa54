"""The whole under faults, by seed: regressions first, then new seeds for a minute (in make stress for a quarter of an hour).

The first seed is that of the day, or PROSEM_SEED.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("greenlet")
pytest.importorskip("nats")

from tests.simulation.campaign import read_plan, regressions, search
from tests.simulation.machine import CURRENT, Process, VirtualLoop, blocking, pause
from tests.simulation.plan import decode_plan, make_plan
from tests.simulation.world import run
from tests.support.effort import today

SHORT_S, LONG_S = 30.0, 900.0


@pytest.mark.parametrize("path", regressions(), ids=lambda path: path.stem)
def test_a_failure_does_not_come_back(path: Path) -> None:
    assert run(read_plan(path)).problems == []


def test_the_same_seed_is_the_same_run() -> None:
    for seed in (3, 17, 23):
        plan = make_plan(seed)
        assert decode_plan(plan.encode()) == plan
        assert run(plan) == run(plan)


def test_blocking_code_is_of_the_process_that_calls_it() -> None:
    """Else its sessions would outlive it, and no fault of a process would meet them."""
    loop = VirtualLoop()
    process = Process(loop, "server-0")

    def work() -> list[Process | None]:
        before = CURRENT.get()
        pause(1.0)
        return [before, CURRENT.get()]

    try:
        assert loop.run_until_complete(process.spawn(blocking(work))) == [process, process]
    finally:
        loop.end()


def test_the_contract_holds_under_faults(
    request: pytest.FixtureRequest, record_property: pytest.FixtureRequest
) -> None:
    first = int(os.environ.get("PROSEM_SEED") or 1_000_000 * today())
    found = search(first, LONG_S if request.config.getoption("--stress") else SHORT_S)
    record_property("summary", f"simulation from seed {first}: {found.summary}")  # type: ignore[operator]
    assert found.failure is None, f"{found.failure}\nor PROSEM_SEED={found.failure.seed} make test"
