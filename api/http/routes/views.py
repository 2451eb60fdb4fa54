"""/v1/views: derived tables, and the graph of what uses what."""

from __future__ import annotations

import asyncio
import logging
import time

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.models.operation_responses import Dropped, ViewDescription, ViewList
from api.http.models.responses import ViewDefinition
from api.http.models.views import NewView
from api.http.openapi import documented
from api.http.responses import answer, server
from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.engine.validate import known_view
from prosem.engine.view import EngineView
from prosem.engine.views import ViewBuild
from prosem.values.access import Caller, Role
from prosem.values.model import JsonObject, Table, View
from prosem.values.request_model import read

log = logging.getLogger("prosem.views")
router = APIRouter(prefix="/v1/views", tags=["views"])
REPORT_EVERY_S = 2.0


@router.post("", status_code=201, **documented("Create a view", NewView, 201, 200, returns=ViewDefinition))
async def create(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    given = read(NewView, await json_object(request, body_limit(request)))
    prepared: c.PreparedView = await made.call(c.PrepareView(given.name, given.sql, caller.scope))
    if prepared.build is not None:
        await _build(made, prepared.build)
    return answer(prepared.view.definition(), 200 if prepared.build is None else 201)


async def _build(made: RunningServer, build: ViewBuild) -> None:
    """Fill a view beside the engine, which goes on meanwhile, and have it put into its place in the order."""
    try:
        await asyncio.to_thread(_fill, build)
        await made.call(c.InstallView(build))
    except BaseException:
        build.is_abandoned = True
        raise


def _fill(build: ViewBuild) -> None:
    start = reported = time.monotonic()
    total = build.input_rows

    def progress(rows: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_EVERY_S:
            reported = time.monotonic()
            log.info("view %s: %d of %d rows read", build.view.name, rows, total)

    build.fill(progress)
    build.catch_up()
    took_s = time.monotonic() - start
    if took_s >= REPORT_EVERY_S:
        log.info("view %s: %d rows built in %.1f s", build.view.name, len(build.rows), took_s)


@router.get("", **documented("All views, with what they use and what uses them", returns=ViewList))
async def index(request: Request) -> Response:
    view, caller = server(request).view, caller_of(request)
    found = [table for table in view.tables(caller.tenant).values() if isinstance(table, View)]
    return answer({"views": [_public(view, one, caller) for one in found]})


@router.get("/{name:path}", **documented("One view", returns=ViewDescription))
async def show(request: Request, name: str) -> Response:
    view, caller = server(request).view, caller_of(request)
    return answer(_public(view, known_view(view.tables(caller.tenant), name), caller))


@router.delete("/{name:path}", **documented("Drop a view that nothing uses", returns=Dropped))
async def drop(request: Request, name: str) -> Response:
    caller = caller_of(request)
    caller.check(Role.PUBLISHER)
    await server(request).call(c.DropView(name, caller.scope))
    return answer({"name": name, "dropped": True})


def _public(view: EngineView, one: View, caller: Caller) -> JsonObject:
    """A view with its place in the graph: `uses` are tables and views, `used_by` views and groups of subscriptions.

    The number of rows is not shown to a key with row conditions, as in `GET /v1/status`.
    """
    readers = [other.name for other in view.tables(caller.tenant).values() if _reads(other, one)]
    groups = [group for group in view.groups_of(caller.tenant) if one.name in group.tables]
    return {
        **one.definition(),
        "rows": None if caller.rows else view.row_counts.get(one.id, 0),
        "uses": [table.name for table in one.inputs],
        "used_by": {
            "views": readers,
            "groups": [group.name for group in groups if view.size(group)],
            "subscriptions": sum(map(view.size, groups)),
        },
    }


def _reads(other: Table, one: View) -> bool:
    return isinstance(other, View) and any(table.id == one.id for table in other.inputs)
