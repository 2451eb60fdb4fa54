"""POST /v1/describe and /v1/geometry: what a query or an event would mean. Nothing is applied."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.openapi import DESCRIBE, GEOMETRY, documented
from api.http.responses import answer, server
from api.http.routes.subscriptions import check_complexity, parsed, read_params
from prosem.engine import commands as c
from prosem.engine.describe import describe
from prosem.engine.geometry import picture
from prosem.language.notify import check_notify
from prosem.values.access import Role
from prosem.values.errors import InputError

router = APIRouter(prefix="/v1", tags=["operations"])


@router.post("/describe", **documented("What a query becomes as a subscription; nothing is made", DESCRIBE))
async def described(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    body = await json_object(request, body_limit(request))
    query = await parsed(body.get("sql"))
    notify, params = check_notify(body.get("notify")), read_params(body.get("params"), "/params")
    check_complexity(query, caller)
    look = c.Inspect(lambda state: describe(state, query, notify, params, caller.tenant, caller.rows))
    return answer(await made.call(look))


@router.post("/geometry", **documented("The regions of an event in a range-min or range-max group", GEOMETRY))
async def geometry(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    caller.check_sees_all()
    body = await json_object(request, body_limit(request))
    group, event = body.get("group"), body.get("event")
    if not isinstance(group, str):
        raise InputError("expected the name of a group; GET /v1/groups lists them", "/group")
    return answer(await made.call(c.Inspect(lambda state: picture(state, group, event, caller.tenant))))
