"""One listener (a socket or an event stream) with its bounded queue.

Everything happens on the loop's thread. Frames wait in the queue until the transport fetches them with `fetch`. When the
queue is full, in frames or in bytes, the listener lags: it takes nothing more, and once the transport has emptied the
queue every stream is attached again after the last seq it was given; the outbox supplies the rest. So memory is bounded, no
other listener waits, and a replay longer than the queue comes in pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from prosem.delivery.edge import Edge, Stream
from prosem.engine import commands as c
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import by_turns
from prosem.values.access import WHOLE, Scope
from prosem.values.errors import BusyError, NotFoundError, ProsemError, UnknownOutcomeError
from prosem.values.wire import encode

BURSTS = 4  # changes of every stream that may wait, where that is more than the capacity
CHANGE_BYTES = 256  # of such a change, as a rule
LONGEST_RETRY_S = 5
_new = tuple.__new__  # a third quicker than calling the class of a named tuple


class Item(NamedTuple):
    """`kind`: snapshot, change, error, redirect, pong or progress; `body` is encoded JSON."""

    kind: str
    id: str | None
    seq: int
    body: bytes
    timeline: str = ""  # that `seq` is of
    head: bytes = b""  # of a stream: how its frames begin


class Subscriber:
    """`submit` puts a command into the engine's order; its future is resolved on the loop's thread."""

    def __init__(
        self,
        edge: Edge,
        submit: Callable[[c.Command], Future[Any]],
        metrics: Metrics,
        capacity: int = 10_000,
        scope: Scope = WHOLE,
        capacity_bytes: int = 8 << 20,
    ) -> None:
        self._edge, self._submit, self._metrics, self._capacity = edge, submit, metrics, capacity
        self._scope, self._capacity_bytes = scope, capacity_bytes
        self._bytes = 0  # of the bodies in the queue
        self._queue: deque[Item] = deque()
        self._streams: dict[str, Stream] = {}
        self._raw: set[str] = set()  # ids whose streams receive messages
        self._waiting: dict[str, int] = {}  # id → token of the attach under way
        self._tokens = 0
        self._held_pongs = 0
        self._progress = self._reported = 0
        self._timeline = edge.timeline  # that `_progress` is of
        self._lag_floor = 0, ""  # where the edge was when it began to lag
        self.is_lagging = False
        self._is_closed = False
        self._wake = asyncio.Event()
        edge.open(self)

    # -- what the client asks for --------------------------------------------------------------------------------
    def attach(
        self,
        id: str,
        after: int | None,
        timeline: str | None = None,
        *,
        raw: bool = False,
        follows: bool = False,
    ) -> None:
        """Start a stream; the outcome comes as frames. A raw one receives messages, and always begins with its state.

        `timeline`: that `after` is of (None: the present one). `follows`: the outcome may be a redirect, to the address
        where the client is to attach instead; a stream that has begun is never redirected.
        """
        (self._raw.add if raw else self._raw.discard)(id)
        self._start(id, after, timeline, follows and id not in self._streams)

    def _start(self, id: str, after: int | None, timeline: str | None, follows: bool = False) -> None:
        self._ask(id, self._expect(id), after, timeline, follows)

    def _expect(self, id: str) -> int:
        """The token of an attach that is asked for now or soon: until its outcome there is no progress."""
        self._tokens += 1
        self._waiting[id] = self._tokens
        return self._tokens

    def _ask(self, id: str, token: int, after: int | None, timeline: str | None, follows: bool) -> None:
        after = None if id in self._raw else after
        try:
            future = self._submit(c.Attach(id, after, self, token, self._scope, timeline, follows))
        except BusyError as error:
            if id in self._streams or after is not None:
                self._retry_later(id, token, error, lambda: self._start(id, after, timeline, follows))
            else:
                self._refused(id, token, error)
            return
        future.add_done_callback(
            lambda done: self._answered(id, token, done, lambda: self._start(id, after, timeline, follows))
        )

    def _answered(self, id: str, token: int, done: Future[Any], start: Callable[[], None]) -> None:
        error = done.exception()
        if error is None or self._waiting.get(id) != token:
            return  # the stream itself arrives by `accept`
        if isinstance(error, BusyError | UnknownOutcomeError):  # attaching can be done twice
            self._retry_later(id, token, error, start)
        else:
            self._refused(id, token, error)

    def _retry_later(
        self, id: str, token: int, error: BusyError | UnknownOutcomeError, start: Callable[[], None]
    ) -> None:
        def again() -> None:
            if not self._is_closed and self._waiting.get(id) == token:
                start()

        wait_s = error.retry_after_s if isinstance(error, BusyError) else 1
        asyncio.get_running_loop().call_later(min(LONGEST_RETRY_S, wait_s), again)

    def redirected(self, id: str, token: int, url: str) -> None:
        """The answer to an attach that follows redirects: the client is to attach at this address instead."""
        if not self._is_closed and self._waiting.get(id) == token:
            del self._waiting[id]
            self._raw.discard(id)
            self._put(Item("redirect", id, 0, encode(url)))
            self._settle()

    def serve(self, asked: c.Attach) -> None:
        """There is no better place for an attach that follows redirects: start the stream here."""
        if not self._is_closed and self._waiting.get(asked.id) == asked.token:
            self._start(asked.id, asked.after, asked.timeline)

    def _refused(self, id: str, token: int, error: BaseException) -> None:
        if self._waiting.get(id) == token:
            del self._waiting[id]
            self._let_go(id)
        problem = error if isinstance(error, ProsemError) else ProsemError(f"internal error: {error!r}")
        self.error(problem, id)
        self._settle()

    def detach(self, id: str) -> bool:
        """End a stream; False if there is none."""
        waiting = self._waiting.pop(id, None)
        self._raw.discard(id)
        is_known = self._let_go(id)
        self._queue = deque(item for item in self._queue if item.id != id)
        self._bytes = sum(len(item.body) for item in self._queue)
        self._settle()
        return is_known or waiting is not None

    def _let_go(self, id: str) -> bool:
        stream = self._streams.pop(id, None)
        if stream is not None:
            self._end(stream)
        return stream is not None

    def ping(self) -> None:
        """A pong follows everything that was asked for before it."""
        self._held_pongs += 1
        self._settle()

    def error(self, problem: ProsemError, id: str | None = None) -> None:
        self._put(Item("error", id, 0, encode(problem.problem())))

    @property
    def _room(self) -> int:
        return max(self._capacity, BURSTS * len(self._streams))

    @property
    def _room_bytes(self) -> int:
        return max(self._capacity_bytes, BURSTS * CHANGE_BYTES * len(self._streams))

    @property
    def is_full(self) -> bool:
        """Too much is unsent: a client that does not read is not read from either."""
        return len(self._queue) > 2 * self._room or self._bytes > 2 * self._room_bytes

    # -- the edge's side -----------------------------------------------------------------------------------------
    def accept(self, stream: Stream, token: int) -> bool:
        if self._is_closed or self._waiting.get(stream.id) != token:
            return False
        self._streams[stream.id] = stream
        stream.is_raw = stream.id in self._raw
        return True

    def attached(self, stream: Stream) -> None:
        if self._streams.get(stream.id) is stream and not self.is_lagging:
            self._waiting.pop(stream.id, None)
            self._settle()

    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool:
        queue = self._queue
        queued, held = len(queue), self._bytes  # the room is at least the capacity, and asked for only then
        if queued >= self._capacity and queued >= self._room:
            return False
        if held >= self._capacity_bytes and held >= self._room_bytes:
            return False  # an empty queue takes a body of any size: it must go some time
        queue.append(_new(Item, (kind, stream.id, seq, body, stream.timeline, stream.head)))
        self._bytes = held + len(body)
        if not queued:
            self._wake.set()
        return True

    def lag(self) -> None:
        if not self.is_lagging:
            self._metrics.lagging += 1
            self.is_lagging, self._lag_floor = True, (self._edge.seq, self._edge.timeline)
        self._wake.set()

    def renew(self, stream: Stream) -> None:
        if not self.is_lagging and self._streams.get(stream.id) is stream and not stream.is_closed:
            stream.rest(self._edge.seq)
            self._start(stream.id, stream.seq, stream.timeline)

    def gone(self, stream: Stream) -> None:
        """The subscription was deleted."""
        if self._streams.get(stream.id) is stream:
            del self._streams[stream.id]
            self._waiting.pop(stream.id, None)
            self.error(NotFoundError(f"the subscription {stream.id!r} was deleted"), stream.id)
            self._settle()

    def progress(self, seq: int) -> None:
        if (
            self._timeline != self._edge.timeline
        ):  # it begins at a seq that may have been reported of the one before
            self._timeline, self._reported = self._edge.timeline, 0
        self._progress = seq
        if not self._wake.is_set() and not self._waiting:
            self._wake.set()

    # -- the transport's side ------------------------------------------------------------------------------------
    async def fetch(self) -> list[Item]:
        """Wait for something to send; the last item may be a progress mark. Empty once closed."""
        while True:
            await self._wake.wait()
            items = self.take()
            if items or self._is_closed:
                return items

    def take(self) -> list[Item]:
        """What is there to be sent now, without waiting; a sink that lags is caught up from here on."""
        self._wake.clear()
        if self._is_closed:
            return []
        items = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        if self.is_lagging:
            self._catch_up()
        elif not self._waiting and self._progress > self._reported:
            self._reported = self._progress
            items.append(Item("progress", None, self._reported, b"", self._timeline))
        return items

    def _catch_up(self) -> None:
        """The queue is empty again: attach every stream where it stands."""
        (floor, timeline), self.is_lagging = self._lag_floor, False
        behind = [
            stream for stream in self._streams.values() if not stream.is_closed
        ]  # else it is being attached already
        for stream in behind:
            stream.rest(floor if stream.timeline == timeline else 0)
        tokens = [self._expect(stream.id) for stream in behind]
        by_turns(zip(behind, tokens, strict=True), self._again)
        self._settle()

    def _again(self, asked: tuple[Stream, int]) -> None:
        stream, token = asked
        if not self._is_closed and self._waiting.get(stream.id) == token:
            self._ask(stream.id, token, stream.seq, stream.timeline, False)

    def close(self) -> None:
        """The transport is gone: nothing more is taken, and the streams end soon."""
        if self._is_closed:
            return
        self._is_closed = self.is_lagging = True
        self._edge.leave(self)
        streams, self._streams = self._streams, {}
        by_turns(streams.values(), self._end)
        self._wake.set()

    def _end(self, stream: Stream) -> None:
        stream.is_closed = False  # one that rests is still known to the edge
        self._edge.close(stream)

    def _settle(self) -> None:
        """When everything asked for has arrived, pongs and progress may follow."""
        if not self._waiting and not self.is_lagging:
            seq = self._edge.seq
            for _ in range(self._held_pongs):
                self._put(Item("pong", None, seq, b"", self._edge.timeline))
            self._held_pongs = 0
            self._wake.set()

    def _put(self, item: Item) -> None:
        self._queue.append(item)
        self._bytes += len(item.body)
        self._wake.set()
