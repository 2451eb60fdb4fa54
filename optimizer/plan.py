"""What passes between the optimizer and spaces with plans: estimates, choices, and descriptions of events.

A plan is a way to turn the description of an event into messages; all plans of a space notify every subscriber of the same
([ProSem thesis] 6.4.2: a prosemination strategy). Only plans that need the same state at the edge compete here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

Descriptor = tuple[float, ...]
METRICS = ("server_time", "response_time", "server_stress", "bandwidth")


class Estimate(NamedTuple):
    """What a plan costs for one event: microseconds, microseconds, bytes, bytes; and how many it affects."""

    server_time: float
    response_time: float
    server_stress: float
    bandwidth: float
    affected: float


class Choice(NamedTuple):
    """All plans of one description with their estimates and weighted costs, and the cheapest of them.

    `sources` has for each plan "measured" if its estimate comes from measurements, "histogram" if it was derived from how
    many points the regions are expected to hold, "counts" if only messages were counted. A plan costs what it does by the
    cheapest of its `ways`, by which the estimates are too.
    """

    plan: str
    estimates: Mapping[str, Estimate]
    costs: Mapping[str, float]
    sources: Mapping[str, str]
    ways: Mapping[str, Mapping[str, Estimate]] = {}


class Expected(NamedTuple):
    """About how many subscriptions of a space an event affects, and the statistic that says so in words."""

    affected: float
    statistic: str


class Identified(Protocol):
    @property
    def id(self) -> int: ...


class Offered(Protocol):
    """A space: its number, and its plans from the most to the least promising."""

    @property
    def network(self) -> Identified: ...
    @property
    def plans(self) -> tuple[str, ...]: ...


@runtime_checkable
class Planned(Protocol):
    """A space whose plans can be compared."""

    @property
    def network(self) -> Identified: ...
    @property
    def plans(self) -> tuple[str, ...]: ...
    def descriptor(self, description: Any) -> Descriptor:
        """The description as a point; one step in a dimension means about a factor of two. See `optimizer.sketch`."""

    def expected(self, description: Any) -> float:
        """About how many subscriptions are affected, by the histogram of the space's points."""

    def affected(self, description: Any) -> int:
        """How many are affected, by looking them up: dear, so asked for samples only."""


def addresses(plan: str) -> bool:
    """Whether the messages of a plan name the affected subscriptions.

    >>> addresses("enumerate"), addresses("enum-sj"), addresses("reformulate")
    (True, True, False)
    """
    return plan.startswith("enum")
