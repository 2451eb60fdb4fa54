"""Health, status and metrics."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from api import VERSION
from api.answers import answer, server
from api.documents import documented
from api.metrics import exposition
from prosem.errors import RecoveringError

router = APIRouter(tags=["operations"])


@router.get("/healthz", **documented("Whether the process is alive"))
async def healthz() -> Response:
    return PlainTextResponse("ok\n")


@router.get("/readyz", **documented("Whether the server serves; 503 while it recovers"))
async def readyz(request: Request) -> Response:
    made = server(request)
    if not made.is_ready:
        raise RecoveringError(made.problem)
    return PlainTextResponse("ready\n")


@router.get("/v1/status", **documented("What the server holds"))
async def status(request: Request) -> Response:
    made = server(request)
    state, engine = made.state, made.engine
    by_type: dict[str, int] = {}
    for group in list(state.groups.values()):
        by_type[group.type] = by_type.get(group.type, 0) + state.group_sizes[group.id]
    return answer(
        {
            "version": VERSION,
            "ready": made.is_ready,
            "seq": engine.committed_seq,
            "tables": {name: len(state.rows[table.id]) for name, table in list(state.tables.items())},
            "subscriptions": {"total": len(state.registry), "by_type": by_type, "attached": made.attached},
            "groups": sum(1 for size in list(state.group_sizes.values()) if size),
            "network": made.network,
            "uptime_s": round(time.time() - made.started, 3),
            "backlog": engine.backlog,
        }
    )


@router.get("/v1/groups", **documented("The groups: subscriptions of one template"))
async def groups(request: Request) -> Response:
    state = server(request).state
    return answer(
        {
            "groups": [
                {
                    "group": group.name,
                    "type": group.type,
                    "template": group.label,
                    "example": group.sample_sql,
                    "subscriptions": state.group_sizes[group.id],
                }
                for group in list(state.groups.values())
            ]
        }
    )


@router.get("/metrics", **documented("Prometheus metrics"))
async def metrics(request: Request) -> Response:
    return Response(exposition(server(request)), media_type="text/plain; version=0.0.4; charset=utf-8")
