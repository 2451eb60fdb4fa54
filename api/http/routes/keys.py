"""/v1/keys: an admin makes, lists and revokes the keys of its tenant; the operator those of all. /v1/whoami."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import json_object
from api.http.models.operation_responses import KeyDescription, KeyList, NewKeyResult, Whoami
from api.http.openapi import documented
from api.http.responses import answer, server
from api.server.following import reload_keys
from api.server.key_requests import NewKey, read_key_request
from prosem.store.keys import create_key, load_keys, revoke_key
from prosem.values.access import Caller, Role
from prosem.values.errors import NotFoundError

router = APIRouter(prefix="/v1", tags=["keys"])
_LIMIT_BYTES = 1 << 20


def _admin(request: Request) -> Caller:
    caller = caller_of(request)
    caller.check(Role.ADMIN)
    return caller


@router.get("/whoami", **documented("Tenant, roles and limits of the key that asks", returns=Whoami))
async def whoami(request: Request) -> Response:
    caller = caller_of(request)
    return answer({**caller.shown(), "operator": caller.is_operator, "open": server(request).keys.is_open})


@router.get("/keys", **documented("All keys; the keys themselves are stored nowhere", returns=KeyList))
async def index(request: Request) -> Response:
    caller = _admin(request)
    found = await asyncio.to_thread(load_keys, server(request).database.url)
    return answer(
        {"keys": [key.shown() for key in found if caller.is_operator or key.caller.tenant == caller.tenant]}
    )


@router.post(
    "/keys",
    status_code=201,
    **documented("Make a key; it is shown this once", NewKey, 201, returns=NewKeyResult),
)
async def create(request: Request) -> Response:
    caller, made = _admin(request), server(request)
    wanted = read_key_request(await json_object(request, _LIMIT_BYTES), caller.tenant)
    caller.check_may_make(wanted.tenant, wanted.limits)
    key, stored = await asyncio.to_thread(create_key, made.database.url, *wanted)
    await reload_keys(made)
    return answer({"secret": key, **stored.shown()}, 201)


@router.delete("/keys/{key}", **documented("Revoke a key; its sockets are closed", returns=KeyDescription))
async def revoke(request: Request, key: str) -> Response:
    caller, made = _admin(request), server(request)
    if not key.isascii() or not key.isdigit() or len(key) > 9:
        raise NotFoundError(f"there is no key {key[:40]!r}; keys are known by their numbers")
    tenant = None if caller.is_operator else caller.tenant
    stored = await asyncio.to_thread(revoke_key, made.database.url, int(key), tenant)
    await reload_keys(made)
    return answer(stored.shown())
