"""Returning subscribers are replayed from the outbox: a small network of its own, fed from PostgreSQL.

Requests that wait together and concern one space are served by one pass over its messages. Each point stands where it
stood at the time: its history (created, patched, suspended, resumed) moves it through the little network in order with the
messages, so every old message is matched against the points as of its `seq`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cn.model.message import Message
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import NOWHERE, Stream
from prosem.delivery.replay_steps import ReplayRequest, ReplayStep, read_row, retold
from prosem.delivery.replayed_log import retell
from prosem.delivery.replayed_marks import ReplayedMarks, read_mark
from prosem.engine.commands import Hosted
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import TimeSlice
from prosem.runtime.supervise import end, supervise
from prosem.store.lookback import Lookback
from prosem.store.replay import HistoryRow, NotRetainedError, ReplayStore
from prosem.types.base import LOGGED_ONLY, Bound, LoggedForm, MarkedForm, StatefulForm
from prosem.types.filter.message import row_draft
from prosem.values.model import PlaceMark, Row, Table
from prosem.values.wire import decode_exact

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
                except NotRetainedError:
                    for request in some:  # the engine decides which of them need a snapshot
                        request.stream.sink.lag()
                except Exception as error:
                    log.warning("a replay failed and starts again: %r", error)
                    for request in some:
                        request.stream.sink.lag()
                    await asyncio.sleep(0.2)

    async def _serve(self, requests: Sequence[ReplayRequest]) -> None:
        if isinstance(requests[0].stream.host.form, LoggedForm):
            await retell(self._store, requests, self._metrics)
            return
        after, upto = min(r.after for r in requests), max(r.upto for r in requests)
        retained_after = await self._store.retained_after()  # before the history: that is not older then
        turn = TimeSlice()
        run = ReplayPass(
            requests, await self._store.history([r.stream.host.sid for r in requests]), self._metrics
        )
        await run.plan(turn)
        table = requests[0].stream.host.form.tables[0]
        space = requests[0].stream.host.space.id
        async for chunk in self._store.messages(space, after, upto):
            wanted = [seq for seq, _, kind, _ in chunk if kind == "row"]
            rows = await self._store.rows(wanted) if wanted else {}
            for seq, part, kind, body in chunk:
                if kind == "row":
                    run.take(
                        _row_message(space, seq, part, table, *(read_row(table, text) for text in rows[seq]))
                    )
                else:
                    assert body is not None
                    run.take(_read_message(body))
                await turn.over()
        run.advance(None)
        look = run.lookback(retained_after)
        if not look.is_done:
            await self._look_back(space, look)
        await run.finish(look.told, turn)

    async def _look_back(self, space: int, look: Lookback) -> None:
        """What had been told before, from the messages before."""
        async for chunk in self._store.messages_back(space, look.after, look.upto):
            for _, _, kind, body in chunk:
                if kind in ("value", LOGGED_ONLY) and body is not None:
                    look.take(_read_message(body))
            if look.is_done:
                return
            await asyncio.sleep(0)


class ReplayPass:
    """One pass: messages come in order, points move between them, changes go to the streams.

    Where messages say all, changes are told as they come. A form with a state at the edge knows it only as of the end (and
    as of each move): its steps are gathered, the states are found by going back from there, and then the changes are told.
    A form with marks knows it as of each mark: what was told before the first step is looked up in older messages.
    """

    def __init__(
        self, requests: Sequence[ReplayRequest], history: dict[int, list[HistoryRow]], metrics: Metrics
    ) -> None:
        self._metrics, self._history = metrics, history
        self._network = LocalNetwork(self._deliver, lambda seq: None)
        self._requests: dict[int, list[ReplayRequest]] = {}
        for request in requests:
            self._requests.setdefault(request.stream.host.sid, []).append(request)
        self._steps: dict[int, list[ReplayStep]] = {sid: [] for sid in self._requests}
        self._bounds: dict[int, Bound] = {}
        self._moves: list[
            tuple[int, int, int, Bound, bytes | None, PlaceMark | None]
        ] = []  # seq, part, sid, bound, state before, mark
        self._marks = ReplayedMarks(history)
        self._folding: dict[int, list[Message]] = {}
        self._seq = 0

    async def plan(self, turn: TimeSlice) -> None:
        """Every point stands where it stood when the first of its streams left."""
        for sid, some in self._requests.items():
            self._plan(sid, min(r.after for r in some), self._history.get(sid, []))
            await turn.over()
        self._moves.sort(key=lambda move: move[:2], reverse=True)

    def _plan(self, sid: int, after: int, history: list[HistoryRow]) -> None:
        host = self._requests[sid][0].stream.host
        bound = NOWHERE if history else self._requests[sid][0].bound
        for seq, part, kind, params, state, marked in history:
            mark = None if marked is None else read_mark(marked)
            if kind == "suspended":
                place = NOWHERE
            elif mark is not None:
                place = Bound(mark.topic, mark.place)
            else:
                place = host.form.bind(decode_exact(params or b"{}"))
            if seq <= after:
                bound = place
            else:
                self._moves.append((seq, part, sid, place, state, mark))
        self._place(sid, bound)

    def _place(self, sid: int, bound: Bound) -> None:
        self._bounds[sid] = bound
        space = self._requests[sid][0].stream.host.space
        self._network.register(space, sid, bound.topic, bound.place)

    def take(self, message: Message) -> None:
        if message.seq != self._seq:
            self.advance(message.seq)
        self._network.inject(message)

    def advance(self, seq: int | None) -> None:
        """All messages before `seq` are in: fold them, then move the points that moved meanwhile."""
        self._fold()
        while self._moves and (seq is None or self._moves[-1][0] < seq):
            moved, _, sid, bound, state, mark = self._moves.pop()
            self._steps[sid].append(ReplayStep(moved, [], bound, state, mark))
            self._place(sid, bound)
        self._seq = seq or self._seq

    def _deliver(self, message: Message, sids: Any) -> None:
        for sid in sids if isinstance(sids, Sequence) else sids.tolist():
            self._folding.setdefault(sid, []).append(message)

    def _fold(self) -> None:
        folding, self._folding = self._folding, {}
        for sid, messages in folding.items():
            step = ReplayStep(self._seq, messages, self._bounds[sid])
            form = self._requests[sid][0].stream.host.form
            if isinstance(form, StatefulForm | MarkedForm):
                self._steps[sid].append(step)
                continue
            body, _ = form.change(messages, step.bound, None)
            for request in self._requests[sid]:
                self._tell(request, self._seq, body)

    def _tell(self, request: ReplayRequest, seq: int, body: bytes | None) -> None:
        if (
            body is not None
            and request.after < seq <= request.upto
            and request.stream.give("change", seq, body)
        ):
            self._metrics.replayed += 1

    def lookback(self, retained_after: int) -> Lookback:
        """What must be looked up before the end."""
        return self._marks.lookback(self._requests, self._steps, retained_after)

    async def finish(self, found: Mapping[int, bytes], turn: TimeSlice) -> None:
        """Everything was read, and `found` looked up: from now on the streams are live."""
        for sid, some in self._requests.items():
            for request in some:
                form = request.stream.host.form
                if isinstance(form, StatefulForm):
                    for seq, body in retold(form, self._steps[sid], request):
                        self._tell(request, seq, body)
                elif isinstance(form, MarkedForm):
                    for seq, body in self._marks.retold(form, self._steps[sid], request, found):
                        self._tell(request, seq, body)
                if not request.stream.sink.is_lagging:
                    request.stream.catch_up()
                await turn.over()


def _row_message(space: int, seq: int, part: int, table: Table, old: Row | None, new: Row | None) -> Message:
    return Message(seq, part, space, *row_draft(table, old, new, range(len(table.columns))))
