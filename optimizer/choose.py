"""Which plan carries an event out in one space, and in which order spaces are worked off.

Greedy, as in [ProSem thesis] 6.4.2: each space takes the plan of the lowest weighted cost for itself. The spaces of one
event run in increasing server cost per subscription, so that cheap answers do not wait for dear ones.

A choice costs a descriptor and a dictionary lookup, and where the descriptor is new a search among the measurements. Both
are paid from shares of the time that the space spends on events. An event for which nothing is left is not looked at: it
takes the plan that has won many times in a row, or else the first, whose cost does not grow with the subscriptions. So
choosing never takes more than its share; it loses where plans differ much and events are too short to be looked at.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar

from optimizer.cost import (
    ASSUMED,
    TREE,
    UNCARRIED,
    Calibration,
    Carriages,
    Weights,
    boxes_of,
    calibrated,
    prior_by_way,
)
from optimizer.decisions import Decisions
from optimizer.estimate import ENTRIES, Entry, Estimator, Nearest
from optimizer.known import REMEMBERED, Known, by_way, plan_of
from optimizer.plan import Choice, Descriptor, Estimate, Expected, Offered, Planned

SHARE = 0.02  # of the time spent on events may go into measuring their plans
_LEARNING = 32  # samples of a space that may take ten times as much
LONGEST_NS = (
    2_000_000  # that a look is charged for: beyond it the process was paused, or a collection of garbage ran
)
LONGEST_SAMPLE_NS = 20_000_000  # the same for measuring all plans on an event
SETTLED = 64  # equal choices in a row, after which an event that is not looked at takes the same
_SMOOTH = 0.1
_CALIBRATING = 500  # measurements of a plan in a space that suffice to see how dear this machine is
_HERE = "measurements of this server"
_COUNTED = {"histogram": "sample of the group's points", "counts": "messages"}
Pick = Callable[[Sequence[str]], str]
Training = Mapping[int, Mapping[str, Sequence[Entry]]]  # space → plan → measurements


class Prepared(NamedTuple):
    """A training set, made ready: the estimators of each space, and what all measurements say of spaces without any.

    `run` is the run of the statistics job that it comes from (None: this server measured it), `server_costs` the µs per
    affected subscription in each space.
    """

    estimators: Mapping[int, Mapping[str, Estimator]] = {}
    calibration: Calibration = ASSUMED
    run: int | None = None
    server_costs: Mapping[int, float] = {}


P = TypeVar("P", bound=Offered)


class NamedPlan:
    """Always the plan of this name where a space offers it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, plans: Sequence[str]) -> str:
        return self._name if self._name in plans else plans[0]


class RandomPlan:
    """A seeded random plan per event: every plan must notify every subscriber of the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, plans: Sequence[str]) -> str:
        return self._random.choice(plans)


def uncarried(space: int) -> Carriages:
    """What a network without brokers does with a message."""
    return UNCARRIED


def unexpected(space: int) -> Expected | None:
    """What is expected of a space where no histograms are known."""
    return None


class Chooser:
    """`pick` overrides the costs; `entries` bounds each estimator; measuring takes `share` of the time (0: none)."""

    def __init__(
        self,
        pick: Pick | None = None,
        entries: int = ENTRIES,
        share: float = SHARE,
        elapsed_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._elapsed_ns = elapsed_ns
        self.weights = Weights()
        self.carriages = uncarried  # how messages of a space are carried
        self.expected: Callable[[int], Expected | None] = (
            unexpected  # of a space in which nothing was measured
        )
        self.decisions = Decisions()
        self._pick, self._entries, self._share = pick, entries, share
        self._known: dict[int, Known] = {}
        self._prepared: dict[int, Mapping[str, Estimator]] = {}
        self._calibration = ASSUMED
        self._run: int | None = None
        self._server_costs: Mapping[int, float] = {}
        self._supposed: dict[int, tuple[float, str]] = {}  # what stands for a measurement
        self._now: tuple[Choice | None, Known | None] = (None, None)  # of the event in hand

    # -- choosing ------------------------------------------------------------------------------------------------
    def choose(self, space: Offered, description: Any) -> str:
        """The plan for this event in this space. Where there is only one, or no way to compare, the first."""
        plans = space.plans
        if len(plans) == 1:
            self._now = (None, None)
            return plans[0]
        known = self._known.get(space.network.id) or self._open(space)
        if self._pick is not None:
            self._now = (None, known)
            return self._pick(plans)
        if not known.is_planned:
            self._now = (None, None)
            return plans[0]
        choice = self._look(known, space, description) if known.looking_ns > 0 else None
        self._now = (choice, known)
        if choice is None:
            return known.plan if known.streak >= SETTLED else plans[0]
        if choice.plan != known.plan:
            known.plan, known.streak = choice.plan, 0
        known.streak += 1
        return choice.plan

    def _look(self, known: Known, planned: Any, description: Any) -> Choice | None:
        """The choice for an event, by its descriptor; None where it is new and there is no time to consider it."""
        start = self._elapsed_ns()
        descriptor = planned.descriptor(description)
        choice = known.choices.get(descriptor)
        looked = self._elapsed_ns()
        known.looking_ns -= min(LONGEST_NS, looked - start)
        if choice is None:
            if known.considering_ns <= 0:
                return known.stale.get(descriptor)
            choice = self._consider(known, planned, description, descriptor)
            known.considering_ns -= min(LONGEST_NS, self._elapsed_ns() - looked)
        return choice

    def consider(self, space: Planned, description: Any) -> Choice:
        """All plans with their estimates, and the one that would be carried out; nothing is carried out."""
        known = self._known.get(space.network.id) or self._open(space)
        return self._consider(known, space, description, space.descriptor(description))

    def by_counts(self, space: Offered, affected: float) -> Choice:
        """Plans that cannot be compared by a descriptor, one message each."""
        ways = {plan: self._prior(space, plan, 1, 1, affected) for plan in space.plans}
        choice = self._choice(ways, dict.fromkeys(space.plans, "counts"))
        return choice._replace(plan=space.plans[0])

    def _prior(
        self, space: Offered, plan: str, messages: float, boxes: float, affected: float
    ) -> dict[str, Estimate]:
        """What a plan is expected to cost by each way while nothing like it has been measured."""
        carriages = self.carriages(space.network.id)
        return prior_by_way(plan, messages, boxes, affected, self._calibration, carriages)

    def _choice(self, ways: Mapping[str, Mapping[str, Estimate]], sources: Mapping[str, str]) -> Choice:
        """The cheapest plan by the cheapest of its ways; of equals the one the type prefers."""
        found = {plan: self.cheapest(some) for plan, some in ways.items()}
        costs = {plan: self.weights.cost(estimate) for plan, estimate in found.items()}
        return Choice(min(costs, key=costs.__getitem__), found, costs, sources, ways)

    def cheapest(self, ways: Mapping[str, Estimate]) -> Estimate:
        """A plan by the way that costs least by the weights in force."""
        return min(ways.values(), key=self.weights.cost)

    def plan_of(self, plans: Sequence[str], choice: Choice) -> str:
        """The plan that would be taken: by name, at random, or by this choice."""
        return choice.plan if self._pick is None else self._pick(plans)

    def _consider(self, known: Known, space: Planned, description: Any, descriptor: Descriptor) -> Choice:
        ways: dict[str, dict[str, Estimate]] = {}
        sources: dict[str, str] = {}
        expected: float | None = None
        searched: dict[int, Nearest | None] = {}  # plans that were measured together are searched together
        for plan in space.plans:
            found = ways[plan] = {}
            for way in self.carriages(space.network.id):
                estimator = known.estimators.get(by_way(plan, way))
                if estimator is None:
                    continue
                index = estimator.index
                if index.layout not in searched:
                    searched[index.layout] = index.nearest(descriptor)
                nearest = searched[index.layout]
                if nearest is not None:
                    found[way] = index.read(nearest)
            sources[plan] = "measured" if found else "histogram"
            if not found:
                expected = space.expected(description) if expected is None else expected
                boxes = boxes_of(descriptor)
                ways[plan] = self._prior(space, plan, descriptor[0], boxes, expected)
        if len(known.choices) >= REMEMBERED:
            known.choices.clear()
        choice = known.choices[descriptor] = self._choice(ways, sources)
        return choice

    def _open(self, space: Offered) -> Known:
        at = space.network.id
        known = self._known[at] = Known(space.plans, self._entries)
        known.is_planned = isinstance(space, Planned)
        for name, estimator in self._prepared.get(at, {}).items():
            if plan_of(name) in space.plans:
                known.estimators[name] = estimator
                known.samples = _LEARNING  # it was learned before
        return known

    def order(self, spaces: Sequence[P]) -> Sequence[P]:
        """The spaces of one event in increasing server cost per subscription: as measured here, by the run, or as is
        expected of as many affected subscriptions."""
        if len(spaces) < 2:
            return spaces
        return sorted(spaces, key=self._server_cost)

    def _server_cost(self, space: Offered) -> float:
        known = self._known.get(space.network.id)
        return known.server_cost if known is not None and known.is_costed else self._supposition(space)[0]

    def server_cost(self, space: Offered) -> tuple[float, str]:
        """The µs per subscription by which `order` sorts, and what they come from in words."""
        known = self._known.get(space.network.id)
        if known is not None and known.is_costed:
            return known.server_cost, self._measured_by(space.network.id in self._server_costs)
        return self._supposition(space)

    def _supposition(self, space: Offered) -> tuple[float, str]:
        """The same while nothing was measured here."""
        at = space.network.id
        found = self._supposed.get(at)
        if found is None:
            found = self._supposed[at] = self._suppose(space)
        return found

    def _suppose(self, space: Offered) -> tuple[float, str]:
        at, of_run = space.network.id, "" if self._run is None else f" of run {self._run}"
        if at in self._server_costs:
            return self._server_costs[at], f"training set{of_run}" if of_run else _HERE
        expected = self.expected(at)
        if expected is None:
            return 0.0, "not measured yet"
        affected = max(1.0, expected.affected)
        ways = (self._prior(space, plan, 1, 1, affected) for plan in space.plans)
        least = min(one.server_time for some in ways for one in some.values())
        return least / affected, f"{expected.statistic}{of_run}"

    def suppose_again(self) -> None:
        """Groups have come and grown since."""
        self._supposed.clear()

    def statistics(self, space: int, choice: Choice) -> dict[str, str]:
        """What the estimate of each plan of a choice comes from, in words."""
        prepared = self._prepared.get(space, {})
        of_run = "" if self._run is None or self._calibration == ASSUMED else f", priced by run {self._run}"
        return {
            plan: self._measured_by(plan in prepared) if source == "measured" else _COUNTED[source] + of_run
            for plan, source in choice.sources.items()
        }

    def _measured_by(self, is_in_run: bool) -> str:
        return f"training set of run {self._run}, {_HERE}" if is_in_run and self._run is not None else _HERE

    # -- learning ------------------------------------------------------------------------------------------------
    def executed(
        self, seq: int, space: int, plan: str, messages: int, size_bytes: int, server_ns: int
    ) -> bool:
        """An event was carried out; True if all plans of its space should now be measured on it."""
        choice, known = self._now
        self.decisions.add((seq, space, plan, choice, messages, size_bytes, server_ns))
        if known is None:
            return False
        known.executed(server_ns)
        return known.busy_ns >= known.due_ns and known.is_planned and self._share > 0

    def sampled(self, space: int, spent_ns: int) -> None:
        """All plans of a space were measured on an event, which took so long."""
        known = self._known[space]
        known.samples += 1
        share = self._share * 10 if known.samples <= _LEARNING else self._share
        known.due_ns = known.busy_ns + int(min(LONGEST_SAMPLE_NS, spent_ns) / share)

    def learn(
        self,
        space: int,
        plan: str,
        descriptor: Descriptor,
        measured: Estimate,
        *,
        executed: bool,
        way: str = TREE,
    ) -> None:
        """What a plan was measured to cost on an event; `executed`: it is the plan of the last decision, and its way."""
        known, name = self._known[space], by_way(plan, way)
        known.learn(name, descriptor, measured, self._entries)
        if measured.affected:
            carriage = self.carriages(space).get(way)
            way_us = 0.0 if carriage is None else carriage.way_us
            made = measured._replace(response_time=max(0.0, measured.response_time - way_us))
            unit = Estimate(*(value / measured.affected for value in made))
            before = known.per_affected.get(name, unit)
            known.per_affected[name] = Estimate(
                *(old + _SMOOTH * (new - old) for old, new in zip(before, unit, strict=True))
            )
        if executed:
            cost = measured.server_time / max(1.0, measured.affected)
            old = known.server_cost if known.is_costed else self._supposed.get(space, (0.0, ""))[0] or cost
            known.server_cost, known.is_costed = old + _SMOOTH * (cost - old), True
            self.decisions.measured(measured)

    def extrapolate(self, space: Offered, plan: str, descriptor: Descriptor, affected: int) -> None:
        """A plan that would have addressed too many to be tried for a measurement costs so much for each of them.

        The way takes as long as that of other messages.
        """
        known = self._known[space.network.id]
        guess = self._prior(space, plan, descriptor[0], boxes_of(descriptor), affected)
        for way, carriage in self.carriages(space.network.id).items():
            name = by_way(plan, way)
            estimate = guess[way]
            if name in known.per_affected:
                estimate = Estimate(*(value * affected for value in known.per_affected[name]))
                estimate = estimate._replace(response_time=estimate.response_time + carriage.way_us)
            known.learn(name, descriptor, estimate, self._entries)

    def entries(self, space: int) -> dict[str, int]:
        """How many measurements there are of each plan of a space."""
        known = self._known.get(space)
        found = self._prepared.get(space, {}) if known is None else known.estimators
        return {plan: len(estimator) for plan, estimator in found.items() if len(estimator)}

    def forget(self, space: int) -> None:
        """A space was closed."""
        self._known.pop(space, None)
        self._prepared.pop(space, None)
        self._supposed.pop(space, None)

    # -- knobs ---------------------------------------------------------------------------------------------------
    def weigh(self, weights: Weights) -> None:
        """From now on these weights; O(spaces)."""
        self.weights = weights
        for known in self._known.values():
            known.reconsider()

    def adopt(self, prepared: Prepared) -> None:
        """Take over estimators that `prepare` built elsewhere: a swap of references, so that no event waits.

        What was measured before is forgotten; a space that opens later starts from them too.
        """
        self._prepared = dict(prepared.estimators)
        self._calibration = prepared.calibration
        self._run, self._server_costs = prepared.run, prepared.server_costs
        self._known.clear()
        self._supposed.clear()

    def prepare(self, training: Training, run: int | None = None) -> Prepared:
        """The estimators of a training set, built on any thread. `run`: that of the statistics job it comes from."""
        estimators = {
            space: {plan: Estimator(self._entries, entries) for plan, entries in plans.items()}
            for space, plans in training.items()
        }
        every = (
            (plan, *entry)
            for plans in training.values()
            for plan, some in plans.items()
            if plan == plan_of(plan)  # by the first way
            for entry in some[:: max(1, len(some) // _CALIBRATING)]
        )
        costs = {space: _cheapest(plans) for space, plans in training.items()}
        return Prepared(estimators, calibrated(every), run, costs)


def _cheapest(plans: Mapping[str, Sequence[Entry]]) -> float:
    """The least µs per affected subscription that a plan took, in the median of its measurements."""
    found = [
        median(one.server_time / max(1.0, one.affected) for _, one in entries)
        for entries in plans.values()
        if entries
    ]
    return min(found, default=0.0)


def chooser(name: str, entries: int = ENTRIES, share: float = SHARE) -> Chooser:
    """By `--plan`: `auto` (by cost), `auto:<plan>` (by cost too, with the state at edges that this plan needs),
    `random:<seed>` or the name of a plan."""
    if name == "auto" or name.startswith("auto:"):
        return Chooser(None, entries, share)
    if name.startswith("random"):
        return Chooser(RandomPlan(int(name.partition(":")[2] or 0)), entries, share)
    return Chooser(NamedPlan(name), entries, share)
