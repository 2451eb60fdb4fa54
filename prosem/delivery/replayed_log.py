"""Replay from rows and the event log, for forms whose messages do not say what the edge held.

One consistent view of the database gives the rows as they are and the events since. The rows are rolled back to where the
first stream left; over them a *shadow* of the space is opened, with the points of the requests alone, and stepped forward
through the log. Its messages reach the points through a small network, and are folded by the form as at an edge. A point
that moved meanwhile moves in the shadow too; the change of the move itself is in the outbox.

Cost: reading the rows that the form asks for, opening a space over them, and two passes over the log of its tables, for all
requests of a space together. It loses where few events happened and the form needs most rows: a snapshot is smaller then.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from cn.model.message import Message
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import NOWHERE
from prosem.delivery.replay_steps import (
    Move,
    ReplayRequest,
    by_subscription,
    moves,
    place_again,
    read_row,
)
from prosem.engine.tables import Tables
from prosem.engine.views import Views
from prosem.runtime.metrics import Metrics
from prosem.store.past import Logged
from prosem.store.replay import HistoryRow, NotRetainedError, ReplayStore
from prosem.types.base import SID_MASK, Bound, Form, Space, SpaceContext
from prosem.values.codes import Boxes
from prosem.values.model import Delta, Key, Row, RowChange, Table, View
from prosem.values.undo import net
from prosem.views.operator import Changes
from prosem.views.subscription import definition_of

EVENTS_PER_SLICE = 25
MAX_BOXES = 128  # of the regions of one event in the shadow
_read_message = msgspec.msgpack.Decoder(Message).decode


async def replay_log(store: ReplayStore, requests: Sequence[ReplayRequest], metrics: Metrics) -> None:
    """Bring all streams to where the present begins; they concern subscriptions of one space."""
    after, upto = min(r.after for r in requests), max(r.upto for r in requests)
    form, space = requests[0].stream.host.form, requests[0].stream.host.space
    async with store.view() as past:
        if past.retained_after > after:
            raise NotRetainedError(f"only what comes after {past.retained_after} is kept, not after {after}")
        if form.query.per == "transaction":
            start = await past.request_start(after)
            if start is None:
                raise RequestNotRetainedError(f"the request that was under way at {after} is not kept whole")
            after = start
        history = await past.history([r.stream.host.sid for r in requests])
        points = ReplayedPoints(requests, history, metrics)
        sources = sources_of(form, points.places)
        rows = RolledBack([table for table, _ in sources], await past.tables())
        for number, (table, boxes) in enumerate(sources):
            async for chunk in past.rows(table, boxes):
                rows.load(number, chunk)
                await asyncio.sleep(0)
        async for events in past.events(rows.table_ids, after, past.last_seq):
            rows.roll_back(events)
            await asyncio.sleep(0)
        # Opening indexes all rows at once: beside the loop, since nothing else sees the shadow.
        shadow = await asyncio.to_thread(Shadow, form, space.id, rows, points)
        async with (
            aclosing(past.events(rows.table_ids, after, upto)) as chunks,
            aclosing(past.changes(space.id, after, upto)) as pages,
        ):
            moved = MovedChanges(pages, shadow)
            async for events in chunks:
                for number, event in enumerate(events):
                    await moved.read_before(event.seq)
                    shadow.take(event)
                    if number % EVENTS_PER_SLICE == 0:  # live streams wait no longer than that
                        await asyncio.sleep(0)
                if not points.is_needed:
                    return
            shadow.end_request()
            await moved.read_before(upto + 1)
    shadow.advance(upto + 1)
    points.finish()


class RequestNotRetainedError(NotRetainedError):
    """A stream stands in the middle of a request whose beginning is no longer retained."""


def sources_of(form: Form, places: Sequence[Any]) -> list[tuple[Table, Boxes]]:
    """The tables that a form's rows come from, directly or through views, each with the rows that are needed of it."""
    found: dict[int, tuple[Table, Boxes]] = {}
    for number, table in enumerate(form.tables):
        if not isinstance(table, View):
            found[table.id] = table, form.replay.selection(number, places)
    for table in form.tables:
        for base in table.bases if isinstance(table, View) else ():
            found[base.id] = base, [{}]
    return list(found.values())


class ReplayedPoints:
    """The subscriptions of one pass: their places as of the first request, their moves since, and their streams."""

    def __init__(
        self, requests: Sequence[ReplayRequest], history: dict[int, list[HistoryRow]], metrics: Metrics
    ) -> None:
        self._metrics = metrics
        self._requests = by_subscription(requests)
        self.bounds: dict[int, Bound] = {}
        self.moves: list[Move] = []  # the last one first
        after, upto = min(r.after for r in requests), max(r.upto for r in requests)
        for sid, some in self._requests.items():
            entries = history.get(sid, [])
            self.bounds[sid] = NOWHERE if entries else some[0].bound
            for move in moves(sid, some[0].stream.host.form, entries):
                if move.seq <= after:
                    self.bounds[sid] = move.bound
                elif move.seq <= upto:
                    self.moves.append(move)
        self.moves.sort(key=lambda move: move[:2], reverse=True)

    @property
    def places(self) -> list[Any]:
        """All places of the period."""
        bounds = [*self.bounds.values(), *(move.bound for move in self.moves)]
        places = [bound.place for bound in bounds if bound.place is not None]
        try:
            return list(dict.fromkeys(places))
        except TypeError:  # filters, which are dictionaries
            return places

    @property
    def is_needed(self) -> bool:
        """Whether a stream still takes what is read; one that lags is attached again, and replayed from where it stands."""
        return any(request.is_needed for some in self._requests.values() for request in some)

    def form(self, sid: int) -> Form:
        return self._requests[sid][0].stream.host.form

    def give(self, sid: int, seq: int, body: bytes | None) -> None:
        for request in self._requests.get(sid, ()):
            request.give(seq, body, self._metrics)

    def finish(self) -> None:
        """Everything was read: from now on the streams are live."""
        for some in self._requests.values():
            for request in some:
                if not request.stream.sink.is_lagging:
                    request.stream.catch_up()


class RolledBack:
    """`rows`: what each table of a form held at the beginning, as far as it was asked for or changed since."""

    def __init__(self, tables: Sequence[Table], known: Iterable[Table]) -> None:
        self.tables = tables
        self.rows: list[dict[Key, Row]] = [{} for _ in tables]
        self._rolled: set[tuple[int, Key]] = set()
        self._seen_in: dict[
            int, list[int]
        ] = {}  # table whose events count → numbers of tables that see its rows
        for table in known:
            ids = [table.id, *(ancestor.id for ancestor in table.ancestors)]
            numbers = [number for id in ids for number, one in enumerate(tables) if one.id == id]
            if numbers:
                self._seen_in[table.id] = numbers

    @property
    def table_ids(self) -> list[int]:
        return list(self._seen_in)

    def load(self, number: int, rows: Iterable[Row]) -> None:
        """Rows as they are at the end of the log."""
        key_of = self.tables[number].key_of
        self.rows[number].update((key_of(row), row) for row in rows)

    def roll_back(self, events: Iterable[Logged]) -> None:
        """The log in its order: the first event of a key says what was before."""
        for event in events:
            for number, delta in self.deltas(event):
                if (number, delta.key) not in self._rolled:
                    self._rolled.add((number, delta.key))
                    self._put(number, delta.key, delta.old)

    def take(self, event: Logged) -> list[Delta]:
        """One event forward: its deltas, as the tables of the form see it."""
        found = list(self.deltas(event))
        for number, delta in found:
            self._put(number, delta.key, delta.new)
        return [delta for _, delta in found]

    def deltas(self, event: Logged) -> Iterator[tuple[int, Delta]]:
        for number in self._seen_in[event.table_id]:
            table = self.tables[number]
            old, new = read_row(table, event.old), read_row(table, event.new)
            row = new if old is None else old
            assert row is not None, "an event has a row before or after it"
            yield number, Delta(event.seq, table, table.key_of(row), old, new)

    def _put(self, number: int, key: Key, row: Row | None) -> None:
        if row is None:
            self.rows[number].pop(key, None)
        else:
            self.rows[number][key] = row


class Shadow:
    """A space of the past with a few points, and the edge's side of it."""

    def __init__(self, form: Form, space_id: int, rows: RolledBack, points: ReplayedPoints) -> None:
        self._rows, self._points, self._bounds = rows, points, dict(points.bounds)
        self._is_per_transaction = form.query.per == "transaction"
        self._pending: list[Delta] = []  # of the request under way
        self._request_end = 0
        self._tables = {table.id: table for table in form.tables}
        tables = Tables()
        for table, content in zip(rows.tables, rows.rows, strict=True):
            tables.rows[table.id] = tables.visible[table.id] = content
        self._views = Views(tables)
        for view in _with_inputs(form.tables):
            self._views.open(definition_of(view))
        seen = tuple(tables.visible[table.id] for table in form.tables)
        self._space: Space = form.open_space(space_id, SpaceContext(seen, self._locate, MAX_BOXES))
        self._network = LocalNetwork(self._deliver, lambda seq: None)
        self._folding: dict[int, list[Message]] = {}
        self._states: dict[int, Any] = {}
        self.moved: deque[tuple[int, bytes]] = deque()  # the changes of moves, by seq
        placed = [(sid, bound) for sid, bound in self._bounds.items() if bound.place is not None]
        self._space.add([sid for sid, _ in placed], [bound for _, bound in placed])
        for sid, bound in placed:
            self._host(sid, bound)

    def _locate(self, id: int) -> Bound:
        return self._bounds[id & SID_MASK]

    def _host(self, sid: int, bound: Bound, before: Bound = NOWHERE) -> None:
        place_again(self._network, self._space.network, sid, before, bound)
        self._states[sid] = self._points.form(sid).state(self._space, bound)

    def _deliver(self, message: Message, sids: Any) -> None:
        for id in sids if isinstance(sids, Sequence) else sids.tolist():
            self._folding.setdefault(id & SID_MASK, []).append(message)

    def take(self, event: Logged) -> None:
        """The next event: what it changes goes to the streams, at once or at the end of its request."""
        if self._is_per_transaction and event.request_end != self._request_end:
            self.end_request()
            self._request_end = event.request_end
        self.advance(event.seq)
        deltas = self._rows.take(event)
        changes: Changes = {delta.table.id: (RowChange(*delta[2:]),) for delta in deltas}
        derived = self._views.propagate(changes)
        found = [delta for delta in deltas if delta.table.id in self._tables]
        for view, changed in derived.effects:
            if view.id in self._tables:
                found += [Delta(event.seq, view, *change) for change in changed]
        if self._is_per_transaction:
            self._pending += found
        else:
            self._step(event.seq, found)

    def end_request(self) -> None:
        """All events of a request that concern the tables were taken."""
        pending, self._pending = self._pending, []
        if pending:
            self._step(self._request_end, net(pending, self._request_end))

    def _step(self, seq: int, deltas: Sequence[Delta]) -> None:
        space, part = self._space, 0
        for outcome in space.take(deltas, _most_promising) if deltas else ():
            for draft in outcome.drafts:
                self._network.inject(Message(seq, part, space.network.id, *draft))
                part += 1
        folding, self._folding = self._folding, {}
        for sid, messages in folding.items():
            form, state = self._points.form(sid), self._states[sid]
            body, self._states[sid] = form.change(messages, self._bounds[sid], state)
            self._points.give(sid, seq, body)

    def advance(self, seq: int) -> None:
        """What moves did, and the changes they led to, before this event; first what a request before it did."""
        if self._pending and self._request_end < seq:
            self.end_request()
        moves = self._points.moves
        while moves and moves[-1].seq < seq:
            move = moves.pop()
            self._move(move.sid, move.bound)
        while self.moved and self.moved[0][0] < seq:
            at, body = self.moved.popleft()
            message = _read_message(body)
            for sid in message.targets or ():
                self._points.give(sid, at, message.payload)

    def _move(self, sid: int, bound: Bound) -> None:
        before, self._bounds[sid] = self._bounds[sid], bound
        if before.place is None and bound.place is not None:
            self._space.add([sid], [bound])
        elif before.place is not None and bound.place is None:
            self._space.remove(sid, before)
        elif before != bound:
            self._space.move(sid, before, bound)
        self._host(sid, bound, before)


class MovedChanges:
    """Reads the changes of moves beside the log, so that no more than a page of them is in memory."""

    def __init__(self, pages: AsyncIterator[list[tuple[int, bytes]]], shadow: Shadow) -> None:
        self._pages, self._shadow = pages, shadow
        self._upto: float = -1  # everything before this seq was read

    async def read_before(self, seq: int) -> None:
        """Hand all changes before this seq to the shadow, and let it send all but those of the last page."""
        while self._upto < seq:
            page = await anext(self._pages, None)
            if page is None:
                self._upto = math.inf
                return
            self._shadow.moved.extend(page)
            self._upto = page[-1][0]
            self._shadow.advance(min(page[-1][0], seq))


def _with_inputs(tables: Sequence[Table]) -> list[View]:
    """The views among these tables and all views that they are made of, each after its inputs."""
    found: dict[int, View] = {}
    for table in tables:
        if isinstance(table, View):
            found |= {view.id: view for view in (*_with_inputs(table.inputs), table)}
    return list(found.values())


def _most_promising(space: Space, description: Any) -> str:
    return space.plans[0]
