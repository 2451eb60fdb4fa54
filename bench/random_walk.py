"""The range-min workload of [ProSem thesis] (table 3.1): ranges of subscriptions, values that walk at random, and spikes.

The source gives the domain, the share of spikes, and that the step depends on the current value; not the step itself. `STEP`
is calibrated so that an event affects as many subscriptions as in its tables 3.2 and 3.3. A spike is a drop below all
values, and the way back. An update is ignorable if another row at the same x is no higher than its old and its new value
(3.1.1), whatever the subscriptions; the source's scalability figures have none of them (3.5.5).

Lengths of ranges are N(1000, 1000): a negative one is drawn again, as from the truncated distributions of the source's
chapter 4. Then a spike affects 12.9 % of the ranges on average, and spikes alone 637 of 500,000 subscriptions per event:
what the source's tables have beyond that falls with 1 / rows, as it should. With absolute values it would be 577.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
DOMAIN = 10_000
SPIKES = 0.005
BELOW = -1  # where a spike drops to: no other row is there
STEP, OFFSET = 0.6, 10_000.0  # of |N(0, STEP)| · (value + OFFSET)
MIDDLE, LENGTH = (5000.0, 1500.0), (1000.0, 1000.0)  # mean and deviation, of ranges
SETTLING = 50  # steps of every row before the first event
_BLOCK = 4096


def ranges(
    random: np.random.Generator,
    count: int,
    middle: tuple[float, float] = MIDDLE,
    length: tuple[float, float] = LENGTH,
) -> Integers:
    """Both ends of so many ranges, a line each, within the domain."""
    centres, lengths = random.normal(*middle, count), random.normal(*length, count)
    while len(negative := np.flatnonzero(lengths < 0)):
        lengths[negative] = random.normal(*length, len(negative))
    ends = np.column_stack([centres - lengths / 2, centres + lengths / 2])
    return np.clip(ends, 0, DOMAIN).astype(np.int64)


def settled(ys: Integers, random: np.random.Generator) -> Integers:
    """Values after a long walk: their distribution no longer changes, so few events suffice."""
    values = ys.astype(np.float64)
    for _ in range(SETTLING):
        values = _reflected(values + random.normal(0, STEP, len(values)) * (values + OFFSET))
    return values.round().astype(np.int64)


def updates(
    xs: Integers,
    ys: Integers,
    random: np.random.Generator,
    *,
    spikes: float = SPIKES,
    ignorable: bool = False,
) -> Iterator[tuple[int, int]]:
    """Keys and their new values, without end: only updates that are not ignorable, unless `ignorable` is set.

    After a share `spikes` of them a row drops below all others and bounces back: two events more.
    """
    values: list[int] = ys.tolist()
    at_x: dict[int, list[int]] = {}
    for key, x in enumerate(xs.tolist()):
        at_x.setdefault(x, []).append(key)
    places = [at_x[x] for x in xs.tolist()]
    while True:
        keys = random.integers(0, len(values), _BLOCK).tolist()
        steps = random.normal(0, STEP, _BLOCK).tolist()
        chances = random.random(_BLOCK).tolist()
        dropped = random.integers(0, len(values), _BLOCK).tolist()
        for key, step, chance, other in zip(keys, steps, chances, dropped, strict=True):
            old = values[key]
            new = round(_reflected_one(old + step * (old + OFFSET)))
            if new == old:
                new = old + 1 if (step > 0 and old < DOMAIN) or old == 0 else old - 1
            if not ignorable and _is_ignorable(values, places[key], key, min(old, new)):
                continue
            values[key] = new
            yield key, new
            if chance < spikes:
                yield other, BELOW
                yield other, values[other]


def _is_ignorable(values: list[int], places: list[int], key: int, lowest: int) -> bool:
    return any(values[other] <= lowest for other in places if other != key)


def _reflected(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Within the domain: what would leave it turns back at its end."""
    inside: NDArray[np.float64] = DOMAIN - np.abs(DOMAIN - values % (2 * DOMAIN))
    return inside


def _reflected_one(value: float) -> float:
    return DOMAIN - abs(DOMAIN - value % (2 * DOMAIN))
