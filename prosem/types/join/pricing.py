"""What a message of a join costs, by the share of the subscriptions that it reaches, in the units of the optimizer.

The number of messages does not grow with the subscriptions, so that rows that travel to each of them ([ProSem thesis] 5.4.3)
are not what the server pays for: it makes and sends a message if any subscription is concerned, by the cheaper of two ways.
A region has boxes, more of them the narrower the ranges of a partner are; an addressed message has targets. What each
subscription reached costs on top is small where brokers fold its changes, and most of it where the server does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from optimizer.cost import FOLD_US, Weights, prior
from optimizer.plan import Estimate
from prosem.types.join.table import Classes


class Pricing(NamedTuple):
    """`weights` gives those in force; `reached_us`: what a subscription that is reached costs the server. A message leaves
    the server once for each of the `brokers` that host one of them; all brokers host as many."""

    weights: Callable[[], Weights] = Weights
    reached_us: float = FOLD_US
    brokers: int = 1

    def message(self, share: float, subscriptions: int, boxes: float = 1.0) -> float:
        """The expected cost of a message for this share of so many subscriptions; of an unknown number (0) the share itself.

        >>> [round(Pricing(reached_us=0.0).message(0.02, number), 2) for number in (1, 10, 1_000)]
        [0.03, 0.29, 1.58]
        >>> [round(Pricing().message(0.02, 1_000, boxes), 2) for boxes in (1, 30)]  # the long one is addressed instead
        [11.58, 13.27]
        >>> [round(Pricing(Weights, 0.0, 8).message(share, 1_000), 2) for share in (0.001, 0.1)]
        [1.27, 7.71]
        """
        if not subscriptions:
            return share
        cost, reached = self.weights().cost, share * subscriptions
        sent = 1.0 - (1.0 - min(1.0, share)) ** subscriptions
        if not sent:
            return 0.0
        ways = (
            prior(plan, 1, count, reached / sent)
            for plan, count in (("reformulate", boxes), ("enumerate", 1))
        )
        copies = self.brokers * (1.0 - (1.0 - min(1.0, share)) ** (subscriptions / self.brokers)) / sent
        made = min(cost(one._replace(server_stress=copies * one.server_stress)) for one in ways)
        return sent * made + cost(Estimate(self.reached_us * reached, 0.0, 0.0, 0.0, reached))


USUAL = Pricing()


class Selected(NamedTuple):
    """What share of the subscriptions selects a row of a table: by all its conditions, and by its routing column alone.

    Only this share of the rows is `present` in the routing column: a row with a NULL there is no partner of any other. Two
    rows have the same value there with probability `together`.
    """

    row: float
    partner: float
    present: float = 1.0
    together: float = 0.0

    def missed(self, rows: float) -> float:
        """How likely a range holds none of so many rows: those that share a value are held together or not at all, so that
        j rows count as 1 / (together + (1 - together) / j).

        >>> [round(Selected(0.1, 0.5, together=one).missed(8), 3) for one in (0, 0.5, 1)]
        [0.004, 0.292, 0.5]
        """
        present = rows * self.present
        apart = present / (1 + self.together * (present - 1)) if present > 1 else present
        missed: float = max(0.0, 1 - self.partner) ** apart
        return missed


def _always(table: int, partner: int, classes: Classes) -> float:
    return 1.0


class Counted(NamedTuple):
    """What is known of a join's tables: `shares` of the events, rows per join key, and what ranges select.

    `selected`: None where it is not known of a table; empty where it is not known of any. `moved`: which share of the events
    of each table takes a row to another place among its partner's (empty: all). `matched`: how likely a row has a
    partner. `subscriptions`: how many there are, 0 if that is not known.
    """

    shares: Sequence[float]
    rows_per_key: Callable[[int, Classes], float]
    selected: Sequence[Selected | None] = ()
    moved: Sequence[float] = ()
    matched: Callable[[int, int, Classes], float] = _always
    subscriptions: int = 0
    pricing: Pricing = USUAL

    def selects(self, table: int) -> float:
        """The share of the subscriptions that select a row; 1/3 of random ranges hold a random value."""
        known = self.selected[table] if self.selected else None
        return 1 / 3 if known is None else known.row

    def moves(self, table: int) -> float:
        return self.moved[table] if self.moved else 1.0

    def partnered(self, partner: int, rows: float) -> tuple[float, float]:
        """How likely a range holds one of so many rows of a partner, and how likely none of them but one more.

        Of random ranges j/(j+2) and 2/((j+2)(j+3)); of ranges that hold a value with probability q, 1-(1-q)^j and q·(1-q)^j,
        where j counts the rows that are present, as the one more must be, and apart from each other.

        >>> nothing, narrow = Counted([], lambda table, classes: 0.0), Selected(0.1, 0.5)
        >>> nothing.partnered(0, 2.0), nothing._replace(selected=[narrow]).partnered(0, 2.0)
        ((0.5, 0.1), (0.75, 0.125))
        >>> nothing._replace(selected=[narrow._replace(together=1.0)]).partnered(0, 2.0)  # all have the same value
        (0.5, 0.0)
        >>> nothing._replace(selected=[narrow._replace(present=0.5)]).partnered(0, 4.0)
        (0.75, 0.0625)
        """
        known = self.selected[partner] if self.selected else None
        if known is None:
            return rows / (rows + 2), 2 / ((rows + 2) * (rows + 3))
        missed, one_more = (
            known.missed(rows),
            known.missed(rows + 1 / known.present) if known.present else 1.0,
        )
        return 1 - missed, known.present * (missed - one_more)

    def boxes(self, partner: int, rows: float) -> float:
        """Of the region of a row with so many partners: two per anchor, and about 1/q anchors stab ranges that hold a value
        with probability q; no more than there are rows."""
        known = self.selected[partner] if self.selected else None
        share, present = (1 / 3, 1.0) if known is None else (known.partner, known.present)
        return max(1.0, min(rows * present, 2 / max(share, 1e-9)))

    def message(self, share: float, boxes: float = 1.0) -> float:
        return self.pricing.message(share, self.subscriptions, boxes)
