"""When a join is decomposed anew: the events of its tables are counted, and looked at now and then."""

from __future__ import annotations

import random

from prosem.types.join.decomposition import (
    GAIN,
    Counted,
    Decomposition,
    cheapest,
    formula,
    has_choice,
    rows_per_key,
    simulation,
    total,
)
from prosem.types.join.model import JoinModel
from prosem.types.join.table import Classes

SAMPLE_POINTS = 32
FEWEST_POINTS = 8  # below, a sample says less than the formula
FADING = 0.5  # how much of the older counts still counts


class Adaptation:
    """Counts events per table. A look costs O(rows), and is taken after as many events at the earliest."""

    def __init__(self, model: JoinModel) -> None:
        self._model = model
        self._weights = [0.0] * len(model.tables)
        self.counts = [0] * len(model.tables)
        self._has_choice = has_choice(model.shape)
        self._random = random.Random(len(model.tables))

    def better(self, present: Decomposition) -> Decomposition | None:
        """A decomposition that is cheaper by far with what was counted lately; None if there is none."""
        fresh = sum(self.counts)
        if not self._has_choice or not fresh or fresh < sum(map(len, self._model.tables)):
            return None
        self._weights = [FADING * w + n for w, n in zip(self._weights, self.counts, strict=True)]
        self.counts = [0] * len(self.counts)
        shares = [weight / sum(self._weights) for weight in self._weights]
        shape, points = self._model.shape, self._model.points
        if len(points) >= FEWEST_POINTS:
            places = points.sample(SAMPLE_POINTS, self._random)
            cost = simulation(shape, self._model.tables, places, shares)
        else:
            cost = formula(shape, Counted(shares, self._rows_per_key))
        known: dict[tuple[int, int], float] = {}

        def once(table: int, partner: int) -> float:
            if (table, partner) not in known:
                known[table, partner] = cost(table, partner)
            return known[table, partner]

        other = cheapest(shape, once)
        return other if total(other, once) < (1 - GAIN) * total(present, once) else None

    def _rows_per_key(self, table: int, classes: Classes) -> float:
        one = self._model.tables[table]
        return rows_per_key((entry[2] for entry in one.entries()), one.getter(classes))
