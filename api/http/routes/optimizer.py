"""/v1/explain and /v1/optimizer: what plans cost, which were taken, and the knobs."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.models.operation_responses import DecisionList, MetricWeights
from api.http.models.preview import Explain, WeightChange
from api.http.models.preview_responses import ExplainedEvent
from api.http.openapi import documented
from api.http.responses import answer, server
from optimizer.explain import decided
from prosem.engine import commands as c
from prosem.values.access import Role
from prosem.values.errors import InputError
from prosem.values.request_model import read

router = APIRouter(prefix="/v1", tags=["optimizer"])
MOST_DECISIONS = 1_000


@router.post(
    "/explain",
    **documented(
        "What an event would cost under each plan; nothing is applied", Explain, returns=ExplainedEvent
    ),
)
async def explain(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    caller.check_sees_all()
    given = read(Explain, await json_object(request, body_limit(request)))
    return answer(await made.call(c.Explain(given.table, given.event, given.analyze, caller.scope)))


@router.get(
    "/optimizer/weights",
    **documented("How much each metric of the cost model matters", returns=MetricWeights),
)
async def weights(request: Request) -> Response:
    return answer(server(request).view.weights._asdict())


@router.put(
    "/optimizer/weights",
    **documented("Change weights; those not given stay", WeightChange, returns=MetricWeights),
)
async def weigh(request: Request) -> Response:
    made = server(request)
    caller_of(request).check_operator()
    given = read(WeightChange, await json_object(request, body_limit(request)))
    return answer(await made.call(c.Weigh(msgspec.to_builtins(given))))


@router.get(
    "/optimizer/decisions",
    **documented("The last decisions, newest first, with estimates and actuals", returns=DecisionList),
)
async def decisions(request: Request, limit: int = 100, group: str | None = None) -> Response:
    if not 1 <= limit <= MOST_DECISIONS:
        raise InputError(f"expected a number from 1 to {MOST_DECISIONS}", "/limit")
    made, caller = server(request), caller_of(request)
    caller.check_sees_all()
    groups = made.view.groups_of(caller.tenant)
    taking: list[tuple[int, ...]] = await made.call(
        c.Inspect(lambda state: [*map(state.group_store.taking, groups)])
    )
    last = await made.call(c.Inspect(lambda state: state.chooser.decisions.last(MOST_DECISIONS)))
    names: dict[int, list[str]] = {}
    for known, spaces in zip(groups, taking, strict=True):
        for space in spaces:
            names.setdefault(space, []).append(known.name)
    asked = {space for space, some in names.items() if group is None or group in some}
    found = [one for one in last if one.space in asked][:limit]
    return answer({"decisions": [decided(decision, names.get(decision.space, [])) for decision in found]})
