"""Sockets that outlive their broker: a client of `WS /v1/stream` that attaches again elsewhere, before one that does not.

The acceptance kit opens one socket and expects it to last. Here each of its sockets is carried by one at a broker after
another. When a broker is killed, all streams are attached at the next one, each after what it was last given, as clients do;
so the kit compares what arrives over both sockets as if it were one. Progress of a new socket is passed on when its streams
are attached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from prosem.runtime.supervise import end

RETRY_S = 0.1


class Carried:
    """One socket of a client; `addresses` are of brokers, tried one after another. `resumed` is called when one is lost."""

    def __init__(
        self, client: ServerConnection, addresses: Iterator[str], resumed: Callable[[], None]
    ) -> None:
        self._client, self._addresses, self._resumed = client, addresses, resumed
        self.address, self.changes = "", 0  # of the broker that it is at, and given by it
        self._broker: ClientConnection | None = None
        self._attaches: dict[str, dict[str, Any]] = {}  # as they are to be sent again, by id
        self._pings = 0  # without a pong
        self._lock = asyncio.Lock()

    async def carry(self) -> None:
        """Until the client leaves."""
        sending = asyncio.create_task(self._send_all())
        carrying = asyncio.create_task(self._carry_from_brokers())
        await asyncio.wait((sending, carrying), return_when=asyncio.FIRST_COMPLETED)
        await end(sending, carrying)

    async def _send_all(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in self._client:
                async with self._lock:
                    self._note_sent(text)
                    if self._broker is not None:
                        with contextlib.suppress(ConnectionClosed):
                            await self._broker.send(text)

    async def _carry_from_brokers(self) -> None:
        for address in self._addresses:
            self.address, self.changes = address, 0
            with contextlib.suppress(OSError, WebSocketException):
                async with connect(address, max_size=None, proxy=None) as broker:
                    async with self._lock:
                        pings = [{"op": "ping"}] * (1 + self._pings)
                        for frame in (*self._attaches.values(), *pings):
                            await broker.send(json.dumps(frame))
                        self._broker = broker
                    with contextlib.suppress(ConnectionClosed):
                        await self._receive_all(broker)
                    self._resumed()
            self._broker = None
            await asyncio.sleep(RETRY_S)

    async def _receive_all(self, broker: ClientConnection) -> None:
        is_attached, held = False, ""
        async for text in broker:
            frame = json.loads(text)
            if not is_attached and "pong" in frame:
                is_attached = True
                text = held
            elif not is_attached and "progress" in frame:
                held = str(text)
                continue
            else:
                self._note_received(frame)
            if text:
                await self._client.send(text)

    def _note_sent(self, text: str | bytes) -> None:
        try:
            frame = json.loads(text)
            op, id = frame["op"], frame.get("id")
        except (ValueError, LookupError, TypeError, AttributeError):
            return  # the broker will say what is wrong with it
        if op == "attach":
            self._attaches[id] = frame
        elif op == "detach":
            self._attaches.pop(id, None)
        elif op == "ping":
            self._pings += 1

    def _note_received(self, frame: dict[str, Any]) -> None:
        id = frame.get("id")
        if "pong" in frame:
            self._pings -= 1
        elif "error" in frame:
            self._attaches.pop(str(id), None)
        elif id in self._attaches:
            self._attaches[id] = {"op": "attach", "id": id, "after": frame["seq"]}
            self.changes += "change" in frame
