"""Transactions on their way to the server: several under way, each a request of its own, answered in order.

They travel as frames of one WS /v1/publish, so that the server commits together those that arrive together. Invariant:
`waiting` is a chain; each transaction continues the position of the one before it, and the server takes none out of order
(target.py). Whatever goes wrong is handled in one way: the server is asked how far it is, what it has is dropped, the next
one is sent alone by POST, which explains a refusal, and a new stream begins after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from api.attach.progress import Progress
from api.attach.target import Target, Transaction
from prosem.runtime.supervise import end
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.attach")
IN_FLIGHT = 64
IN_FLIGHT_BYTES = 1 << 20
ALONE_BYTES = 256 << 10  # a larger transaction is a request by POST, with nothing else under way
BACKLOG = 2_000
BACKLOG_BYTES = 16 << 20


class StreamError(Exception):
    """The stream ended, or a frame was refused."""


class Sender:
    """Used by one event loop. `run` ends by an error only: SetupError, or StoppedError of `target.waiting`."""

    def __init__(self, target: Target, progress: Progress) -> None:
        self._target, self._progress = target, progress
        self.waiting: deque[Transaction] = deque()  # not acknowledged, in order
        self._under_way = 0  # of these, how many were sent on the current stream
        self._bytes = self._bytes_under_way = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def tail(self) -> int:
        """Where the last transaction ends."""
        return self.waiting[-1].end if self.waiting else self._target.position or 0

    def put(self, transaction: Transaction) -> None:
        self.waiting.append(transaction)
        self._bytes += transaction.size
        self._changed.set()

    async def room(self) -> None:
        """Until there is room for more."""
        while len(self.waiting) >= BACKLOG or self._bytes >= BACKLOG_BYTES:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        while True:
            try:
                await self._stream()
            except (OSError, TimeoutError, WebSocketException, StreamError) as error:
                log.info("the stream to the server ended: %s", str(error) or type(error).__name__)
            await self._recover()

    # -- the stream ----------------------------------------------------------------------------------------------
    async def _stream(self) -> None:
        self._under_way = self._bytes_under_way = 0
        async with connect(
            "ws" + self._target.url.rstrip("/").removeprefix("http") + "/v1/publish",
            additional_headers=self._target.headers,
            proxy=None,
            ssl=self._target.tls,
            open_timeout=10.0,
            close_timeout=1.0,
            max_size=None,
            compression=None,
        ) as socket:
            reading = asyncio.create_task(self._read(socket))
            reading.add_done_callback(lambda _: self._changed.set())
            try:
                while not reading.done():
                    self._changed.clear()
                    if not await self._send_next(socket):
                        await self._changed.wait()
                reading.result()
            finally:
                await end(reading)

    async def _send_next(self, socket: ClientConnection) -> bool:
        """False if nothing can be sent now."""
        transaction = next(islice(self.waiting, self._under_way, None), None)
        if transaction is None:
            return False
        if transaction.size > ALONE_BYTES:
            if self._under_way:
                return False
            await self._send_alone(transaction)
            return True
        if self._under_way >= IN_FLIGHT or self._bytes_under_way >= IN_FLIGHT_BYTES:
            return False
        self._under_way += 1
        self._bytes_under_way += transaction.size
        await socket.send(self._target.request(transaction), text=True)
        return True

    async def _read(self, socket: ClientConnection) -> None:
        async for text in socket:
            answer = msgspec.json.decode(text)
            if "error" in answer:
                raise StreamError(answer["error"].get("detail"))
            if not self._under_way:
                raise StreamError("an answer to nothing")
            self._under_way -= 1
            self._bytes_under_way -= self.waiting[0].size
            self._acknowledged(self.waiting[0])
        raise StreamError("the server closed it")

    # -- one alone -----------------------------------------------------------------------------------------------
    async def _send_alone(self, transaction: Transaction) -> None:
        await asyncio.to_thread(self._target.apply, transaction)
        self._acknowledged(transaction)

    async def _recover(self) -> None:
        """Take up the chain where the server is."""
        chain = [transaction.end for transaction in self.waiting]
        before = self._target.position
        await asyncio.to_thread(self._target.refresh)
        position = self._target.position
        if position != before and position not in chain and not self._target.was_asked(position):
            raise SetupError("another prosem attach has gone on with this slot; only one may run")
        while self.waiting and self.waiting[0].end <= (position or 0):
            self._acknowledged(self.waiting[0])
        if self.waiting:
            await self._send_alone(self.waiting[0])

    def _acknowledged(self, transaction: Transaction) -> None:
        assert self.waiting[0] is transaction
        self.waiting.popleft()
        self._bytes -= transaction.size
        if transaction.end >= (self._target.position or 0):
            self._target.applied(transaction)
        progress = self._progress
        progress.position, progress.state = self._target.position or 0, "following"
        if transaction.at is not None:
            progress.transactions += 1
            progress.events += len(transaction.events)
            progress.committed = transaction.at
        self._changed.set()
        self._room.set()
