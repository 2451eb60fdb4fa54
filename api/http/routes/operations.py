"""Health, status and metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from api import VERSION
from api.http.access import caller_of
from api.http.metrics import exposition
from api.http.models.operation_responses import GroupList, ServerStatus
from api.http.openapi import documented
from api.http.responses import answer, lifetime, server
from cn.match import kernels
from prosem.engine.view import EngineView
from prosem.values.access import Role
from prosem.values.errors import RecoveringError
from prosem.values.model import Table, View

router = APIRouter(tags=["operations"])


@router.get(
    "/healthz", **documented("Whether the process is alive; 503 once a thread of the engine has died")
)
async def healthz(request: Request) -> Response:
    made = lifetime(request)
    if not made.is_alive:
        return PlainTextResponse(f"the engine has stopped, restart the server: {made.problem}\n", 503)
    return PlainTextResponse("ok\n")


@router.get("/readyz", **documented("Whether the server serves; 503 while it recovers"))
async def readyz(request: Request) -> Response:
    made = lifetime(request)
    if not made.is_ready:
        raise RecoveringError(made.problem)
    notice = made.running.notice
    return PlainTextResponse(f"ready, but {notice}\n" if notice else "ready\n")


@router.get("/v1/status", **documented("What the server holds", returns=ServerStatus))
async def status(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    view = made.view
    by_type: dict[str, int] = {}
    groups = view.groups_of(caller.tenant)
    for group in groups:
        by_type[group.type] = by_type.get(group.type, 0) + view.size(group)
    all_tables = view.tables(caller.tenant)
    counts = {name: None if caller.rows else view.row_counts[one.id] for name, one in all_tables.items()}
    return answer(
        {
            "version": VERSION,
            "ready": made.is_ready,
            "problem": made.notice or None,
            "seq": view.seq,
            "timeline": view.timeline,
            "tables": {name: counts[name] for name, one in all_tables.items() if not isinstance(one, View)},
            "views": {name: counts[name] for name, one in all_tables.items() if isinstance(one, View)},
            "columns_in_memory": _columns_in_memory(view, all_tables),
            "subscriptions": {
                "total": sum(by_type.values()),
                "by_type": by_type,
                "attached": made.attached if caller.is_operator else None,
            },
            "groups": sum(1 for group in groups if view.size(group)),
            "network": made.network,
            "kernels": kernels.describe(),
            "uptime_s": round(time.time() - lifetime(request).started, 3),
            "backlog": made.engine.backlog,
            "restarts": made.metrics.restarts if caller.is_operator else None,
        }
    )


def _columns_in_memory(view: EngineView, tables: Mapping[str, Table]) -> dict[str, tuple[str, ...]] | None:
    """With --columns-in-memory used the columns of each table that are there; null: all are."""
    found = view.columns_in_memory
    if found is None:
        return None
    return {name: found[table.id] for name, table in tables.items() if table.id in found}


@router.get("/v1/groups", **documented("The groups: subscriptions of one template", returns=GroupList))
async def groups(request: Request) -> Response:
    view, caller = server(request).view, caller_of(request)
    return answer(
        {
            "groups": [
                {
                    "group": group.name,
                    "type": group.type,
                    "template": group.label,
                    "example": None if caller.rows else group.sample_sql,
                    "subscriptions": view.size(group),
                }
                for group in view.groups_of(caller.tenant)
            ]
        }
    )


@router.get("/metrics", **documented("Prometheus metrics"))
async def metrics(request: Request) -> Response:
    if lifetime(request).keys.is_loaded:  # before that there are only figures of the process
        caller_of(request).check_service(Role.METRICS)
    text = exposition(lifetime(request), getattr(request.app.state, "limits", None))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
