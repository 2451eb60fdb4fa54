"""Returning subscribers of joins: the past is told again from rows and the event log.

A message like "drop every row with this join key" cannot be undone, so the outbox does not help to find what an edge held.
Instead one consistent view of the database gives the rows as they are and the events since; the rows are taken back to
where the first stream stands, and then go forward through the log. A point that moved meanwhile stands where it stood at
the time. What a move itself told is in the outbox.

Cost: reading the rows that some place of the period selects, and two passes over the log of the join's tables, for all
requests of a space together. A move costs a scan of those rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from cn.match.point_index import PointIndex
from cn.model.message import Message
from prosem.delivery.edge import NOWHERE
from prosem.delivery.replay_steps import ReplayRequest, read_row
from prosem.runtime.metrics import Metrics
from prosem.store.past import Boxes, Logged, Span
from prosem.store.replay import HistoryRow, NotRetainedError
from prosem.store.replay import ReplayStore as ReplayStore
from prosem.types.base import Bound, LoggedForm
from prosem.types.join.shape import JoinShape
from prosem.types.join.state import Effects, JoinFold, JoinState
from prosem.values.codes import value_at
from prosem.values.model import Key, Row, Table
from prosem.values.wire import decode_exact

FEW = 8  # subscriptions that are asked one by one whether a row concerns them
MAX_BOXES = 16  # in one query; more places are read as one box around all
ROWS_A_TURN, EVENTS_A_TURN = 250, 25
_read_message = msgspec.msgpack.Decoder(Message).decode


async def retell(store: ReplayStore, requests: Sequence[ReplayRequest], metrics: Metrics) -> None:
    """Bring all streams to where the present begins; they concern subscriptions of one space."""
    after, upto = min(r.after for r in requests), max(r.upto for r in requests)
    form, space = requests[0].stream.host.form, requests[0].stream.host.space
    async with store.view() as past:
        if past.retained_after > after:
            raise NotRetainedError(f"only what comes after {past.retained_after} is kept, not after {after}")
        run = LoggedReplay(
            requests, await past.history([r.stream.host.sid for r in requests]), metrics, await past.tables()
        )
        for number, table in enumerate(form.tables):
            async for chunk in past.rows(table, run.boxes(number)):
                run.load(number, chunk)
                await asyncio.sleep(0)
        async for events in past.events(run.table_ids, after, past.last_seq):
            run.roll_back(events)
            await asyncio.sleep(0)
        for _ in run.begin():
            await asyncio.sleep(0)
        run.changes.extend(await past.changes(space.id, after, upto))
        async for events in past.events(run.table_ids, after, upto):
            for number, event in enumerate(events):
                run.take(event)
                if number % EVENTS_A_TURN == 0:  # live streams wait no longer than that
                    await asyncio.sleep(0)
    run.finish()


class _Standing:
    """One subscription in the pass: where it stands, what the edge would hold, and whom to tell."""

    __slots__ = ("bound", "form", "requests", "state")

    def __init__(self, requests: list[ReplayRequest], form: LoggedForm) -> None:
        self.requests, self.form = requests, form
        self.bound = NOWHERE
        self.state = JoinState(form.shape)


class LoggedReplay:
    """One pass. `rows`: what the tables held at the time, as far as somebody's conditions concern it."""

    def __init__(
        self,
        requests: Sequence[ReplayRequest],
        history: dict[int, list[HistoryRow]],
        metrics: Metrics,
        tables: Iterable[Table],
    ) -> None:
        self._metrics = metrics
        self._standings: dict[int, _Standing] = {}
        for request in requests:
            form = request.stream.host.form
            assert isinstance(form, LoggedForm)
            known = self._standings.setdefault(request.stream.host.sid, _Standing([], form))
            known.requests.append(request)
        self._shape: JoinShape = next(iter(self._standings.values())).form.shape
        self._fold = JoinFold(self._shape)
        self._moves: list[tuple[int, int, int, Bound]] = []  # seq, part, sid, bound: the last one first
        self.changes: deque[tuple[int, bytes]] = deque()
        self._points = PointIndex(self._shape.dimensions, self._shape.int64)
        self._after = min(request.after for request in requests)
        self._upto = max(request.upto for request in requests)
        for sid, standing in self._standings.items():
            self._plan(sid, standing, history.get(sid, []))
        self._moves.sort(key=lambda move: move[:2], reverse=True)
        self.rows: list[dict[Key, Row]] = [{} for _ in self._shape.tables]
        self._rolled: set[tuple[int, Key]] = set()
        self._seen_in = self._families(tables)

    @property
    def table_ids(self) -> list[int]:
        return list(self._seen_in)

    def _families(self, tables: Iterable[Table]) -> dict[int, list[int]]:
        """For each table whose events count, the numbers of the join's tables that see its rows."""
        seen: dict[int, list[int]] = {}
        for table in tables:
            ids = {table.id, *(ancestor.id for ancestor in table.ancestors)}
            numbers = [number for number, one in enumerate(self._shape.tables) if one.id in ids]
            if numbers:
                seen[table.id] = numbers
        return seen

    def _plan(self, sid: int, standing: _Standing, history: list[HistoryRow]) -> None:
        first = standing.requests[0]
        bind = first.stream.host.form.bind
        bound = NOWHERE if history else first.bound
        for seq, part, kind, params, _, _ in history:
            place = NOWHERE if kind == "suspended" else bind(decode_exact(params or b"{}"))
            if seq <= self._after:
                bound = place
            elif seq <= self._upto:
                self._moves.append((seq, part, sid, place))
        standing.bound = bound
        if bound.place is not None:
            self._points.insert(sid, b"", bound.place)

    # -- the rows at the beginning -------------------------------------------------------------------------------
    def boxes(self, table: int) -> Boxes:
        """What somebody's conditions select of a table, in values; a superset if there are many places."""
        bounds = [standing.bound for standing in self._standings.values()] + [move[3] for move in self._moves]
        columns = self._shape.tables[table].columns
        found: dict[tuple[Span, ...], None] = {}
        for place in {bound.place for bound in bounds if bound.place is not None}:
            spans = []
            for at in self._shape.ranged[table]:
                low, high = self._shape.sides(table, at)
                kind = columns[at].type
                spans.append((value_at(kind, place[low]), value_at(kind, place[high])))
            found[tuple(spans)] = None
        boxes = list(found) if len(found) <= MAX_BOXES else [_around(list(found))]
        return [dict(zip(self._shape.ranged[table], box, strict=True)) for box in boxes]

    def load(self, table: int, rows: Iterable[Row]) -> None:
        """Rows as they are at the end of the log."""
        key_of = self._shape.tables[table].key_of
        self.rows[table].update((key_of(row), row) for row in rows)

    def roll_back(self, events: Iterable[Logged]) -> None:
        """The log in its order: the first event of a key tells what was before."""
        for event in events:
            for table, key, old, _ in self._effects(event):
                if (table, key) not in self._rolled:
                    self._rolled.add((table, key))
                    _put(self.rows[table], key, old)

    def _effects(self, event: Logged) -> Iterator[tuple[int, Key, Row | None, Row | None]]:
        for number in self._seen_in[event.table_id]:
            table = self._shape.tables[number]
            old, new = read_row(table, event.old), read_row(table, event.new)
            row = new if old is None else old
            assert row is not None, "an event has a row before or after it"
            yield number, table.key_of(row), old, new

    def begin(self) -> Iterator[None]:
        """Give everybody the rows of the beginning, some in each turn."""
        for table, rows in enumerate(self.rows):
            items = iter(rows.items())
            while some := list(islice(items, ROWS_A_TURN)):
                for key, row in some:
                    for sid in self._concerned(table, row):
                        self._standings[sid].state.put(table, key, row)
                yield

    def _concerned(self, table: int, row: Row) -> list[int]:
        """Who has conditions that admit the row."""
        codes = self._fold.codes(table, row)
        if codes is None:
            return []
        if len(self._standings) > FEW:
            found: list[int] = self._points.find(b"", (self._shape.around(table, codes),)).tolist()
            return found
        return [
            sid
            for sid, standing in self._standings.items()
            if standing.bound.place is not None and self._fold.admits(table, standing.bound.place, codes)
        ]

    # -- forward -------------------------------------------------------------------------------------------------
    def take(self, event: Logged) -> None:
        self._advance(event.seq)
        effects: dict[int, Effects] = {}
        for table, key, old, new in self._effects(event):
            _put(self.rows[table], key, new)
            if old is not None:
                for sid in self._concerned(table, old):
                    effects.setdefault(sid, {})[table, key] = None
            if new is not None:
                for sid in self._concerned(table, new):
                    effects.setdefault(sid, {})[table, key] = new
        for sid, some in effects.items():
            standing = self._standings[sid]
            self._tell(standing, event.seq, standing.form.told(*standing.state.apply(some)))

    def _advance(self, seq: int) -> None:
        """What moves did and told before this event."""
        while self._moves and self._moves[-1][0] < seq:
            self._move(*self._moves.pop()[2:])
        while self.changes and self.changes[0][0] < seq:
            told, body = self.changes.popleft()
            message = _read_message(body)
            for sid in message.targets or ():
                if sid in self._standings:
                    self._tell(self._standings[sid], told, message.payload)

    def _move(self, sid: int, bound: Bound) -> None:
        standing = self._standings[sid]
        if standing.bound.place is not None:
            self._points.remove(sid, b"", standing.bound.place)
        standing.bound = bound
        if bound.place is None:
            standing.state = JoinState(self._shape)
            return
        self._points.insert(sid, b"", bound.place)
        selected = [
            [row for row in rows.values() if self._fold.holds(table, bound.place, row)]
            for table, rows in enumerate(self.rows)
        ]
        standing.state = JoinState(self._shape, selected)

    def _tell(self, standing: _Standing, seq: int, body: bytes | None) -> None:
        if body is None:
            return
        for request in standing.requests:
            if request.after < seq <= request.upto and request.stream.give("change", seq, body):
                self._metrics.replayed += 1

    def finish(self) -> None:
        """Everything was read: from now on the streams are live."""
        self._advance(self._upto + 1)
        for standing in self._standings.values():
            for request in standing.requests:
                if not request.stream.sink.is_lagging:
                    request.stream.catch_up()


def _put(rows: dict[Key, Row], key: Key, row: Row | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row


def _around(boxes: list[tuple[Span, ...]]) -> tuple[Span, ...]:
    """One box around many."""
    spans = []
    for sides in zip(*boxes, strict=True):
        lows, highs = zip(*sides, strict=True)
        spans.append((_end(min, lows), _end(max, highs)))
    return tuple(spans)


def _end(pick: Any, ends: Sequence[Any]) -> Any:
    return None if None in ends else pick(ends)
