"""A publisher's stream: many requests under way on one WebSocket, answered in order.

It wins over single calls where each waits for its commit: here the next request does not wait for the answer
to the last. It loses on a bad line: what was under way when the connection broke is neither repeated nor
known, since a stream carries no idempotency keys.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from prosem_client.errors import Closed, ConnectionLost, ProsemError
from prosem_client.values import Event, JsonObject, Published, encode


class Publisher:
    """Requests on their way, each with a future of its answer; a context manager that drains.

    Invariant: the requests not yet answered are `_waiting`, in the order they were sent; they are at most
    `in_flight`, and `send` waits while there are that many.
    """

    def __init__(self, open_socket: Callable[[], Awaitable[ClientConnection]], in_flight: int = 256) -> None:
        self._open_socket = open_socket
        self._slots = asyncio.Semaphore(in_flight)
        self._writing = asyncio.Lock()
        self._waiting: deque[tuple[int, int, asyncio.Future[Published]]] = deque()
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._failure: ProsemError | None = None
        self._tag = 0
        self._is_closed = False

    async def send(self, table: str, events: Sequence[Event]) -> asyncio.Future[Published]:
        """Put a request on its way (all of its events, or none). The future gives its seqs or its refusal."""
        self._tag += 1
        is_waiting = False
        tag, text = self._tag, encode({"table": table, "events": events, "tag": self._tag})
        future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        await self._slots.acquire()
        try:
            async with self._writing:
                socket = await self._connected()
                self._waiting.append((tag, len(events), future))
                is_waiting = True
                await self._write(socket, text)
        finally:
            if not is_waiting:  # else the slot is freed by the answer
                self._slots.release()
        return future

    async def publish(self, table: str, events: Sequence[Event]) -> Published:
        """Send, and wait for the answer."""
        return await (await self.send(table, events))

    async def drain(self) -> None:
        """Until everything sent is answered; raises the first failure since the last drain."""
        waiting = [future for _, _, future in self._waiting]
        await asyncio.gather(*waiting, return_exceptions=True)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Close the socket; what is not answered fails with ConnectionLost."""
        self._is_closed = True
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.drain()
        finally:
            await self.close()

    # -- inside ----------------------------------------------------------------------------------------------
    async def _connected(self) -> ClientConnection:
        if self._is_closed:
            raise Closed("the publisher was closed by its user")
        if self._socket is None:
            try:
                self._socket = await self._open_socket()
            except (OSError, TimeoutError, WebSocketException) as error:
                raise ConnectionLost(f"the publisher's stream cannot be opened: {error}") from None
            self._reader = asyncio.get_running_loop().create_task(self._read(self._socket))
        return self._socket

    async def _write(self, socket: ClientConnection, text: str) -> None:
        with suppress(ConnectionClosed):  # the reader tells every request that waits
            await socket.send(text)

    async def _read(self, socket: ClientConnection) -> None:
        reason = "the server closed the publisher's stream"
        try:
            async for text in socket:
                self._answered(json.loads(text))
        except (OSError, WebSocketException, LookupError, ValueError, TypeError) as error:
            reason = f"the publisher's stream broke: {error}"
        finally:
            self._socket = None
            while self._waiting:
                _, _, future = self._waiting.popleft()
                self._slots.release()
                self._fail(future, ConnectionLost(f"{reason}; whether the request was applied is unknown"))
            await socket.close()

    def _answered(self, answer: JsonObject) -> None:
        tag, count, future = self._waiting[0]
        if answer["tag"] != tag:
            raise ValueError(f"the answer to request {tag} should come next, but it is {str(answer)[:200]}")
        self._waiting.popleft()
        self._slots.release()
        if "error" in answer:
            self._fail(future, ProsemError.of_problem(answer["error"]))
        elif not future.done():  # else its user has cancelled the wait
            future.set_result(Published(answer["first_seq"], answer["last_seq"], count))

    def _fail(self, future: asyncio.Future[Published], error: ProsemError) -> None:
        """Fail the future, and remember it for `drain`: a future that is never awaited is not reported again."""
        self._failure = self._failure or error
        if not future.done():
            future.set_exception(error)
            future.exception()
