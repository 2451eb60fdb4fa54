"""Which plan carries an event out in one space, and in which order spaces are worked off.

Greedy, as in [ProSem thesis] 6.4.2: each space takes the plan of the lowest weighted cost for itself. The spaces of one
event run in increasing server cost per subscription, so that cheap answers do not wait for dear ones.

A choice costs a descriptor and a dictionary lookup. Where one plan has won hundreds of times in a row it is asked for at
every fourth event only; the first other winner, other weights or new statistics end that. It loses where all plans of a
space cost the same: then it is paid for nothing, up to a tenth of the event.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from optimizer.cost import ASSUMED, Calibration, Weights, boxes_of, calibrated, prior
from optimizer.decisions import Decisions
from optimizer.estimate import ENTRIES, Entry, Estimator, Nearest
from optimizer.plan import Choice, Descriptor, Estimate, Offered, Planned

SHARE = 0.02  # of the time spent on events may go into measuring their plans
_LEARNING = 32  # samples of a space that may take ten times as much
_REMEMBERED = 20_000  # choices of one space
SETTLED = 256  # equal choices in a row, after which only some events are looked at
SKIPPED = 3  # events between two looks then
_SMOOTH = 0.1
_CALIBRATING = 500  # measurements of a plan in a space that suffice to see how dear this machine is
Pick = Callable[[Sequence[str]], str]
Training = Mapping[int, Mapping[str, Sequence[Entry]]]  # space → plan → measurements


class Prepared(NamedTuple):
    """A training set, made ready: the estimators of each space, and what all measurements say of spaces without any."""

    estimators: Mapping[int, Mapping[str, Estimator]] = {}
    calibration: Calibration = ASSUMED


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


class Known:
    """What is known of one space: an estimator a plan, and the choices made since one of them was built anew."""

    __slots__ = (
        "busy_ns",
        "choices",
        "due_ns",
        "estimators",
        "is_planned",
        "per_affected",
        "plan",
        "samples",
        "server_cost",
        "skips",
        "streak",
    )

    def __init__(self, plans: Sequence[str], entries: int) -> None:
        self.estimators = {plan: Estimator(entries) for plan in plans}
        self.choices: dict[Descriptor, Choice] = {}
        self.busy_ns = self.due_ns = 0  # time spent on events, and when it suffices for the next sample
        self.is_planned = True
        self.samples = 0
        self.plan, self.streak, self.skips = (
            "",
            0,
            0,
        )  # the last winner, how often in a row, events not looked at
        self.per_affected: dict[str, tuple[float, float]] = {}  # plan → µs and bytes
        self.server_cost = 0.0  # µs per subscription

    def learn(self, plan: str, descriptor: Descriptor, estimate: Estimate) -> None:
        if self.estimators[plan].learn(descriptor, estimate):
            self.reconsider()

    def reconsider(self) -> None:
        """What was chosen so far may be wrong by now."""
        self.choices.clear()
        self.streak = self.skips = 0


class Chooser:
    """`pick` overrides the costs; `entries` bounds each estimator; measuring takes `share` of the time (0: none)."""

    def __init__(self, pick: Pick | None = None, entries: int = ENTRIES, share: float = SHARE) -> None:
        self.weights = Weights()
        self.decisions = Decisions()
        self._pick, self._entries, self._share = pick, entries, share
        self._known: dict[int, Known] = {}
        self._prepared: dict[int, Mapping[str, Estimator]] = {}
        self._calibration = ASSUMED
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
        if known.skips:
            known.skips -= 1
            self._now = (None, known)
            return known.plan
        planned: Any = space  # was asked once, when it was opened
        descriptor = planned.descriptor(description)
        choice = known.choices.get(descriptor)
        if choice is None:
            choice = self._consider(known, planned, description, descriptor)
        self._now = (choice, known)
        if choice.plan != known.plan:
            known.plan, known.streak = choice.plan, 0
        known.streak += 1
        if known.streak >= SETTLED:
            known.skips = SKIPPED
        return choice.plan

    def consider(self, space: Planned, description: Any) -> Choice:
        """All plans with their estimates, and the one that would be carried out; nothing is carried out."""
        known = self._known.get(space.network.id) or self._open(space)
        return self._consider(known, space, description, space.descriptor(description))

    def by_counts(self, plans: Sequence[str], affected: float) -> Choice:
        """Plans that cannot be compared by a descriptor, one message each."""
        found = {plan: prior(plan, 1, 1, affected, self._calibration) for plan in plans}
        costs = {plan: self.weights.cost(estimate) for plan, estimate in found.items()}
        return Choice(plans[0], found, costs, "counts")

    def plan_of(self, plans: Sequence[str], choice: Choice) -> str:
        """The plan that would be taken: by name, at random, or by this choice."""
        return choice.plan if self._pick is None else self._pick(plans)

    def _consider(self, known: Known, space: Planned, description: Any, descriptor: Descriptor) -> Choice:
        found: dict[str, Estimate] = {}
        expected: float | None = None
        searched: dict[int, Nearest | None] = {}  # plans that were measured together are searched together
        for plan in space.plans:
            index = known.estimators[plan].index
            if index.layout not in searched:
                searched[index.layout] = index.nearest(descriptor)
            nearest = searched[index.layout]
            if nearest is None:
                expected = space.expected(description) if expected is None else expected
                boxes = boxes_of(descriptor)
                found[plan] = prior(plan, descriptor[0], boxes, expected, self._calibration)
            else:
                found[plan] = index.read(nearest)
        source = "measured" if expected is None else "histogram"
        costs = {plan: self.weights.cost(estimate) for plan, estimate in found.items()}
        plan = min(costs, key=costs.__getitem__)  # of equals the one the type prefers
        if len(known.choices) >= _REMEMBERED:
            known.choices.clear()
        choice = known.choices[descriptor] = Choice(plan, found, costs, source)
        return choice

    def _open(self, space: Offered) -> Known:
        at = space.network.id
        known = self._known[at] = Known(space.plans, self._entries)
        known.is_planned = isinstance(space, Planned)
        for plan, estimator in self._prepared.get(at, {}).items():
            if plan in known.estimators:
                known.estimators[plan] = estimator
        return known

    def order(self, spaces: Sequence[P]) -> Sequence[P]:
        """The spaces of one event in increasing server cost per subscription."""
        if len(spaces) < 2:
            return spaces
        known = self._known
        return sorted(
            spaces,
            key=lambda space: known[space.network.id].server_cost if space.network.id in known else 0.0,
        )

    # -- learning ------------------------------------------------------------------------------------------------
    def executed(
        self, seq: int, space: int, plan: str, messages: int, size_bytes: int, server_ns: int
    ) -> bool:
        """An event was carried out; True if all plans of its space should now be measured on it."""
        choice, known = self._now
        self.decisions.add((seq, space, plan, choice, messages, size_bytes, server_ns))
        if known is None:
            return False
        known.busy_ns += server_ns
        return known.busy_ns >= known.due_ns and known.is_planned and self._share > 0

    def sampled(self, space: int, spent_ns: int) -> None:
        """All plans of a space were measured on an event, which took so long."""
        known = self._known[space]
        known.samples += 1
        share = self._share * 10 if known.samples <= _LEARNING else self._share
        known.due_ns = known.busy_ns + int(spent_ns / share)

    def learn(
        self, space: int, plan: str, descriptor: Descriptor, measured: Estimate, *, executed: bool
    ) -> None:
        """What a plan was measured to cost on an event; `executed`: it is the plan of the last decision."""
        known = self._known[space]
        known.learn(plan, descriptor, measured)
        if measured.affected:
            unit = (measured.server_time / measured.affected, measured.server_stress / measured.affected)
            before = known.per_affected.get(plan, unit)
            time, size = (old + _SMOOTH * (new - old) for old, new in zip(before, unit, strict=True))
            known.per_affected[plan] = (time, size)
        if executed:
            cost = measured.server_time / max(1.0, measured.affected)
            known.server_cost += _SMOOTH * (cost - known.server_cost)
            self.decisions.measured(measured)

    def extrapolate(self, space: int, plan: str, descriptor: Descriptor, affected: int) -> None:
        """A plan that would have addressed too many to be tried for a measurement costs so much for each of them."""
        known = self._known[space]
        guess = prior(plan, 1, 1, 1, self._calibration)
        time, size = known.per_affected.get(plan, (guess.server_time, guess.server_stress))
        estimate = Estimate(time * affected, time * affected, size * affected, 0.0, affected)
        known.learn(plan, descriptor, estimate)

    def entries(self, space: int) -> dict[str, int]:
        """How many measurements there are of each plan of a space."""
        known = self._known.get(space)
        found = self._prepared.get(space, {}) if known is None else known.estimators
        return {plan: len(estimator) for plan, estimator in found.items() if len(estimator)}

    def forget(self, space: int) -> None:
        """A space was closed."""
        self._known.pop(space, None)
        self._prepared.pop(space, None)

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
        self._known.clear()

    def prepare(self, training: Training) -> Prepared:
        """The estimators of a training set, built on any thread."""
        estimators = {
            space: {plan: Estimator(self._entries, entries) for plan, entries in plans.items()}
            for space, plans in training.items()
        }
        every = (
            (plan, *entry)
            for plans in training.values()
            for plan, some in plans.items()
            for entry in some[:: max(1, len(some) // _CALIBRATING)]
        )
        return Prepared(estimators, calibrated(every))


def chooser(name: str, entries: int = ENTRIES, share: float = SHARE) -> Chooser:
    """`auto` (by cost), `random:<seed>` or the name of a plan."""
    if name == "auto":
        return Chooser(None, entries, share)
    if name.startswith("random"):
        return Chooser(RandomPlan(int(name.partition(":")[2] or 0)), entries, share)
    return Chooser(NamedPlan(name), entries, share)
