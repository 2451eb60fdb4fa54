"""Returning subscribers are replayed from the outbox: a small network of its own, fed from PostgreSQL.

Requests that wait together and concern one space are served by one pass over its messages. Each point stands where it
stood at the time: its history (created, patched, suspended, resumed) moves it through the little network in order with the
messages, so every old message is matched against the points as of its `seq`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from cn.message import Message
from cn.networks.local import LocalNetwork
from prosem.edge import Stream
from prosem.metrics import Metrics
from prosem.model import Row, Table
from prosem.store.replay import NotRetainedError
from prosem.store.replay import Replay as ReplayStore
from prosem.types.base import Bound
from prosem.types.filter import codes
from prosem.wire import decode_exact

log = logging.getLogger("prosem.replay")
_read_message = msgspec.json.Decoder(Message).decode
_NOWHERE = Bound(b"", None)


class Request(NamedTuple):
    stream: Stream
    after: int
    upto: int


class Replayer:
    """One worker task on the loop; `submit` never blocks."""

    def __init__(self, store: ReplayStore, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._requests: list[Request] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def submit(self, stream: Stream, after: int, upto: int) -> None:
        self._requests.append(Request(stream, after, upto))
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            requests, self._requests = self._requests, []
            spaces: dict[int, list[Request]] = {}
            for request in requests:
                if not request.stream.is_closed:
                    spaces.setdefault(request.stream.host.space.id, []).append(request)
            for some in spaces.values():
                try:
                    await self._serve(some)
                except NotRetainedError:
                    for request in some:  # the engine decides which of them need a snapshot
                        request.stream.sink.lag()
                except Exception as error:
                    log.warning("a replay failed and starts again: %s", error)
                    for request in some:
                        request.stream.sink.lag()
                    await asyncio.sleep(0.2)

    async def _serve(self, requests: Sequence[Request]) -> None:
        after, upto = min(r.after for r in requests), max(r.upto for r in requests)
        run = Replay(requests, await self._store.history([r.stream.host.sid for r in requests]), self._metrics)
        table = requests[0].stream.host.form.tables[0]
        space = requests[0].stream.host.space.id
        async for chunk in self._store.messages(space, after, upto):
            rows: dict[int, tuple[Row | None, Row | None]] = {}
            if any(kind == "row" for _, _, kind, _ in chunk):
                rows = await self._rows(table, chunk[0][0] - 1, chunk[-1][0])
            for seq, part, kind, body in chunk:
                if kind == "row":
                    run.take(_row_message(space, seq, part, table, *rows[seq]))
                else:
                    assert body is not None
                    run.take(_read_message(body))
            await asyncio.sleep(0)
        run.finish()

    async def _rows(self, table: Table, after: int, upto: int) -> dict[int, tuple[Row | None, Row | None]]:
        found = {}
        async for chunk in self._store.events(table.id, after, upto):
            for seq, _, old, new in chunk:
                found[seq] = (_read_row(table, old), _read_row(table, new))
        return found


class Replay:
    """One pass: messages come in order, points move between them, changes go to the streams."""

    def __init__(
        self, requests: Sequence[Request], history: dict[int, list[tuple[int, int, str, bytes | None]]], metrics: Metrics
    ) -> None:
        self._metrics = metrics
        self._network = LocalNetwork(self._deliver, lambda seq: None)
        self._requests: dict[int, list[Request]] = {}
        for request in requests:
            self._requests.setdefault(request.stream.host.sid, []).append(request)
        self._bounds: dict[int, Bound] = {}
        self._moves: list[tuple[int, int, int, Bound]] = []  # seq, part, sid, bound
        for sid, some in self._requests.items():
            self._plan(sid, min(r.after for r in some), history.get(sid, []))
        self._moves.sort(key=lambda move: move[:2], reverse=True)
        self._folding: dict[int, list[Message]] = {}
        self._seq = 0

    def _plan(self, sid: int, after: int, history: list[tuple[int, int, str, bytes | None]]) -> None:
        host = self._requests[sid][0].stream.host
        bound = _NOWHERE
        for seq, part, kind, params in history:
            place = _NOWHERE if kind == "suspended" else host.form.bind(decode_exact(params or b"{}"))
            if seq <= after:
                bound = place
            else:
                self._moves.append((seq, part, sid, place))
        self._place(sid, bound)

    def _place(self, sid: int, bound: Bound) -> None:
        self._bounds[sid] = bound
        space = self._requests[sid][0].stream.host.space
        self._network.register(space, sid, bound.topic, bound.place)

    def take(self, message: Message) -> None:
        if message.seq != self._seq:
            self._advance(message.seq)
        self._network.inject(message)

    def _advance(self, seq: int) -> None:
        """All messages before `seq` are in: tell their changes, then move the points that moved meanwhile."""
        self._fold()
        self._seq = seq
        while self._moves and self._moves[-1][0] < seq:
            _, _, sid, bound = self._moves.pop()
            self._place(sid, bound)

    def _deliver(self, message: Message, sids: Any) -> None:
        for sid in sids if isinstance(sids, Sequence) else sids.tolist():
            self._folding.setdefault(sid, []).append(message)

    def _fold(self) -> None:
        folding, self._folding = self._folding, {}
        for sid, messages in folding.items():
            some = self._requests[sid]
            body = some[0].stream.host.form.change(messages, self._bounds[sid])
            if body is None:
                continue
            for stream, after, upto in some:
                if after < self._seq <= upto and stream.give("change", self._seq, body):
                    self._metrics.replayed += 1

    def finish(self) -> None:
        """Everything was read: from now on the streams are live."""
        self._fold()
        for some in self._requests.values():
            for stream, _, _ in some:
                if not stream.sink.is_lagging:
                    stream.catch_up()


def _row_message(space: int, seq: int, part: int, table: Table, old: Row | None, new: Row | None) -> Message:
    vectors = (codes(table, old), codes(table, new))
    return Message(seq, part, space, "row", attributes=vectors, payload=msgspec.json.encode((old, new)))


def _read_row(table: Table, encoded: bytes | str | None) -> Row | None:
    if encoded is None:
        return None
    values = msgspec.json.decode(encoded)
    return tuple(
        None if value is None else column.type.read(value) for value, column in zip(values, table.columns, strict=True)
    )
