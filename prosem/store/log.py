"""The writer: everything a batch changes, in one transaction and one round trip.

Invariants: a `WriteSet` is applied as a whole or not at all; only the session that owns the database writes (`session`);
when the connection breaks during a commit, the writer finds out whether it took place before it says anything. Cost: see
`packing`; a batch of 2000 events is bound by PostgreSQL's own work, a batch of one by the fsync.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from prosem.store import catalog
from prosem.store.holders import lock_alone
from prosem.store.partitions import Connection, Partitions
from prosem.store.refusal import refusal
from prosem.store.retention import IDEMPOTENCY_S
from prosem.store.round_trip import RoundTrip
from prosem.store.session import LEASE_S, Session, clock_s
from prosem.store.writeset import Counters, WriteSet, commands
from prosem.values.errors import CommitError, SetupError

__all__ = ["IDEMPOTENCY_S", "PARTITION_SIZE", "Counters", "InjectedFault", "WriteSet", "Writer"]

PARTITION_SIZE = 1_000_000
_COMMIT, _CHECK = b"COMMIT", b"SET CONSTRAINTS ALL IMMEDIATE"
_PAUSE_S = 0.1
_CANCEL_S = 5.0  # that a cancelled statement has to end
_EXTEND_AGAIN_S = 5.0


class InjectedFault(psycopg.Error):
    """What `fail_after` raises in the place of a database that refuses."""


class Writer:
    """The committer's side of the session. Used by one thread."""

    def __init__(self, session: Session, partition_size: int = PARTITION_SIZE) -> None:
        self.session = session
        self.busy_since: float | None = None
        """while a batch is written: when its last statement was sent (monotonic)"""
        self.fail_after: int | None = None
        """for tests: so many writes succeed, the next one fails before its commit"""
        self._partitions = Partitions(partition_size)
        self._extend_after_s = 0.0
        self._rows: dict[int, catalog.RowStatements] = {}
        self._round_trip = RoundTrip()

    @classmethod
    def connect(
        cls,
        url: str,
        wait_s: float = 10.0,
        standby: bool = False,
        *,
        partition_size: int = PARTITION_SIZE,
        lease_s: float = LEASE_S,
        cancelled: Callable[[], bool] = lambda: False,
        revive: Callable[[], str | None] = lambda: None,
        on_superseded: Callable[[], object] = lambda: None,
    ) -> Writer:
        """Open the session and take the lock; with `standby` wait for it as long as another engine has it."""
        session = Session(url, lease_s, revive=revive, on_superseded=on_superseded)
        writer = cls(session, partition_size)
        writer.session.open(wait_s, standby, cancelled)
        try:
            writer._partitions.load(writer.session.require())
        except psycopg.Error as error:
            writer.close()
            raise SetupError(f"the database cannot be used: {error}") from error
        return writer

    @property
    def url(self) -> str:
        return self.session.url

    def recover(self) -> str:
        """Be ready for a recovery: with a session, and nothing begun in it; the database's address."""
        with self.session.turn:
            self.release()
            if not self.session.is_open():
                self.session.reopen(10.0)
            else:
                self.session.url = self.session.revive() or self.session.url
            self._partitions.load(self.session.require())
        return self.session.url

    def close(self) -> None:
        self.session.close()

    def is_open(self) -> bool:
        return self.session.is_open()

    # -- writing ---------------------------------------------------------------------------------------------
    def write(self, batch: WriteSet) -> None:
        """Commit the batch, or raise with nothing of it applied: RefusedError for its data, ResourceError while
        nothing can be written, else CommitError. UnknownOutcomeError if that cannot be found out."""
        session = self.session
        if batch.is_empty():
            self.prove()
            return
        with session.turn:
            self._reopen()
            connection = session.require()
            session.token += 1
            token, begun = session.token, clock_s()
            try:
                self._send(connection, batch)
                session.proven_at = begun
            except psycopg.Error as error:
                session.settle(token, error)
            finally:
                self.busy_since = None

    def probe(self, batch: WriteSet) -> None:
        """Write the batch in a transaction that is rolled back; raises as `write` would.

        A table that it drops stays locked, until the next batch or `prove`: so the drop itself cannot wait. ConflictError
        if another session uses the table.
        """
        with self.session.turn:
            self._reopen()
            connection, is_kept = self.session.require(), False
            try:
                if batch.dropped is not None:
                    lock_alone(connection, catalog.relation(batch.dropped))
                    connection.execute("SAVEPOINT trial")
                self._send(connection, batch, is_trial=True)
                if batch.dropped is not None:
                    connection.execute("ROLLBACK TO SAVEPOINT trial")
                    is_kept = True
            except psycopg.Error as error:
                raise refusal(error) from error
            finally:
                self.busy_since = None
                self._rows.clear()  # a table that was made in the trial is not there
                if not is_kept:
                    self.release()

    def _send(self, connection: Connection, batch: WriteSet, *, is_trial: bool = False) -> None:
        """All statements of the batch in a transaction, which is committed unless this is a trial."""
        self._sent()
        self._extend(connection, batch.last_seq)
        statements = commands(batch, self._rows, (self.session.epoch, self.session.token))
        ending, is_faulty = (_CHECK, False) if is_trial else (_COMMIT, self._is_faulty())
        if batch.created is None and batch.dropped is None:
            self._round_trip.run(connection, statements, None if is_faulty else ending, self._sent)
        else:
            self._send_one_by_one(connection, statements, None if is_faulty else ending)
        if is_faulty:
            raise InjectedFault("a fault was injected before the commit")

    def _send_one_by_one(
        self, connection: Connection, statements: Iterable[tuple[bytes, list[Any]]], ending: bytes | None
    ) -> None:
        """Changes of the schema: rare, and the end of what is prepared of a table that is dropped."""
        self._round_trip.forget()
        for text, parameters in statements:
            connection.execute(text, parameters)
            self._sent()
        if ending == _COMMIT:
            connection.commit()
        elif ending is not None:
            connection.execute(ending)

    def _sent(self) -> None:
        self.busy_since = time.monotonic()

    def abort(self) -> None:
        """End a commit that makes no progress; the thread that waits for it gets an error.

        Called from another thread. First the statement is cancelled, which frees a backend that waits for a lock;
        if that does not help, the session is broken.
        """
        connection, since = self.session.connection, self.busy_since
        if connection is None or connection.closed or since is None:
            return
        with contextlib.suppress(psycopg.Error, OSError):
            connection.cancel_safe(timeout=_CANCEL_S)
        deadline = time.monotonic() + _CANCEL_S
        while self.busy_since == since and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        if self.busy_since == since:
            self.session.break_off()

    def prove(self) -> None:
        """CommitError unless this server owns the database: what it answers from memory is true."""
        self.release()
        self.session.prove()

    def release(self) -> None:
        """End a transaction that `probe` left open."""
        with self.session.turn:
            connection = self.session.connection
            if connection is not None and not connection.closed and connection.info.transaction_status:
                try:
                    connection.rollback()
                except psycopg.Error:
                    connection.close()

    def _reopen(self) -> None:
        """A session that is known to be lost had nothing begun: another takes its place."""
        connection = self.session.connection
        if connection is not None and connection.closed and not self.session.is_superseded:
            try:
                self.session.reopen(self.session.settle_s)
            except SetupError as error:
                raise CommitError(f"the connection to PostgreSQL broke, and {error.detail}") from error

    def _extend(self, connection: Connection, last_seq: int) -> None:
        """Make the next partition ahead of time; while it is not needed yet, other sessions' locks postpone it."""
        if not self._partitions.needs(last_seq) or connection.info.transaction_status:
            return
        is_due = last_seq >= self._partitions.end
        if is_due or time.monotonic() >= self._extend_after_s:
            try:
                self._partitions.extend(connection, last_seq, None if is_due else 100)
            except psycopg.errors.LockNotAvailable:
                if is_due:
                    raise
                connection.rollback()
                self._extend_after_s = time.monotonic() + _EXTEND_AGAIN_S

    def _is_faulty(self) -> bool:
        """Whether this write is the one that is to fail."""
        if self.fail_after is None:
            return False
        self.fail_after -= 1
        if self.fail_after >= 0:
            return False
        self.fail_after = None
        return True
