"""Each defect that is put back is found, and what shows it is shrunk."""

from __future__ import annotations

import pytest

pytest.importorskip("greenlet")
pytest.importorskip("nats")

from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.plan import make_plan
from tests.simulation.shrink import shrink
from tests.simulation.world import run

SEEDS = 5_000
MOST_RUNS = 60


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_found(defect: Defect) -> None:
    runs = 0
    for seed in range(SEEDS):
        plan = make_plan(seed)
        if runs < MOST_RUNS and defect.concerns(plan):
            runs += 1
            with defect.patch():
                problems = run(plan).problems
            if defect.is_shown(problems):
                assert run(plan).problems == [], "the product itself is innocent"
                return
    pytest.fail(f"not found by {runs} runs")


def test_a_failure_shrinks() -> None:
    defect = DEFECTS["7 a lost answer is reported as not committed"]
    with defect.patch():
        plan = next(
            plan for plan in map(make_plan, range(SEEDS)) if defect.concerns(plan) and run(plan).problems
        )
        smaller = shrink(plan, lambda one: bool(run(one).problems))
        assert run(smaller).problems
        kinds = sorted(step.kind for step in smaller.steps)
    assert kinds in (["fail_commit", "publish"], ["fail_commit"]), "a request, and the fault that it meets"
    assert run(smaller).problems == []
