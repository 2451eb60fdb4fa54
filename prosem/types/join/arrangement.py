"""How a join begins: the routing column of each table and the partner that it is reduced by, before any event was counted.

Rows reach an edge only if the routing column of a partner row is in the subscription's range ([ProSem thesis] 5.6.3). A
narrow column spares edges rows; but the regions of rows that are seen have more boxes then, and rows of a key are exposed
more often when one of its partners moves, which a column that events change does most. So columns are compared by what
messages cost (`pricing`), which a run of the statistics job knows of a group that it has seen: by the histograms of its
constants against those of the column, by update rates, and by the join's frequencies. Of a new group it knows how many
values of a column distinguish rows, and how often they change. Without a run, and where it does not know all columns in
question, the first by position is taken. The same histograms say how many subscriptions select a row of each table, which
partners depend on.

A run that comes into force while the server works arranges open joins by the same rules, but for two: what another column or
other partners would gain must be worth it, and partners that were chosen by counted events stay.

It loses where subscriptions have changed since the run: later events change partners (`adaptation`), not routing columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from prosem.language.syntax import Atom
from prosem.types.base import Rows, SpaceContext
from prosem.types.join.decomposition import (
    GAIN,
    Cost,
    Decomposition,
    counted_by,
    first_decomposition,
    formula,
    has_choice,
    side_of,
    total,
)
from prosem.types.join.pricing import Counted, Pricing, Selected
from prosem.types.join.shape import JoinShape
from prosem.values.model import JsonObject, Table
from prosem.values.selectivity import selected_share
from prosem.values.statistics import OF_RUN, PointStatistics, RunFigures

COUNTED = "events counted since the start"  # what partners were chosen by that later events have changed
SUPPOSED = 100  # subscriptions of a group that a run has not seen


class Arrangement(NamedTuple):
    """A shape with its routing columns, the partners, and the statistics behind both in words."""

    shape: JoinShape
    partners: Decomposition
    routing_by: str
    partners_by: str

    def is_same(self, other: Arrangement) -> bool:
        """Whether routing columns and partners are the same, whatever they were chosen by."""
        return self.shape.routing == other.shape.routing and self.partners == other.partners

    def document(self) -> JsonObject:
        """As EXPLAIN shows it."""
        tables = self.shape.tables
        routing = {
            table.name: table.names[at]
            for table, at in zip(tables, self.shape.routing, strict=True)
            if at is not None
        }
        partners = {table.name: tables[at].name for table, at in zip(tables, self.partners, strict=True)}
        return {
            "routing": {"columns": routing, "statistic": self.routing_by},
            "partners": {"tables": partners, "statistic": self.partners_by},
        }


class Arranger(NamedTuple):
    """Arranges an open join anew; its context is that in which it was opened."""

    shape: JoinShape
    atoms: Sequence[Sequence[Atom]]
    context: SpaceContext

    def by(self, figures: RunFigures, present: Arrangement) -> Arrangement:
        return arrange(self.shape, self.atoms, self.context._replace(figures=figures), present)

    def without_run(self, figures: RunFigures, present: Arrangement) -> JsonObject:
        """How the join would be arranged without the run of these figures: by the position of columns and by rows per key.

        These are those that the run has counted, so that no row is read; where it has not, partners are the present ones.
        """
        shape, alone = self.shape, figures.rows_per_key_alone()
        rows: tuple[Rows, ...] = tuple({} for _ in shape.tables)
        found = arrange(shape, self.atoms, self.context._replace(figures=alone, rows=rows))
        sides = ((one, other) for one in range(len(shape.tables)) for other in shape.neighbours(one))
        if any(side_of(shape, alone, one, shape.shared(one, other)) is None for one, other in sides):
            found = found._replace(partners=present.partners)
        shown = found.document()
        return {"routing": shown["routing"]["columns"], "partners": shown["partners"]["tables"]}


def arrange(
    shape: JoinShape,
    atoms: Sequence[Sequence[Atom]],
    context: SpaceContext,
    present: Arrangement | None = None,
) -> Arrangement:
    """By the figures of the run in force. Of an open join, `present` stays where another gains less than `GAIN`."""
    figures = context.figures
    points = figures.points_of(context.group)
    rows = [some.values() for some in context.rows]
    counted = counted_by(shape, rows, figures)._replace(
        subscriptions=max((one.subscriptions for one in points.values()), default=0),
        pricing=Pricing(context.weights, context.reached_us, context.brokers),
    )
    routing = [None] * len(atoms) if present is None else present.shape.routing
    found = [
        routing_column(
            number,
            shape,
            some,
            figures,
            points,
            counted,
            routing[number],
            figures.histograms_of(context.group),
        )
        for number, some in enumerate(atoms)
    ]
    arranged = replace(shape, routing=tuple(at for at, _ in found))
    by = dict.fromkeys(reason for _, reason in found if reason)
    counted = _known(arranged, figures, points, counted)
    partners = first_decomposition(arranged, rows, figures, counted)
    if present is not None and _stay(present, partners, formula(arranged, counted)):
        partners = present.partners
    known = ["join frequencies and event shares of the run" if figures.joins else "rows per key"]
    known += ["update rates of the run"] if any(one < 1 for one in counted.moved) else []
    histograms = figures.histograms_of(context.group)
    known += [f"{histograms} of the run"] if any(counted.selected) else []
    return Arrangement(
        arranged,
        partners,
        ", ".join(by) or "one column",
        _partners_by(known, shape, present),
    )


def _stay(present: Arrangement, partners: Decomposition, cost: Cost) -> bool:
    """Whether others than the present partners gain too little."""
    least = (1 - GAIN) * total(present.partners, cost)
    return present.partners_by == COUNTED or total(partners, cost) >= least


def _partners_by(known: Sequence[str], shape: JoinShape, present: Arrangement | None) -> str:
    if present is not None and present.partners_by == COUNTED:
        return COUNTED
    return ", ".join(known) if has_choice(shape) else "one neighbour"


def routing_candidates(table: Table, ranged: Sequence[int], atoms: Sequence[Atom]) -> list[int]:
    """The columns that may find subscriptions: those with equality if there are any, since it distinguishes most of them; a
    boolean last."""
    equal = {table.position[atom.column.name] for atom in atoms if atom.op == "="}

    def rank(at: int) -> tuple[bool, bool]:
        return table.columns[at].type.name == "boolean", at not in equal

    best = min(map(rank, ranged), default=None)
    return [at for at in ranged if rank(at) == best]


def routing_column(
    number: int,
    shape: JoinShape,
    atoms: Sequence[Atom],
    figures: RunFigures,
    points: Mapping[str, PointStatistics],
    counted: Counted,
    present: int | None = None,
    histograms: str = OF_RUN,
) -> tuple[int | None, str]:
    """The column of a table that finds subscriptions, and the statistic it was chosen by: "" where there was no choice.

    The `present` one stays where another gains less than `GAIN`, or not all are known.
    """
    table = shape.tables[number]
    among = routing_candidates(table, shape.ranged[number], atoms)
    if len(among) < 2:
        return (among[0] if among else None), ""
    known = [figures.column(table.id, table.names[at]) for at in among]
    columns = [one for one in known if one is not None]
    if len(columns) < len(among):
        return (among[0] if present is None else present), "position"
    is_seen = all(
        selected_share(table, one, points, f"{table.name}.{one.name}") is not None for one in columns
    )

    def cost(at: int) -> float:
        """Of the semijoins of all neighbours with the table, if it is routed by this column."""
        routing = tuple(at if one == number else column for one, column in enumerate(shape.routing))
        routed = replace(shape, routing=routing)
        known = _known(routed, figures, points, counted)
        semijoin = formula(routed, known if is_seen else _supposed(number, routed, figures, known))
        return sum(semijoin(other, number) for other in shape.neighbours(number))

    by = histograms if is_seen else "distinct values, hot keys"
    return _cheapest(among, cost, present), f"{by}, update rates and join frequencies of the run"


def _cheapest(among: Sequence[int], cost: Callable[[int], float], present: int | None) -> int:
    """The column of the least cost, the first of equals; the present one unless that gains enough."""
    best = min(among, key=cost)
    return best if present is None or cost(best) < (1 - GAIN) * cost(present) else present


def _known(
    shape: JoinShape, figures: RunFigures, points: Mapping[str, PointStatistics], counted: Counted
) -> Counted:
    """With what ranges select, and how often rows move, under the routing columns of a shape."""
    numbers = range(len(shape.tables))
    return counted._replace(
        selected=[selected_rows(number, shape, figures, points) for number in numbers],
        moved=[moved_rows(number, shape, figures) for number in numbers],
    )


def _supposed(number: int, shape: JoinShape, figures: RunFigures, known: Counted) -> Counted:
    """Of a group that the run has not seen, the constants on a table are taken to be spread as the values of the rows: then
    one constant equals one value with probability 1 / effective distinct values."""
    table, selected, row, partner = shape.tables[number], list(known.selected), 1.0, 1.0
    together = 0.0
    for at in shape.ranged[number]:
        column = figures.column(table.id, table.names[at])
        share = 1 / 3 if column is None else 1 / column.effective_distinct
        row *= share
        if at == shape.routing[number]:
            partner = share
            together = 0.0 if column is None else column.together
    selected[number] = Selected(row, partner, together=together)
    return known._replace(selected=selected, subscriptions=known.subscriptions or SUPPOSED)


def moved_rows(number: int, shape: JoinShape, figures: RunFigures) -> float:
    """The share of a table's events after which a row is at another place among those of its key: it came or went, or its
    routing column or a join column changed. 1 if the run does not know.

    A run counts changes of columns, and an event that changes none of them lets a row come or go; of events that change
    several columns the sum counts too many, so that rows seem to come and go less often.
    """
    table = shape.tables[number]
    known = {one.name: one.update_rate for one in figures.columns.get(table.id, ())}
    placing = {table.names[at] for at in shape.placing(number)}
    if not placing <= known.keys():
        return 1.0
    coming = 1 - min(1.0, sum(known.values()))
    return min(1.0, coming + sum(known[name] for name in placing))


def selected_rows(
    number: int, shape: JoinShape, figures: RunFigures, points: Mapping[str, PointStatistics]
) -> Selected | None:
    """What share of the group's subscriptions selects a row of a table of the join; None if the run does not know.

    Conditions on several columns are taken as independent. A table without conditions is selected by all.
    """
    if not points:
        return None
    table, row, partner, present, together = shape.tables[number], 1.0, 1.0, 1.0, 0.0
    for at in shape.ranged[number]:
        column = figures.column(table.id, table.names[at])
        share = (
            None if column is None else selected_share(table, column, points, f"{table.name}.{column.name}")
        )
        if share is None:
            return None
        row *= share
        if at == shape.routing[number] and column is not None:
            present, together = column.present, column.together
            partner = share / present if present else 0.0
    return Selected(row, partner, present, together)
