"""Following a source: the copy of its tables first, then every transaction, each exactly once.

Invariant: the position is stored in the transaction that applies what lies before it, and only what is stored is confirmed
to the source. After any failure the source may send again what was not confirmed; what ends at or before the stored
position is passed over. A transaction of the source is one request, never split and never joined with another. A source
that is followed instead of publishing: [ProSem thesis] 6.2.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import psycopg

from api.attach.catalog import Facts, checked, described, read_facts, written_facts
from api.attach.progress import Progress
from api.attach.slot import Slot, connect, lost_slot
from api.attach.source import Connection, Source, SourceTable, copied, digest
from api.attach.streaming import Stream
from api.attach.target import Event, Target, Transaction, key_of
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.attach")
ROWS_PER_REQUEST = 1_000
BYTES_PER_REQUEST = 512 << 10


class StoppedError(SetupError):
    """Asked to end in the middle of something; nothing is lost by it."""


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
        self._facts: list[Facts] = []
        self.is_copied = False

    def run(self, again: bool, made: Sequence[str] = ()) -> None:
        """Copy if that is necessary, then follow until stopped. OperationalError when the source is lost.

        `made`: tables that the server did not have at the start. From `is_copied` on, it is continued after a loss.
        """
        self._target.refresh()
        if again or self._target.position is None:
            self._copy()
        else:
            self._continue(made)
        self.is_copied = True
        goal = self._source.end() if self._once else None
        position = self._target.position
        assert position is not None
        self._progress.position = position
        with Slot(self._url, self._source.slot_name) as slot:
            slot.start(position, self._source.publication)
            self._progress.state = "following"
            stream = Stream(
                slot,
                self._source,
                self._target,
                self._tables,
                self._facts,
                self._progress,
                self._stopped,
                goal,
            )
            asyncio.run(stream.run())

    # -- going on ------------------------------------------------------------------------------------------------
    def _continue(self, made: Sequence[str]) -> None:
        """Check that the slot still holds everything after the stored position, and that the tables are the same."""
        slot, position, name = self._source.slot(), self._target.position, self._source.slot_name
        assert position is not None
        if slot is None:
            raise SetupError(lost_slot(name, "the source has no slot of this name"))
        if slot.is_lost:
            raise SetupError(
                lost_slot(name, f"the source has given it up ({slot.reason or 'wal_status lost'})")
            )
        if slot.confirmed > position:
            raise SetupError(lost_slot(name, "it has gone on without this server, or was made anew"))
        if made:
            raise SetupError(
                f"the server has lost the table {made[0]!r}, which was followed before: start again with --again, which"
                " copies the tables anew"
            )
        now = described(self._source.connection, self._source.publication, self._tables)
        known = read_facts(self._target.definition)
        if known is None:  # of a version that stored a digest
            if self._target.definition != digest(self._tables):
                raise _other_tables()
            known = now
        if [_followed(facts) for facts in known] != [_followed(facts) for facts in now]:
            checked(
                self._source.connection, self._source.publication, known
            )  # says more if the source has changed
            raise _other_tables()
        self._facts = checked(self._source.connection, self._source.publication, known)

    # -- the copy ------------------------------------------------------------------------------------------------
    def _copy(self) -> None:
        """Bring the tables to one moment of the source: rows that differ are published, equal ones affect nothing."""
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
            self._facts = described(self._source.connection, self._source.publication, self._tables)
            for table in self._tables:
                batch, size = [], 0
                for event in self._differing(reading, snapshot, table):
                    batch.append(msgspec.json.encode(event))
                    size += len(batch[-1])
                    if len(batch) >= ROWS_PER_REQUEST or size >= BYTES_PER_REQUEST:
                        self._load(batch)
                        batch, size = [], 0
                self._load(batch)
        definition = written_facts(self._facts)
        self._target.apply(Transaction(None, position, datetime.now(UTC), definition=definition))

    def _differing(self, reading: Connection, snapshot: str, table: SourceTable) -> Iterator[Event]:
        """All rows of the source, and deletions of those that only the server has."""
        stale = self._target.keys(table)
        for row in copied(reading, snapshot, table):
            if stale:
                stale.discard(key_of(table, row))
            yield {"table": table.target, "op": "upsert", "row": row}
        for key in stale:
            yield {"table": table.target, "op": "delete", "key": dict(zip(table.key, key, strict=True))}

    def _load(self, batch: list[bytes]) -> None:
        if self._stopped():
            raise StoppedError("stopped during the copy; it begins anew at the next start")
        self._target.load(batch)
        self._progress.rows += len(batch)


def _followed(facts: Facts) -> object:
    return facts.target, facts.oid, [column.name for column in facts.columns]


def _other_tables() -> SetupError:
    return SetupError(
        "other tables or columns are to be followed than were copied, or a table was made again in the source: start again"
        " with --again, which copies the tables anew (drop a table on the server first whose columns differ now)"
    )
