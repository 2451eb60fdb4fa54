"""When a join is decomposed anew: the events of its tables are counted, and looked at now and then."""

from __future__ import annotations

import random
from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol

from prosem.types.join.decomposition import GAIN, Cost, Decomposition, cheapest, has_choice, total
from prosem.types.join.shape import JoinShape
from prosem.values.model import Row

SAMPLE_POINTS = 32
FEWEST_POINTS = 8  # below, a sample says less than the formula
FADING = 0.5  # how much of the older counts still counts
Counts = tuple[list[int], list[int]]  # of each table its events, and those of them that moved a row


class Costed(Protocol):
    """What knows the costs of semijoins: O(rows)."""

    @property
    def shape(self) -> JoinShape: ...
    @property
    def row_count(self) -> int: ...
    def cost(self, shares: Sequence[float], moved: Sequence[float], chance: random.Random) -> Cost:
        """Of each semijoin, with these shares of the events, of which so many of each table move a row."""


class Adaptation:
    """Counts events per table, and those after which a row is at another place among the rows of its join key.

    A look costs O(rows), and is taken after as many events at the earliest.
    """

    def __init__(self, model: Costed) -> None:
        self._model = model
        shape = model.shape
        tables = len(shape.tables)
        self._weights = [0.0] * tables
        self._moved_weights = [0.0] * tables
        self.counts, self.moves = [0] * tables, [0] * tables
        # where a row of each table is among others; every table shares a join column with another
        self._place = [itemgetter(*shape.placing(number)) for number in range(tables)]
        self._has_choice = has_choice(shape)
        self._random = random.Random(tables)

    def count(self, number: int, old: Row | None, new: Row | None) -> None:
        """An event on a table; O(join columns)."""
        self.counts[number] += 1
        place = self._place[number]
        if old is None or new is None or place(old) != place(new):
            self.moves[number] += 1

    def counted(self) -> Counts:
        return list(self.counts), list(self.moves)

    def count_again(self, counted: Counts) -> None:
        """Have counted this and nothing else."""
        self.counts[:], self.moves[:] = counted

    def better(self, present: Decomposition) -> Decomposition | None:
        """A decomposition that is cheaper by far with what was counted lately; None if there is none."""
        fresh = sum(self.counts)
        if not self._has_choice or not fresh or fresh < self._model.row_count:
            return None
        self._weights = _faded(self._weights, self.counts)
        self._moved_weights = _faded(self._moved_weights, self.moves)
        self.counts, self.moves = [0] * len(self.counts), [0] * len(self.moves)
        shares = [weight / sum(self._weights) for weight in self._weights]
        moved = [one / max(1.0, all) for one, all in zip(self._moved_weights, self._weights, strict=True)]
        cost = self._model.cost(shares, moved, self._random)
        known: dict[tuple[int, int], float] = {}

        def once(table: int, partner: int) -> float:
            if (table, partner) not in known:
                known[table, partner] = cost(table, partner)
            return known[table, partner]

        other = cheapest(self._model.shape, once)
        return other if total(other, once) < (1 - GAIN) * total(present, once) else None


def _faded(weights: Sequence[float], counts: Sequence[int]) -> list[float]:
    return [FADING * weight + count for weight, count in zip(weights, counts, strict=True)]
