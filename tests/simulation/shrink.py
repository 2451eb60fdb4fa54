"""Makes a failing plan smaller: steps are left out as long as it still fails (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.plan import Plan


def shrink(plan: Plan, fails: Callable[[Plan], bool], most_runs: int = 300) -> Plan:
    """A plan that fails, and does not with any one of its steps left out; or what has been reached after so many runs."""
    runs = 0

    def still_fails(smaller: Plan) -> bool:
        nonlocal runs
        runs += 1
        return runs <= most_runs and fails(smaller)

    for smaller in (
        replace(plan, brokers=0),
        replace(plan, brokers=min(1, plan.brokers)),
        replace(plan, servers=1),
    ):
        if smaller != plan and still_fails(smaller):
            plan = smaller
    size = max(1, len(plan.steps) // 2)
    while True:
        at, is_smaller = 0, False
        while at < len(plan.steps):
            smaller = plan.without(set(range(at, at + size)))
            if still_fails(smaller):
                plan, is_smaller = smaller, True
            else:
                at += size
        if size == 1 and (not is_smaller or runs > most_runs):
            return plan
        size = max(1, size // 2)
