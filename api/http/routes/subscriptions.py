"""/v1/subscriptions: register, look at, move and delete."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.models.operation_responses import DeletedSubscription, TypeList
from api.http.models.responses import (
    BatchResult,
    MovedSubscription,
    NewSubscriptionResult,
    SubscriptionDescription,
    SubscriptionList,
    SubscriptionResult,
)
from api.http.models.subscriptions import NewSubscription, SubscriptionBatch, SubscriptionChange, read_row
from api.http.openapi import documented
from api.http.responses import answer, server
from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.language.syntax import Query
from prosem.runtime.slices import TimeSlice
from prosem.store.replay import ListedSubscription
from prosem.types.registry import TYPES
from prosem.values.access import Caller, Role
from prosem.values.errors import InputError, LanguageError, NotFoundError, TooLargeError, pointer
from prosem.values.model import JsonObject
from prosem.values.request_model import read

router = APIRouter(prefix="/v1", tags=["subscriptions"])
_SHORT_SQL = 2_000


@router.post(
    "/subscriptions",
    status_code=201,
    **documented("Subscribe", NewSubscription, 201, returns=NewSubscriptionResult),
)
async def subscribe(request: Request) -> Response:
    made, caller = server(request), _subscriber(request)
    given = read(NewSubscription, await json_object(request, body_limit(request)))
    query = replace(await parsed(given.sql), per=given.per)
    check_complexity(query, caller)
    command = c.Subscribe(
        query,
        given.notify,
        [(given.id, given.params or {})],
        given.durable,
        scope=caller.scope,
        predicates=caller.rows,
        most=caller.limits.subscriptions,
    )
    found = await made.call(command)
    return answer(found, 201)


@router.post(
    "/subscriptions/batch",
    status_code=201,
    **documented("Subscribe many at once", SubscriptionBatch, 201, returns=BatchResult),
)
async def subscribe_batch(request: Request) -> Response:
    made, caller = server(request), _subscriber(request)
    given = read(SubscriptionBatch, await json_object(request, body_limit(request)))
    query = replace(await parsed(given.sql), per=given.per)
    if len(given.rows) > made.settings.max_batch_rows:
        raise TooLargeError(f"a batch has at most {made.settings.max_batch_rows} rows; send several", "/rows")
    turn, rows = TimeSlice(), []
    for number, row in enumerate(given.rows):
        rows.append(_row(row, number))
        await turn.over()
    check_complexity(query, caller)
    command = c.Subscribe(
        query,
        given.notify,
        rows,
        given.durable,
        True,
        caller.scope,
        caller.rows,
        caller.limits.subscriptions,
    )
    found = await made.call(command)
    return answer(found, 201)


def _subscriber(request: Request) -> Caller:
    caller = caller_of(request)
    caller.check(Role.SUBSCRIBER)
    return caller


def check_complexity(query: Query, caller: Caller) -> None:
    """LanguageError if the key may not ask so much."""
    limit, size = caller.limits.comparisons, sum(map(len, query.where))
    if limit is not None and size > limit:
        raise LanguageError(f"the condition has {size} comparisons; a query of this key has at most {limit}")


def _row(row: Any, number: int) -> tuple[str | None, JsonObject]:
    try:
        return read_row(row)
    except InputError as error:
        raise error.moved(pointer("rows", number)) from None


async def parsed(sql: str) -> Query:
    """The query of a body; a long one is parsed beside the loop."""
    return parse(sql) if len(sql) <= _SHORT_SQL else await asyncio.to_thread(parse, sql)


@router.get(
    "/subscriptions",
    **documented(
        "Subscriptions, page by page",
        returns=SubscriptionList,
        group="only those of this group",
        type="only those of this type",
        limit="at most so many, from 1 to 10000 (100)",
        after="the last id of the previous page",
    ),
)
async def index(request: Request) -> Response:
    made, caller = server(request), _subscriber(request)
    query = request.query_params
    limit = query.get("limit", "100")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= 10_000:
        raise InputError("expected a number from 1 to 10000", "/limit")
    for name in ("group", "type", "after"):
        if "\0" in query.get(name, ""):
            raise InputError("a name or an id holds no NUL", pointer(name))
    found = await made.store.page(
        group=query.get("group"),
        type=query.get("type"),
        limit=int(limit[:9]),
        after=query.get("after"),
        scope=caller.scope,
    )
    return answer({"subscriptions": [_public(item) for item in found]})


def _public(item: ListedSubscription) -> JsonObject:
    return {
        "id": item.id,
        "type": item.type,
        "group": item.group,
        "sql": item.sql,
        "params": msgspec.Raw(item.params),
        "notify": None if item.notify is None else msgspec.Raw(item.notify),
        "active": item.active,
        "durable": item.durable,
        "per": item.per,
        "created_seq": item.created_seq,
    }


async def stored(made: RunningServer, id: str, caller: Caller) -> ListedSubscription:
    """The subscription as it was committed; 404 if the caller has none."""
    found = await made.store.subscription(id, caller.scope) if "\0" not in id else None
    if found is None:
        raise NotFoundError(f"there is no subscription {id[:200]!r}")
    return found


@router.get("/types", **documented("The supported subscription types", returns=TypeList))
async def types(request: Request) -> Response:
    return answer({"types": [kind.describe() for kind in TYPES]})


@router.get("/subscriptions/{id:path}/result", **documented("The current answer", returns=SubscriptionResult))
async def result(request: Request, id: str) -> Response:
    return answer(await server(request).call(c.Result(id, _subscriber(request).scope, ahead=True)))


@router.get("/subscriptions/{id:path}", **documented("One subscription", returns=SubscriptionDescription))
async def show(request: Request, id: str) -> Response:
    made, caller = server(request), _subscriber(request)
    found = await stored(made, id, caller)
    fold = await made.call(c.Inspect(lambda state: state.subscribing.folding(id, caller.scope)))
    return answer(_public(found) | {"fold": fold})


@router.delete("/subscriptions/{id:path}", **documented("Delete a subscription", returns=DeletedSubscription))
async def delete(request: Request, id: str) -> Response:
    return answer(await server(request).call(c.Delete(id, _subscriber(request).scope)))


@router.patch(
    "/subscriptions/{id:path}",
    **documented("Move, suspend or resume a subscription", SubscriptionChange, returns=MovedSubscription),
)
async def patch(request: Request, id: str) -> Response:
    made, caller = server(request), _subscriber(request)
    given = read(SubscriptionChange, await json_object(request, body_limit(request)))
    return answer(await made.call(c.Patch(id, given.params, given.active, caller.scope)))
