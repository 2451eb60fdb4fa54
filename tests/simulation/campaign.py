"""Runs seed after seed for a time; a failure is shrunk and kept as a regression.

A regression is a plan in `tests/simulation/regressions`, run before any seed. As a command:

    python -m tests.simulation --seconds 900 --seed 1
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.plan import Plan, decode_plan, make_plan
from tests.simulation.shrink import shrink
from tests.simulation.world import Verdict, run

REGRESSIONS = Path(__file__).parent / "regressions"


@dataclass
class Failure:
    seed: int
    plan: Plan
    """shrunk"""
    verdict: Verdict

    def __str__(self) -> str:
        problems = "\n".join(f"  {problem}" for problem in self.verdict.problems[:10])
        return (
            f"seed {self.seed} contradicts the contract:\n{problems}\n"
            f"after {len(self.plan.steps)} steps:\n{self.plan.encode()}\n"
            f"again: python -m tests.simulation --seed {self.seed} --seeds 1"
        )


@dataclass
class Campaign:
    seeds: int = 0
    steps: int = 0
    """callbacks of the virtual machine"""
    seconds: float = 0.0
    failure: Failure | None = None

    @property
    def summary(self) -> str:
        rate = self.seeds / self.seconds if self.seconds else 0.0
        return f"{self.seeds} seeds in {self.seconds:.0f} s: {rate:.1f} seeds per second, {self.steps} steps"


def regressions() -> list[Path]:
    return sorted(REGRESSIONS.glob("*.json"))


def read_plan(path: Path) -> Plan:
    return decode_plan(path.read_bytes())


def search(
    first: int,
    seconds: float = float("inf"),
    seeds: int | None = None,
    concerns: Callable[[Plan], bool] = lambda plan: True,
) -> Campaign:
    """Run seeds from the first one on, until the time is over, all are done, or one fails."""
    found, start = Campaign(), time.perf_counter()
    seed = first
    while time.perf_counter() - start < seconds and (seeds is None or seed < first + seeds):
        plan = make_plan(seed)
        if concerns(plan):
            verdict = run(plan)
            found.seeds += 1
            found.steps += verdict.steps
            if verdict.problems:
                found.failure = shrunk(seed, plan)
                break
        seed += 1
    found.seconds = time.perf_counter() - start
    return found


def shrunk(seed: int, plan: Plan) -> Failure:
    smaller = shrink(plan, lambda one: bool(run(one).problems))
    return Failure(seed, smaller, run(smaller))


def keep(failure: Failure) -> Path:
    """The failure becomes a regression."""
    REGRESSIONS.mkdir(exist_ok=True)
    path = REGRESSIONS / f"seed_{failure.seed}.json"
    path.write_text(failure.plan.encode() + "\n")
    return path
