"""What is read from the stand-in for PostgreSQL at a recovery and at a replay, and what retention forgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import msgspec

from cn.model.message import Message
from prosem.store.last_notified import ANYTIME, LAST_PART
from prosem.store.lookback import Lookback, LookbackPoint
from prosem.store.past import Logged
from prosem.store.recovery import StoredState, StoredSubscription, StoredView
from prosem.store.replay import HistoryRow, MessageRow, NotRetainedError
from prosem.values.codes import Boxes
from prosem.values.errors import BusyError
from prosem.values.model import Group, PlaceMark, Row, Statement, Table
from prosem.values.timeline import Timelines
from tests.simulation.machine import CURRENT, pause
from tests.simulation.postgres import Data, Database

CHUNK = 3  # messages of a page: small, so that passes are interrupted
NOTIFYING = ("value", "decision", "notified")
_read_mark = msgspec.json.Decoder(PlaceMark).decode
_read_message = msgspec.msgpack.Decoder(Message).decode


def marks_as_of(data: Data, upto: int = ANYTIME) -> Iterator[tuple[int, int, bool, PlaceMark]]:
    """What `prosem.store.last_notified` reads by SQL."""
    spaces: dict[int, dict[int, tuple[int, PlaceMark]]] = {}
    for sid, entries in sorted(data.history.items()):
        marked = [entry for at, entry in sorted(entries.items()) if entry[5] is not None and at[0] <= upto]
        if marked and sid in data.subscriptions:
            space = data.groups[data.subscriptions[sid].group_id].space
            spaces.setdefault(space, {})[sid] = marked[-1][0], _read_mark(marked[-1][5])
    for space, marks in spaces.items():
        look = Lookback(
            LookbackPoint(sid, max(seq, data.retained_after), upto, mark.topic, mark.place, sid)
            for sid, (seq, mark) in marks.items()
            if mark.place is not None and not mark.is_birth
        )
        for of, seq, _, kind, _, body in sorted(data.outbox, key=lambda one: one[1:3], reverse=True):
            if of == space and kind in NOTIFYING and look.after < seq <= upto and not look.is_done:
                look.take(_read_message(body))
        for sid, (seq, mark) in marks.items():
            last = look.payloads.get(sid)
            if last is not None:
                mark = PlaceMark(mark.topic, mark.place, msgspec.Raw(last))
            yield sid, seq, last is not None, mark


def retire(data: Data, upto: int) -> None:
    """What `prosem.store.retention` does by SQL: nothing up to this seq is kept, but what later seqs need."""
    if upto <= data.retained_after:
        return
    for sid, _, is_new, mark in list(marks_as_of(data, upto)):
        if is_new:
            entry = (upto, LAST_PART, "told", None, None, msgspec.json.encode(mark))
            data.history[sid].setdefault((upto, LAST_PART), entry)
    for entries in data.history.values():
        old = [at for at in entries if at[0] <= upto]
        for at in old:
            if any(later > at and entries[later][2] != "created" for later in old if later in entries):
                del entries[at]
    data.retained_after = upto
    data.events = {seq: event for seq, event in data.events.items() if seq > upto}
    data.outbox = [message for message in data.outbox if message[1] > upto]


class Snapshot:
    """All that is stored, as of one moment: what a recovery reads."""

    def __init__(self, data: Data) -> None:
        self._data = data = copy(data)
        self.state = StoredState(data.last_seq, data.retained_after, copy(data.counters))
        self.tables: list[Table] = [table for _, table in sorted(data.tables.items())]
        self.views: list[StoredView] = [view for _, view in sorted(data.views.items())]
        self.groups: list[Group] = [group for _, group in sorted(data.groups.items())]
        self.statements: list[Statement] = [one for _, one in sorted(data.statements.items())]
        self.timelines = Timelines(data.timelines)
        self._rows = {table: list(rows.values()) for table, rows in data.rows.items()}
        self._subscriptions = [one for _, one in sorted(data.subscriptions.items())]
        self._marks = {sid: (seq, mark) for sid, seq, _, mark in marks_as_of(data)}
        self._last_move = max(
            (
                at[1]
                for entries in data.history.values()
                for at, entry in entries.items()
                if entry[2] != "told"
            ),
            default=0,
        )
        self._items: dict[int, list[bytes]] = {}
        for (space, _), kept in data.items.items():
            self._items.setdefault(space, []).append(kept)

    @classmethod
    def read(cls, database: Database) -> Snapshot:
        """By a connection of its own, which takes a while."""
        process = CURRENT.get()
        database.check(process)
        made = cls(database.data)
        pause(database.latency())
        database.check(process)
        return made

    def rows(
        self, *tables: Table, columns: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[Table, Sequence[Row]]]:
        for table in tables:
            yield table, [tuple(row[at] for at in columns[table.id]) for row in self._rows.get(table.id, [])]

    def subscriptions(self) -> Iterator[list[StoredSubscription]]:
        yield self._subscriptions

    def last_move(self) -> int:
        return self._last_move

    def marks(self) -> Mapping[int, tuple[int, PlaceMark]]:
        return self._marks

    def items(self) -> Mapping[int, Sequence[bytes]]:
        return self._items


class Readers:
    """In the place of `prosem.store.replay.ReplayStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _data(self) -> Data:
        """A query: it takes a while, and fails while the database cannot be reached."""
        database, process = self._database, CURRENT.get()
        await asyncio.sleep(database.latency())
        if database.loop.now < database.down_until or database.is_cut(process):
            raise BusyError("the database cannot be read")
        return database.data

    async def retained_after(self) -> int:
        return (await self._data()).retained_after

    async def messages(self, space: int, after: int, upto: int) -> AsyncIterator[list[MessageRow]]:
        async for page in self._pages(space, after, upto, is_back=False):
            yield page

    async def messages_back(self, space: int, after: int, upto: int) -> AsyncIterator[list[MessageRow]]:
        async for page in self._pages(space, after, upto, is_back=True):
            yield page

    async def _pages(
        self, space: int, after: int, upto: int, *, is_back: bool
    ) -> AsyncIterator[list[MessageRow]]:
        last: tuple[int, int] | None = None
        while True:
            data = await self._data()
            _check_retained(data, after)
            found = sorted(
                (seq, part, kind, body)
                for of, seq, part, kind, _, body in data.outbox
                if of == space and after < seq <= upto
            )
            found = found[::-1] if is_back else found
            if last is not None:
                found = [one for one in found if (one[:2] < last if is_back else one[:2] > last)]
            if not found:
                return
            last = found[:CHUNK][-1][:2]
            yield found[:CHUNK]

    async def rows(self, seqs: Sequence[int]) -> AsyncIterator[tuple[int, tuple[bytes | None, bytes | None]]]:
        for seq in seqs:
            data = await self._data()
            _check_retained(data, seq - 1)
            yield seq, data.events[seq][3:5]

    async def history(self, sids: Iterable[int]) -> dict[int, list[HistoryRow]]:
        data = await self._data()
        return _history(data, sids)

    @asynccontextmanager
    async def view(self) -> AsyncIterator[PastView]:
        data = await self._data()
        yield PastView(self, data)


def _check_retained(data: Data, after: int) -> None:
    if data.retained_after > after:
        raise NotRetainedError(f"only what comes after {data.retained_after} is kept, not after {after}")


def _history(data: Data, sids: Iterable[int]) -> dict[int, list[HistoryRow]]:
    return {
        sid: [tuple(entry) for _, entry in sorted(data.history.get(sid, {}).items())]  # type: ignore[misc]
        for sid in sids
    }


class PastView:
    """In the place of `prosem.store.past.Past`: one consistent view."""

    def __init__(self, readers: Readers, data: Data) -> None:
        self._readers = readers
        self._data = copy(data)
        self._data.rows = {table: dict(rows) for table, rows in data.rows.items()}
        self._data.events, self._data.outbox = dict(data.events), list(data.outbox)
        self._data.history = {sid: dict(entries) for sid, entries in data.history.items()}
        self.last_seq, self.retained_after = data.last_seq, data.retained_after

    async def history(self, sids: Sequence[int]) -> dict[int, list[Any]]:
        await self._readers.retained_after()
        return _history(self._data, sids)  # type: ignore[return-value]

    async def tables(self) -> list[Table]:
        return [table for _, table in sorted(self._data.tables.items())]

    async def rows(self, table: Table, boxes: Boxes) -> AsyncIterator[list[Row]]:
        await self._readers.retained_after()
        found = [row for row in self._data.rows.get(table.id, {}).values() if _is_in(row, boxes)]
        if found:
            yield found

    async def events(self, table_ids: Sequence[int], after: int, upto: int) -> AsyncGenerator[list[Logged]]:
        found = [
            Logged(seq, table, old, new, end or seq)
            for seq, table, _, old, new, end in sorted(self._data.events.values())
            if table in table_ids and after < seq <= upto
        ]
        for at in range(0, len(found), CHUNK):
            await self._readers.retained_after()
            yield found[at : at + CHUNK]

    async def request_start(self, seq: int) -> int | None:
        events = [event for event in sorted(self._data.events.values()) if event[0] <= seq]
        if not events or (events[-1][5] or events[-1][0]) <= seq:
            return seq
        ended = [event[0] for event in events if (event[5] or event[0]) <= seq]
        start = ended[-1] if ended else 0
        return start if start >= self.retained_after else None

    async def changes(self, space: int, after: int, upto: int) -> AsyncGenerator[list[tuple[int, bytes]]]:
        found = sorted(
            (seq, part, body)
            for of, seq, part, kind, _, body in self._data.outbox
            if of == space and kind == "change" and after < seq <= upto
        )
        for at in range(0, len(found), CHUNK):
            await self._readers.retained_after()
            yield [(seq, body) for seq, _, body in found[at : at + CHUNK]]


def _is_in(row: Row, boxes: Boxes) -> bool:
    """Whether a row is in one of the boxes; NULL is in none."""

    def inside(at: int, low: Any, high: Any) -> bool:
        value: Any = row[at]
        if low is None and high is None:
            return True
        return value is not None and (low is None or value >= low) and (high is None or value <= high)

    return any(all(inside(at, *ends) for at, ends in box.items()) for box in boxes)
