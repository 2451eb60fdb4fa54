"""Who hosts whom: never worse than the nearest broker, near the best on small cases, grouped by interest when it pays."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cn.simulation.assignment import assign, costs


def cases(seed: int, subscribers: int, brokers: int) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    return dice.random((subscribers, 12)) < 0.3, dice.random((subscribers, brokers))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weight", [0.0, 0.1, 1.0, 10.0])
def test_it_is_between_the_best_of_all_and_the_nearest(seed: int, weight: float) -> None:
    interests, latencies = cases(seed, 6, 3)
    whole = lambda brokers: (
        weight * costs(interests, latencies, brokers)[0] + costs(interests, latencies, brokers)[1]
    )
    found = assign(interests, latencies, weight)
    assert (found.reach, found.latency) == costs(interests, latencies, found.brokers)
    nearest = latencies.argmin(axis=1)
    best = min(whole(np.array(one)) for one in product(range(3), repeat=6))
    assert best - 1e-9 <= whole(found.brokers) <= whole(nearest) + 1e-9
    if weight == 0.0:
        assert (found.brokers == nearest).all()


def test_those_who_want_the_same_come_together() -> None:
    dice = np.random.default_rng(1)
    kinds = dice.integers(0, 5, 200)
    interests = kinds[:, None] == np.arange(50)[None, :] % 5
    latencies = dice.random((200, 5))
    apart = assign(interests, latencies, weight=0.0)
    together = assign(interests, latencies, weight=5.0, capacity=80)
    assert apart.reach > 4.9
    assert together.reach < 0.6 * apart.reach
    assert np.bincount(together.brokers).max() <= 80


def test_a_capacity_that_cannot_hold_all_is_refused() -> None:
    interests, latencies = cases(1, 6, 3)
    full = assign(interests, latencies, weight=10.0, capacity=2)
    assert np.bincount(full.brokers, minlength=3).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="cannot hold 6"):
        assign(interests, latencies, weight=1.0, capacity=1)
