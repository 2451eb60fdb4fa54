"""Each statistic of columns, points and joins flips how a join is arranged; what it then sends is counted and costs less."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from optimizer.cost import BROKERS_US, FOLD_US, Weights
from pipeline.statistics.columns import RANK_ERROR
from pipeline.statistics.histograms import BUCKETS, RANKS, hot_keys
from prosem.types.base import Bound, SpaceContext
from prosem.types.join.arrangement import arrange
from prosem.types.join.decomposition import first_decomposition
from prosem.values.selectivity import selected_share
from prosem.values.statistics import HotKey, JoinStatistics, RunFigures, SideStatistics
from tests.support.join_forms import bounds
from tests.support.join_workloads import (
    CHAIN,
    DOMAIN,
    GROUP,
    Chain,
    Equal,
    Joined,
    R,
    S,
    T,
    column,
    form,
    points,
)

BY_COST = "point and column histograms, update rates and join frequencies of the run"
BY_MEMORY = "constants in memory, column histograms, update rates and join frequencies of the run"
BY_VALUES = "distinct values, hot keys, update rates and join frequencies of the run"


def other(name: str) -> str:
    return "xy".replace(name, "")


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
    assert work.spent(chosen) < 0.9 * work.spent(other(chosen))


@pytest.mark.parametrize(("rates", "chosen"), [({"x": 1.0}, "y"), ({"y": 1.0}, "x")])
def test_update_rates_choose_the_routing_column_of_a_new_group(rates: dict[str, float], chosen: str) -> None:
    work = Joined((100, 100), rates)
    assert work.arranged(work.figures(with_points=False)).document()["routing"] == {
        "columns": {"s": chosen},
        "statistic": BY_VALUES,
    }
    assert work.spent(chosen) < 0.9 * work.spent(other(chosen))


class Hot(Joined):
    """Most rows have the same y; ranges are about values of rows, so that most hold it."""

    def __init__(self) -> None:
        super().__init__((0, 0), {"b": 1.0})
        self.put("y", lambda value: 400 if self.chance.random() < 0.9 else value)
        rows = list(self.rows[1].values())
        for one in self.params:
            for at, name in ((2, "x"), (3, "y")):
                one[f"{name}1"] = one[f"{name}2"] = self.chance.choice(rows)[at]


@pytest.mark.parametrize(("reached_us", "chosen"), [(FOLD_US, "x"), (BROKERS_US, "y")])
def test_hot_keys_choose_the_routing_column_of_a_new_group(reached_us: float, chosen: str) -> None:
    """Nearly all subscriptions hold a hot key: its rows reach more of them, in fewer messages."""
    work = Hot()
    arranged = work.arranged(work.figures(with_points=False), reached_us).document()["routing"]
    assert arranged == {"columns": {"s": chosen}, "statistic": BY_VALUES}
    assert work.spent(chosen, reached_us) < 0.9 * work.spent(other(chosen), reached_us)


class Warm(Joined):
    """95 of 100 values of y are one of 70: too few of each to fill a bucket of a histogram of 64."""

    VALUES = 40_000

    def __init__(self) -> None:
        super().__init__((0, 0), {"b": 1.0}, 300)
        chance = self.chance

        def warm(others: int) -> int:
            return chance.randrange(70) if chance.random() < 0.95 else chance.randrange(others)

        self.put("x", lambda value: value % 200)
        self.put("y", lambda value: warm(DOMAIN))
        self.every = {
            "x": [chance.randrange(200) for _ in range(self.VALUES)],
            "y": [warm(10**6) for _ in range(self.VALUES)],
        }
        for one in self.params:
            for name in "xy":
                one[f"{name}1"] = one[f"{name}2"] = chance.choice(self.every[name])

    def known(self, ranks: int) -> RunFigures:
        """As the job finds hot keys at so many ranks."""
        found = []
        for name, values in self.every.items():
            hot = [HotKey(*one) for one in hot_keys(bounds(values, ranks), RANK_ERROR)]
            found.append(column(S, name, values, hot=hot))
        return RunFigures({S.id: [column(S, "b", range(5), 1.0), *found]})


@pytest.mark.parametrize("reached_us", [FOLD_US, BROKERS_US])
def test_hot_keys_that_fill_no_bucket_choose_the_routing_column(reached_us: float) -> None:
    work = Warm()
    assert work.arranged(work.known(BUCKETS), reached_us).document()["routing"]["columns"] == {"s": "y"}
    arranged = work.arranged(work.known(RANKS), reached_us).document()["routing"]
    assert arranged == {"columns": {"s": "x"}, "statistic": BY_VALUES}
    assert work.spent("x", reached_us) < 0.8 * work.spent("y", reached_us)


class Spread(Joined):
    """Most rows have the same y, and constants are spread evenly: few ranges hold it."""

    def __init__(self, widths: tuple[int, int] = (200, 20)) -> None:
        super().__init__(widths, {"b": 1.0})
        self.put("y", lambda value: 400 if self.chance.random() < 0.9 else value)


@pytest.mark.parametrize("reached_us", [FOLD_US, BROKERS_US])
def test_constants_in_memory_choose_the_routing_column_of_a_new_group(reached_us: float) -> None:
    """At the server's own sockets a group without constants is arranged as if these were spread as the rows are."""
    work = Spread()
    new = work.figures(with_points=False)
    if reached_us == FOLD_US:
        assert work.arranged(new, reached_us).document()["routing"]["columns"] == {"s": "x"}
    arranged = work.arranged(new.with_constants({GROUP: work.points()}), reached_us).document()["routing"]
    assert arranged == {"columns": {"s": "y"}, "statistic": BY_MEMORY}
    assert work.spent("y", reached_us) < 0.5 * work.spent("x", reached_us)


@pytest.mark.parametrize("reached_us", [FOLD_US, BROKERS_US])
def test_rows_with_a_hot_key_are_held_together(reached_us: float) -> None:
    """That a key has many rows makes it no likelier that a range holds one of them, if they all have the same value."""
    work = Spread((600, 20))
    known = work.figures()
    columns = [one._replace(hot=()) for one in known.columns[S.id]]
    apart = work.arranged(replace(known, columns={S.id: columns}), reached_us).document()["routing"]
    arranged = work.arranged(known, reached_us).document()["routing"]
    assert arranged == {"columns": {"s": "y"}, "statistic": BY_COST}
    if reached_us == BROKERS_US:
        assert apart["columns"] == {"s": "x"}
    assert work.spent("y", reached_us) < 0.7 * work.spent("x", reached_us)


def test_points_of_a_group_that_has_changed_since_are_not_used() -> None:
    work = Joined((20, 950), {"b": 1.0}, 200)
    known = work.figures()
    assert work.arranged(known, FOLD_US).routing_by == BY_COST
    stale = work.arranged(replace(known, stale=frozenset({GROUP})), FOLD_US)
    assert stale == work.arranged(work.figures(with_points=False), FOLD_US)


@pytest.mark.parametrize(("reached_us", "chosen"), [(FOLD_US, "x"), (BROKERS_US, "y")])
def test_a_narrow_column_spares_subscriptions_rows_and_a_wide_one_spares_the_server_messages(
    reached_us: float, chosen: str
) -> None:
    """Which of them counts more depends on whether the server folds what is reached; both are right by what is counted."""
    work = Joined((20, 950), {"b": 1.0}, 200)
    arranged = work.arranged(work.figures(), reached_us).document()["routing"]
    assert arranged == {"columns": {"s": chosen}, "statistic": BY_COST}
    assert work.spent(chosen, reached_us) < work.spent(other(chosen), reached_us)


def test_weights_arrange_a_join() -> None:
    """Where bytes alone matter, messages are what counts, whatever they cost the server to fold."""
    work = Joined((20, 950), {"b": 1.0}, 200)
    weights = Weights(server_time=0.0)
    arranged = work.arranged(work.figures(), FOLD_US, weights).document()["routing"]
    assert arranged == {"columns": {"s": "y"}, "statistic": BY_COST}
    assert work.spent("y", FOLD_US, weights) < 0.9 * work.spent("x", FOLD_US, weights)


# -- what ranges and constants select --------------------------------------------------------------------------------
RANGE = {"s.x >=": points("s.x >=", [400] * 9), "s.x <=": points("s.x <=", [599] * 9)}


def test_rows_with_a_null_are_selected_by_none() -> None:
    known = column(S, "x", list(range(DOMAIN)))
    whole = selected_share(S, known, RANGE, "s.x")
    assert whole is not None
    assert whole == pytest.approx(0.2, abs=0.02)
    assert selected_share(S, known._replace(nulls=750), RANGE, "s.x") == pytest.approx(0.25 * whole)


@pytest.mark.parametrize("chosen", ["x", "y"])
@pytest.mark.parametrize("reached_us", [FOLD_US, BROKERS_US])
def test_nulls_flip_the_routing_column(chosen: str, reached_us: float) -> None:
    """Of two columns with the same ranges, rows without a value in the one are no partners of others under it."""
    work = Joined((100, 100), {"b": 1.0}, nulls={chosen: 0.9})
    assert work.arranged(work.figures(), reached_us).document()["routing"]["columns"] == {"s": chosen}
    assert work.spent(chosen, reached_us) < 0.5 * work.spent(other(chosen), reached_us)


class Dense(Joined):
    """All ranges on x are the same, and more rows are in it than a histogram with a rank error says."""

    def __init__(self) -> None:
        super().__init__((9, 300), {"b": 1.0})
        for one in self.params:
            one["x1"], one["x2"] = 500, 509
        self.inexact = self.figures()
        self.put("x", lambda value: 505 if self.chance.random() < 0.6 else value)


@pytest.mark.parametrize("inexact", ["values", "constants"])
def test_shares_below_the_error_of_the_ranks_are_not_told_apart(inexact: str) -> None:
    """By the histograms few rows are in the ranges on the first column; within their error it may be most, and it is."""
    work = Dense()
    assert work.arranged(work.inexact).document()["routing"]["columns"] == {"s": "y"}
    columns, constants = work.inexact.columns[S.id], work.inexact.points[GROUP]
    if inexact == "values":
        columns = [one._replace(rank_error=0.6, hot=()) for one in columns]
    else:
        constants = [one._replace(rank_error=0.6 + 1 / one.subscriptions) for one in constants]
    figures = replace(work.inexact, columns={S.id: columns}, points={GROUP: constants})
    assert work.arranged(figures).document()["routing"]["columns"] == {"s": "x"}, "the first by position"
    assert work.spent("x") < work.spent("y")


class Same(Equal):
    """A third of the values of y and nearly all constants on it are the same; on x none is frequent."""

    def __init__(self) -> None:
        super().__init__({"x": 20, "y": 100}, {"x": 0.5, "y": 0.5}, 300)
        for name in "xy":
            self.put(name, lambda value: self.fresh(name, self.chance))  # noqa: B023 - called at once
        for one in self.params:
            one["y1"] = 0 if self.chance.random() < 0.9 else one["y1"]

    def fresh(self, name: str, chance: random.Random) -> int:
        if name == "x":
            return chance.randrange(20)
        return 0 if chance.random() < 0.3 else chance.randrange(100)

    def figures(self, with_points: bool = True) -> RunFigures:
        known = super().figures(with_points)
        values = {"x": range(20), "y": [*[0] * 43, *range(100)]}
        columns = [column(S, name, some, 0.5) for name, some in values.items()]
        return replace(known, columns={S.id: [column(S, "b", range(5)), *columns]})


@pytest.mark.parametrize("reached_us", [FOLD_US, BROKERS_US])
def test_hot_constants_flip_the_routing_column(reached_us: float) -> None:
    """Without them it looks as if hardly a constant were equal to the hot key of the rows."""
    work = Same()
    known = work.figures()
    unknown = replace(known, points={GROUP: [one._replace(hot=()) for one in known.points[GROUP]]})
    assert work.arranged(unknown, reached_us).document()["routing"]["columns"] == {"s": "y"}
    routing = work.arranged(known, reached_us).document()["routing"]
    assert routing == {"columns": {"s": "x"}, "statistic": BY_COST}
    assert work.spent("x", reached_us) < work.spent("y", reached_us)


@pytest.mark.parametrize("reached_us", [FOLD_US, BROKERS_US])
@pytest.mark.parametrize("rare", ["x", "y"])
def test_distinct_constants_flip_the_routing_column(rare: str, reached_us: float) -> None:
    """Both columns have the same values, and most constants on one of them are of no row."""
    work = Equal({rare: 1_000, other(rare): 100}, {"b": 1.0})
    known = work.figures()
    routing = work.arranged(known, reached_us).document()["routing"]
    assert routing == {"columns": {"s": rare}, "statistic": BY_COST}
    alike = replace(known, points={GROUP: [one._replace(distinct=100.0) for one in known.points[GROUP]]})
    assert work.arranged(alike, reached_us).document()["routing"]["columns"] == {"s": "x"}, (
        "the first of equals"
    )
    assert work.spent(rare, reached_us) < 0.7 * work.spent(other(rare), reached_us)


def test_shares_below_the_error_of_the_ranks_of_constants_are_not_told_apart() -> None:
    known = column(S, "x", list(range(DOMAIN)), rank_error=0.01)
    narrow = {"s.x >=": points("s.x >=", [400] * 9), "s.x <=": points("s.x <=", [399] * 9)}
    assert selected_share(S, known, narrow, "s.x") == 0.01
    many = {name: one._replace(subscriptions=1_000, rank_error=0.051) for name, one in narrow.items()}
    assert selected_share(S, known, many, "s.x") == pytest.approx(0.01 + 0.05)


@pytest.mark.parametrize(("values", "constants"), [(500, 5), (5, 500), (5, 5)])
def test_equal_constants_select_by_distinct_values_and_hot_keys(values: int, constants: int) -> None:
    """Against all pairs of a value and a constant."""
    chance = random.Random(values)
    rows = [chance.randrange(values) for _ in range(4_000)]
    asked = [chance.randrange(constants) for _ in range(4_000)]
    rows[:1_000], asked[:500] = [0] * 1_000, [0] * 500
    found = selected_share(S, column(S, "x", rows), {"s.x =": points("s.x =", asked)}, "s.x")
    pairs = sum(rows.count(one) * asked.count(one) for one in set(asked)) / len(rows) / len(asked)
    assert found == pytest.approx(pairs, rel=0.35)


# -- partners --------------------------------------------------------------------------------------------------------
def sides(**more: Mapping[str, Any]) -> RunFigures:
    """Joins that favour neither neighbour of r, but for what is said of a table."""
    made = []
    for one, key in ((R, "b"), (S, "b"), (R, "d"), (T, "d")):
        made.append(SideStatistics(one.id, (key,), 1 / 3, 3.0, 20, 1.0)._replace(**more.get(one.name, {})))
    return RunFigures(joins=[JoinStatistics(*made[:2]), JoinStatistics(*made[2:])])


@pytest.mark.parametrize(
    ("said", "work", "chosen"),
    [
        ({"t": {"keys": 5}}, {"keys": {"t": 5}}, "t"),  # most rows of r have no partner there
        ({"s": {"keys": 5}}, {"keys": {"s": 5}}, "s"),
        (
            {"t": {"event_share": 0.01}, "s": {"event_share": 0.9}, "r": {"event_share": 0.09}},
            {"shares": {"t": 0.01, "s": 0.9, "r": 0.09}},
            "t",
        ),  # it hardly ever exposes rows of r
        (
            {"s": {"event_share": 0.01}, "t": {"event_share": 0.9}, "r": {"event_share": 0.09}},
            {"shares": {"s": 0.01, "t": 0.9, "r": 0.09}},
            "s",
        ),
        (
            {"s": {"rows_per_key": 12.0}},
            {"rows_per_key": {"s": 12}},
            "t",
        ),  # nearly every range holds one of so many
        ({"t": {"rows_per_key": 12.0}}, {"rows_per_key": {"t": 12}}, "s"),
    ],
)
def test_keys_event_shares_and_rows_per_key_choose_the_partner(said: Any, work: Any, chosen: str) -> None:
    shape = form(CHAIN).shape
    assert first_decomposition(shape, [[], [], []], sides())[0] == 1, "the first of equals"
    assert shape.tables[first_decomposition(shape, [[], [], []], sides(**said))[0]].name == chosen
    made = Chain(**work)
    assert made.spent(chosen, FOLD_US) < made.spent("st".replace(chosen, ""), FOLD_US)


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
    moved = {"r": "a", "s": "xy"[int(rates[1])], "t": "ec"[int(rates[1])]}
    work = Chain(changed=moved)
    assert work.spent(chosen, FOLD_US) < 0.9 * work.spent("st".replace(chosen, ""), FOLD_US)
