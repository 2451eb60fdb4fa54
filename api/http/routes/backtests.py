"""/v1/backtests: how often subscriptions would have been notified, as jobs over the archive of the statistics job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.models.backtests import NewBacktest
from api.http.models.operation_responses import BacktestDescription, BacktestedSubscriptions, BacktestList
from api.http.openapi import documented
from api.http.responses import answer, server
from api.http.routes.subscriptions import check_complexity, parsed
from pipeline.backtest.asked import check_population, since, tunable, tuned
from pipeline.backtest.plan import Question
from pipeline.backtest.simulation import Statement
from pipeline.statistics import StatisticsError
from prosem.engine import commands as c
from prosem.engine.state import EngineState
from prosem.language.syntax import Query
from prosem.store.statistics import archive_id
from prosem.types.base import Form
from prosem.values.access import NO_PREDICATES, Caller, Role
from prosem.values.errors import InputError
from prosem.values.model import JsonObject
from prosem.values.request_model import read

MOST_SHOWN = 1_000  # subscriptions of a page
router = APIRouter(prefix="/v1/backtests", tags=["backtests"])


@router.post(
    "",
    status_code=202,
    **documented(
        "Count the notifications that subscriptions would have had; a job",
        NewBacktest,
        202,
        returns=BacktestDescription,
    ),
)
async def create(request: Request) -> Response:
    made, caller = server(request), _caller(request)
    given = read(NewBacktest, await json_object(request, body_limit(request)))
    with _refused("/since"):
        since(given.since)
    query = replace(await parsed(given.sql), per=given.per)
    check_complexity(query, caller)
    with _refused("/notify"):
        notify = tunable(given.notify) if given.per_day else given.notify
    form: Form = await made.call(c.Inspect(lambda state: _form(state, query, notify, caller.tenant)))
    question = Question(Statement(query, notify, caller.tenant), form, (), ())
    with _refused("/tune" if given.tune else "/per_day"):
        name = tuned(question, given.tune) if given.per_day else ""
    at = "/params" if given.subscriptions is None else "/subscriptions/{}"
    await asyncio.to_thread(check_population, question, given.population, name, at)
    asked = {
        "sql": given.sql,
        "subscriptions": given.population,
        "notify": given.notify,
        "per": given.per,
        "since": given.since,
        "per_day": given.per_day,
        "tune": given.tune,
        "archive_of": await asyncio.to_thread(archive_id, made.database.url),
    }
    return answer(made.backtests.submit(caller.tenant, asked).document(), 202)


@router.get(
    "",
    **documented("The backtests of this tenant since the server started, newest first", returns=BacktestList),
)
async def index(request: Request) -> Response:
    caller = _caller(request)
    jobs = server(request).backtests.jobs(caller.tenant)
    return answer({"backtests": [one.document(with_result=False) for one in jobs]})


@router.get(
    "/{id}",
    **documented(
        "A backtest: its state, the steps begun, and its result or error", returns=BacktestDescription
    ),
)
async def show(request: Request, id: str) -> Response:
    caller = _caller(request)
    return answer(server(request).backtests.job(caller.tenant, id).document())


@router.get(
    "/{id}/subscriptions",
    **documented(
        "What a backtest found of each subscription: counts by day and by hour, and the value suggested",
        returns=BacktestedSubscriptions,
    ),
)
async def subscriptions(request: Request, id: str, after: int = -1, limit: int = 100) -> Response:
    caller = _caller(request)
    if not 1 <= limit <= MOST_SHOWN:
        raise InputError(f"expected a number from 1 to {MOST_SHOWN:,}", "/limit")
    job = server(request).backtests.job(caller.tenant, id)
    return answer(await asyncio.to_thread(job.page, after, limit))


@router.delete("/{id}", **documented("End a backtest and forget it", returns=BacktestDescription))
async def delete(request: Request, id: str) -> Response:
    caller = _caller(request)
    return answer(server(request).backtests.cancel(caller.tenant, id).document(with_result=False))


def _form(state: EngineState, query: Query, notify: JsonObject | None, tenant: str) -> Form:
    form, _, _ = state.subscribing.recognise(query, notify, tenant, NO_PREDICATES)
    return form


@contextmanager
def _refused(at: str) -> Iterator[None]:
    """What is wrong with this part of the request is an InputError."""
    try:
        yield
    except StatisticsError as error:
        raise InputError(str(error), at) from None


def _caller(request: Request) -> Caller:
    """A backtest counts by all rows of its tables."""
    caller = caller_of(request)
    caller.check(Role.SUBSCRIBER)
    caller.check_sees_all()
    return caller
