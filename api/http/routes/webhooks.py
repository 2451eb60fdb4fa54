"""/v1/webhooks: changes that are posted to an address, and what could not be delivered."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body_limit, json_object
from api.http.models.operation_responses import (
    DeadLetter,
    DeadLetterList,
    DeletedWebhook,
    DiscardedDelivery,
    Redelivered,
    WebhookDetails,
    WebhookList,
)
from api.http.openapi import documented
from api.http.responses import answer, server
from api.webhooks.requests import NewWebhook, Redelivery, webhook_request
from api.webhooks.service import WebhookService
from prosem.values.access import Caller, Role
from prosem.values.errors import InputError, NotFoundError
from prosem.values.request_model import read

router = APIRouter(prefix="/v1", tags=["webhooks"])


def _caller(request: Request) -> tuple[Caller, WebhookService]:
    caller = caller_of(request)
    caller.check(Role.SUBSCRIBER)
    return caller, server(request).webhooks


@router.post(
    "/webhooks",
    status_code=201,
    **documented("Post changes to an address", NewWebhook, 201, returns=WebhookDetails),
)
async def create(request: Request) -> Response:
    caller, webhooks = _caller(request)
    requested = webhook_request(await json_object(request, body_limit(request)))
    made = server(request)
    durable = await made.store.durability(requested.subscriptions, caller.scope)
    for id in requested.subscriptions:
        if id not in durable:
            raise NotFoundError(f"there is no subscription {id[:200]!r}", requested.at(id))
        if not durable[id]:
            raise InputError(
                f"the subscription {id[:200]!r} is not durable, so it cannot outlive a restart",
                requested.at(id),
            )
    return answer(await webhooks.create(caller, requested), 201)


@router.get(
    "/webhooks",
    **documented("The webhooks of the key, for an admin those of its tenant", returns=WebhookList),
)
async def index(request: Request) -> Response:
    caller, webhooks = _caller(request)
    limit, after = request.query_params.get("limit", "100"), request.query_params.get("after", "")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= 1_000:
        raise InputError("expected a number from 1 to 1000", "/limit")
    if "\0" in after:
        raise InputError("an id holds no NUL", "/after")
    return answer({"webhooks": await webhooks.page(caller, after, int(limit[:9]))})


@router.get(
    "/webhooks/{id}",
    **documented("One webhook: how far it has come, and what is under way", returns=WebhookDetails),
)
async def show(request: Request, id: str) -> Response:
    caller, webhooks = _caller(request)
    return answer(await webhooks.show(caller, id))


@router.delete(
    "/webhooks/{id}", **documented("Delete a webhook; nothing more is sent", returns=DeletedWebhook)
)
async def delete(request: Request, id: str) -> Response:
    caller, webhooks = _caller(request)
    return answer(await webhooks.delete(caller, id))


@router.get(
    "/webhooks/{id}/dead-letters",
    **documented("Deliveries that were given up, oldest first", returns=DeadLetterList),
)
async def dead_letters(request: Request, id: str) -> Response:
    caller, webhooks = _caller(request)
    return answer({"dead_letters": await webhooks.dead_letters(caller, id)})


@router.post(
    "/webhooks/{id}/dead-letters/redeliver",
    **documented("Deliver dead letters again", Redelivery, returns=Redelivered),
)
async def redeliver(request: Request, id: str) -> Response:
    caller, webhooks = _caller(request)
    given = read(Redelivery, await json_object(request, body_limit(request)))
    return answer({"count": await webhooks.redeliver(caller, id, given.deliveries)})


@router.get(
    "/webhooks/{id}/dead-letters/{delivery}", **documented("A dead letter with its body", returns=DeadLetter)
)
async def dead_letter(request: Request, id: str, delivery: str) -> Response:
    caller, webhooks = _caller(request)
    found = await webhooks.dead_letter(caller, id, delivery)
    return answer({**found.shown(), "body": msgspec.Raw(found.body)})


@router.delete(
    "/webhooks/{id}/dead-letters/{delivery}", **documented("Discard a dead letter", returns=DiscardedDelivery)
)
async def discard(request: Request, id: str, delivery: str) -> Response:
    caller, webhooks = _caller(request)
    await webhooks.discard(caller, id, delivery)
    return answer({"delivery": delivery, "discarded": True})
