"""Which neighbour each table of a join is reduced by: one binary semijoin a table ([ProSem thesis] 5.4).

`R^S`, the rows of R with a partner in S, costs something on events of both tables: a new R row goes to every
subscription that selects it and a partner of it; a new S row brings the R rows of its key to all whose first partner it is.
Since the costs of the tables add up and do not depend on one another, the cheapest neighbour of each table makes the best
decomposition.

Two ways to know a cost: a formula over counted events and rows per key ([ProSem thesis] 5.4.3), which assumes uniform
values; and a simulation on a sample of points and rows, which does not. Where the run of the statistics job knows how much
ranges select, the formula takes that instead; without it, it loses where ranges on one table are far narrower than on
another. The simulation loses where a few dozen points say little. Both price messages as `pricing` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from cn.model.geometry import Point
from prosem.index.joins.join_keys import Entry, JoinKeys
from prosem.types.join.pricing import USUAL, Counted, Pricing
from prosem.types.join.shape import JoinShape
from prosem.types.join.table import Classes, JoinTable
from prosem.values.model import Row
from prosem.values.statistics import NO_FIGURES, RunFigures, SideStatistics

Decomposition = tuple[int, ...]  # the partner of each table
Cost = Callable[[int, int], float]  # of a table's semijoin with a partner, an event and a subscription
SAMPLE_ROWS = 64  # of each table in a simulation
GAIN = 0.25  # another decomposition must be cheaper by this part: rebuilding is not free, and estimates waver


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

    The factors are those of random ranges, and the unit is a row that travels to a subscription; `counted` may know better.
    """

    def cost(table: int, partner: int) -> float:
        classes = shape.shared(table, partner)
        rows, others = counted.rows_per_key(table, classes), counted.rows_per_key(partner, classes)
        some, one = counted.partnered(partner, others)
        selects, matched = counted.selects(table), counted.matched
        seen = counted.message(selects * some, counted.boxes(partner, others))
        exposed = rows * counted.message(selects * one)
        return (
            alpha * counted.shares[table] * matched(table, partner, classes) * seen
            + beta
            * counted.shares[partner]
            * counted.moves(partner)
            * matched(partner, table, classes)
            * exposed
        )

    return cost


def simulation(
    shape: JoinShape,
    tables: Sequence[JoinTable],
    points: Sequence[Point],
    shares: Sequence[float],
    sample_rows: int = SAMPLE_ROWS,
    moved: Sequence[float] = (),
    subscriptions: int = 0,
    pricing: Pricing = USUAL,
) -> Cost:
    """Rows that would travel, counted: each row of a sample comes anew, and each point of a sample is asked.

    Rows are sampled by join key, so that those kept have all their partners. O(rows) to find the sample, then
    O(points · sample · log rows). `moved` and `subscriptions`: see `Counted`.
    """

    def cost(table: int, partner: int) -> float:
        classes = shape.shared(table, partner)
        own, other = tables[table], tables[partner]
        keep = max(1, len(own) // sample_rows, len(other) // sample_rows)
        rows, others = _kept(own, classes, keep), _kept(other, classes, keep)
        seen: Counter[object] = Counter()  # points that see each row
        exposed: Counter[object] = Counter()  # points to which a row of the partner exposes each row
        held = asked = 0
        for point in points:
            reach, its_reach = own.range_of(point), other.range_of(point)
            for key in rows:
                start, stop = others.span(key, *its_reach)
                held, asked = held + max(0, stop - start), asked + len(others.at(key))
                if start >= stop:
                    continue
                admitted = [
                    _identity(entry) for entry in rows.within(key, *reach) if own.admits(point, entry)
                ]
                seen.update(admitted)
                if stop - start == 1:  # the only one in range: without it, all rows of the key go and come
                    alone = _identity(others.at(key)[start])
                    exposed.update([(alone, one) for one in admitted])
        count = max(1, len(points))

        def messages(reached: Counter[object], boxes: float = 1.0) -> float:
            return sum(pricing.message(some / count, subscriptions, boxes) for some in reached.values())

        per_key = asked / max(1, count * sum(1 for _ in rows))
        boxes = max(1.0, min(per_key, 2 * asked / max(1, held)))  # as `Counted.boxes`
        moves = moved[partner] if moved else 1.0
        of_own = shares[table] * messages(seen, boxes) / max(1, len(rows))
        of_partner = shares[partner] * moves * messages(exposed) / max(1, len(others))
        return of_own + of_partner

    return cost


def _identity(entry: Entry) -> object:
    return entry[:2]


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


def side_of(shape: JoinShape, figures: RunFigures, table: int, classes: Classes) -> SideStatistics | None:
    """What a run knows of how the rows of a table share the keys of an edge."""
    own = shape.tables[table]
    return figures.side(own.id, {own.names[shape.classes[one][table]] for one in classes})


def counted_by(shape: JoinShape, rows: Sequence[Iterable[Row]], figures: RunFigures = NO_FIGURES) -> Counted:
    """Before any event was counted here: by the shares of events and the join frequencies of a run.

    An event meets a key as often as the key has rows, so that it meets rows per key times skew. The side with more keys has
    rows without a partner. What the run does not know is counted in the rows, and tables have equal shares.
    """
    known: dict[tuple[int, Classes], float] = {}

    side = partial(side_of, shape, figures)

    def per_key(table: int, classes: Classes) -> float:
        if (table, classes) not in known:
            found = side(table, classes)
            known[table, classes] = (
                rows_per_key(rows[table], shape.key_of(table, classes))
                if found is None
                else found.rows_per_key * found.skew
            )
        return known[table, classes]

    def matched(table: int, partner: int, classes: Classes) -> float:
        own, other = side(table, classes), side(partner, classes)
        return 1.0 if own is None or other is None or not own.keys else min(1.0, other.keys / own.keys)

    shares = [figures.event_shares.get(table.id, 0.0) for table in shape.tables]
    if not all(table.id in figures.event_shares for table in shape.tables) or not sum(shares):
        shares = [1 / len(shape.tables)] * len(shape.tables)
    return Counted(shares, per_key, matched=matched)


def first_decomposition(
    shape: JoinShape,
    rows: Sequence[Iterable[Row]],
    figures: RunFigures = NO_FIGURES,
    counted: Counted | None = None,
) -> Decomposition:
    """The partners before any event was counted here; `counted`: what is known beside the joins of a run."""
    if not has_choice(shape):
        return tuple(shape.neighbours(table)[0] for table in range(len(shape.tables)))
    return cheapest(shape, formula(shape, counted or counted_by(shape, rows, figures)))
