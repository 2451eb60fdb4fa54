"""Replays: subscribers that resume are given what they missed, in order, before their streams are live.

Requests that wait together and concern one space are served by one pass. Each form says from what it is replayed (its
`Replay`): from the messages in the outbox, by the pass in this module, or from rows and the event log (`replayed_log`). A
pass only orders, slices and gives changes to streams. Points are placed where they were at the time: the history (created,
patched, suspended, resumed) moves them through a small network of the pass's own in order with the messages, so that every
old message is matched against the points as of its `seq`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from cn.model.message import Message
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import NOWHERE, Stream
from prosem.delivery.replay_steps import Move, ReplayRequest, by_subscription, moves, place_again, read_row
from prosem.delivery.replayed_log import RequestNotRetainedError, replay_log
from prosem.delivery.replayed_marks import ReplayedMarks
from prosem.engine.commands import Hosted
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import TimeSlice
from prosem.runtime.supervise import end, supervise
from prosem.store.lookback import Lookback
from prosem.store.replay import HistoryRow, MessageRow, NotRetainedError, ReplayStore
from prosem.types.base import MOVED, SID_MASK, Bound, Form, ReplayStep

log = logging.getLogger("prosem.replay")
_read_message = msgspec.msgpack.Decoder(Message).decode


class Replayer:
    """One worker task on the loop; `submit` never blocks."""

    def __init__(self, store: ReplayStore, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._requests: list[ReplayRequest] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = supervise("replayer", self._work, self._metrics.restarts)

    async def close(self) -> None:
        await end(self._task)

    def submit(self, stream: Stream, frame: Hosted) -> None:
        assert frame.after is not None
        bound = frame.bound or NOWHERE
        self._requests.append(ReplayRequest(stream, frame.after, frame.seq, bound, frame.state))
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            requests, self._requests = self._requests, []
            spaces: dict[int, list[ReplayRequest]] = {}
            for request in requests:
                if not request.stream.is_closed:
                    spaces.setdefault(request.stream.host.space.id, []).append(request)
            for some in spaces.values():
                try:
                    await self._serve(some)
                except NotRetainedError as error:
                    for request in some:  # the engine decides which of them need a snapshot
                        if isinstance(error, RequestNotRetainedError):
                            request.stream.seq = None  # it cannot know of this reason
                        request.stream.sink.lag()
                except Exception as error:
                    log.warning("a replay failed and starts again: %r", error)
                    for request in some:
                        request.stream.sink.lag()
                    await asyncio.sleep(0.2)

    async def _serve(self, requests: Sequence[ReplayRequest]) -> None:
        form = requests[0].stream.host.form
        if form.replay.reads_log:
            await replay_log(self._store, requests, self._metrics)
            return
        after, upto = min(r.after for r in requests), max(r.upto for r in requests)
        retained_after = await self._store.retained_after()  # before the history: that is not older then
        turn = TimeSlice()
        run = ReplayPass(
            requests, await self._store.history([r.stream.host.sid for r in requests]), self._metrics
        )
        await run.plan(turn)
        space = requests[0].stream.host.space.id
        async for chunk in self._store.messages(space, after, upto):
            async for message in self._whole(form, space, chunk):
                run.take(message)
                await turn.over()
            if not run.is_needed:
                return
        run.advance(None)
        look = run.lookback(retained_after)
        if not look.is_done:
            await self._look_back(space, look)
        await run.finish(look.payloads, turn)

    async def _whole(self, form: Form, space: int, chunk: Sequence[MessageRow]) -> AsyncIterator[Message]:
        """Stored messages; those without a body are made again from their events."""
        table, remake = form.tables[0], form.replay.remake
        rows = self._store.rows([seq for seq, _, _, body in chunk if body is None])
        for seq, part, kind, body in chunk:
            if body is not None:
                yield _read_message(body)
            else:
                _, row = await anext(rows)
                old, new = (read_row(table, text) for text in row)
                yield Message(seq, part, space, *remake(kind, table, old, new))

    async def _look_back(self, space: int, look: Lookback) -> None:
        """What had been notified before, from the messages before."""
        async for chunk in self._store.messages_back(space, look.after, look.upto):
            for _, _, kind, body in chunk:
                if kind != MOVED and body is not None:
                    look.take(_read_message(body))
            if look.is_done:
                return
            await asyncio.sleep(0)


class ReplayPass:
    """One pass over messages: they come in order, points move between them, changes go to the streams.

    Where messages say all, changes are given as they come. Else the steps of a subscription are gathered, and its form says
    their changes at the end.
    """

    def __init__(
        self, requests: Sequence[ReplayRequest], history: dict[int, list[HistoryRow]], metrics: Metrics
    ) -> None:
        self._metrics, self._history = metrics, history
        self._network = LocalNetwork(self._deliver, lambda seq: None)
        self._requests = by_subscription(requests)
        self._steps: dict[int, list[ReplayStep]] = {sid: [] for sid in self._requests}
        self._bounds: dict[int, Bound] = {}
        self._moves: list[Move] = []  # the last one first
        self._marks = ReplayedMarks(history)
        self._folding: dict[int, list[Message]] = {}
        self._seq = 0

    async def plan(self, turn: TimeSlice) -> None:
        """Place every point where it was when the first of its streams left."""
        for sid, some in self._requests.items():
            self._plan(sid, min(r.after for r in some), self._history.get(sid, []))
            await turn.over()
        self._moves.sort(key=lambda move: move[:2], reverse=True)

    def _plan(self, sid: int, after: int, history: list[HistoryRow]) -> None:
        first = self._requests[sid][0]
        bound = NOWHERE if history else first.bound
        for move in moves(sid, first.stream.host.form, history):
            if move.seq <= after:
                bound = move.bound
            else:
                self._moves.append(move)
        self._place(sid, bound)

    def _place(self, sid: int, bound: Bound) -> None:
        before = self._bounds.get(sid, NOWHERE)
        self._bounds[sid] = bound
        place_again(self._network, self._requests[sid][0].stream.host.space, sid, before, bound)

    @property
    def is_needed(self) -> bool:
        """Whether a stream still takes what is read; one that lags is attached again, and replayed from where it stands."""
        return any(request.is_needed for some in self._requests.values() for request in some)

    def take(self, message: Message) -> None:
        if message.seq != self._seq:
            self.advance(message.seq)
        self._network.inject(message)

    def advance(self, seq: int | None) -> None:
        """All messages before `seq` are in: fold them, then move the points that moved meanwhile."""
        self._fold()
        while self._moves and (seq is None or self._moves[-1].seq < seq):
            move = self._moves.pop()
            self._steps[move.sid].append(ReplayStep(move.seq, [], move.bound, move.state, move.mark))
            self._place(move.sid, move.bound)
        self._seq = seq or self._seq

    def _deliver(self, message: Message, sids: Any) -> None:
        for id in sids if isinstance(sids, Sequence) else sids.tolist():
            self._folding.setdefault(id & SID_MASK, []).append(message)

    def _fold(self) -> None:
        folding, self._folding = self._folding, {}
        for sid, messages in folding.items():
            form = self._requests[sid][0].stream.host.form
            if form.replay.gathers:
                self._steps[sid].append(ReplayStep(self._seq, messages, self._bounds[sid]))
                continue
            body, _ = form.change(messages, self._bounds[sid], None)
            for request in self._requests[sid]:
                request.give(self._seq, body, self._metrics)

    def lookback(self, retained_after: int) -> Lookback:
        """What must be looked up before the end."""
        return self._marks.lookback(self._requests, self._steps, retained_after)

    async def finish(self, found: Mapping[int, bytes], turn: TimeSlice) -> None:
        """Everything was read, and `found` looked up: from now on the streams are live."""
        for sid, some in self._requests.items():
            for request in some:
                replay, mine = request.stream.host.form.replay, request.steps(self._steps[sid])
                if replay.gathers and mine:
                    notified = self._marks.notified_before(request, found)
                    for seq, body in replay.changes(mine, request.state, notified):
                        request.give(seq, body, self._metrics)
                if not request.stream.sink.is_lagging:
                    request.stream.catch_up()
                await turn.over()
