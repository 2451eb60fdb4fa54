"""The optimizer, as [ProSem thesis] 6.5 evaluates it: what choosing costs, how good the choices are, and what the knobs do.

Every plan of every space is carried out on the same events in the same run; so each strategy, the oracle with perfect
knowledge included, is a choice among measured costs. Estimators learn from the first half of the events; costs are those
of the second half. A static plan is one rule for all groups and all events: a strategy, and for joins a flavour. Beside the
best of these stands the best plan of each group, picked with hindsight on the very events it is judged by. These two, the
worst and the random plan take one way of the network for all messages of an event; the others the cheaper one for each.
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
from optimizer.cost import STRAIGHT, TREE, UNCARRIED, Weights
from optimizer.estimate import Entry
from optimizer.known import by_way
from optimizer.plan import METRICS, addresses
from prosem.engine import commands as c

SEEDS = {"workload": SEED, "choice": 5}
SIZES = (1, 10, 100, 1_000)
_SHORT = ("knob", "weight", "reform", "per s", "latency", "server", "network")  # titles that fit 80 columns
_KNOBS = (0.0, 1.0, 10.0, 100.0)
_STRATEGIES = ("reformulate", "enumerate", "relax")
Pair = tuple[
    str, str | None
]  # a plan, and the way of all its messages; None: the cheaper one for each message
Pick = Callable[[Case], Pair]


def by_space(cases: Sequence[Case]) -> dict[int, list[Case]]:
    found: dict[int, list[Case]] = {}
    for case in cases:
        found.setdefault(case.space, []).append(case)
    return found


def trained(cases: Sequence[Case], entries: int, weights: Weights, chance: random.Random) -> Chooser:
    """A chooser that has learned from so many cases of each space, drawn at random; the network is that of the last."""
    training: dict[int, dict[str, list[Entry]]] = {}
    last: dict[int, Case] = {}
    for space, some in by_space(cases).items():
        last[space] = some[-1]
        for case in chance.sample(some, min(entries, len(some))):
            for name, estimate in case.learned.items():
                training.setdefault(space, {}).setdefault(name, []).append((case.descriptor, estimate))
    made = Chooser(share=0, entries=entries)
    made.carriages = lambda space: last[space].carriages if space in last else UNCARRIED
    made.weigh(weights)
    made.adopt(made.prepare(training))
    return made


def pairs(case: Case) -> list[tuple[str, str]]:
    return [(plan, way) for plan, executed in case.plans.items() for way in executed.ways]


def costs(training: Sequence[Case], test: Sequence[Case], events: int) -> dict[str, Any]:
    """Weighted cost an event of every strategy ([ProSem thesis] figure 6.5), and of the static plans."""
    weights, chance = Weights(), random.Random(SEEDS["choice"])

    def cost(case: Case, plan: str, way: str | None = None) -> float:
        return weights.cost(case.plans[plan].cost(weights, way))

    def total(pick: Pick, cases: Sequence[Case] = test) -> float:
        return round(sum(cost(case, *pick(case)) for case in cases) / events, 3)

    def ours(entries: int) -> Pick:
        made = trained(training, entries, weights, chance)
        return lambda case: (made.choose(Stand(case), None), None)

    def static(way: str, *names: str) -> Pick:
        """The plan of one of these names, or the type's favourite; always by the same way."""
        return lambda case: (next(plan for plan in (*names, *case.plans) if plan in case.plans), way)

    flavours = sorted({plan for case in test for plan in case.plans} - {*_STRATEGIES}) or [""]
    return {
        "worst": total(lambda case: max(pairs(case), key=lambda pair: cost(case, *pair))),
        "random": total(lambda case: chance.choice(pairs(case))),
        "ours": {entries: total(ours(entries)) for entries in SIZES},
        "oracle": total(lambda case: (min(case.plans, key=lambda plan: cost(case, plan)), None)),
        "static": {
            f"{one} {flavour}, {way}": total(static(way, one, flavour))
            for one in _STRATEGIES
            for flavour in flavours
            for way in (TREE, STRAIGHT)
        },
        "static_by_group": round(
            sum(
                min(total(lambda case, pair=pair: pair, some) for pair in pairs(some[0]))  # type: ignore[misc]
                for some in by_space(test).values()
            ),
            3,
        ),
    }


def by_type(training: Sequence[Case], test: Sequence[Case], events: int, names: Any) -> list[dict[str, Any]]:
    """Where the costs arise: each space under its best static plan, ours and the oracle's choices."""
    weights = Weights()
    made = trained(training, SIZES[-1], weights, random.Random(SEEDS["choice"]))

    def cost(case: Case, plan: str, way: str | None = None) -> float:
        return weights.cost(case.plans[plan].cost(weights, way))

    rows = []
    for space, cases in sorted(by_space(test).items()):
        each = {pair: sum(cost(case, *pair) for case in cases) for pair in pairs(cases[0])}
        best = min(each, key=each.__getitem__)
        low, middle, high = np.quantile([case.affected for case in cases], (0.1, 0.5, 0.9)).tolist()
        ours = sum(cost(case, made.choose(Stand(case), None)) for case in cases)
        oracle = sum(min(cost(case, plan) for plan in case.plans) for case in cases)
        rows.append(
            {
                "type": names[space],
                "affected, 10/50/90 %": f"{low:,.0f} / {middle:,.0f} / {high:,.0f}",
                "best static": ", ".join(best),
                "its cost": round(each[best] / events, 3),
                "ours": round(ours / events, 3),
                "oracle": round(oracle / events, 3),
            }
        )
    return rows


def of_source(cases: Sequence[Case]) -> list[Case]:
    """The same with the two plans of [ProSem thesis] alone: a region through the network, or straight to subscriptions."""
    found = []
    for case in cases:
        region = next(plan for plan in case.plans if not addresses(plan))
        named = next(plan for plan in case.plans if addresses(plan))
        plans = {plan: case.plans[plan].only(way) for plan, way in ((region, TREE), (named, STRAIGHT))}
        learned = {
            plan: case.learned.get(by_way(plan, one.ways[0]), case.learned[plan])
            for plan, one in plans.items()
        }
        found.append(case._replace(carriages=UNCARRIED, learned=learned, plans=plans))
    return found


def knobs(training: Sequence[Case], test: Sequence[Case], events: int) -> list[dict[str, Any]]:
    """Each knob from 0 up with the others at 1 ([ProSem thesis] figures 6.6 and 6.7)."""
    return [
        {"knob": metric, "weight": weight}
        | _knob(training, test, events, Weights()._replace(**{metric: weight}))
        for metric in METRICS
        for weight in _KNOBS
    ]


def _knob(training: Sequence[Case], test: Sequence[Case], events: int, weights: Weights) -> dict[str, Any]:
    """What the product does under these weights.

    Of the decisions that name subscriptions, the bytes that leave the server beside what regions would take for the same
    events; and of each plan and way the share of the decisions, with their bytes.
    """
    made = trained(training, SIZES[-1], weights, random.Random(SEEDS["choice"]))
    plans = [made.choose(Stand(case), None) for case in test]
    taken = [case.plans[plan].cost(weights) for case, plan in zip(test, plans, strict=True)]
    sums = np.array(taken).sum(axis=0)
    waited = sum(estimate.response_time * estimate.affected for estimate in taken)
    regions = sum(not addresses(plan) for plan in plans)
    named = [
        (one.server_stress, case.plans[next(iter(case.plans))].cost(weights).server_stress)
        for case, plan, one in zip(test, plans, taken, strict=True)
        if addresses(plan)
    ]
    shares: dict[str, list[float]] = {}
    for case, plan, one in zip(test, plans, taken, strict=True):
        shares.setdefault(by_way(plan, case.plans[plan].way(weights)), []).append(one.server_stress)
    return {
        "reformulation_percent": round(100 * regions / max(1, len(taken)), 1),
        "events_per_s": round(events / (float(sums[0]) / 1e6)),
        "latency_us": round(float(waited / max(1.0, sums[4])), 1),
        "server_bytes": round(float(sums[2]) / events, 1),
        "network_bytes": round(float(sums[3]) / events, 1),
        "named_bytes": [round(float(np.mean(some)), 1) for some in zip(*named, strict=True)],
        "shares": {
            name: [round(100 * len(some) / len(taken), 1), round(sum(some) / events, 1)]
            for name, some in sorted(shares.items())
        },
    }


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
