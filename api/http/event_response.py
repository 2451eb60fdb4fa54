"""A response of Server-Sent Events, attached before it begins: an unknown subscription is a 404, by the engine's order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
from fastapi import Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.server.keyring import Keys
from prosem.delivery.subscriber import Item, Subscriber
from prosem.values.access import Caller

HEARTBEAT_S = 15.0


class EventStream(StreamingResponse):
    """`write` makes an event of an item."""

    def __init__(self, keys: Keys, subscriber: Subscriber, write: Callable[[Item], bytes]) -> None:
        super().__init__(
            self._events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )
        self._keys, self._subscriber, self._write = keys, subscriber, write
        self._registered = contextlib.ExitStack()
        self._first: list[Item] | None = None

    async def opened(
        self, caller: Caller, token: str | None, attach: Callable[[Subscriber], None]
    ) -> Response:
        """This response once the stream is attached, or the one that says why it cannot be."""
        try:
            self._registered.enter_context(self._keys.usage.socket(caller, self._subscriber.close))
            await self._keys.caller(token)  # a key revoked before the stream was registered
            attach(self._subscriber)
            self._subscriber.ping()  # the pong comes even where there is nothing to send
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    self._first = await self._subscriber.fetch()
        except BaseException:
            self._close()
            raise
        refused = next((item for item in self._first or () if item.kind == "error"), None)
        if refused is None:
            return self
        self._close()
        status = msgspec.json.decode(refused.body)["status"]
        headers = {"Retry-After": "1"} if status == 503 else None
        return Response(refused.body, status, headers, "application/problem+json")

    def _close(self) -> None:
        self._registered.close()
        self._subscriber.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()  # also when the client left before the first event

    async def _events(self) -> AsyncIterator[bytes]:
        yield b": connected\n\n"
        items, self._first = self._first, None
        while True:
            if items is None:
                yield b": alive\n\n"
            elif not items:
                return  # closed: the key was revoked
            else:
                yield b"".join(map(self._write, items))
                if any(item.kind == "error" for item in items):
                    return
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    items = await self._subscriber.fetch()
            except TimeoutError:
                items = None
