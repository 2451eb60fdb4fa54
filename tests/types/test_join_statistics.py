"""Each statistic of columns, points and joins flips how a join is arranged; what it then sends is counted and costs less."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from optimizer.cost import BROKERS_US, FOLD_US, Weights, prior
from optimizer.plan import Estimate
from prosem.types.base import Bound, SpaceContext
from prosem.types.join.arrangement import Arrangement, arrange, selected_share
from prosem.types.join.decomposition import first_decomposition
from prosem.types.join.space import JoinSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Row, Table
from prosem.values.statistics import (
    ColumnStatistics,
    JoinStatistics,
    PointStatistics,
    RunFigures,
    SideStatistics,
)
from tests.support.join_forms import bounds, join_form

GROUP, DOMAIN = 7, 1_000
BY_COST = "point and column histograms, update rates and join frequencies of the run"


def table(number: int, name: str, *columns: str) -> Table:
    made = tuple(Column(column, column_type("integer")) for column in ("k", *columns))
    return Table(number, name, made, ("k",))


R, S = table(1, "r", "b", "d", "a"), table(2, "s", "b", "x", "y")
T = table(3, "t", "d", "c")
TABLES = {one.name: one for one in (R, S, T)}
form = partial(join_form, tables=TABLES)


def column(
    table: Table, name: str, values: list[int], update_rate: float = 0.0, **more: Any
) -> ColumnStatistics:
    distinct, changes = float(len(set(values))), round(1_000 * update_rate)
    made = ColumnStatistics(
        table.position[name], name, "integer", 1_000, 0, distinct, changes, bounds(values), 0.0
    )
    return made._replace(**more)


def points(name: str, values: list[int]) -> PointStatistics:
    return PointStatistics(
        name, len(values), float(len(set(values))), bounds([float(one) for one in values]), 0.0
    )


class Joined:
    """`r JOIN s USING (b)` with ranges of these widths on s.x and s.y; of the events on s, shares change x, y and a row's b.

    Every second event changes a payload of r.
    """

    def __init__(self, widths: tuple[int, int], rates: Mapping[str, float], subscriptions: int = 60) -> None:
        chance = random.Random(3)
        self.form = form(
            "SELECT * FROM r JOIN s USING (b) WHERE s.x BETWEEN :x1 AND :x2 AND s.y BETWEEN :y1 AND :y2"
        )
        self.rates, self._chance = rates, chance
        self.rows: list[dict[Any, Row]] = [
            {(k,): (k, k % 5, 0, 0) for k in range(40)},
            {(k,): (k, k % 5, chance.randrange(DOMAIN), chance.randrange(DOMAIN)) for k in range(60)},
        ]
        self.params = []
        for _ in range(subscriptions):
            x, y = (chance.randrange(DOMAIN - width) for width in widths)
            self.params.append({"x1": x, "x2": x + widths[0], "y1": y, "y2": y + widths[1]})
        self.bounds = [self.form.bind(one) for one in self.params]

    def figures(self, **points_too: bool) -> RunFigures:
        dimensions = (("s.x >=", "x1"), ("s.x <=", "x2"), ("s.y >=", "y1"), ("s.y <=", "y2"))
        known = [points(name, [one[key] for one in self.params]) for name, key in dimensions]
        columns = [
            column(S, name, [row[at] for row in self.rows[1].values()], self.rates.get(name, 0.0))
            for at, name in enumerate(S.names)
        ]
        is_known = points_too.get("points", True)
        return RunFigures(columns={S.id: columns}, points={GROUP: known} if is_known else {})

    def context(self, figures: RunFigures, reached_us: float) -> SpaceContext:
        rows = tuple(dict(some) for some in self.rows)
        return SpaceContext(rows, self.bounds.__getitem__, 64, "auto", figures, GROUP, reached_us=reached_us)

    def arranged(self, figures: RunFigures, reached_us: float = BROKERS_US) -> Arrangement:
        return arrange(self.form.shape, self.form.atoms, self.context(figures, reached_us))

    def deltas(self, count: int = 150) -> Iterator[Delta]:
        """The rows as they are before each are those of the delta before it."""
        chance, rows = random.Random(9), [dict(some) for some in self.rows]
        for seq in range(1, count + 1):
            number = seq % 2
            key = (chance.randrange(len(rows[number])),)
            old = rows[number][key]
            new = list(old)
            if number == 0:
                new[3] = seq
            else:
                (name,) = chance.choices(list(self.rates), list(self.rates.values()))
                new[S.position[name]] = chance.randrange(5 if name == "b" else DOMAIN)
            rows[number][key] = tuple(new)
            yield Delta(seq, (R, S)[number], key, old, tuple(new))

    def spent(self, routing: str, reached_us: float = BROKERS_US) -> float:
        """What all messages of the events cost, in the units of the optimizer: each by its boxes or its targets."""
        shape = replace(self.form.shape, routing=(None, S.position[routing]))
        space = JoinSpace(shape, 1, self.context(RunFigures(), reached_us), (1, 0))
        space.add(range(len(self.bounds)), self.bounds)
        cost, spent = Weights().cost, 0.0
        for delta in self.deltas():
            description = space.step(delta)
            for draft in () if description is None else space.messages(description, "ref-sj-clu+"):
                reached = space.points.count(b"", draft.region)
                ways = prior("reformulate", 1, len(draft.region), 0), prior("enumerate", 1, 1, reached)
                spent += min(map(cost, ways)) + cost(Estimate(reached_us * reached, 0, 0, 0, 0))
        return spent


@pytest.mark.parametrize(
    ("rates", "chosen"), [({"x": 1.0}, "y"), ({"y": 1.0}, "x"), ({"x": 0.3, "y": 0.7}, "x")]
)
def test_update_rates_choose_the_routing_column_that_stays(rates: dict[str, float], chosen: str) -> None:
    """Equal ranges on both: a row that moves under its routing column exposes others, and one that stays does not."""
    work = Joined((100, 100), rates)
    assert work.arranged(work.figures()).document()["routing"] == {
        "columns": {"s": chosen},
        "statistic": BY_COST,
    }
    assert work.spent(chosen) < 0.9 * work.spent("xy".replace(chosen, ""))


@pytest.mark.parametrize(("rates", "chosen"), [({"x": 1.0}, "y"), ({"y": 1.0}, "x")])
def test_update_rates_choose_the_routing_column_of_a_new_group(rates: dict[str, float], chosen: str) -> None:
    work = Joined((100, 100), rates)
    assert work.arranged(work.figures(points=False)).document()["routing"] == {
        "columns": {"s": chosen},
        "statistic": "distinct values, hot keys and update rates of the run",
    }


def test_points_of_a_group_that_has_changed_since_are_not_used() -> None:
    work = Joined((20, 950), {"b": 1.0}, 200)
    known = work.figures()
    assert work.arranged(known, FOLD_US).routing_by == BY_COST
    stale = work.arranged(replace(known, stale=frozenset({GROUP})), FOLD_US)
    assert stale == work.arranged(work.figures(points=False), FOLD_US)


@pytest.mark.parametrize(("reached_us", "chosen"), [(FOLD_US, "x"), (BROKERS_US, "y")])
def test_a_narrow_column_spares_subscriptions_rows_and_a_wide_one_spares_the_server_messages(
    reached_us: float, chosen: str
) -> None:
    """Which of them counts more depends on whether the server folds what is reached; both are right by what is counted."""
    work = Joined((20, 950), {"b": 1.0}, 200)
    arranged = work.arranged(work.figures(), reached_us).document()["routing"]
    assert arranged == {"columns": {"s": chosen}, "statistic": BY_COST}
    assert work.spent(chosen, reached_us) < work.spent("xy".replace(chosen, ""), reached_us)


def test_weights_arrange_a_join() -> None:
    """Where bytes alone matter, messages are what counts, whatever they cost the server to fold."""
    work = Joined((20, 950), {"b": 1.0}, 200)
    context = work.context(work.figures(), FOLD_US)._replace(weights=lambda: Weights(server_time=0.0))
    arranged = arrange(work.form.shape, work.form.atoms, context).document()["routing"]
    assert arranged == {"columns": {"s": "y"}, "statistic": BY_COST}


# -- what ranges and constants select --------------------------------------------------------------------------------
RANGE = {"s.x >=": points("s.x >=", [400] * 9), "s.x <=": points("s.x <=", [599] * 9)}


def test_rows_with_a_null_are_selected_by_none() -> None:
    known = column(S, "x", list(range(DOMAIN)))
    whole = selected_share(S, known, RANGE)
    assert whole is not None
    assert whole == pytest.approx(0.2, abs=0.02)
    assert selected_share(S, known._replace(nulls=750), RANGE) == pytest.approx(0.25 * whole)


def test_nulls_flip_the_routing_column() -> None:
    """Of two columns with the same ranges, the one that most rows have no value of keeps them from edges."""
    work = Joined((900, 900), {"b": 1.0})
    known = work.figures()
    k, b, x, y = known.columns[S.id]
    for first, second, chosen in ((x, y._replace(nulls=900), "x"), (x._replace(nulls=900), y, "y")):
        figures = replace(known, columns={S.id: [k, b, first, second]})
        assert work.arranged(figures).document()["routing"]["columns"] == {"s": chosen}


def test_shares_below_the_error_of_the_ranks_are_not_told_apart() -> None:
    """Two narrow columns: by the histograms the second is better, but they are not known so well."""
    work = Joined((9, 900), {"b": 1.0})
    known = work.figures()
    assert work.arranged(known).document()["routing"]["columns"] == {"s": "y"}
    columns = [one._replace(rank_error=0.95) for one in known.columns[S.id]]
    figures = replace(known, columns={S.id: columns})
    assert work.arranged(figures).document()["routing"]["columns"] == {"s": "x"}, "the first by position"


@pytest.mark.parametrize(("values", "constants"), [(500, 5), (5, 500), (5, 5)])
def test_equal_constants_select_by_distinct_values_and_hot_keys(values: int, constants: int) -> None:
    """Against all pairs of a value and a constant."""
    chance = random.Random(values)
    rows = [chance.randrange(values) for _ in range(4_000)]
    asked = [chance.randrange(constants) for _ in range(4_000)]
    rows[:1_000], asked[:500] = [0] * 1_000, [0] * 500
    found = selected_share(S, column(S, "x", rows), {"s.x =": points("s.x =", asked)})
    pairs = sum(rows.count(one) * asked.count(one) for one in set(asked)) / len(rows) / len(asked)
    assert found == pytest.approx(pairs, rel=0.35)


# -- partners --------------------------------------------------------------------------------------------------------
CHAIN = "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE s.x BETWEEN :x1 AND :x2 AND t.c BETWEEN :c1 AND :c2"


def sides(**more: Mapping[str, Any]) -> RunFigures:
    """Joins that favour neither neighbour of r, but for what is said of a table."""
    made = []
    for one, key in ((R, "b"), (S, "b"), (R, "d"), (T, "d")):
        made.append(SideStatistics(one.id, (key,), 1 / 3, 3.0, 20, 1.0)._replace(**more.get(one.name, {})))
    return RunFigures(joins=[JoinStatistics(*made[:2]), JoinStatistics(*made[2:])])


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ({}, 1),  # the first of equals
        ({"s": {"keys": 200}}, 1),
        ({"t": {"keys": 5}}, 2),  # most rows of r have no partner there
        ({"s": {"keys": 5}}, 1),
        ({"t": {"event_share": 0.01}, "s": {"event_share": 0.9}}, 2),  # it hardly ever exposes rows of r
        ({"s": {"event_share": 0.01}, "t": {"event_share": 0.9}}, 1),
        ({"s": {"rows_per_key": 12.0}}, 2),  # nearly every range holds one of so many
    ],
)
def test_keys_event_shares_and_rows_per_key_choose_the_partner(said: Any, chosen: int) -> None:
    assert first_decomposition(form(CHAIN).shape, [[], [], []], sides(**said))[0] == chosen


@pytest.mark.parametrize(("rates", "chosen"), [((1.0, 0.0), "t"), ((0.0, 1.0), "s")])
def test_update_rates_choose_the_partner_whose_rows_stay(rates: tuple[float, float], chosen: str) -> None:
    """Every event on s and t is an update; those of one change the column that it is routed by."""
    made, every = form(CHAIN), list(range(DOMAIN))
    columns = {
        S.id: [column(S, "b", every), column(S, "x", every, rates[0]), column(S, "y", every, 1 - rates[0])],
        T.id: [column(T, "d", every), column(T, "c", every, rates[1]), column(T, "k", every, 1 - rates[1])],
    }
    figures = replace(sides(), columns=columns)
    rows: Any = ({}, {}, {})
    context = SpaceContext(rows, lambda sid: Bound(b"", None), 64, "auto", figures, GROUP)
    arranged = arrange(made.shape, made.atoms, context)
    partners = arranged.document()["partners"]
    assert partners["tables"]["r"] == chosen
    assert "update rates of the run" in partners["statistic"]
