"""The optimizer, as [ProSem thesis] 6.5 evaluates it: what choosing costs, how good the choices are, and what the knobs do.

Every plan of every space is carried out on the same events in the same run; so each strategy, the oracle with perfect
knowledge included, is a choice among measured costs. Estimators learn from the first half of the events; costs are those
of the second half. A static plan is one rule for all groups and all events: a strategy, and for joins a flavour. Beside the
best of these stands the best plan of each group, picked with hindsight on the very events it is judged by.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.common import Report, progress
from bench.mixed import SEED, TYPES, Mixed
from bench.optimizer_cases import BROKERS, FAN_OUT, HOP_US, Case, Overlay, Stand, measured_cases
from bench.optimizer_overhead import overhead, overhead_of_one_group
from optimizer.choose import Chooser, NamedPlan
from optimizer.cost import Weights
from optimizer.estimate import Entry
from optimizer.plan import METRICS, addresses
from prosem.brokers.ways import STRAIGHT, TREE
from prosem.engine import commands as c

SEEDS = {"workload": SEED, "choice": 5}
SIZES = (1, 10, 100, 1_000)
_SHORT = ("knob", "weight", "reform", "per s", "latency", "server", "network")  # titles that fit 80 columns
_KNOBS = (0.0, 1.0, 10.0, 100.0)
_STRATEGIES = ("reformulate", "enumerate", "relax")
Pick = Callable[[Case], str]


def by_space(cases: Sequence[Case]) -> dict[int, list[Case]]:
    found: dict[int, list[Case]] = {}
    for case in cases:
        found.setdefault(case.space, []).append(case)
    return found


def trained(cases: Sequence[Case], entries: int, weights: Weights, chance: random.Random) -> Chooser:
    """A chooser that has seen so many cases of each space, drawn at random."""
    training: dict[int, dict[str, list[Entry]]] = {}
    for space, some in by_space(cases).items():
        for case in chance.sample(some, min(entries, len(some))):
            for plan, estimate in case.plans.items():
                training.setdefault(space, {}).setdefault(plan, []).append((case.descriptor, estimate))
    made = Chooser(share=0, entries=entries)
    made.weigh(weights)
    made.adopt(made.prepare(training))
    return made


def costs(training: Sequence[Case], test: Sequence[Case], events: int) -> dict[str, Any]:
    """Weighted cost an event of every strategy ([ProSem thesis] figure 6.5), and of the static plans."""
    weights, chance = Weights(), random.Random(SEEDS["choice"])

    def total(pick: Pick, cases: Sequence[Case] = test) -> float:
        return round(sum(weights.cost(case.plans[pick(case)]) for case in cases) / events, 3)

    def extreme(choose: Any) -> Pick:
        return lambda case: str(choose(case.plans, key=lambda plan: weights.cost(case.plans[plan])))

    def ours(entries: int) -> Pick:
        made = trained(training, entries, weights, chance)
        return lambda case: made.choose(Stand(case), None)

    def static(way: str, *names: str) -> Pick:
        """The plan of one of these names, or the type's favourite; always by the same way."""
        wanted = [f"{name}, {way}" for name in names]
        return lambda case: next(
            plan for plan in (*wanted, *case.plans) if plan in case.plans and plan.endswith(way)
        )

    offered = {tuple(plan.split(", ")) for case in test for plan in case.plans}
    flavours = sorted({plan for plan, _ in offered} - {*_STRATEGIES}) or [""]
    return {
        "worst": total(extreme(max)),
        "random": total(lambda case: chance.choice(list(case.plans))),
        "ours": {entries: total(ours(entries)) for entries in SIZES},
        "oracle": total(extreme(min)),
        "static": {
            f"{one} {flavour}, {way}": total(static(way, one, flavour))
            for one in _STRATEGIES
            for flavour in flavours
            for way in (TREE, STRAIGHT)
        },
        "static_by_group": round(
            sum(
                min(total(lambda case, plan=plan: plan, some) for plan in some[0].plans)  # type: ignore[misc]
                for some in by_space(test).values()
            ),
            3,
        ),
    }


def by_type(training: Sequence[Case], test: Sequence[Case], events: int, names: Any) -> list[dict[str, Any]]:
    """Where the costs arise: each space under its best static plan, ours and the oracle's choices."""
    weights = Weights()
    made = trained(training, SIZES[-1], weights, random.Random(SEEDS["choice"]))
    rows = []
    for space, cases in sorted(by_space(test).items()):
        each = {plan: [weights.cost(case.plans[plan]) for case in cases] for plan in cases[0].plans}
        best = min(each, key=lambda plan: sum(each[plan]))
        affected = [next(iter(case.plans.values())).affected for case in cases]
        low, middle, high = np.quantile(affected, (0.1, 0.5, 0.9)).tolist()
        rows.append(
            {
                "type": names[space],
                "affected, 10/50/90 %": f"{low:,.0f} / {middle:,.0f} / {high:,.0f}",
                "best static": best,
                "its cost": round(sum(each[best]) / events, 3),
                "ours": round(
                    sum(weights.cost(case.plans[made.choose(Stand(case), None)]) for case in cases) / events,
                    3,
                ),
                "oracle": round(sum(map(min, zip(*each.values(), strict=True))) / events, 3),
            }
        )
    return rows


def of_source(cases: Sequence[Case]) -> list[Case]:
    """The same with the two plans of [ProSem thesis] alone: a region through the network, or straight to subscriptions."""
    found = []
    for case in cases:
        region = next(plan for plan in case.plans if not addresses(plan) and plan.endswith(TREE))
        named = next(plan for plan in case.plans if addresses(plan) and plan.endswith(STRAIGHT))
        found.append(case._replace(plans={plan: case.plans[plan] for plan in (region, named)}))
    return found


def knobs(training: Sequence[Case], test: Sequence[Case], events: int) -> list[dict[str, Any]]:
    """Each knob from 0 up with the others at 1 ([ProSem thesis] figures 6.6 and 6.7).

    Of those that name subscriptions, the bytes that leave the server beside what regions would take for the same events.
    """
    rows = []
    for metric in METRICS:
        for weight in _KNOBS:
            made = trained(
                training, SIZES[-1], Weights()._replace(**{metric: weight}), random.Random(SEEDS["choice"])
            )
            taken = [(plan, case.plans[plan]) for case in test for plan in [made.choose(Stand(case), None)]]
            sums = np.array([estimate for _, estimate in taken]).sum(axis=0)
            affected = sum(estimate.affected for _, estimate in taken)
            waited = sum(estimate.response_time * estimate.affected for _, estimate in taken)
            reformulated = sum(not addresses(plan) for plan, _ in taken)
            named = [
                (case.plans[plan].server_stress, next(iter(case.plans.values())).server_stress)
                for case, (plan, _) in zip(test, taken, strict=True)
                if addresses(plan)
            ]
            rows.append(
                {
                    "knob": metric,
                    "weight": weight,
                    "reformulation_percent": round(100 * reformulated / max(1, len(taken)), 1),
                    "events_per_s": round(events / (sums[0] / 1e6)),
                    "latency_us": round(waited / max(1, affected), 1),
                    "server_bytes": round(sums[2] / events, 1),
                    "network_bytes": round(sums[3] / events, 1),
                    "named_bytes": [round(float(np.mean(some)), 1) for some in zip(*named, strict=True)],
                }
            )
    return rows


def run(quick: bool) -> Report:
    subscriptions, count, warm = (4_000, 800, 400) if quick else (100_000, 2_000, 2_000)
    sizes = (0, 1_000) if quick else (0, 1_000, 10_000, 50_000)
    report = Report("optimizer", {"quick": quick, "subscriptions": subscriptions, "events": count})
    progress(f"optimizer: {len(TYPES)} types, {subscriptions:,} subscriptions")
    mixed = Mixed(Chooser(NamedPlan("reformulate"), share=0), subscriptions)
    for table, event in mixed.events(warm):  # told values and minima as they are after a while
        mixed.state.execute(c.Publish(table, [event]))
    cases = measured_cases(mixed, Overlay(mixed.state), count)
    half = count // 2
    training = [case for some in cases[:half] for case in some]
    test = [case for some in cases[half:] for case in some]
    found = costs(training, test, half)
    names = {group.space: group.name.rpartition("-")[0] for group in mixed.state.groups.values()}
    types = by_type(training, test, half, names)
    rows = knobs(training, test, half)
    two_plans = knobs(of_source(training), of_source(test), half)
    percent = overhead(mixed, training, sizes, 4 if quick else 8, 500 if quick else 1_000)
    one_group = overhead_of_one_group(subscriptions, 4 if quick else 8, 500 if quick else 1_000)
    ours, static = found["ours"][SIZES[-1]], min(found["static"].values())
    report.figures = {
        "overhead_percent": percent,
        "overhead_of_one_group_percent": one_group,
        "cost": found,
        "knobs": rows,
        "knobs_two_plans": two_plans,
        "by_type": types,
        "over_oracle_percent": round(100 * (ours / found["oracle"] - 1), 1),
        "under_best_static_percent": round(100 * (1 - ours / static), 1),
        "under_best_static_by_group_percent": round(100 * (1 - ours / found["static_by_group"]), 1),
    }
    order = {"worst": found["worst"], "random": found["random"]}
    order |= {f"static {name}": cost for name, cost in found["static"].items()}
    order |= {"best static plan of each group": found["static_by_group"]}
    order |= {f"ours, {entries} entries": cost for entries, cost in found["ours"].items()}
    order |= {"oracle": found["oracle"]}
    report.tables = [
        (
            "weighted cost an event (thesis figure 6.5)",
            [{"strategy": n, "cost": v} for n, v in order.items()],
        ),
        ("the same by type", types),
        *(
            (
                f"what the knobs do {plans} (thesis figures 6.6, 6.7): % reformulated, events/s, µs, bytes",
                [dict(zip(_SHORT, row.values(), strict=False)) for row in some],
            )
            for plans, some in (("with all plans", rows), ("with those of the thesis", two_plans))
        ),
        (
            "overhead of choosing (thesis figure 6.4)",
            [
                *({"entries": f"{n:,}", "percent": v} for n, v in percent.items()),
                {"entries": "a table with one group", "percent": one_group},
            ],
        ),
    ]
    report.notes = [
        f"with {SIZES[-1]} entries {report.figures['over_oracle_percent']} % above the oracle,"
        f" {report.figures['under_best_static_percent']} % below the best static plan,"
        f" {report.figures['under_best_static_by_group_percent']} % below the best static plan of each group",
        "thesis: overhead below 10 % with 50,000 entries, 1000 entries nearly as good as the oracle",
        f"simulated network: {BROKERS} brokers, fan-out {FAN_OUT}, {HOP_US:.0f} µs per hop",
    ]
    return report
