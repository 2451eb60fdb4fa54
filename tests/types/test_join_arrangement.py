"""A run of the statistics job arranges a join: routing columns and partners flip, and edges hold less."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.match.point_index import PointIndex
from prosem.types.base import SpaceContext
from prosem.types.join.decomposition import cheapest, first_decomposition, simulation
from prosem.types.join.model import JoinModel
from prosem.types.join.pricing import Counted, Selected
from prosem.types.join.space import JoinSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Row, Table
from prosem.values.selectivity import selected_share
from prosem.values.statistics import (
    ColumnStatistics,
    JoinStatistics,
    PointStatistics,
    RunFigures,
    SideStatistics,
)
from prosem.values.wire import decode, encode
from tests.support.join_forms import bounds, hot, join_form


def table(number: int, name: str, **columns: str) -> Table:
    made = tuple(Column(column, column_type(kind)) for column, kind in {"k": "integer", **columns}.items())
    return Table(number, name, made, ("k",))


R = table(1, "r", b="integer", d="integer", a="integer")
S = table(2, "s", b="integer", x="integer", y="integer")
T = table(3, "t", d="integer", c="integer")
TABLES = {one.name: one for one in (R, S, T)}
form = partial(join_form, tables=TABLES)
TWO = "SELECT * FROM r JOIN s USING (b) WHERE s.x BETWEEN :x1 AND :x2 AND s.y BETWEEN :y1 AND :y2"


def column(name: str, values: list[Any]) -> ColumnStatistics:
    at = S.position[name]
    return ColumnStatistics(
        at, name, "integer", len(values), 0, len(set(values)), 0, bounds(values), 0.0, hot(values)
    )


def points(name: str, values: list[Any]) -> PointStatistics:
    places = [float(one) for one in values]
    return PointStatistics(name, len(values), len(set(values)), bounds(places), 0.0, hot(places))


class Workload:
    """Rows of r and s, and subscriptions with wide ranges on x and narrow ones on y."""

    def __init__(self) -> None:
        chance = random.Random(3)
        self.form = form(TWO)
        self.rows: list[dict[Any, Row]] = [
            {(k,): (k, k % 5, 0, 0) for k in range(40)},
            {(k,): (k, k % 5, chance.randrange(1000), chance.randrange(1000)) for k in range(60)},
        ]
        self.params = []
        for _ in range(80):
            x, y = chance.randrange(100), chance.randrange(980)
            self.params.append({"x1": x, "x2": x + 850, "y1": y, "y2": y + 15})
        self.bounds = [self.form.bind(one) for one in self.params]

    def figures(self, with_points: bool) -> RunFigures:
        values = [[row[at] for row in self.rows[1].values()] for at in (2, 3)]
        dimensions = (("s.x >=", "x1"), ("s.x <=", "x2"), ("s.y >=", "y1"), ("s.y <=", "y2"))
        known = [points(name, [one[key] for one in self.params]) for name, key in dimensions]
        columns = [column("x", values[0]), column("y", values[1])]
        return RunFigures(columns={2: columns}, points={7: known} if with_points else {})

    def open(self, figures: RunFigures) -> JoinSpace:
        context = SpaceContext(tuple(self.rows), self.bounds.__getitem__, 64, "auto", figures, 7)
        space = self.form.open_space(1, context)
        assert isinstance(space, JoinSpace)
        space.add(range(len(self.bounds)), self.bounds)
        return space

    def held(self, space: JoinSpace) -> int:
        """Rows of r at all edges: s has no condition of r to be reduced by."""
        return sum(len(space.semijoins(one.place)[0]) for one in self.bounds if one.place is not None)


def test_point_histograms_choose_the_routing_column_and_edges_hold_fewer_rows() -> None:
    work = Workload()
    first, arranged = work.open(RunFigures()), work.open(work.figures(with_points=True))
    assert first.arrangement()["routing"] == {"columns": {"s": "x"}, "statistic": "position"}
    assert arranged.arrangement()["routing"] == {
        "columns": {"s": "y"},
        "statistic": "point and column histograms, update rates and join frequencies of the run",
    }
    assert arranged.arrangement_without(work.figures(with_points=True)) == {
        "routing": {"s": "x"}, "partners": {"r": "s", "s": "r"},
    }  # fmt: skip
    assert work.held(arranged) < 0.5 * work.held(first)
    arranged.check()


def test_hot_keys_choose_the_routing_column_of_a_group_that_the_run_has_not_seen() -> None:
    work = Workload()
    even, hot = list(range(60)), [*range(400), *[400] * 5_000]
    for x, y, chosen in ((even, hot, "x"), (hot, even, "y"), (even, even, "x")):
        space = work.open(RunFigures(columns={2: [column("x", x), column("y", y)]}))
        assert space.arrangement()["routing"] == {
            "columns": {"s": chosen},
            "statistic": "distinct values, hot keys, update rates and join frequencies of the run",
        }
    partly = work.open(RunFigures(columns={2: [column("y", even)]}))
    assert partly.arrangement()["routing"]["statistic"] == "position"


RANGE = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.lists(RANGE, min_size=1, max_size=12))
def test_the_share_of_ranges_that_hold_a_value_equals_brute_force(
    values: list[int], ranges: list[Any]
) -> None:
    """With a bucket per value the histograms are exact, and so is the share."""
    known = {
        name: PointStatistics(name, len(ranges), 1, sorted(float(one[at]) for one in ranges), 0.0)
        for at, name in enumerate(("s.x >=", "s.x <="))
    }
    found = ColumnStatistics(2, "x", "integer", len(values), 0, 1, 0, sorted(values), 0.0)
    hits = [low <= value <= high for value in values for low, high in ranges]
    assert selected_share(S, found, known, "s.x") == pytest.approx(sum(hits) / len(hits))
    half = {**known, "s.x <=": known["s.x <="]._replace(subscriptions=0, bounds=[0.0])}
    open_ended = [low <= value for value in values for low, _ in ranges]
    assert selected_share(S, found, half, "s.x") == pytest.approx(sum(open_ended) / len(open_ended))


def test_skew_chooses_the_partner_that_a_simulation_finds_cheaper() -> None:
    """One key of s is hot, and most rows of r have it: rows per key alone say that s exposes fewer rows than t."""
    chance = random.Random(5)
    made = form(
        "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE s.x BETWEEN :x1 AND :x2 AND t.c BETWEEN :c1 AND :c2"
    )
    hot = [0] * 60 + list(range(1, 120))
    rows: list[list[Row]] = [
        [(k, 0 if k % 10 else k, k % 20, 0) for k in range(200)],
        [(k, b, chance.randrange(100), 0) for k, b in enumerate(hot)],
        [(k, k % 20, chance.randrange(100)) for k in range(60)],
    ]
    side = [
        SideStatistics(1, ("b",), 0.8, 200 / 20, 20, 1.0),
        SideStatistics(2, ("b",), 0.1, len(hot) / 120, 120, (60**2 + 119) / len(hot) / (len(hot) / 120)),
        SideStatistics(1, ("d",), 0.8, 10.0, 20, 1.0),
        SideStatistics(3, ("d",), 0.1, 3.0, 20, 1.0),
    ]
    with_skew = RunFigures(joins=[JoinStatistics(side[0], side[1]), JoinStatistics(side[2], side[3])])
    even = [one._replace(skew=1.0) for one in side]
    without = RunFigures(joins=[JoinStatistics(even[0], even[1]), JoinStatistics(even[2], even[3])])
    assert first_decomposition(made.shape, rows, without)[0] == 1, "by rows per key r is reduced by s"
    assert first_decomposition(made.shape, rows, with_skew)[0] == 2
    index = PointIndex(made.shape.dimensions, True)
    model = JoinModel(made.shape, index, [{row[:1]: row for row in some} for some in rows])
    places = []
    for _ in range(60):
        (x1, x2), (c1, c2) = (sorted((chance.randrange(100), chance.randrange(100))) for _ in "xc")
        places.append(made.bind({"x1": x1, "x2": x2, "c1": c1, "c2": c2}).place)
    cost = simulation(made.shape, model.tables, [one for one in places if one], [0.8, 0.1, 0.1], 1_000)
    assert cheapest(made.shape, cost)[0] == 2, "what would travel, counted"


class Neighbours:
    """Rows of r with partners in s and t, as many in each; the ranges on one of them are wide, on the other narrow."""

    def __init__(self, wide: str) -> None:
        chance = random.Random(11)
        self.form = form(
            "SELECT * FROM r JOIN s USING (b) JOIN t USING (d)"
            " WHERE s.x BETWEEN :x1 AND :x2 AND t.c BETWEEN :c1 AND :c2"
        )
        self.rows: list[dict[Any, Row]] = [
            {(k,): (k, k % 20, chance.randrange(20), 0) for k in range(100)},
            {(k,): (k, k % 20, chance.randrange(1000), 0) for k in range(60)},
            {(k,): (k, k % 20, chance.randrange(1000)) for k in range(60)},
        ]
        widths = {"s": (900, 40), "t": (40, 900)}[wide]
        self.params = []
        for _ in range(60):
            x, c = (chance.randrange(1000 - width) for width in widths)
            self.params.append({"x1": x, "x2": x + widths[0], "c1": c, "c2": c + widths[1]})

    def figures(self, with_points: bool) -> RunFigures:
        """Joins that favour neither neighbour, and all histograms."""
        sides = [
            SideStatistics(one, (key,), 1 / 3, 3.0, 20, 1.0)
            for one, key in ((1, "b"), (2, "b"), (1, "d"), (3, "d"))
        ]
        joins = [JoinStatistics(*sides[:2]), JoinStatistics(*sides[2:])]
        known = [
            points(f"{column} {op}", [one[key] for one in self.params])
            for column, op, key in (
                ("s.x", ">=", "x1"),
                ("s.x", "<=", "x2"),
                ("t.c", ">=", "c1"),
                ("t.c", "<=", "c2"),
            )
        ]
        columns = {
            one.id: [
                ColumnStatistics(
                    2, name, "integer", 60, 0, 60, 0, bounds([row[2] for row in rows.values()]), 0.0
                )
            ]
            for one, name, rows in ((S, "x", self.rows[1]), (T, "c", self.rows[2]))
        }
        return RunFigures(columns, joins, {7: known} if with_points else {})

    def open(self, figures: RunFigures) -> JoinSpace:
        context = SpaceContext(
            tuple(self.rows), lambda sid: self.form.bind(self.params[sid]), 64, "auto", figures, 7
        )
        space = self.form.open_space(1, context)
        assert isinstance(space, JoinSpace)
        return space

    def simulated(self) -> int:
        """The partner of r with which the fewest rows would travel, counted."""
        index = PointIndex(self.form.shape.dimensions, True)
        model = JoinModel(self.form.shape, index, self.rows)
        places = [self.form.bind(one).place for one in self.params]
        cost = simulation(self.form.shape, model.tables, [one for one in places if one], [1 / 3] * 3, 1_000)
        return cheapest(self.form.shape, cost)[0]


@pytest.mark.parametrize(("wide", "chosen"), [("s", "t"), ("t", "s")])
def test_histograms_choose_the_partner_whose_ranges_select_least(wide: str, chosen: str) -> None:
    work = Neighbours(wide)
    without = work.open(work.figures(with_points=False)).arrangement()["partners"]
    assert without == {
        "tables": {"r": "s", "s": "r", "t": "r"},  # the first of equals
        "statistic": "join frequencies and event shares of the run",
    }
    known = work.figures(with_points=True)
    space = work.open(known)
    assert space.arrangement_without(known) == {
        "routing": {"s": "x", "t": "c"},
        "partners": without["tables"],
    }
    unknown = replace(known, joins=())
    partners = space.arrangement()["partners"]
    assert space.arrangement_without(unknown) == {
        "routing": {"s": "x", "t": "c"},
        "partners": partners["tables"],
    }, "rows are not read for it"
    assert partners == {
        "tables": {"r": chosen, "s": "r", "t": "r"},
        "statistic": "join frequencies and event shares of the run, point and column histograms of the run",
    }
    assert work.form.shape.tables[work.simulated()].name == chosen, (
        "it is the one with which fewest rows travel"
    )


@given(st.floats(0, 1), st.integers(0, 12))
def test_what_ranges_select_of_a_partner(share: float, rows: int) -> None:
    """Against all ways in which a range may hold some of the rows, each with the same probability."""
    counted = Counted([], lambda table, classes: 0.0, [Selected(share, share)])
    some, alone = counted.partnered(0, rows)
    ways = {held: comb(rows, held) * share**held * (1 - share) ** (rows - held) for held in range(rows + 1)}
    assert some == pytest.approx(sum(chance for held, chance in ways.items() if held), abs=1e-9)
    assert alone == pytest.approx(ways[0] * share, abs=1e-9)


def test_a_run_arranges_any_rows_correctly() -> None:
    """The arranged space tells the same answers: rows that join, against all pairs."""
    work = Workload()
    space = work.open(work.figures(with_points=True))
    for one, bound in zip(work.params, work.bounds, strict=True):
        answer = decode(encode(work.form.snapshot(space, work.rows[0], bound)))["rows"]
        expected = {
            (r[0], s[0])
            for r in work.rows[0].values()
            for s in work.rows[1].values()
            if r[1] == s[1] and one["x1"] <= s[2] <= one["x2"] and one["y1"] <= s[3] <= one["y2"]
        }
        assert {(row["r"]["k"], row["s"]["k"]) for row in answer} == expected
