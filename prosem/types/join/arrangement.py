"""How a join begins: the routing column of each table and the partner that it is reduced by, before any event was counted.

Rows reach an edge only if the routing column of a partner row is in the subscription's range ([ProSem thesis] 5.6.3), so the
best column is the one whose ranges hold the fewest values. A run of the statistics job knows that: of a group that it has
seen by the histograms of its constants against those of the column; of a new group by how many values of the column tell
rows apart. Without a run, and where it does not know all columns in question, the first by position is taken. The same
histograms say how many subscriptions select a row of each table, which the costs of its partners depend on.

It loses where subscriptions have changed since the run: later events change partners (`adaptation`), not routing columns.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from prosem.language.syntax import Atom
from prosem.types.base import SpaceContext
from prosem.types.join.decomposition import Decomposition, Selected, first_decomposition, has_choice
from prosem.types.join.shape import JoinShape
from prosem.values.columns import ColumnType
from prosem.values.model import JsonObject, Table
from prosem.values.statistics import Bounds, ColumnStatistics, PointStatistics, RunFigures

_UNORDERED = ("bytea", "jsonb")  # their histograms are not in the order of what the API shows


class Arrangement(NamedTuple):
    """A shape with its routing columns, the partners, and the statistics behind both in words."""

    shape: JoinShape
    partners: Decomposition
    routing_by: str
    partners_by: str

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


def arrange(shape: JoinShape, atoms: Sequence[Sequence[Atom]], context: SpaceContext) -> Arrangement:
    points = {one.dimension: one for one in context.figures.points.get(context.group, ())}
    found = [
        routing_column(table, ranged, some, context.figures, points)
        for table, ranged, some in zip(shape.tables, shape.ranged, atoms, strict=True)
    ]
    arranged = replace(shape, routing=tuple(at for at, _ in found))
    by = dict.fromkeys(reason for _, reason in found if reason)
    rows = [some.values() for some in context.rows]
    selected = [
        selected_rows(number, arranged, context.figures, points) for number in range(len(shape.tables))
    ]
    partners = first_decomposition(arranged, rows, context.figures, selected)
    known = ["join frequencies and event shares of the run" if context.figures.joins else "rows per key"]
    known += ["point and column histograms of the run"] if any(selected) else []
    return Arrangement(
        arranged,
        partners,
        ", ".join(by) or "one column",
        ", ".join(known) if has_choice(shape) else "one neighbour",
    )


def routing_column(
    table: Table,
    ranged: Sequence[int],
    atoms: Sequence[Atom],
    figures: RunFigures,
    points: Mapping[str, PointStatistics],
) -> tuple[int | None, str]:
    """The column that finds subscriptions, and the statistic it was chosen by: "" where there was no choice.

    One with equality if there is any, since it tells most of them apart; a boolean last.
    """
    equal = {table.position[atom.column.name] for atom in atoms if atom.op == "="}

    def rank(at: int) -> tuple[bool, bool]:
        return table.columns[at].type.name == "boolean", at not in equal

    best = min(map(rank, ranged), default=None)
    among = [at for at in ranged if rank(at) == best]
    if len(among) < 2:
        return (among[0] if among else None), ""
    known = [figures.column(table.id, table.names[at]) for at in among]
    columns = [one for one in known if one is not None]
    if len(columns) < len(among):
        return among[0], "position"
    shares = [selected_share(table, one, points) for one in columns]
    if None not in shares:
        return min(zip(shares, among, strict=True))[1], "point and column histograms of the run"
    effective = [-one.effective_distinct for one in columns]
    return min(zip(effective, among, strict=True))[1], "distinct values and hot keys of the run"


def selected_rows(
    number: int, shape: JoinShape, figures: RunFigures, points: Mapping[str, PointStatistics]
) -> Selected | None:
    """What share of the group's subscriptions selects a row of a table of the join; None if the run does not know.

    Conditions on several columns are taken as independent. A table without conditions is selected by all.
    """
    if not points:
        return None
    table, row, partner = shape.tables[number], 1.0, 1.0
    for at in shape.ranged[number]:
        column = figures.column(table.id, table.names[at])
        share = None if column is None else selected_share(table, column, points)
        if share is None:
            return None
        row *= share
        if at == shape.routing[number]:
            partner = share
    return Selected(row, partner)


def selected_share(
    table: Table, column: ColumnStatistics, points: Mapping[str, PointStatistics]
) -> float | None:
    """The share of subscriptions whose range on a column holds a value of it, on average; None if that is not known.

    A range holds a value unless it begins above or ends below it, never both. A subscription without an end has no
    constant for it. O(bounds · log bounds).
    """
    name, type = f"{table.name}.{column.name}", table.columns[table.position[column.name]].type
    equal, low, high = (points.get(f"{name} {op}") for op in ("=", ">=", "<="))
    ends = [equal or low, equal or high]
    if column.bounds is None or type.name in _UNORDERED or not any(ends):
        return None
    subscriptions = max(one.constants for one in points.values())
    values = _ordered(column.bounds, type)
    begun = _ends(ends[0], subscriptions, values, type, bisect_right)
    ended = _ends(ends[1], subscriptions, values, type, bisect_left)
    if begun is None or ended is None:
        return None
    rest = 1 - (0 if ends[0] is None else ends[0].constants / subscriptions)  # they have no beginning
    return sum(max(0.0, rest + one - other) for one, other in zip(begun, ended, strict=True)) / len(values)


def _ends(
    found: PointStatistics | None, subscriptions: int, values: Sequence[Any], type: ColumnType, side: Any
) -> list[float] | None:
    """For each value the share of all subscriptions whose constant is below it (or at it: `bisect_right`)."""
    if found is None:
        return [0.0] * len(values)
    if not found.bounds:
        return None
    bounds, share = _ordered(found.bounds, type), found.constants / subscriptions
    return [share * side(bounds, value) / len(bounds) for value in values]


def _ordered(bounds: Bounds, type: ColumnType) -> list[Any]:
    """Bounds as values that Python orders as the type does; numbers of columns may be texts, those of points are doubles."""
    return [float(one) for one in bounds] if type.numeric else list(bounds)
