"""POST /v1/describe and /v1/geometry: what a query or an event would mean. Nothing is applied."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.models.preview import Describe, Geometry
from api.http.models.preview_responses import EventPicture, QueryDescription
from api.http.openapi import documented
from api.http.responses import answer, server
from api.http.routes.subscriptions import check_complexity, parsed
from prosem.engine import commands as c
from prosem.engine.describe import describe
from prosem.engine.geometry import picture
from prosem.values.access import Role
from prosem.values.request_model import read

router = APIRouter(prefix="/v1", tags=["operations"])


@router.post(
    "/describe",
    **documented(
        "What a query becomes as a subscription; nothing is made", Describe, returns=QueryDescription
    ),
)
async def described(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    given = read(Describe, await json_object(request, body_limit(request)))
    query, params = await parsed(given.sql), given.params or {}
    check_complexity(query, caller)
    look = c.Inspect(lambda state: describe(state, query, given.notify, params, caller.tenant, caller.rows))
    return answer(await made.call(look))


@router.post(
    "/geometry",
    **documented("The regions of an event in a range-min or range-max group", Geometry, returns=EventPicture),
)
async def geometry(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    caller.check_sees_all()
    given = read(Geometry, await json_object(request, body_limit(request)))
    look = c.Inspect(lambda state: picture(state, given.group, given.event, caller.tenant))
    return answer(await made.call(look))
