"""Which neighbour each table of a join is reduced by: one binary semijoin a table ([ProSem thesis] 5.4).

`R^S`, the rows of R with a partner in S, costs something on events of both tables: a new R row goes to every
subscription that selects it and a partner of it; a new S row brings the R rows of its key to all whose first partner it is.
Since the costs of the tables add up and do not depend on one another, the cheapest neighbour of each table makes the best
decomposition.

Two ways to know a cost: a formula over counted events and rows per key ([ProSem thesis] 5.4.3), which assumes uniform
values; and a simulation on a sample of points and rows, which does not. Where the run of the statistics job knows how much
ranges select, the formula takes that instead; without it, it loses where ranges on one table are far narrower than on
another. The simulation loses where a few dozen points say little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cn.model.geometry import Point
from prosem.index.joins.join_keys import JoinKeys
from prosem.types.join.shape import JoinShape
from prosem.types.join.table import Classes, JoinTable
from prosem.values.model import Row
from prosem.values.statistics import NO_FIGURES, RunFigures

Decomposition = tuple[int, ...]  # the partner of each table
Cost = Callable[[int, int], float]  # of a table's semijoin with a partner, an event and a subscription
SAMPLE_ROWS = 64  # of each table in a simulation
GAIN = 0.25  # another decomposition must be cheaper by this part: rebuilding is not free, and estimates waver


class Selected(NamedTuple):
    """What share of the subscriptions selects a row of a table: by all its conditions, and by its routing column alone."""

    row: float
    partner: float


class Counted(NamedTuple):
    """What is known of a join's tables: `shares` of the events, rows per join key, and what ranges select.

    `selected`: None where it is not known of a table; empty where it is not known of any.
    """

    shares: Sequence[float]
    rows_per_key: Callable[[int, Classes], float]
    selected: Sequence[Selected | None] = ()

    def selects(self, table: int) -> float:
        """The share of the subscriptions that select a row; 1/3 of random ranges hold a random value."""
        known = self.selected[table] if self.selected else None
        return 1 / 3 if known is None else known.row

    def partnered(self, partner: int, rows: float) -> tuple[float, float]:
        """How likely a range holds one of so many rows of a partner, and how likely none of them but one more.

        Of random ranges j/(j+2) and 2/((j+2)(j+3)); of ranges that hold a value with probability q, 1-(1-q)^j and q·(1-q)^j.

        >>> nothing, narrow = Counted([], lambda table, classes: 0.0), Selected(0.1, 0.5)
        >>> nothing.partnered(0, 2.0), nothing._replace(selected=[narrow]).partnered(0, 2.0)
        ((0.5, 0.1), (0.75, 0.125))
        """
        known = self.selected[partner] if self.selected else None
        if known is None:
            return rows / (rows + 2), 2 / ((rows + 2) * (rows + 3))
        missed = max(0.0, 1 - known.partner) ** rows
        return 1 - missed, known.partner * missed


def has_choice(shape: JoinShape) -> bool:
    """Whether some table has two neighbours to choose from."""
    return any(len(shape.neighbours(table)) > 1 for table in range(len(shape.tables)))


def cheapest(shape: JoinShape, cost: Cost) -> Decomposition:
    """For each table the neighbour of the least cost, the first of equals.

    O(e) costs for e edges of the join graph.
    """
    return tuple(
        min(shape.neighbours(table), key=lambda partner: (cost(table, partner), partner))
        for table in range(len(shape.tables))
    )


def total(decomposition: Decomposition, cost: Cost) -> float:
    return sum(cost(table, partner) for table, partner in enumerate(decomposition))


def formula(shape: JoinShape, counted: Counted, alpha: float = 1.0, beta: float = 1.0) -> Cost:
    """[ProSem thesis] 5.4.3: `α·pR·(1/3)·jS/(jS+2) + β·pS·jR·(1/3)·2/((jS+2)(jS+3))`.

    The factors are those of random ranges; `counted` may know better (see `Counted.selects` and `partnered`).
    """

    def cost(table: int, partner: int) -> float:
        classes = shape.shared(table, partner)
        rows, others = counted.rows_per_key(table, classes), counted.rows_per_key(partner, classes)
        some, one = counted.partnered(partner, others)
        seen = alpha * counted.shares[table] * some
        exposed = beta * counted.shares[partner] * rows * one
        return (seen + exposed) * counted.selects(table)

    return cost


def simulation(
    shape: JoinShape,
    tables: Sequence[JoinTable],
    points: Sequence[Point],
    shares: Sequence[float],
    sample_rows: int = SAMPLE_ROWS,
) -> Cost:
    """Rows that would travel, counted: each row of a sample comes anew, and each point of a sample is asked.

    Rows are sampled by join key, so that those kept have all their partners. O(rows) to find the sample, then
    O(points · sample · log rows).
    """

    def cost(table: int, partner: int) -> float:
        classes = shape.shared(table, partner)
        own, other = tables[table], tables[partner]
        keep = max(1, len(own) // sample_rows, len(other) // sample_rows)
        rows, others = _kept(own, classes, keep), _kept(other, classes, keep)
        seen = exposed = 0
        for point in points:
            reach, its_reach = own.range_of(point), other.range_of(point)
            for key in rows:
                if others.any_within(key, *its_reach):
                    seen += sum(own.admits(point, entry) for entry in rows.within(key, *reach))
            for key in others:
                start, stop = others.span(key, *its_reach)
                if stop - start == 1:  # the only one in range: without it, all rows of the key go and come
                    exposed += sum(own.admits(point, entry) for entry in rows.within(key, *reach))
        count = max(1, len(points))
        return (
            shares[table] * seen / max(1, len(rows)) + shares[partner] * exposed / max(1, len(others))
        ) / count

    return cost


def _kept(table: JoinTable, classes: Classes, keep: int) -> JoinKeys:
    """The rows of every so manieth join key."""
    key_of = table.getter(classes)
    entries = ((key_of(entry[2]), entry) for entry in table.entries())
    return JoinKeys((key, entry) for key, entry in entries if None not in key and not hash(key) % keep)


def rows_per_key(rows: Iterable[Row], key_of: Callable[[Row], tuple[object, ...]]) -> float:
    """How many rows share a join key, on average; 0 without rows. O(rows)."""
    count, keys = 0, set()
    for row in rows:
        key = key_of(row)
        if None not in key:
            count += 1
            keys.add(key)
    return count / len(keys) if keys else 0.0


def first_decomposition(
    shape: JoinShape,
    rows: Sequence[Iterable[Row]],
    figures: RunFigures = NO_FIGURES,
    selected: Sequence[Selected | None] = (),
) -> Decomposition:
    """Before any event was counted here: by the shares of events, the join frequencies and the histograms of a run.

    An event meets a key as often as the key has rows, so that it meets rows per key times skew. What the run does not know
    is counted in the rows, and tables have equal shares.
    """
    if not has_choice(shape):
        return tuple(shape.neighbours(table)[0] for table in range(len(shape.tables)))
    known: dict[tuple[int, Classes], float] = {}

    def per_key(table: int, classes: Classes) -> float:
        if (table, classes) not in known:
            own = shape.tables[table]
            side = figures.side(own.id, {own.names[shape.classes[one][table]] for one in classes})
            known[table, classes] = (
                rows_per_key(rows[table], shape.key_of(table, classes))
                if side is None
                else side.rows_per_key * side.skew
            )
        return known[table, classes]

    shares = [figures.event_shares.get(table.id, 0.0) for table in shape.tables]
    if not all(table.id in figures.event_shares for table in shape.tables) or not sum(shares):
        shares = [1 / len(shape.tables)] * len(shape.tables)
    return cheapest(shape, formula(shape, Counted(shares, per_key, selected)))
