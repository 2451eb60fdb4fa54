"""Following a source: the copy of its tables first, then every transaction, each exactly once.

Invariant: the position is stored in the transaction that applies what lies before it, and only what is stored is confirmed
to the source. After any failure the source may send again what was not confirmed; what ends at or before the stored
position is passed over. A transaction is never split; those that wait together share a request. Thesis 6.2.1 (a source
that is followed instead of publishing).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg

from api.attach.pgoutput import Alive, Begin, Cells, Changed, Commit, Message, Relation, Truncated, Unchanged
from api.attach.slot import Slot, connect
from api.attach.source import Source, SourceTable, copied, digest
from api.attach.target import Event, Target, key_of
from prosem.errors import SetupError

log = logging.getLogger("prosem.attach")
ROWS_A_REQUEST = 1_000
EVENTS_A_REQUEST = 1_000
CONFIRM_S = 5.0  # how often a silent stream is confirmed
LOOK_S = 2.0  # how often the source is asked for the lag


class StoppedError(SetupError):
    """Asked to end in the middle of something; nothing is lost by it."""


@dataclass
class Progress:
    """What is shown in the terminal and in the metrics."""

    state: str = "starting"
    rows: int = 0
    """copied from the snapshot"""
    transactions: int = 0
    events: int = 0
    position: int = 0
    lag_bytes: int = 0
    kept_bytes: int = 0
    committed: datetime | None = None
    """when the source committed the last transaction"""
    losses: int = 0
    """times that the source was lost"""


class Translation:
    """Messages of the log as events of the server."""

    def __init__(self, tables: Sequence[SourceTable]) -> None:
        self._tables = {(table.schema, table.name): table for table in tables}
        self._known: dict[int, tuple[SourceTable, list[int]]] = {}

    def relation(self, relation: Relation) -> None:
        """The source says what a table looks like; it does so again after the table was altered."""
        table = self._tables.get((relation.schema, relation.name))
        if table is None:
            return  # of a publication that somebody else extended
        places = {name: (at, oid) for at, (name, oid) in enumerate(relation.columns)}
        for column in table.columns:
            if places.get(column.name, (0, 0))[1] != column.oid:
                raise SetupError(
                    f"the column {column.name!r} of {table.schema}.{table.name} was altered or dropped in the source: "
                    f"drop the table {table.target!r} on the server and start again with --again"
                )
        self._known[relation.id] = table, [places[column.name][0] for column in table.columns]

    def events(self, message: Changed | Truncated) -> Iterator[Event]:
        if isinstance(message, Truncated):
            for number in message.relations:
                if number in self._known:
                    yield {"table": self._known[number][0].target, "op": "truncate"}
            return
        if message.relation not in self._known:
            return
        table, places = self._known[message.relation]
        if message.new is None:
            assert message.old is not None
            yield {"table": table.target, "op": "delete", "key": _key(table, places, message.old)}
            return
        row = _row(table, places, message.new)
        if message.op == "insert":
            yield {"table": table.target, "op": "insert", "row": row}
            return
        key = _key(table, places, message.old if message.old is not None else message.new)
        yield {"table": table.target, "op": "update", "key": key, "set": row}


def _row(table: SourceTable, places: Sequence[int], cells: Cells) -> dict[str, object]:
    """The values that were sent; what the update left as it was is not among them."""
    found = {}
    for column, place in zip(table.columns, places, strict=True):
        cell = cells[place]
        if not isinstance(cell, Unchanged):
            found[column.name] = table.value(column, cell)
    return found


def _key(table: SourceTable, places: Sequence[int], cells: Cells) -> dict[str, object]:
    row = {}
    for column, place in zip(table.columns, places, strict=True):
        cell = cells[place]
        if column.name in table.key:
            assert isinstance(cell, str), "a key is neither NULL nor left out"
            row[column.name] = table.value(column, cell)
    return row


@dataclass
class Pending:
    """Whole transactions that wait for their request, and the one that is arriving."""

    events: list[Event] = field(default_factory=list)
    transactions: int = 0
    end: int = 0
    at: datetime | None = None
    arriving: list[Event] | None = None
    begun: datetime | None = None


class Follower:
    """`stopped` is asked between steps. `once`: end as soon as the source's log as of the start is applied."""

    def __init__(
        self,
        url: str,
        source: Source,
        target: Target,
        tables: Sequence[SourceTable],
        progress: Progress,
        stopped: Callable[[], bool],
        once: bool = False,
    ) -> None:
        self._url, self._source, self._target, self._tables = url, source, target, tables
        self._progress, self._stopped, self._once = progress, stopped, once
        self._digest = digest(tables)
        self._translation = Translation(tables)
        self._pending = Pending()
        self._seen = 0  # everything of our tables before this position has arrived
        self._confirmed_at = self._looked_at = 0.0

    def run(self, again: bool) -> None:
        """Copy if that is necessary, then follow until stopped. OperationalError when the source is lost."""
        self._translation, self._pending = Translation(self._tables), Pending()
        self._target.alive = self._check_stopped
        self._target.refresh()
        if again or not self._can_continue():
            self._copy()
        goal = self._source.end() if self._once else None
        position = self._target.position
        assert position is not None
        self._progress.position = self._seen = position
        with Slot(self._url, self._source.slot_name) as slot:
            slot.start(position, self._source.publication)
            self._progress.state = "following"
            self._target.alive = lambda: self._wait_for_server(slot)
            try:
                while not self._stopped() and (goal is None or self._target.position < goal):  # type: ignore[operator]
                    self._step(slot, goal)
                slot.confirm(self._target.position or 0)
            finally:
                self._target.alive = self._check_stopped
        self._look()

    def _check_stopped(self) -> None:
        if self._stopped():
            raise StoppedError("stopped while the server was away")

    def _wait_for_server(self, slot: Slot) -> None:
        self._check_stopped()
        self._progress.state = "waiting for the server"
        slot.confirm(self._target.position or 0)

    # -- the copy ------------------------------------------------------------------------------------------------
    def _can_continue(self) -> bool:
        """Whether the slot still holds everything after the stored position."""
        slot, position = self._source.slot(), self._target.position
        if slot is None or position is None:
            return False
        if slot.is_lost or slot.confirmed > position or self._target.definition != self._digest:
            log.warning("the slot cannot be continued, the tables are copied anew")
            return False
        return True

    def _copy(self) -> None:
        """Bring the tables to one moment of the source: rows that differ are told, equal ones affect nobody."""
        progress = self._progress
        progress.state, progress.rows = "copying", 0
        slot = self._source.slot()
        if slot is not None and slot.is_active:
            raise psycopg.OperationalError(f"the slot {self._source.slot_name!r} is in use")
        self._target.forget()
        self._source.drop_slot()
        self._source.publish(self._tables)
        with Slot(self._url, self._source.slot_name) as made, connect(self._url) as reading:
            position, snapshot = made.create()
            for table in self._tables:
                stale = self._target.keys(table)
                batch: list[Event] = []
                for row in copied(reading, snapshot, table):
                    if stale:
                        stale.discard(key_of(table, row))
                    batch.append({"table": table.target, "op": "upsert", "row": row})
                    if len(batch) >= ROWS_A_REQUEST:
                        self._load(batch)
                        batch = []
                batch += [
                    {"table": table.target, "op": "delete", "key": dict(zip(table.key, key, strict=True))}
                    for key in stale
                ]
                self._load(batch)
        self._target.apply([], position, self._digest, datetime.now(UTC))

    def _load(self, batch: list[Event]) -> None:
        if self._stopped():
            raise StoppedError("stopped during the copy; it begins anew at the next start")
        self._target.load(batch)
        self._progress.rows += len(batch)

    # -- the stream ----------------------------------------------------------------------------------------------
    def _step(self, slot: Slot, goal: int | None) -> None:
        """Take one frame; when none is here, apply what has gathered."""
        frame = slot.next()
        pending = self._pending
        if isinstance(frame, Alive):
            self._seen = max(self._seen, frame.end)
            if frame.wants_reply:
                slot.confirm(self._target.position or 0)
        elif frame is not None and frame.message is not None:
            self._take(frame.message)
        if pending.events and (frame is None or len(pending.events) >= EVENTS_A_REQUEST):
            self._apply(slot)
        elif frame is None:
            self._rest(slot, goal)

    def _take(self, message: Message) -> None:
        pending = self._pending
        if isinstance(message, Relation):
            self._translation.relation(message)
        elif isinstance(message, Begin):
            pending.arriving, pending.begun = [], message.at
        elif isinstance(message, Commit):
            assert pending.arriving is not None
            if message.end > (
                self._target.position or 0
            ):  # else it was applied before the source lost its memory
                pending.events += pending.arriving
                pending.end, pending.at = message.end, pending.begun
                pending.transactions += 1
            self._seen = max(self._seen, message.end)
            pending.arriving = None
        else:
            assert pending.arriving is not None
            pending.arriving.extend(self._translation.events(message))

    def _apply(self, slot: Slot) -> None:
        done = self._pending
        self._pending = Pending(arriving=done.arriving, begun=done.begun)
        self._target.apply(done.events, done.end, self._digest, done.at)
        self._progress.transactions += done.transactions
        self._progress.events += len(done.events)
        self._progress.committed, self._progress.state = done.at, "following"
        self._advanced(slot)

    def _rest(self, slot: Slot, goal: int | None) -> None:
        """Nothing is here. What the source wrote for others is passed over, so that it can forget it."""
        now = time.monotonic()
        position = self._target.position or 0
        is_due = now - self._confirmed_at > CONFIRM_S or (goal is not None and self._seen >= goal)
        if is_due and self._pending.arriving is None:
            if self._seen > position:
                self._target.apply([], self._seen, self._digest, self._progress.committed)
            self._advanced(slot)
        self._look(now)
        slot.wait(0.2)

    def _advanced(self, slot: Slot) -> None:
        slot.confirm(self._target.position or 0)
        self._progress.position, self._confirmed_at = self._target.position or 0, time.monotonic()

    def _look(self, now: float | None = None) -> None:
        if now is None or now - self._looked_at > LOOK_S:
            self._looked_at = now or 0.0
            self._progress.lag_bytes, self._progress.kept_bytes = self._source.lag()
