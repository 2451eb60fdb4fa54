"""Which broker is to host whom: by interest and by latency ([ProSem thesis] 7)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Interests = NDArray[np.bool_]  # subscriber × event of a sample: whether it wants to be told
Latencies = NDArray[np.float64]  # subscriber × broker
ROUNDS = 20


class Assignment(NamedTuple):
    """The broker of each subscriber, and what that costs: brokers an event goes to, and the mean latency."""

    brokers: NDArray[np.int64]
    reach: float
    latency: float


def assign(
    interests: Interests, latencies: Latencies, weight: float, capacity: int | None = None, seed: int = 0
) -> Assignment:
    """Give each subscriber a broker so that `weight` · reach + mean latency is small.

    The nearest broker for everybody sends almost every event to almost every broker; brokers by interest alone may be
    far away. The problem is as hard as a partition. This starts twice, from the nearest brokers and by taking the
    subscribers one after the other to where each costs least, moves one subscriber at a time until nobody gains or after
    20 rounds, and keeps the better. A round costs O(subscribers · brokers · events a subscriber wants). No broker gets
    more than `capacity`.

    >>> interests = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], bool)
    >>> latencies = np.array([[1, 2], [1, 2], [2, 1], [2, 1]], float)
    >>> near, alike = assign(interests, latencies, weight=0.0), assign(interests, latencies, weight=9.0)
    >>> near.reach, near.latency, alike.reach, alike.latency
    (2.0, 1.0, 1.0, 1.5)
    """
    subscribers, brokers = latencies.shape
    capacity = capacity if capacity is not None else subscribers
    if capacity * brokers < subscribers:
        raise ValueError(f"{brokers} brokers of {capacity} cannot hold {subscribers} subscribers")
    starts = [_improve(interests, latencies, start, weight, capacity, seed) for start in (0.0, weight)]
    both = [Assignment(chosen, *costs(interests, latencies, chosen)) for chosen in starts]
    return min(both, key=lambda one: weight * one.reach + one.latency)


def _improve(
    interests: Interests, latencies: Latencies, start: float, weight: float, capacity: int, seed: int
) -> NDArray[np.int64]:
    """Everybody where it costs least when he comes, reach weighed by `start`; then moves until nobody gains."""
    subscribers, brokers = latencies.shape
    events = max(1, interests.shape[1])
    wanted = [np.flatnonzero(row) for row in interests]
    counts = np.zeros((brokers, interests.shape[1]), np.int64)  # subscribers of a broker that want an event
    load = np.zeros(brokers, np.int64)
    chosen = np.full(subscribers, -1, np.int64)
    dice = np.random.default_rng(seed)
    for weighed in [start] + [weight] * ROUNDS:
        moved = False
        for one in dice.permutation(subscribers):
            here, mine = int(chosen[one]), wanted[one]
            if here >= 0:
                counts[here, mine] -= 1
                load[here] -= 1
            added = (counts[:, mine] == 0).sum(axis=1) / events
            cost = np.where(load < capacity, weighed * added + latencies[one] / subscribers, np.inf)
            best = int(cost.argmin())
            if here < 0 or cost[best] < cost[here] - 1e-12:
                moved, here = True, best
            chosen[one] = here
            counts[here, mine] += 1
            load[here] += 1
        if not moved:
            break
    return chosen


def costs(interests: Interests, latencies: Latencies, brokers: NDArray[np.int64]) -> tuple[float, float]:
    """How many brokers an event of the sample goes to on average, and the mean latency of a subscriber."""
    reached = [interests[brokers == broker].any(axis=0) for broker in range(latencies.shape[1])]
    reach = float(np.mean(np.sum(reached, axis=0))) if interests.shape[1] else 0.0
    return reach, float(latencies[np.arange(len(brokers)), brokers].mean())
