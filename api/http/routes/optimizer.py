"""/v1/explain and /v1/optimizer: what plans cost, which were taken, and the knobs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.openapi import EXPLAIN, WEIGHTS, documented
from api.http.responses import answer, server
from optimizer.cost import Weights
from optimizer.explain import decided
from optimizer.plan import METRICS
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.values.access import Role
from prosem.values.errors import InputError, pointer
from prosem.values.model import JsonObject

router = APIRouter(prefix="/v1", tags=["optimizer"])
MOST_DECISIONS = 1_000


@router.post(
    "/explain", **documented("What an event would cost under each plan; nothing is applied", EXPLAIN)
)
async def explain(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    caller.check_sees_all()
    body = await json_object(request, body_limit(request))
    for name in body:
        if name not in ("table", "event", "analyze"):
            raise InputError(f"unknown member {name!r}; there are table, event and analyze", pointer(name))
    table, analyze = body.get("table"), body.get("analyze", False)
    if not isinstance(table, str):
        raise InputError("expected the name of a table", "/table")
    if "event" not in body:
        raise InputError('expected an event like {"op": "upsert", "row": {…}}', "/event")
    if not isinstance(analyze, bool):
        raise InputError("expected true or false", "/analyze")
    return answer(await made.call(c.Explain(table, body["event"], analyze, caller.scope)))


@router.get("/optimizer/weights", **documented("How much each metric of the cost model matters"))
async def weights(request: Request) -> Response:
    return answer(server(request).view.weights._asdict())


@router.put("/optimizer/weights", **documented("Change weights; those not given stay", WEIGHTS))
async def weigh(request: Request) -> Response:
    made = server(request)
    caller_of(request).check_operator()
    body = await json_object(request, body_limit(request))
    given: dict[str, float] = {}
    for name, weight in body.items():
        if name not in METRICS:
            raise InputError(f"there is no metric {name!r}; there are {', '.join(METRICS)}", pointer(name))
        try:
            given[name] = float(weight)
            Weights.of({name: given[name]})
        except (TypeError, ValueError, OverflowError):
            raise InputError("expected a number from 0 on", pointer(name)) from None
    return answer(await made.call(c.Weigh(given)))


@router.get("/optimizer/statistics", **documented("The statistics in force: which run, when, by which job"))
async def statistics(request: Request) -> Response:
    tenant = caller_of(request).tenant

    def look(state: EngineState) -> JsonObject:
        shown = state.statistics or dict.fromkeys(("run", "created", "job", "state", "since", "rows"))
        groups = (group for group in state.groups.values() if group.tenant == tenant)
        entries = {group.name: counts for group in groups if (counts := state.chooser.entries(group.space))}
        return {**shown, "entries": entries}

    return answer(await server(request).call(c.Inspect(look)))


@router.get(
    "/optimizer/decisions", **documented("The last decisions, newest first, with estimates and actuals")
)
async def decisions(request: Request, limit: int = 100, group: str | None = None) -> Response:
    if not 1 <= limit <= MOST_DECISIONS:
        raise InputError(f"expected a number from 1 to {MOST_DECISIONS}", "/limit")
    made, caller = server(request), caller_of(request)
    caller.check_sees_all()
    groups = made.view.groups_of(caller.tenant)
    spaces = {known.space for known in groups if group is None or known.name == group}
    last = await made.call(c.Inspect(lambda state: state.chooser.decisions.last(MOST_DECISIONS)))
    found = [one for one in last if one.space in spaces][:limit]
    names: dict[int, list[str]] = {}
    for known in groups:
        names.setdefault(known.space, []).append(known.name)
    return answer({"decisions": [decided(decision, names.get(decision.space, [])) for decision in found]})
