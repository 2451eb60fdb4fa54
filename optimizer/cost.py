"""The cost model: four metrics of an event under a plan, and one number out of them ([ProSem thesis] 6.4.2).

- server time: µs to make the messages and to put them on the network interface; the inverse of throughput.
- response time: µs from the event until its notification arrives, on average. The wait for the commit is left out: it is
  the same under all plans.
- server stress: bytes that leave the server.
- bandwidth: bytes between the nodes of the overlay; none where the network has no brokers.

Normalisation: microseconds and bytes cannot be added, so each metric is divided by a fixed reference first. The references
are what one message costs on a small machine, rounded, so that with all weights 1 each metric counts about the same for
a single message. They are constants, not averages of what was seen: the same weights mean the same tomorrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from optimizer.plan import METRICS, Descriptor, Estimate, addresses

REFERENCE: Mapping[str, float] = {
    "server_time": 10.0,  # µs
    "response_time": 1_000.0,  # µs: a hop of a wide-area network
    "server_stress": 200.0,  # bytes
    "bandwidth": 1_000.0,  # bytes: a message of 200 bytes over five links
}


class Weights(NamedTuple):
    """How much each metric matters: the knobs. Only their ratios change a decision.

    >>> Weights(bandwidth=0.0).cost(Estimate(20.0, 500.0, 400.0, 7_000.0, 3.0))
    4.5
    """

    server_time: float = 1.0
    response_time: float = 1.0
    server_stress: float = 1.0
    bandwidth: float = 1.0

    def cost(self, estimate: Estimate) -> float:
        return (
            self.server_time * estimate.server_time / REFERENCE["server_time"]
            + self.response_time * estimate.response_time / REFERENCE["response_time"]
            + self.server_stress * estimate.server_stress / REFERENCE["server_stress"]
            + self.bandwidth * estimate.bandwidth / REFERENCE["bandwidth"]
        )

    @classmethod
    def of(cls, given: Mapping[str, float]) -> Weights:
        """Weights by name; a name that is missing keeps the default. ValueError says what is wrong."""
        for name, weight in given.items():
            if name not in METRICS:
                raise ValueError(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
            if isinstance(weight, bool) or not math.isfinite(weight) or weight < 0:
                raise ValueError(f"the weight of {name} must be a number from 0 on, not {weight!r}")
        return cls(**{name: float(weight) for name, weight in given.items()})


# What a plan costs before anything was measured; small machines differ from these by a factor, plans by much more.
_MESSAGE_US, _BOX_US, _SEARCH_US, _TARGET_US = 6.0, 1.0, 4.0, 0.3
_MESSAGE_BYTES, _BOX_BYTES, _TARGET_BYTES = 150.0, 25.0, 9.0
FOLD_US, BROKERS_US = (
    5.0,
    0.5,
)  # of the server per subscription that a message reaches: at its own edge, and at brokers
BROKERS = 8  # that share the subscriptions, as long as it is not known how many there are


class Scale(NamedTuple):
    """By which factors the costs of one kind of plans differ from the constants above, in time and in size."""

    time: float = 1.0
    size: float = 1.0


class Calibration(NamedTuple):
    """The scales of plans that send regions, and of those that address."""

    regions: Scale = Scale()
    addressed: Scale = Scale()


ASSUMED = Calibration()


TREE, STRAIGHT = (
    "tree",
    "straight",
)  # the ways of a message: down the network's tree, or to each broker concerned


class Carriage(NamedTuple):
    """How the network carries a message by one way: copies on the server's own links and on all links, µs until it is at a
    broker (on average over the brokers concerned), and µs of the server for its copies."""

    copies: float = 1.0
    all_copies: float = 0.0
    way_us: float = 0.0
    server_us: float = 0.0


Carriages = Mapping[str, Carriage]  # by way
UNCARRIED: Carriages = {
    TREE: Carriage()
}  # without brokers a message leaves the server once, for its own edge


def carried(made: Estimate, messages: float, carriage: Carriage) -> Estimate:
    """What messages cost with their way over the network, if they cost so much to make.

    >>> carried(Estimate(10.0, 8.0, 200.0, 0.0, 3.0), 2, Carriage(4, 10, 500.0, 20.0))
    Estimate(server_time=50.0, response_time=528.0, server_stress=800.0, bandwidth=2000.0, affected=3.0)
    """
    copied_us = messages * carriage.server_us
    return Estimate(
        made.server_time + copied_us,
        made.response_time + copied_us / 2 + carriage.way_us,
        made.server_stress * carriage.copies,
        made.server_stress * carriage.all_copies,
        made.affected,
    )


def prior(
    plan: str, messages: float, boxes: float, affected: float, calibration: Calibration = ASSUMED
) -> Estimate:
    """What a plan is expected to cost by counts alone, while nothing like it has been measured in its space.

    >>> few, many = (prior("enumerate", 1, 1, affected).server_time for affected in (1, 100))
    >>> few < prior("reformulate", 2, 2, 1).server_time < many
    True
    """
    if addresses(plan):
        scale = calibration.addressed
        named = min(messages, affected)  # messages that have a target
        time = _SEARCH_US * boxes + _MESSAGE_US * named + _TARGET_US * affected
        size = _MESSAGE_BYTES * named + _TARGET_BYTES * affected
    else:
        scale = calibration.regions
        time = _MESSAGE_US * messages + _BOX_US * boxes
        size = _MESSAGE_BYTES * messages + _BOX_BYTES * boxes
    return Estimate(scale.time * time, scale.time * time, scale.size * size, 0.0, affected)


def prior_by_way(
    plan: str,
    messages: float,
    boxes: float,
    affected: float,
    calibration: Calibration = ASSUMED,
    carriages: Carriages = UNCARRIED,
) -> dict[str, Estimate]:
    """The same with what the network does. What was measured for a calibration was carried as by the first way already.

    >>> ways = {TREE: Carriage(2, 5, 300.0, 10.0), STRAIGHT: Carriage(4, 4, 100.0, 20.0)}
    >>> [prior_by_way("reformulate", 1, 1, 3, one, ways)[STRAIGHT][2:4] for one in (ASSUMED, Calibration(Scale(2, 2)))]
    [(700.0, 700.0), (700.0, 700.0)]
    """
    made = prior(plan, messages, boxes, affected, calibration)
    is_addressed = addresses(plan)
    named = min(messages, affected) if is_addressed else messages
    if (calibration.addressed if is_addressed else calibration.regions) != Scale():
        first = next(iter(carriages.values()))
        copies = max(first.copies, 1e-9)
        carriages = {
            way: Carriage(
                one.copies / copies, one.all_copies / copies, one.way_us, one.server_us - first.server_us
            )
            for way, one in carriages.items()
        }
    return {way: carried(made, named, one) for way, one in carriages.items()}


def boxes_of(descriptor: Descriptor) -> float:
    """About how many boxes a descriptor's regions have: it keeps the logarithm."""
    return (1 << int(descriptor[1])) / 2


def calibrated(measured: Iterable[tuple[str, Descriptor, Estimate]]) -> Calibration:
    """The median factors between measurements (of any spaces) and what `prior` would have said of them.

    So a space that was never measured is judged by how this machine and this network do elsewhere. A kind of which nothing
    was measured keeps the constants. O(n log n).

    >>> slow = Estimate(70.0, 70.0, 350.0, 0.0, 9.0)
    >>> calibrated([("reformulate", (1, 1), slow)])
    Calibration(regions=Scale(time=10.0, size=2.0), addressed=Scale(time=1.0, size=1.0))
    """
    factors: dict[bool, tuple[list[float], list[float]]] = {False: ([], []), True: ([], [])}
    for plan, descriptor, estimate in measured:
        assumed = prior(plan, descriptor[0], boxes_of(descriptor), estimate.affected)
        times, sizes = factors[addresses(plan)]
        if assumed.server_time and estimate.server_time:
            times.append(estimate.server_time / assumed.server_time)
        if assumed.server_stress and estimate.server_stress:
            sizes.append(estimate.server_stress / assumed.server_stress)
    return Calibration(
        *(Scale(*(median(some) if some else 1.0 for some in factors[kind])) for kind in (False, True))
    )
