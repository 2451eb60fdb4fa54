"""When a join is decomposed anew: the events of its tables are counted, and looked at now and then."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from cn.model.geometry import Point
from prosem.types.join.decomposition import (
    GAIN,
    Cost,
    Counted,
    Decomposition,
    cheapest,
    formula,
    has_choice,
    rows_per_key,
    simulation,
    total,
)
from prosem.types.join.shape import JoinShape
from prosem.types.join.table import Classes, JoinTable

SAMPLE_POINTS = 32
FEWEST_POINTS = 8  # below, a sample says less than the formula
FADING = 0.5  # how much of the older counts still counts


class Costed(Protocol):
    """What knows the costs of semijoins: O(rows)."""

    @property
    def shape(self) -> JoinShape: ...
    @property
    def row_count(self) -> int: ...
    def cost(self, shares: Sequence[float], chance: random.Random) -> Cost:
        """Of each semijoin, with these shares of the events."""


class Adaptation:
    """Counts events per table. A look costs O(rows), and is taken after as many events at the earliest."""

    def __init__(self, model: Costed) -> None:
        self._model = model
        tables = len(model.shape.tables)
        self._weights = [0.0] * tables
        self.counts = [0] * tables
        self._has_choice = has_choice(model.shape)
        self._random = random.Random(tables)

    def better(self, present: Decomposition) -> Decomposition | None:
        """A decomposition that is cheaper by far with what was counted lately; None if there is none."""
        fresh = sum(self.counts)
        if not self._has_choice or not fresh or fresh < self._model.row_count:
            return None
        self._weights = [FADING * w + n for w, n in zip(self._weights, self.counts, strict=True)]
        self.counts = [0] * len(self.counts)
        shares = [weight / sum(self._weights) for weight in self._weights]
        cost = self._model.cost(shares, self._random)
        known: dict[tuple[int, int], float] = {}

        def once(table: int, partner: int) -> float:
            if (table, partner) not in known:
                known[table, partner] = cost(table, partner)
            return known[table, partner]

        other = cheapest(self._model.shape, once)
        return other if total(other, once) < (1 - GAIN) * total(present, once) else None


def semijoin_cost(
    shape: JoinShape, tables: Sequence[JoinTable], places: Sequence[Point], shares: Sequence[float]
) -> Cost:
    """By simulation on a sample of points; by the formula where these are too few to say anything."""
    if len(places) >= FEWEST_POINTS:
        return simulation(shape, tables, places, shares)

    def per_key(table: int, classes: Classes) -> float:
        one = tables[table]
        return rows_per_key((entry[2] for entry in one.entries()), one.getter(classes))

    return formula(shape, Counted(shares, per_key))
