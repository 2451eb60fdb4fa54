"""POST /v1/tables/{table}/events and POST /v1/events: one transaction per JSON request, batches for NDJSON."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from api.http.access import caller_of
from api.http.bodies import body, body_limit, lines
from api.http.event_bodies import table_events, transaction_events
from api.http.json_slices import decode
from api.http.models.events import Events, Transaction
from api.http.models.responses import Published
from api.http.openapi import documented
from api.http.responses import answer, server
from api.server.running import RunningServer
from prosem.engine import commands as c
from prosem.engine.validate import known_table
from prosem.values.access import Caller, Role
from prosem.values.errors import (
    BusyError,
    InputError,
    LimitError,
    MalformedError,
    ProsemError,
    UnknownOutcomeError,
)
from prosem.values.model import JsonObject

router = APIRouter(tags=["events"])
NDJSON_LINES = 1_000
NDJSON_BYTES = 1 << 20


@router.post("/v1/tables/{table:path}/events", **documented("Publish events", Events, returns=Published))
async def publish(request: Request, table: str) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    key = _hashed(request.headers.get("idempotency-key"), caller.tenant)
    if request.headers.get("content-type", "").split(";")[0].strip().lower() == "application/x-ndjson":
        async with _alone(made, key):
            stored = await _stored(made, key)
            if stored is not None and stored[1]:
                return answer(stored[0])
            known_table(made.view.tables(caller.tenant), table)
            feed = EventReader(made, caller, table, key, stored[0] if stored else None)
            return await _ndjson(feed, request)
    text = await body(request, body_limit(request))
    events = await table_events(made, caller, table, text)
    async with _alone(made, key):  # not before the body is complete: it may never be
        stored = await _stored(made, key)
        if stored is not None and stored[1]:
            return answer(stored[0])
        idempotency = c.Idempotency(key) if key else None
        command = c.Publish(table, events, idempotency, scope=caller.scope, size_bytes=len(text))
        made.keys.usage.spend(caller, len(command.events))
        return answer(await made.call(command, request.headers.get("traceparent", "")))


@router.post(
    "/v1/events",
    **documented("Publish events of any tables as one transaction", Transaction, returns=Published),
)
async def transact(request: Request) -> Response:
    made, caller = server(request), caller_of(request)
    caller.check(Role.PUBLISHER)
    key = _hashed(request.headers.get("idempotency-key"), caller.tenant)
    text = await body(request, body_limit(request))
    events = await transaction_events(made, caller, text)
    async with _alone(made, key):  # not before the body is complete: it may never be
        stored = await _stored(made, key)
        if stored is not None:
            return answer(stored[0])
        command = c.Transact(events, c.Idempotency(key) if key else None, caller.scope, len(text))
        made.keys.usage.spend(caller, len(command.events))
        return answer(await made.call(command, request.headers.get("traceparent", "")))


# -- idempotency ---------------------------------------------------------------------------------------------------
def _hashed(key: str | None, tenant: str) -> str | None:
    return hashlib.sha256(f"{tenant}\0{key}".encode()).hexdigest() if key else None


@contextlib.asynccontextmanager
async def _alone(made: RunningServer, key: str | None) -> AsyncIterator[None]:
    """Requests with one key wait for each other: the second finds the answer of the first."""
    if key is None:
        yield
        return
    locks: dict[str, list[Any]] = made.idempotency_locks
    entry = locks.setdefault(key, [asyncio.Lock(), 0])
    entry[1] += 1
    try:
        async with entry[0]:
            yield
    finally:
        entry[1] -= 1
        if not entry[1]:
            del locks[key]


async def _stored(made: RunningServer, key: str | None) -> tuple[JsonObject, bool] | None:
    """The answer this key had before, and whether it was complete (a long NDJSON body may have been cut off)."""
    if key is None:
        return None
    found = await made.store.idempotency(key)
    if found is None:
        return None
    stored, done, _lines = found
    return msgspec.json.decode(stored or b"{}"), done


# -- NDJSON --------------------------------------------------------------------------------------------------------
async def _ndjson(feed: EventReader, request: Request) -> Response:
    """Commit a body of any size chunk by chunk; stops at the first bad line, having committed those before it."""
    try:
        async for whole in lines(request, body_limit(request)):
            for line in whole:
                await feed.take(line)
        await feed.flush(last=True)
    except UnknownOutcomeError:
        raise
    except ProsemError as error:
        if not feed.count:
            raise
        return answer(feed.answer(error))  # what was committed before stays, and the answer says how much
    if not feed.count:
        raise InputError("the body holds no event; send one JSON object a line", "")
    return answer(feed.answer())


class EventReader:
    """The state of one NDJSON body. With an idempotency key, lines committed by an earlier try are skipped."""

    def __init__(
        self, made: RunningServer, caller: Caller, table: str, key: str | None, before: JsonObject | None
    ) -> None:
        self._made, self._caller, self._table, self._key = made, caller, table, key
        self._skip = before["count"] if before else 0
        self._first: int | None = before["first_seq"] if before else None
        self._last: int | None = before["last_seq"] if before else None
        self.count = self._skip  # lines committed
        self._batches: list[int] = before.get("batches", []) if before else []  # the last seq of each
        self._line = 0  # lines seen
        self._events: list[Any] = []
        self._bytes = 0

    def answer(self, error: ProsemError | None = None) -> JsonObject:
        found: JsonObject = {
            "first_seq": self._first,
            "last_seq": self._last,
            "count": self.count,
            "batches": self._batches,
        }
        return found if error is None else found | {"errors": [_shown(error)]}

    async def take(self, line: bytes) -> None:
        number, self._line = self._line, self._line + 1
        if number < self._skip:
            return
        try:
            event = decode(line)
        except MalformedError as error:
            error.at = f"/{number}"
            await self.flush(last=True, before=error)
            raise
        self._events.append(event)
        self._bytes += len(line)
        if len(self._events) >= NDJSON_LINES or self._bytes >= NDJSON_BYTES:
            await self.flush()

    async def flush(self, last: bool = False, before: ProsemError | None = None) -> None:
        """Commit what has gathered: all of it, or what comes before the first bad line. `before`: the line after it."""
        if not self._events:
            return
        events, self._events, self._bytes = self._events, [], 0
        try:
            await self._commit(events, last, before)
        except UnknownOutcomeError:
            raise
        except BusyError as error:
            error.at = f"/{self.count}"
            raise
        except ProsemError as error:
            good, first = _number(error), self.count
            error.at = f"/{first + good}" + error.at.removeprefix(f"/{good}") if error.at else f"/{first}"
            if good:
                await self._commit(events[:good], True, error)
            raise

    async def _commit(self, events: list[Any], last: bool, error: ProsemError | None) -> None:
        idempotency = None
        if self._key is not None:
            errors = () if error is None else (_shown(error),)
            idempotency = c.Idempotency(
                self._key, self.count, self._first, last, errors, tuple(self._batches)
            )
        command = c.Publish(self._table, events, idempotency, "", self._caller.scope)
        while True:
            try:
                self._made.keys.usage.spend(self._caller, len(events))
                break
            except LimitError as error:
                await asyncio.sleep(error.retry_after_s)  # the body is read no further meanwhile
        while True:
            try:
                got = await self._made.call(command)
                break
            except BusyError as error:
                if error.code != "busy":
                    raise
                await asyncio.sleep(0.05)  # back-pressure: the body is read no further meanwhile
        self.count += len(events)
        self._first = got["first_seq"] if self._first is None else self._first
        self._last = got["last_seq"]
        self._batches.append(got["last_seq"])


def _shown(error: ProsemError) -> JsonObject:
    return {"at": error.at, "detail": error.detail}


def _number(error: ProsemError) -> int:
    """The number of the event an error points at ("/17/row/per")."""
    first = (error.at or "").split("/")[1:2]
    return int(first[0]) if first and first[0].isdigit() else 0
