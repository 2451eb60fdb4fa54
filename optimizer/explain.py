"""EXPLAIN as values: the plans of a space, what each is expected to cost or was measured to cost, and which is taken."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.cost import Weights
from optimizer.decisions import Decision
from optimizer.plan import Choice, Estimate


def figures(estimate: Estimate) -> dict[str, float | None]:
    """An estimate by the names of its metrics, to a thousandth of a microsecond; None is unknown."""
    return {
        name: None if math.isnan(value) else round(value, 3) for name, value in estimate._asdict().items()
    }


def explained(
    plans: Sequence[str],
    choice: Choice,
    chosen: str,
    measured: Mapping[str, Estimate],
    weights: Weights,
    statistics: Mapping[str, str],
) -> dict[str, Any]:
    """The plans in the order of the type, each with the statistic behind its estimate."""
    rows: list[dict[str, Any]] = []
    for plan in plans:
        row: dict[str, Any] = {"plan": plan, "chosen": plan == chosen}
        row |= figures(choice.estimates[plan]) | {"cost": round(choice.costs[plan], 6)}
        row |= {"source": choice.sources[plan], "statistic": statistics[plan]}
        if len(ways := choice.ways.get(plan, {})) > 1:
            row["ways"] = [
                {"way": way, "chosen": one is choice.estimates[plan]}
                | figures(one)
                | {"cost": round(weights.cost(one), 6)}
                for way, one in ways.items()
            ]
        if plan in measured:
            row["measured"] = figures(measured[plan]) | {"cost": round(weights.cost(measured[plan]), 6)}
        rows.append(row)
    return {"chosen": chosen, "plans": rows}


def decided(decision: Decision, groups: Sequence[str]) -> dict[str, Any]:
    """A decision as it is shown: estimates of all plans, and what the executed one did.

    `groups` are those of its space; filters share one.
    """
    choice = decision.choice
    actual: dict[str, Any] = {
        "messages": decision.messages,
        "server_stress": decision.size_bytes,
        "server_time": round(decision.server_ns / 1e3, 3),
    }
    if decision.measured is not None:
        actual |= figures(decision.measured)
    return {
        "seq": decision.seq,
        "space": decision.space,
        "group": groups[0] if groups else None,
        "groups": list(groups),
        "plan": decision.plan,
        "source": None if choice is None else choice.sources[decision.plan],
        "estimates": None
        if choice is None
        else {
            plan: figures(estimate) | {"cost": round(choice.costs[plan], 6)}
            for plan, estimate in choice.estimates.items()
        },
        "actual": actual,
    }
