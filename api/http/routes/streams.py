"""WS /v1/stream and GET /v1/subscriptions/{id}/stream: what changes, as it changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Protocol

from fastapi import APIRouter, Request, Response, WebSocket, WebSocketDisconnect

from api.http.access import Disconnected, attend, caller_of, received
from api.http.event_response import EventStream
from api.http.event_stream import event, last_event, plain_event
from api.http.json_slices import decode_large
from api.http.openapi import documented
from api.http.websocket_frames import send_all
from api.server.keyring import Keys
from prosem.delivery.stream_frames import frames
from prosem.delivery.subscriber import Subscriber
from prosem.runtime.slices import TimeSlice
from prosem.runtime.supervise import end
from prosem.values.access import Caller, Role, Scope
from prosem.values.errors import InputError, ProsemError

log = logging.getLogger("prosem.streams")
router = APIRouter(tags=["streams"])


class Listening(Protocol):
    """What holds sockets: the server, or a broker."""

    @property
    def keys(self) -> Keys: ...

    def subscriber(self, scope: Scope) -> Subscriber: ...


@router.websocket("/v1/stream")
async def stream(socket: WebSocket) -> None:
    made: Listening = socket.app.state.server
    await attend(socket, made.keys, Role.SUBSCRIBER, lambda caller: _serve(made, caller, socket))


async def _serve(made: Listening, caller: Caller, socket: WebSocket) -> None:
    subscriber = made.subscriber(caller.scope)
    sender = asyncio.create_task(_send(socket, subscriber))
    turn = TimeSlice()
    try:
        while True:
            while subscriber.is_full and not sender.done():
                await asyncio.sleep(0.05)
            message = await socket.receive()
            try:
                _handle(subscriber, await decode_large(received(message, caller.limits.frame_bytes)))
            except ProsemError as error:
                subscriber.error(error)
            await (
                turn.over()
            )  # thousands of frames may have come at once, and taking one that is there waits for nothing
    except Disconnected:
        pass
    finally:
        subscriber.close()
        await end(sender)


async def _send(socket: WebSocket, subscriber: Subscriber) -> None:
    try:
        while items := await subscriber.fetch():
            await send_all(socket, frames(items))
    except Exception as error:
        if not isinstance(error, WebSocketDisconnect | RuntimeError):  # these: the client has gone
            log.exception("a stream cannot go on; its client is to connect again")
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.close(1011)


def _handle(subscriber: Subscriber, given: Any) -> None:
    if not isinstance(given, dict):
        raise InputError('expected a frame like {"op": "attach", "id": …}', "")
    op = given.get("op")
    if op == "ping":
        subscriber.ping()
    elif op == "authenticate":
        pass  # by a client that need not have
    elif op == "attach":
        _attach(subscriber, given)
    elif op == "detach":
        subscriber.detach(_id(given))
    else:
        raise InputError(f"unknown op {op!r}; it is attach, detach or ping", "/op")


def _attach(subscriber: Subscriber, given: dict[str, Any]) -> None:
    after, raw = _after(given.get("after")), given.get("raw", False)
    if not isinstance(raw, bool):
        raise InputError("expected true or false", "/raw")
    if raw and after is not None:
        raise InputError('a raw stream always begins with its state; leave "after" out', "/after")
    timeline = given.get("timeline")
    if timeline is not None and not isinstance(timeline, str):
        raise InputError("expected the timeline that the seq is of, a text", "/timeline")
    follows = given.get("redirects", False)
    if not isinstance(follows, bool):
        raise InputError("expected true or false", "/redirects")
    subscriber.attach(_id(given), after, timeline, raw=raw, follows=follows)


def _id(given: dict[str, Any]) -> str:
    id = given.get("id")
    if not isinstance(id, str):
        raise InputError("expected the id of a subscription", "/id")
    return id


def _after(after: Any) -> int | None:
    if after is None or (type(after) is int and 0 <= after < 2**63):
        return after
    raise InputError("expected a seq, a whole number", "/after")


@router.get(
    "/v1/subscriptions/{id:path}/stream",
    **documented(
        "The changes as Server-Sent Events",
        timeline="of a plain seq in Last-Event-ID; if given, even empty, the ids of events name their timeline",
    ),
)
async def events(request: Request, id: str) -> Response:
    made: Listening = request.app.state.server
    caller = caller_of(request)
    caller.check(Role.SUBSCRIBER)
    named = request.query_params.get("timeline")
    after, timeline = last_event(request.headers.get("last-event-id"), named)
    made.keys.usage.check_room(caller)
    stream = EventStream(made.keys, made.subscriber(caller.scope), plain_event if named is None else event)
    return await stream.opened(caller, request.state.token, lambda sink: sink.attach(id, after, timeline))
