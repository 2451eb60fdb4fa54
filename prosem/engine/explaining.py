"""EXPLAIN of an event: every plan of every group it touches, estimated, and measured on request. Nothing stays applied.

The event is rehearsed: the indexes take it and give it back. A space whose memory an event and its opposite would change
(the last notified values) offers a rehearsal of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from optimizer.choose import Chooser
from optimizer.explain import explained
from optimizer.plan import Estimate, Planned
from prosem.engine.measuring import measure
from prosem.engine.traffic import Traffic
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.types.base import ArrangedSpace, Space
from prosem.values.model import Delta, JsonObject


@runtime_checkable
class Rehearsing(Protocol):
    def rehearsal(self, delta: Delta) -> AbstractContextManager[Any]: ...


@contextmanager
def _there_and_back(space: Space, delta: Delta) -> Iterator[Any]:
    try:
        yield space.step(delta)
    finally:
        space.step(delta._replace(old=delta.new, new=delta.old))


def rehearse(stack: ExitStack, space: Space, delta: Delta, clock: Clock) -> tuple[Any, float]:
    """The description of an event that is taken back when the stack is closed, and the microseconds it took."""
    start = clock.elapsed_ns()
    rehearsal = space.rehearsal(delta) if isinstance(space, Rehearsing) else _there_and_back(space, delta)
    description = stack.enter_context(rehearsal)
    return description, (clock.elapsed_ns() - start) / 1e3


def explain_space(
    chooser: Chooser,
    space: Space,
    description: Any,
    described_us: float,
    analyze: bool,
    traffic: Traffic | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> JsonObject:
    """The plans of one space for one description. With brokers, each says which share of such messages goes straight to the
    brokers concerned, and not down the network's tree."""
    if isinstance(space, Planned):
        choice = chooser.consider(space, description)
        affected: float = space.affected(description) if analyze else 0
    else:
        affected = _named(space, description)
        choice = chooser.by_counts(space, affected)
    measured: dict[str, Estimate] = {}
    for plan in space.plans if analyze else ():
        found = measure(0, space, description, plan, 0, described_us, traffic, clock)
        cheapest = chooser.cheapest({way: one.estimate for way, one in found.items()})
        measured[plan] = cheapest._replace(affected=affected)
    plan = chooser.plan_of(space.plans, choice)
    statistics = chooser.statistics(space.network.id, choice)
    shown = explained(space.plans, choice, plan, measured, chooser.weights, statistics)
    for row in shown["plans"]:
        if traffic is not None and traffic.is_used:
            row["straight"] = round(traffic.straight(space.network.id), 3)
    cost, statistic = chooser.server_cost(space)
    shown["order"] = {"server_cost": round(cost, 3), "statistic": statistic}
    if isinstance(space, ArrangedSpace):
        shown["arrangement"] = space.arrangement()
    return shown


def _named(space: Space, description: Any) -> float:
    """How many the messages name; NaN if the network alone finds them."""
    drafts = space.messages(description, space.plans[0])
    return sum(math.nan if draft.targets is None else len(draft.targets) for draft in drafts)
