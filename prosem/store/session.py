"""The session that owns the database: advisory lock, epoch, and the outcome of a commit whose answer was lost.

Invariants: taking the lock raises the epoch in one transaction; whatever the server writes is conditional on its epoch, so a
server that was superseded cannot write; a batch is known by (epoch, token), and the last token of every epoch is kept. A
standby ends the session of an owner whose lease has not been renewed for as long as that owner promised to.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg

from prosem.store import schema
from prosem.store.acquire import Seen, open_session, superseded_error, terminate_owner, try_lock
from prosem.store.partitions import Connection
from prosem.store.refusal import refusal
from prosem.values.errors import CommitError, SetupError, UnknownOutcomeError

log = logging.getLogger("prosem.session")
SUPERSEDED = "PS001"  # SQLSTATE of prosem.hold_epoch
LEASE_S = 10.0
_PAUSE_S = 0.1
_HOPELESS = ("authentication failed", "does not exist", "no pg_hba.conf entry")
_KEPT_EPOCHS = 1000
_clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine is suspended


def clock_s() -> float:
    return time.clock_gettime(_clock)


class Session:
    """One connection with the lock. `turn` is held by the user of the connection: the committer, or the heartbeat.

    `revive` starts a database that has ended again, and gives its address if that may have changed.
    """

    def __init__(
        self,
        url: str,
        lease_s: float = LEASE_S,
        settle_s: float = 10.0,
        revive: Callable[[], str | None] = lambda: None,
        on_superseded: Callable[[], object] = lambda: None,
    ) -> None:
        self.url = url
        self.lease_s, self.settle_s = lease_s, settle_s
        self.revive, self._on_superseded = revive, on_superseded
        self.id, self.epoch, self.token = uuid.uuid4().hex, 0, 0
        self.connection: Connection | None = None
        self.turn = threading.RLock()
        self._process = 0  # of the session, in PostgreSQL
        self.is_superseded = self.is_closed = False
        self.proven_at = 0.0
        self.operation: tuple[float, float] | None = None  # begin and limit in seconds, for the watchdog

    # -- opening ---------------------------------------------------------------------------------------------
    def open(
        self, wait_s: float, standby: bool = False, cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the lock and raise the epoch; as a standby wait for it, through restarts of PostgreSQL too."""
        deadline = time.monotonic() + wait_s
        seen, connection, problem = Seen(), None, ""
        try:
            while True:
                try:
                    if connection is None:
                        connection = open_session(self.url)
                        schema.check_revision(connection)
                    seen.look(*try_lock(connection), clock_s())
                    if seen.is_locked:
                        self._own(connection)
                        return
                    self._check_superseded(connection, seen.epoch)
                    self._end_stale_owner(connection, seen, standby)
                    problem = (
                        "another prosem serve uses this database: stop it, give another --database, "
                        "or wait for it with --standby"
                    )
                except psycopg.OperationalError as error:
                    if connection is not None:
                        connection.close()
                    connection = None
                    if str(error) not in problem:
                        log.warning("waiting for the database: %s", str(error).strip())
                    problem = f"the database cannot be reached: {str(error).strip()}"
                    if not seen.since_s and any(text in problem for text in _HOPELESS):
                        raise SetupError(problem) from error
                if cancelled() or self.is_closed or (not standby and time.monotonic() > deadline):
                    raise SetupError(problem)
                time.sleep(_PAUSE_S)
        except psycopg.Error as error:
            if connection is not None:
                connection.close()
            raise SetupError(f"the database cannot be used: {error}") from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise

    def _own(self, connection: Connection) -> None:
        """Raise the epoch; the last token of the epoch before is kept."""
        begun, former = clock_s(), self.epoch
        connection.execute("SET LOCAL lock_timeout = '5s'")
        row = connection.execute("SELECT epoch, token FROM prosem.engine_state FOR UPDATE").fetchone()
        assert row is not None, "the schema makes the only row"
        epoch, token = row
        name = f"{socket.gethostname()} process {os.getpid()}"
        connection.execute("UPDATE prosem.ownership SET token = $2 WHERE epoch = $1", [epoch, token])
        connection.execute(
            "INSERT INTO prosem.ownership (epoch, server, name) VALUES ($1, $2, $3)",
            [epoch + 1, self.id, name],
        )
        connection.execute("DELETE FROM prosem.ownership WHERE epoch < $1", [epoch - _KEPT_EPOCHS])
        connection.execute(
            "UPDATE prosem.engine_state SET epoch = $1, token = 0, beats = 0, lease_s = $2",
            [epoch + 1, self.lease_s],
        )
        connection.commit()
        if former:
            self._check_superseded(connection, epoch)
        self.epoch, self.token, self.connection = epoch + 1, 0, connection
        self._process = connection.info.backend_pid
        self.proven_at = begun
        if self.is_closed:
            connection.close()

    def _check_superseded(self, connection: Connection, epoch: int) -> None:
        """SupersededError if another server has owned the database since this one did."""
        if not self.epoch or epoch == self.epoch:
            return
        row = connection.execute(
            "SELECT name FROM prosem.ownership WHERE epoch > $1 AND server <> $2 ORDER BY epoch LIMIT 1",
            [self.epoch, self.id],
        ).fetchone()
        connection.rollback()
        if row is not None:
            self.supersede()
            raise superseded_error(row[0])

    def _end_stale_owner(self, connection: Connection, seen: Seen, standby: bool) -> None:
        """End the session of an owner that is silent beyond its lease, and the broken one of this server itself."""
        if self.epoch and seen.epoch == self.epoch:
            terminate_owner(connection, seen, self._process)
        elif standby and seen.is_expired(clock_s()):
            log.warning("the owner of epoch %d was silent for %.0f s: taking over", seen.epoch, seen.lease_s)
            terminate_owner(connection, seen)

    def supersede(self) -> None:
        """Another server owns the database: nothing in memory counts any more."""
        if not self.is_superseded:
            self.is_superseded = True
            log.error("another server has taken the database over from epoch %d of this one", self.epoch)
            self._on_superseded()

    # -- use -------------------------------------------------------------------------------------------------
    def require(self) -> Connection:
        if self.is_superseded:
            raise CommitError(superseded_error("another server").detail)
        if self.connection is None:
            raise CommitError("there is no connection to PostgreSQL")
        return self.connection

    def is_open(self) -> bool:
        return self.connection is not None and not self.connection.closed

    @property
    def is_proven(self) -> bool:
        """Whether this server is the owner: no other can be before the lease is over."""
        lease_s = self.lease_s or LEASE_S
        return self.is_open() and not self.is_superseded and clock_s() - self.proven_at < lease_s

    def prove(self) -> None:
        """CommitError unless this server is the owner now; asks PostgreSQL only when the lease is over."""
        if self.is_proven:
            return
        with self.turn:
            self.beat()
            if not self.is_open() and not self.is_superseded:
                try:
                    self.reopen(self.settle_s)
                except SetupError as error:
                    raise CommitError(error.detail) from error
        if not self.is_proven:
            raise CommitError("this server cannot prove that it owns the database")

    def begin(self, limit_s: float) -> None:
        """An operation begins that the watchdog breaks off after this long."""
        self.operation = (clock_s(), limit_s)

    def end(self) -> None:
        self.operation = None

    def beat(self, connection: Connection | None = None) -> None:
        """Renew the lease and prove the ownership, over the session itself unless another connection is given."""
        used = connection or self.connection
        if used is None or used.closed:
            return
        begun = clock_s()
        try:
            used.execute("SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = '2s'")
            used.execute(
                "UPDATE prosem.engine_state SET beats = beats + 1, epoch = prosem.hold_epoch(epoch, $1)",
                [self.epoch],
            )
            used.commit()
            self.proven_at = begun
        except psycopg.Error as error:
            if error.sqlstate == SUPERSEDED:
                if (
                    connection is None
                ):  # beside the session, the epoch may be one that this server itself has just raised
                    self.supersede()
            elif not isinstance(error, psycopg.errors.LockNotAvailable):
                log.warning("the heartbeat failed: %s", str(error).strip())
            _roll_back(used)

    def reopen(self, wait_s: float) -> None:
        """A new session in the place of a broken one."""
        if self.connection is not None:
            self.connection.close()
        self.url = self.revive() or self.url
        self.open(wait_s)

    def settle(self, token: int, error: psycopg.Error) -> None:
        """After a failed batch: return if it was committed after all, raise its refusal if not, and
        UnknownOutcomeError if PostgreSQL cannot be asked."""
        connection, epoch = self.connection, self.epoch
        assert connection is not None
        self.end()
        if error.sqlstate == SUPERSEDED:
            _roll_back(connection)
            self.supersede()
            raise CommitError(superseded_error("another server").detail) from error
        _roll_back(connection)
        if connection.closed:
            try:
                self.reopen(self.settle_s)
            except SetupError as failure:
                if not self.is_superseded or not self._is_committed_elsewhere(epoch, token):
                    raise self._failed(failure) from error
                return
            assert self.connection is not None
            connection = self.connection
        try:
            if self._last_token(connection, epoch) == token:
                return
        except psycopg.Error as failure:
            connection.close()
            raise UnknownOutcomeError(f"the outcome of a batch cannot be asked for: {failure}") from error
        raise refusal(error) from error

    def _failed(self, failure: SetupError) -> CommitError | UnknownOutcomeError:
        if self.is_superseded:
            return CommitError(failure.detail)
        return UnknownOutcomeError(f"the connection to PostgreSQL broke, and {failure.detail}")

    def _is_committed_elsewhere(self, epoch: int, token: int) -> bool:
        """Whether a batch of an epoch that another server ended was committed before that."""
        try:
            with psycopg.connect(
                self.url, cursor_factory=psycopg.RawCursor, connect_timeout=10
            ) as connection:
                return self._last_token(connection, epoch) == token
        except psycopg.Error as failure:
            raise UnknownOutcomeError(f"the outcome of a batch cannot be asked for: {failure}") from failure

    def _last_token(self, connection: psycopg.Connection[Any], epoch: int) -> int | None:
        row = connection.execute(
            "SELECT token FROM prosem.engine_state WHERE epoch = $1"
            " UNION ALL SELECT token FROM prosem.ownership WHERE epoch = $1 AND token IS NOT NULL",
            [epoch],
        ).fetchone()
        connection.rollback()
        return None if row is None else int(row[0])

    def break_off(self) -> None:
        """End the connection from another thread: the one that uses it gets an error."""
        connection = self.connection
        if connection is not None and not connection.closed:
            try:
                with socket.socket(fileno=os.dup(connection.fileno())) as link:
                    link.shutdown(socket.SHUT_RDWR)
            except (OSError, psycopg.Error) as error:
                log.warning("the session could not be broken off: %s", error)

    def close(self) -> None:
        self.is_closed = True
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _roll_back(connection: Connection) -> None:
    if not connection.closed:
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()
