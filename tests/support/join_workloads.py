"""Joins with rows, subscriptions and events, what a run says of them, and what their messages cost, counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from optimizer.cost import BROKERS_US, Weights, prior
from optimizer.plan import Estimate
from prosem.types.base import SpaceContext
from prosem.types.join.arrangement import Arrangement, arrange
from prosem.types.join.decomposition import Decomposition
from prosem.types.join.form import JoinForm
from prosem.types.join.shape import JoinShape
from prosem.types.join.space import JoinSpace
from prosem.values.columns import column_type
from prosem.values.model import Column, Delta, Row, Table
from prosem.values.statistics import (
    NO_FIGURES,
    ColumnStatistics,
    PointStatistics,
    RunFigures,
)
from tests.support.join_forms import bounds, hot, join_form

GROUP, DOMAIN = 7, 1_000
CHAIN = "SELECT * FROM r JOIN s USING (b) JOIN t USING (d) WHERE s.x BETWEEN :x1 AND :x2 AND t.c BETWEEN :c1 AND :c2"
RANGES = "SELECT * FROM r JOIN s USING (b) WHERE s.x BETWEEN :x1 AND :x2 AND s.y BETWEEN :y1 AND :y2"
EQUAL = "SELECT * FROM r JOIN s USING (b) WHERE s.x = :x1 AND s.y = :y1"


def table(number: int, name: str, *columns: str) -> Table:
    made = tuple(Column(column, column_type("integer")) for column in ("k", *columns))
    return Table(number, name, made, ("k",))


R, S, T = table(1, "r", "b", "d", "a"), table(2, "s", "b", "x", "y"), table(3, "t", "d", "c", "e")
TABLES = {one.name: one for one in (R, S, T)}
form: Callable[[str], JoinForm] = partial(join_form, tables=TABLES)


def column(
    table: Table, name: str, values: Sequence[int | None], update_rate: float = 0.0, **more: Any
) -> ColumnStatistics:
    known = [one for one in values if one is not None]
    nulls, changes = round(1_000 * (1 - len(known) / len(values))), round(1_000 * update_rate)
    made = ColumnStatistics(
        table.position[name],
        name,
        "integer",
        1_000,
        nulls,
        float(len(set(known))),
        changes,
        bounds(known),
        0.0,
        hot(known),
    )
    return made._replace(**more)


def points(name: str, values: Sequence[int]) -> PointStatistics:
    places = [float(one) for one in values]
    return PointStatistics(name, len(values), float(len(set(values))), bounds(places), 0.0, hot(places))


class Workload:
    """Rows, subscriptions and events of one join. `deltas` gives the events: rows before each are those after the last."""

    form: JoinForm
    rows: list[dict[Any, Row]]
    params: list[dict[str, int]]

    def deltas(self) -> Iterator[Delta]:
        raise NotImplementedError

    def context(self, figures: RunFigures = NO_FIGURES, reached_us: float = BROKERS_US) -> SpaceContext:
        rows, places = tuple(dict(some) for some in self.rows), [self.form.bind(one) for one in self.params]
        return SpaceContext(rows, places.__getitem__, 64, "auto", figures, GROUP, reached_us=reached_us)

    def arranged(
        self,
        figures: RunFigures,
        reached_us: float = BROKERS_US,
        weights: Weights = Weights(),  # noqa: B008 - immutable
    ) -> Arrangement:
        context = self.context(figures, reached_us)._replace(weights=lambda: weights)
        return arrange(self.form.shape, self.form.atoms, context)

    def counted(
        self,
        shape: JoinShape,
        partners: Decomposition,
        reached_us: float = BROKERS_US,
        weights: Weights = Weights(),  # noqa: B008 - immutable
    ) -> float:
        """What all messages of the events cost, in the units of the optimizer: each by its boxes or its targets."""
        context = self.context(reached_us=reached_us)
        space = JoinSpace(shape, 1, context, partners)
        space.add(range(len(self.params)), [context.locate(sid) for sid in range(len(self.params))])
        cost, spent = weights.cost, 0.0
        for delta in self.deltas():
            description = space.step(delta)
            for draft in () if description is None else space.messages(description, "ref-sj-clu+"):
                reached = space.points.count(b"", draft.region)
                ways = prior("reformulate", 1, len(draft.region), 0), prior("enumerate", 1, 1, reached)
                spent += min(map(cost, ways)) + cost(Estimate(reached_us * reached, 0, 0, 0, 0))
        return spent


class Joined(Workload):
    """`r JOIN s USING (b)` with ranges of these widths on s.x and s.y; of the events on s, shares change x, y and a row's b.

    Every second event changes a payload of r. Of the values of a column a share may be NULL.
    """

    def __init__(
        self,
        widths: tuple[int, int],
        rates: Mapping[str, float],
        subscriptions: int = 60,
        nulls: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        chance = self.chance = random.Random(3)
        self.form, self.rates = form(RANGES), rates
        self.rows = [
            {(k,): (k, k % 5, 0, 0) for k in range(40)},
            {(k,): (k, k % 5, chance.randrange(DOMAIN), chance.randrange(DOMAIN)) for k in range(60)},
        ]
        self.params = []
        for _ in range(subscriptions):
            x, y = (chance.randrange(DOMAIN - width) for width in widths)
            self.params.append({"x1": x, "x2": x + widths[0], "y1": y, "y2": y + widths[1]})
        for name, share in nulls.items():
            self.put(name, lambda value: None if chance.random() < share else value)  # noqa: B023 - called at once

    def put(self, name: str, change: Callable[[Any], int | None]) -> None:
        """Change the values of a column of s."""
        at = S.position[name]
        self.rows[1] = {
            key: (*row[:at], change(row[at]), *row[at + 1 :]) for key, row in self.rows[1].items()
        }

    def figures(self, with_points: bool = True) -> RunFigures:
        columns = [
            column(S, name, [row[at] for row in self.rows[1].values()], self.rates.get(name, 0.0))
            for at, name in enumerate(S.names)
        ]
        return RunFigures({S.id: columns}, points={GROUP: self.points()} if with_points else {})

    def points(self) -> list[PointStatistics]:
        dimensions = (("s.x >=", "x1"), ("s.x <=", "x2"), ("s.y >=", "y1"), ("s.y <=", "y2"))
        return [points(name, [one[key] for one in self.params]) for name, key in dimensions]

    def deltas(self) -> Iterator[Delta]:
        chance, rows = random.Random(9), [dict(some) for some in self.rows]
        for seq in range(1, 151):
            number = seq % 2
            key = (chance.randrange(len(rows[number])),)
            old = rows[number][key]
            new = list(old)
            if number == 0:
                new[3] = seq
            else:
                (name,) = chance.choices(list(self.rates), list(self.rates.values()))
                new[S.position[name]] = self.fresh(name, chance)
            rows[number][key] = tuple(new)
            yield Delta(seq, (R, S)[number], key, old, tuple(new))

    def fresh(self, name: str, chance: random.Random) -> int:
        return chance.randrange(5 if name == "b" else DOMAIN)

    def spent(self, routing: str, *by: Any) -> float:
        shape = replace(self.form.shape, routing=(None, S.position[routing]))
        return self.counted(shape, (1, 0), *by)


class Equal(Joined):
    """`s.x = :x AND s.y = :y` over rows with 100 even values; a column has so many constants, of which rows have some."""

    VALUES = 100

    def __init__(
        self, constants: Mapping[str, int], rates: Mapping[str, float], subscriptions: int = 1_000
    ) -> None:
        super().__init__((0, 0), rates, subscriptions)
        self.form = form(EQUAL)
        for name in "xy":
            self.put(name, lambda value: value % self.VALUES)
        columns = [[at % constants[name] for at in range(subscriptions)] for name in "xy"]
        for some in columns:
            self.chance.shuffle(some)
        self.params = [{"x1": x, "y1": y} for x, y in zip(*columns, strict=True)]

    def figures(self, with_points: bool = True) -> RunFigures:
        """Of all the values: that few rows have them several times makes them no hot keys."""
        known = super().figures(with_points)
        every = {name: column(S, name, range(self.VALUES), self.rates.get(name, 0.0)) for name in "xy"}
        return replace(known, columns={S.id: [every.get(one.name, one) for one in known.columns[S.id]]})

    def points(self) -> list[PointStatistics]:
        return [points(f"s.{name} =", [one[f"{name}1"] for one in self.params]) for name in "xy"]

    def fresh(self, name: str, chance: random.Random) -> int:
        return chance.randrange(5 if name == "b" else self.VALUES)


class Chain(Workload):
    """`CHAIN` with random ranges: rows of r, of 20 join keys, have partners in s by b and in t by d.

    `keys`: of each neighbour, and how many rows have each. `shares` of the events are those of the tables; an event changes
    the columns of its table that are named in `changed`.
    """

    def __init__(
        self,
        keys: Mapping[str, int] = MappingProxyType({}),
        rows_per_key: Mapping[str, int] = MappingProxyType({}),
        shares: Mapping[str, float] = MappingProxyType({}),
        changed: Mapping[str, str] = MappingProxyType({"r": "bda", "s": "bx", "t": "dc"}),
    ) -> None:
        chance = random.Random(11)
        self.form, self._changed = form(CHAIN), changed
        self._shares = {"r": 1 / 3, "s": 1 / 3, "t": 1 / 3, **shares}
        self._keys = {"r": 20, "s": 20, "t": 20, **keys}
        counts = {"r": 60} | {name: self._keys[name] * rows_per_key.get(name, 3) for name in "st"}
        self.rows = [
            {
                (k,): (k, *(self.fresh(name, one, chance, k) for one in TABLES[name].names[1:]))
                for k in range(count)
            }
            for name, count in counts.items()
        ]
        self.params = []
        for _ in range(40):
            ends = [sorted(chance.sample(range(DOMAIN), 2)) for _ in "xc"]
            self.params.append(dict(zip(("x1", "x2", "c1", "c2"), (*ends[0], *ends[1]), strict=True)))

    def fresh(self, name: str, column: str, chance: random.Random, k: int | None = None) -> int:
        """Join keys of the first rows are even."""
        if column not in "bd":
            return chance.randrange(DOMAIN)
        keys = self._keys[name]
        return chance.randrange(keys) if k is None or (name, column) == ("r", "d") else k % keys

    def deltas(self) -> Iterator[Delta]:
        chance, rows = random.Random(9), dict(zip("rst", (dict(some) for some in self.rows), strict=True))
        for seq in range(1, 301):
            (name,) = chance.choices(list(self._shares), list(self._shares.values()))
            table, key = TABLES[name], (chance.randrange(len(rows[name])),)
            old = rows[name][key]
            fresh = {one: self.fresh(name, one, chance) for one in self._changed[name]}
            new = tuple(fresh.get(one, value) for one, value in zip(table.names, old, strict=True))
            rows[name][key] = new
            yield Delta(seq, table, key, old, new)

    def spent(self, partner: str, *by: Any) -> float:
        """If r is reduced by this neighbour."""
        return self.counted(self.form.shape, ("rst".index(partner), 0, 0), *by)
