"""The writer: everything a batch changes, in one transaction and one round trip.

Invariants: a `WriteSet` is applied as a whole or not at all; only the session that holds the advisory
lock writes; when the connection breaks during a commit, the writer finds out whether it took place
before it says anything. Cost: see `packing`; a batch of 2000 events is bound by PostgreSQL's own work,
a batch of one by the fsync.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable

import msgspec
import psycopg
from psycopg import sql

from prosem.errors import CommitError, SetupError
from prosem.store import catalog, schema
from prosem.store.flushing import flush_all
from prosem.store.packing import Packed, PackedDumper
from prosem.store.partitions import Connection, Partitions
from prosem.store.refusal import refusal
from prosem.store.told import LAST_PART, told
from prosem.store.writeset import Counters, WriteSet, commands, history

__all__ = ["IDEMPOTENCY_S", "PARTITION_SIZE", "Counters", "InjectedFault", "WriteSet", "Writer"]

PARTITION_SIZE = 1_000_000
IDEMPOTENCY_S = 24 * 3600
_PAUSE_S = 0.1
_CANCEL_S = 5.0  # that a cancelled statement has to end
_HOPELESS = ("authentication failed", "does not exist", "no pg_hba.conf entry")
# The session writes by key only: a plan made while a table was empty must not scan it when it is large.
_SESSION = (
    "SET timezone = 'UTC'; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;"
    " SET tcp_keepalives_idle = 30"  # the server notices a lost host, and its lock is free again
)


class InjectedFault(psycopg.Error):
    """What `fail_after` raises in the place of a database that refuses."""


class Writer:
    """The committer's connection. Used by one thread; holds the lock that makes its engine the only one."""

    def __init__(self, url: str, partition_size: int = PARTITION_SIZE) -> None:
        self.url = url
        self.fail_after: int | None = None
        """for tests: so many writes succeed, the next one fails before its commit"""
        self.patience_s = 10.0
        self.revive: Callable[[], str | None] = lambda: None
        """brings a database back that has ended; its address, if that changed"""
        """how long to try to find out what became of a commit when the connection broke"""
        self._partitions = Partitions(partition_size)
        self._connection: Connection | None = None
        self._batches = 0
        self._measurements: int | None = None  # written since the last trim; None: nobody knows
        self._rows: dict[int, catalog.RowStatements] = {}
        self.busy_since: float | None = None
        """while a batch is written: when its last statement was sent (monotonic)"""

    # -- the session -----------------------------------------------------------------------------------------
    @classmethod
    def connect(
        cls,
        url: str,
        wait_s: float = 10.0,
        standby: bool = False,
        *,
        partition_size: int = PARTITION_SIZE,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Writer:
        """Open the session and take the lock; with `standby` wait for it as long as another engine has it."""
        writer = cls(url, partition_size)
        writer._open(wait_s, standby, cancelled)
        return writer

    def reconnect(self, wait_s: float = 10.0, url: str | None = None) -> None:
        """Open a new session in the place of a broken one."""
        self.close()
        self.url = url or self.url
        self._open(wait_s, standby=False, cancelled=lambda: False)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def _open(self, wait_s: float, standby: bool, cancelled: Callable[[], bool]) -> None:
        deadline = time.monotonic() + wait_s
        connection = _session(self.url, deadline)
        try:
            schema.check_revision(connection)
            while True:
                row = connection.execute("SELECT pg_try_advisory_lock($1)", [schema.ENGINE_LOCK]).fetchone()
                connection.rollback()
                if row == (True,):
                    break
                if cancelled() or (not standby and time.monotonic() > deadline):
                    raise SetupError(
                        "another prosem serve uses this database: stop it, give another --database, "
                        "or wait for it with --standby"
                    )
                time.sleep(_PAUSE_S)
            row = connection.execute("SELECT batches FROM prosem.engine_state").fetchone()
            assert row is not None, "the schema makes the only row"
            self._batches = int(row[0])
            self._partitions.load(connection)
        except psycopg.Error as error:
            connection.close()
            raise SetupError(f"the database cannot be used: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    # -- writing ---------------------------------------------------------------------------------------------
    def write(self, batch: WriteSet) -> None:
        """Commit the batch, or raise with nothing of it applied: RefusedError for its data, ResourceError while
        nothing can be written, else CommitError."""
        if batch.is_empty():
            return
        connection = self._require()
        try:
            self._send(connection, batch)
        except psycopg.Error as error:
            self._settle(error)
        finally:
            self.busy_since = None
        self._batches += 1
        if self._measurements is not None:
            self._measurements += len(batch.measurements)

    def probe(self, batch: WriteSet) -> None:
        """Write the batch in a transaction that is rolled back; raises as `write` would."""
        connection = self._require()
        try:
            try:
                self._send(connection, batch, is_trial=True)
            finally:
                self.busy_since = None
                self._rows.clear()  # a table that was made in the trial is not there
                if not connection.closed:
                    connection.rollback()
        except psycopg.Error as error:
            raise refusal(error) from error

    def _send(self, connection: Connection, batch: WriteSet, *, is_trial: bool = False) -> None:
        """All statements of the batch in a transaction, which is committed unless this is a trial."""
        self.busy_since = time.monotonic()
        if self._partitions.needs(batch.last_seq):
            self._partitions.extend(connection, batch.last_seq)
        lasting = batch.created is None and batch.dropped is None
        # psycopg forgets its prepared statements after a DROP, cleanly only outside a pipeline.
        with connection.pipeline() if lasting else contextlib.nullcontext():
            for text, parameters in commands(batch, self._rows):
                connection.execute(text, parameters, prepare=lasting)
                flush_all(connection)
                self.busy_since = time.monotonic()
            if is_trial:
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                return
            self._count_down()
            connection.commit()

    def abort(self) -> None:
        """End a commit that makes no progress; the thread that waits for it gets an error.

        Called from another thread. First the statement is cancelled, which frees a backend that waits for a lock;
        if that does not help, the session is broken.
        """
        connection, since = self._connection, self.busy_since
        if connection is None or connection.closed or since is None:
            return
        with contextlib.suppress(psycopg.Error, OSError):
            connection.cancel_safe(timeout=_CANCEL_S)
        deadline = time.monotonic() + _CANCEL_S
        while self.busy_since == since and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        if self.busy_since == since:
            with (
                contextlib.suppress(psycopg.Error, OSError),
                socket.socket(fileno=os.dup(connection.fileno())) as link,
            ):
                link.shutdown(socket.SHUT_RDWR)

    def _count_down(self) -> None:
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                self.fail_after = None
                raise InjectedFault("a fault was injected before the commit")

    def _settle(self, error: psycopg.Error) -> None:
        """After an error: roll back and raise CommitError, unless the commit has taken place after all."""
        connection = self._require()
        if not connection.closed:
            try:
                connection.rollback()
            except psycopg.Error:
                connection.close()
        if connection.closed:
            expected = self._batches + 1
            try:
                self.reconnect(self.patience_s, self.revive())
            except SetupError as failure:
                raise CommitError(f"the connection to PostgreSQL broke, and {failure.detail}") from error
            if self._batches == expected:
                self._batches -= 1  # `write` counts it
                return
        raise refusal(error) from error

    def _require(self) -> Connection:
        if self._connection is None:
            raise CommitError("there is no connection to PostgreSQL")
        return self._connection

    # -- retention -------------------------------------------------------------------------------------------
    def older_than(self, age_s: float) -> int:
        """A `before_seq` for `retire` that keeps everything younger than this."""
        return self._partitions.older_than(self._require(), age_s)

    def retire(self, before_seq: int, idempotency_s: float = IDEMPOTENCY_S, patience_s: float = 2.0) -> int:
        """Forget what only seqs before this one need; the new `retained_after`. Gives way to long readers.

        Of a point's history the last entry up to `retained_after` stays: later messages meet it. If it has a mark,
        that tells what had been told by then: messages that are about to go are folded into the marks first.
        """
        connection = self._require()
        try:
            connection.execute(
                sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(int(patience_s * 1000)))
            )
            self._keep_told(connection, before_seq)
            gone = self._partitions.drop(connection, before_seq)
            after = gone[-1][1] - 1 if gone else 0
            row = connection.execute(
                "UPDATE prosem.engine_state SET retained_after = greatest(retained_after, $1)"
                " RETURNING retained_after",
                [after],
            ).fetchone()
            assert row is not None
            retained_after = int(row[0])
            if gone:
                connection.execute(
                    "DELETE FROM prosem.history h USING prosem.history later WHERE later.kind <> 'created'"
                    " AND later.seq <= $1 AND h.sid = later.sid"
                    " AND (h.seq, h.part) < (later.seq, later.part)",
                    [retained_after],
                )
                connection.execute(
                    "DELETE FROM prosem.history WHERE kind = 'deleted' AND seq <= $1", [retained_after]
                )
            connection.execute(
                "DELETE FROM prosem.idempotency WHERE at < now() - make_interval(secs => $1)",
                [float(idempotency_s)],
            )
            connection.commit()
        except psycopg.errors.LockNotAvailable:
            connection.rollback()
            row = connection.execute("SELECT retained_after FROM prosem.engine_state").fetchone()
            connection.rollback()
            return int(row[0]) if row is not None else 0
        except psycopg.Error as error:
            if not connection.closed:
                connection.rollback()
            raise CommitError(f"PostgreSQL could not retire what is no longer needed: {error}") from error
        self._partitions.forget(gone)
        return retained_after

    def trim(self, most: int) -> None:
        """Keep about `most` measurements of plans, the newest; looks only when a tenth as many may have come."""
        if self._measurements is not None and self._measurements * 10 <= most:
            return
        connection = self._require()
        try:
            connection.execute(
                "DELETE FROM prosem.plan_measurement WHERE seq <="
                " (SELECT seq FROM prosem.plan_measurement ORDER BY seq DESC OFFSET $1 LIMIT 1)",
                [most],
            )
            connection.commit()
        except psycopg.Error as error:
            if not connection.closed:
                connection.rollback()
            raise CommitError(f"PostgreSQL could not drop old measurements: {error}") from error
        self._measurements = 0

    def _keep_told(self, connection: Connection, before_seq: int) -> None:
        going = self._partitions.before(before_seq)
        if not going:
            return
        upto = going[-1][1] - 1
        row = connection.execute("SELECT retained_after FROM prosem.engine_state").fetchone()
        assert row is not None
        rows = [
            (sid, upto, LAST_PART, "told", None, None, msgspec.json.encode(mark))
            for sid, _, is_new, mark in told(connection, int(row[0]), upto)
            if is_new
        ]
        if rows:
            connection.execute(*history(rows))


def _session(url: str, deadline: float) -> Connection:
    """A session of the kind the writer needs; waits until the deadline for a server that is not there yet."""
    while True:
        try:
            connection = psycopg.connect(
                url, client_encoding="utf8", application_name="prosem writer", connect_timeout=10,
                cursor_factory=psycopg.RawCursor,
            )  # fmt: skip
            break
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline or any(text in str(error) for text in _HOPELESS):
                raise SetupError(f"the database cannot be reached: {str(error).strip()}") from error
            time.sleep(_PAUSE_S)
        except psycopg.ProgrammingError as error:
            raise SetupError(
                f"the database address cannot be read: {str(error).strip()}; "
                "it is like postgresql://user:password@host:5432/name"
            ) from error
    connection.adapters.register_dumper(Packed, PackedDumper)
    connection.prepared_max = 2000
    try:
        connection.execute(_SESSION)
        connection.commit()
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise SetupError(f"the database's encoding is {encoding}; prosem needs one in UTF8")
        if connection.info.server_version < 140_000:
            raise SetupError("PostgreSQL 14 or newer is needed")
    except BaseException:
        connection.close()
        raise
    return connection
