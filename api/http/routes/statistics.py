"""/v1/optimizer/statistics: the run of the statistics job in force, and what it says of tables, joins and groups.

Histograms hold values of rows and constants of subscriptions: a key that sees only some rows is refused, and a key sees the
tables and groups of its tenant alone.
"""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.models.operation_responses import (
    ColumnHistogram,
    GroupFigures,
    GroupFiguresList,
    JoinFiguresList,
    StatisticsRun,
    TableFigures,
    TableFiguresList,
)
from api.http.openapi import documented
from api.http.responses import answer, server
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.engine.view import EngineView
from prosem.types.base import ArrangedSpace
from prosem.values.errors import NotFoundError
from prosem.values.model import Group, JsonObject, Table
from prosem.values.statistics import ColumnStatistics, SideStatistics

router = APIRouter(prefix="/v1/optimizer/statistics", tags=["optimizer"])
_MAKES = "prosem stats refresh makes a run"


@router.get(
    "",
    **documented(
        "The statistics in force: which run, when, by which job, and what it changed", returns=StatisticsRun
    ),
)
async def statistics(request: Request) -> Response:
    tenant = caller_of(request).tenant

    def look(state: EngineState) -> JsonObject:
        shown = state.statistics or dict.fromkeys(("run", "created", "job", "state", "since", "rows"))
        groups = [group for group in state.groups.values() if group.tenant == tenant]
        entries: dict[str, dict[str, int]] = {}
        for group in groups:
            counts = sum(map(Counter, map(state.chooser.entries, state.group_store.taking(group))), Counter())
            if counts:
                entries[group.name] = dict(counts)
        arrangements = [one for group in groups if (one := _arrangement(state, group))]
        stale = [group.name for group in groups if group.id in state.group_store.figures.stale]
        return {**shown, "entries": entries, "stale": stale, "arrangements": arrangements}

    made = server(request)
    found = await made.call(c.Inspect(look))
    return answer({**found, "estimate_errors": dict(made.view.estimate_errors)})


@router.get(
    "/tables",
    **documented("The tables that the run in force knows, with their columns", returns=TableFiguresList),
)
async def tables(request: Request) -> Response:
    view, tenant = _view(request)
    known = (table for table in view.tables(tenant).values() if table.id in view.figures.columns)
    return answer({"tables": [_table(view, table) for table in known]})


@router.get("/tables/{table}", **documented("What the run in force says of a table", returns=TableFigures))
async def table(request: Request, table: str) -> Response:
    view, tenant = _view(request)
    return answer(_table(view, _known_table(view, tenant, table)))


@router.get(
    "/tables/{table}/columns/{column}",
    **documented(
        "The histogram, hot keys, distinct values and update rate of a column", returns=ColumnHistogram
    ),
)
async def column(request: Request, table: str, column: str) -> Response:
    view, tenant = _view(request)
    found = view.figures.column(_known_table(view, tenant, table).id, column)
    if found is None:
        raise NotFoundError(f"the statistics know no column {column[:200]!r} of {table}; {_MAKES}")
    return answer(_column(found))


@router.get(
    "/joins",
    **documented(
        "How often the tables of each join have events, and how rows share join keys", returns=JoinFiguresList
    ),
)
async def joins(request: Request) -> Response:
    view, tenant = _view(request)
    names = {table.id: table.name for table in view.tables(tenant).values()}
    shown = [
        {"r": _side(names, join.r), "s": _side(names, join.s)}
        for join in view.figures.joins
        if join.r.table in names and join.s.table in names
    ]
    return answer({"joins": shown})


@router.get(
    "/groups",
    **documented("The groups that the run in force knows, with their dimensions", returns=GroupFiguresList),
)
async def groups(request: Request) -> Response:
    view, tenant = _view(request)
    known = (group for group in view.groups_of(tenant) if group.id in view.figures.points)
    return answer({"groups": [_group(view, group) for group in known]})


@router.get(
    "/groups/{group}",
    **documented("Where the constants of a group's subscriptions lie, by dimension", returns=GroupFigures),
)
async def group(request: Request, group: str) -> Response:
    view, tenant = _view(request)
    found = next((one for one in view.groups_of(tenant) if one.name == group), None)
    if found is None or found.id not in view.figures.points:
        raise NotFoundError(f"the statistics know no group {group[:200]!r}; {_MAKES}")
    return answer(_group(view, found))


def _arrangement(state: EngineState, group: Group) -> JsonObject | None:
    """How a join is arranged now, and how it would be without the run in force; None if a group is no join."""
    space, figures = state.spaces[group.space], state.group_store.figures
    if not isinstance(space, ArrangedSpace):
        return None
    without = None if state.statistics is None else space.arrangement_without(figures)
    return {"group": group.name, **space.arrangement(), "without_run": without}


def _view(request: Request) -> tuple[EngineView, str]:
    caller = caller_of(request)
    caller.check_sees_all()
    return server(request).view, caller.tenant


def _known_table(view: EngineView, tenant: str, name: str) -> Table:
    found = view.tables(tenant).get(name)
    if found is None:
        raise NotFoundError(f"there is no table {name[:200]!r}")
    if found.id not in view.figures.columns:
        raise NotFoundError(f"the statistics know no events of {name}; {_MAKES}")
    return found


def _table(view: EngineView, table: Table) -> JsonObject:
    columns = view.figures.columns[table.id]
    return {
        "name": table.name,
        "events": max(one.events for one in columns),
        "columns": [one.document() for one in columns],
    }


def _column(found: ColumnStatistics) -> JsonObject:
    return {**found.document(), "histogram": found.bounds, "rank_error": found.rank_error}


def _side(names: dict[int, str], side: SideStatistics) -> JsonObject:
    return {**side._asdict(), "table": names[side.table], "columns": list(side.columns)}


def _group(view: EngineView, group: Group) -> JsonObject:
    return {
        "name": group.name,
        "type": group.type,
        "sample_sql": group.sample_sql,
        "is_stale": group.id in view.figures.stale,
        "dimensions": [one.document() for one in view.figures.points[group.id]],
    }
