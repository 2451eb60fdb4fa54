"""WS /v1/publish: a publisher's stream of requests, one per frame. Responses that are known together are one write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from decimal import Decimal
from typing import Any

import msgspec
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from msgspec import UNSET

from api.http.access import Disconnected, attend, received
from api.http.event_bodies import events_of, typed_table_events, typed_transaction_events
from api.http.json_slices import decode_large
from api.http.websocket_frames import send_all
from api.server.command_port import awaited
from api.server.lifetime import ServerLifetime
from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.values.access import Caller, Role
from prosem.values.errors import BusyError, InputError, ProsemError, UnknownOutcomeError

log = logging.getLogger("prosem.publish")
router = APIRouter(tags=["events"])
IN_FLIGHT = 64
Outcome = tuple[Any, "Future[Any] | ProsemError"]  # the tag of a frame, and what became of it


class _Head(msgspec.Struct):
    """A frame without its events."""

    op: Any = UNSET
    table: Any = UNSET
    tag: Any = None


_head = msgspec.json.Decoder(_Head, float_hook=Decimal).decode
_WRONG = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)


@router.websocket("/v1/publish")
async def publish_stream(socket: WebSocket) -> None:
    """Many requests may be under way; the responses come in their order."""
    made: ServerLifetime = socket.app.state.server
    await attend(socket, made.keys, Role.PUBLISHER, lambda caller: _publish_all(made.running, caller, socket))


async def _publish_all(made: RunningServer, caller: Caller, socket: WebSocket) -> None:
    outcomes: asyncio.Queue[Outcome | None] = asyncio.Queue(IN_FLIGHT)
    sender = asyncio.create_task(_respond(socket, outcomes))
    try:
        while True:
            outcome = await _begin(made, caller, await socket.receive())
            if outcome is not None:
                await outcomes.put(outcome)
    except (Disconnected, WebSocketDisconnect):
        pass
    finally:
        await outcomes.put(None)
        await asyncio.gather(sender, return_exceptions=True)


# -- requests ------------------------------------------------------------------------------------------------------
async def _begin(made: RunningServer, caller: Caller, message: Any) -> Outcome | None:
    """Put one frame's events into the order; a future, or the error that stops it. None: there is nothing to answer."""
    tag = None
    try:
        text = received(message, caller.limits.frame_bytes)
        head = _typed(made, caller, text)
        if head is None:
            frame = await decode_large(text)
            if not isinstance(frame, dict):
                raise InputError('expected a frame like {"table": …, "events": […]}', "")
            if frame.get("op") == "authenticate":
                return None  # by a client that need not have
            tag = frame.get("tag")
            table, events = _plain(frame)
        else:
            tag, table, events = head
        command: c.Publish | c.Transact = (
            c.Transact(events, scope=caller.scope, size_bytes=len(text))
            if table is None
            else c.Publish(table, events, scope=caller.scope, size_bytes=len(text))
        )
        made.keys.usage.spend(caller, len(events))
        while True:
            try:
                return tag, made.submit(command)
            except BusyError as error:
                if error.code != "busy":
                    raise
                await asyncio.sleep(0.02)
    except ProsemError as error:
        return tag, error


def _typed(
    made: RunningServer, caller: Caller, text: bytes | str
) -> tuple[Any, str | None, Sequence[Any]] | None:
    """The tag, the table and the events of a frame; None if it must be read one by one."""
    try:
        head = _head(text)
    except _WRONG:
        return None
    if head.op is not UNSET:
        return None
    if head.table is UNSET:
        table, events = None, typed_transaction_events(made, caller, text)
    elif isinstance(head.table, str):
        table, events = head.table, typed_table_events(made, caller, head.table, text)
    else:
        return None
    return None if events is None else (head.tag, table, events)


def _plain(frame: dict[str, Any]) -> tuple[str | None, Sequence[Any]]:
    """Events of one table, or, without "table", events that name their tables, as in POST /v1/events."""
    if "table" not in frame:
        return None, events_of(frame)
    if not isinstance(frame["table"], str):
        raise InputError("expected the name of a table", "/table")
    return frame["table"], events_of(frame)


# -- responses -----------------------------------------------------------------------------------------------------
async def _respond(socket: WebSocket, outcomes: asyncio.Queue[Outcome | None]) -> None:
    """Send the responses in order, those that are known at a time together."""
    known: list[bytes] = []
    is_broken = False
    while (item := await outcomes.get()) is not None:
        tag, outcome = item
        try:
            if isinstance(outcome, ProsemError):
                raise outcome
            if not outcome.done():
                known = await _send(socket, known)
            frame = {"tag": tag} | await awaited(outcome)
        except UnknownOutcomeError:
            is_broken = True  # no response would be true, and those after it would be out of order
            known = await _send(socket, known)
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(1012)
        except ProsemError as error:
            frame = {"tag": tag, "error": error.problem()}
        except Exception:
            log.exception("a request cannot be answered; its client is to connect again")
            is_broken, known = True, []
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(1011)
        if not is_broken:
            known.append(msgspec.json.encode(frame, enc_hook=float))
        if outcomes.empty():
            known = await _send(socket, known)
    await _send(socket, known)


async def _send(socket: WebSocket, frames: list[bytes]) -> list[bytes]:
    """Send them, unless the socket is gone; what is left to be sent, which is nothing."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        await send_all(socket, frames)
    return []
