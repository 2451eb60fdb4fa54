"""What the optimizer knows of one space: measurements of each plan by each way, choices, and the time left for more."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.cost import TREE
from optimizer.estimate import Estimator
from optimizer.plan import Choice, Descriptor, Estimate

REMEMBERED = 20_000  # choices of one space
# Of the time spent on events may go into descriptors, and into searches for estimates: together less than a twentieth.
LOOKING, CONSIDERING = 0.033, 0.012
FREE_NS = 5_000_000  # that each may take in a space before that, and again with other weights


def by_way(plan: str, way: str) -> str:
    """The name under which a plan is measured by a way.

    >>> by_way("enumerate", "tree"), by_way("enumerate", "straight")
    ('enumerate', 'enumerate, straight')
    """
    return plan if way == TREE else f"{plan}, {way}"


def plan_of(name: str) -> str:
    """The plan that was measured under a name.

    >>> plan_of("enumerate"), plan_of("enumerate, straight")
    ('enumerate', 'enumerate')
    """
    return name.partition(", ")[0]


class Known:
    """What is known of one space: an estimator per plan and way, and the choices made by them.

    `looking_ns` and `considering_ns` are what is left of the shares. `stale` holds choices made before an estimator was
    built anew: they count until there is time to consider them again.
    """

    __slots__ = (
        "busy_ns",
        "choices",
        "considering_ns",
        "due_ns",
        "estimators",
        "is_costed",
        "is_planned",
        "looking_ns",
        "per_affected",
        "plan",
        "samples",
        "server_cost",
        "stale",
        "streak",
    )

    def __init__(self, plans: Sequence[str], entries: int) -> None:
        self.estimators = {plan: Estimator(entries) for plan in plans}
        self.choices: dict[Descriptor, Choice] = {}
        self.stale: dict[Descriptor, Choice] = {}
        self.looking_ns = self.considering_ns = float(FREE_NS)
        self.busy_ns = self.due_ns = 0  # time spent on events, and when it suffices for the next sample
        self.is_planned = True
        self.samples = 0
        self.plan, self.streak = "", 0  # the last winner, and how often in a row
        self.per_affected: dict[str, Estimate] = {}  # by plan and way, without the time on the way
        self.server_cost = 0.0  # µs per subscription
        self.is_costed = False  # by measurements

    def learn(self, name: str, descriptor: Descriptor, estimate: Estimate, entries: int) -> None:
        if name not in self.estimators:  # of a way that there was not before
            self.estimators[name] = Estimator(entries)
        if self.estimators[name].learn(descriptor, estimate):
            self.stale, self.choices = self.stale | self.choices, {}
            if len(self.stale) > REMEMBERED:
                self.stale.clear()

    def executed(self, server_ns: int) -> None:
        """An event took so long: shares of it may be spent on choosing."""
        self.busy_ns += server_ns
        looking = self.looking_ns + LOOKING * server_ns
        considering = self.considering_ns + CONSIDERING * server_ns
        self.looking_ns = looking if looking < FREE_NS else FREE_NS
        self.considering_ns = considering if considering < FREE_NS else FREE_NS

    def reconsider(self) -> None:
        """What was chosen so far is wrong."""
        self.choices.clear()
        self.stale.clear()
        self.streak = 0
        self.looking_ns = self.considering_ns = float(FREE_NS)
