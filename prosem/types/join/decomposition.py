"""Which neighbour each table of a join is reduced by: one binary semijoin a table ([ProSem thesis] 5.4).

`R^S`, the rows of R with a partner in S, costs something on events of both tables: a new R row goes to every
subscription that selects it and a partner of it; a new S row brings the R rows of its key to all whose first partner it is.
Since the costs of the tables add up and do not depend on one another, the cheapest neighbour of each table makes the best
decomposition.

Two ways to know a cost: a formula over counted events and rows per key ([ProSem thesis] 5.4.3), which assumes uniform
values; and a simulation on a sample of points and rows, which does not. The formula loses where ranges on one table are far
narrower than on another; the simulation where a few dozen points say little.
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


class Counted(NamedTuple):
    """What is known of a join's tables: `shares` of the events, and rows per join key."""

    shares: Sequence[float]
    rows_per_key: Callable[[int, Classes], float]


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

    A point's range selects a value with probability 1/3, and one of jS values with jS/(jS+2); of jS values and one more it
    holds the last alone with 2/((jS+2)(jS+3)).
    """

    def cost(table: int, partner: int) -> float:
        classes = shape.shared(table, partner)
        rows, others = counted.rows_per_key(table, classes), counted.rows_per_key(partner, classes)
        seen = alpha * counted.shares[table] * others / (others + 2)
        exposed = beta * counted.shares[partner] * rows * 2 / ((others + 2) * (others + 3))
        return (seen + exposed) / 3

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
    return JoinKeys((key, entry) for key, entry in entries if not hash(key) % keep)


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
    shape: JoinShape, rows: Sequence[Iterable[Row]], figures: RunFigures = NO_FIGURES
) -> Decomposition:
    """Before any event was counted here: by the shares of events and the join frequencies of a run, where it has them.

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
    return cheapest(shape, formula(shape, Counted(shares, per_key)))
