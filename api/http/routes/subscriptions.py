"""/v1/subscriptions: register, look at, move and delete."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.openapi import BATCH, PATCH, SUBSCRIPTION, documented
from api.http.responses import answer, server
from api.server.composition import Server
from prosem.engine import commands as c
from prosem.engine.subscribing import MAX_ID_LENGTH
from prosem.language.notify import check_notify
from prosem.language.parse import parse
from prosem.language.syntax import Query
from prosem.runtime.slices import TimeSlice
from prosem.store.replay import ListedSubscription
from prosem.types.registry import TYPES
from prosem.values.access import Caller, Role
from prosem.values.errors import InputError, LanguageError, NotFoundError, TooLargeError, pointer
from prosem.values.model import JsonObject

router = APIRouter(prefix="/v1", tags=["subscriptions"])
_SHORT_SQL = 2_000


@router.post("/subscriptions", status_code=201, **documented("Subscribe", SUBSCRIPTION))
async def subscribe(request: Request) -> Response:
    made, caller = server(request), _subscriber(request)
    body = await json_object(request, body_limit(request))
    _only(body, ("sql", "params", "notify", "id", "durable"))
    query = await parsed(body.get("sql"))
    durable = body.get("durable", True)
    if not isinstance(durable, bool):
        raise InputError("expected true or false", "/durable")
    row = (_id(body.get("id"), "/id"), read_params(body.get("params"), "/params"))
    check_complexity(query, caller)
    command = c.Subscribe(
        query,
        check_notify(body.get("notify")),
        [row],
        durable,
        scope=caller.scope,
        predicates=caller.rows,
        most=caller.limits.subscriptions,
    )
    found = await made.call(command)
    return answer(found, 201)


@router.post("/subscriptions/batch", status_code=201, **documented("Subscribe many at once", BATCH))
async def subscribe_batch(request: Request) -> Response:
    made, caller = server(request), _subscriber(request)
    body = await json_object(request, body_limit(request))
    _only(body, ("sql", "notify", "rows", "durable"))
    query = await parsed(body.get("sql"))
    given = body.get("rows")
    if not isinstance(given, list) or not given:
        raise InputError("expected a list with at least one row", "/rows")
    if len(given) > made.settings.max_batch_rows:
        raise TooLargeError(f"a batch has at most {made.settings.max_batch_rows} rows; send several", "/rows")
    turn, rows = TimeSlice(), []
    for number, row in enumerate(given):
        rows.append(_row(row, number))
        await turn.over()
    durable = body.get("durable", True)
    if not isinstance(durable, bool):
        raise InputError("expected true or false", "/durable")
    check_complexity(query, caller)
    command = c.Subscribe(
        query,
        check_notify(body.get("notify")),
        rows,
        durable,
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
    if not isinstance(row, dict):
        raise InputError('expected an object with "params"', pointer("rows", number))
    try:
        return _id(row.get("id"), "/id"), read_params(row.get("params"), "/params")
    except InputError as error:
        raise error.moved(pointer("rows", number)) from None


def _only(body: JsonObject, names: tuple[str, ...]) -> None:
    for name in body:
        if name not in names:
            raise InputError(f"unknown member {name!r}; known are {', '.join(names)}", pointer(name))


async def parsed(sql: Any) -> Query:
    """The query of a body; a long one is parsed beside the loop."""
    if not isinstance(sql, str):
        raise InputError("expected a query as text", "/sql")
    return parse(sql) if len(sql) <= _SHORT_SQL else await asyncio.to_thread(parse, sql)


def _id(id: Any, at: str) -> str | None:
    if id is None:
        return None
    if not isinstance(id, str) or not id or len(id) > MAX_ID_LENGTH or "\0" in id or "/" in id:
        raise InputError(f"expected a text of 1 to {MAX_ID_LENGTH} characters without NUL and slash", at)
    try:
        id.encode()
    except UnicodeEncodeError:
        raise InputError("an id cannot hold half of a surrogate pair", at) from None
    return id


def read_params(params: Any, at: str) -> JsonObject:
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise InputError("expected an object with a value for each parameter", at)
    return params


@router.get("/subscriptions", **documented("Subscriptions, page by page"))
async def index(request: Request) -> Response:
    made, caller = server(request), _subscriber(request)
    _ = made.engine
    assert made.store is not None
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
        "created_seq": item.created_seq,
    }


async def stored(made: Server, id: str, caller: Caller) -> ListedSubscription:
    """The subscription as it was committed; 404 if the caller has none."""
    _ = made.engine
    assert made.store is not None
    found = await made.store.subscription(id, caller.scope) if "\0" not in id else None
    if found is None:
        raise NotFoundError(f"there is no subscription {id[:200]!r}")
    return found


@router.get("/types", **documented("The supported subscription types"))
async def types(request: Request) -> Response:
    return answer({"types": [kind.describe() for kind in TYPES]})


@router.get("/subscriptions/{id:path}/result", **documented("The current answer"))
async def result(request: Request, id: str) -> Response:
    return answer(await server(request).call(c.Result(id, _subscriber(request).scope, ahead=True)))


@router.get("/subscriptions/{id:path}", **documented("One subscription"))
async def show(request: Request, id: str) -> Response:
    return answer(_public(await stored(server(request), id, _subscriber(request))))


@router.delete("/subscriptions/{id:path}", **documented("Delete a subscription"))
async def delete(request: Request, id: str) -> Response:
    return answer(await server(request).call(c.Delete(id, _subscriber(request).scope)))


@router.patch("/subscriptions/{id:path}", **documented("Move, suspend or resume a subscription", PATCH))
async def patch(request: Request, id: str) -> Response:
    made, caller = server(request), _subscriber(request)
    body = await json_object(request, body_limit(request))
    _only(body, ("params", "active"))
    active = body.get("active")
    if active is not None and not isinstance(active, bool):
        raise InputError("expected true or false", "/active")
    params = None if body.get("params") is None else read_params(body["params"], "/params")
    if params is None and active is None:
        raise InputError('expected "params" or "active"', "")
    return answer(await made.call(c.Patch(id, params, active, caller.scope)))
