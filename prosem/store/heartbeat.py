"""The heartbeat of the session that owns the database, and a watchdog for one that hangs.

The heartbeat renews the lease every second: over the session itself while nothing is written, so that its loss is noticed,
and over a connection of its own while a long commit uses it. It notices the end of an idle session at once, by its socket,
and opens another. The watchdog breaks the session off when the heartbeat gets no answer.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import MutableMapping

import psycopg
from psycopg.pq import TransactionStatus

from prosem.runtime.supervise import supervise_thread
from prosem.store.connecting import KEEPALIVE
from prosem.store.partitions import Connection
from prosem.store.session import Session, clock_s
from prosem.values.errors import ProsemError

log = logging.getLogger("prosem.session")
EVERY_S = 1.0
BEAT_S = 5.0  # after which a heartbeat hangs
_LOOK_S = 0.05


class Heartbeat:
    """Two threads beside the committer; both end with `close`. `restarts` counts how often each had failed."""

    def __init__(
        self, session: Session, restarts: MutableMapping[str, int], every_s: float = EVERY_S
    ) -> None:
        self._session, self._every_s = session, every_s
        self._closing = threading.Event()
        self._beside: Connection | None = None
        self._threads = [
            supervise_thread(name, work, restarts, self._closing, every_s)
            for work, name in ((self._beat_all, "heartbeat"), (self._watch, "heartbeat-watchdog"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(10)
        if self._beside is not None:
            self._beside.close()

    # -- the heartbeat ---------------------------------------------------------------------------------------
    def _beat_all(self) -> None:
        while not self._closing.is_set():
            self.beat()
            self._wait()

    def _wait(self) -> None:
        """Until the next heartbeat is due, or the idle session has something to say: that is its end."""
        due = clock_s() + self._every_s
        while not self._closing.wait(_LOOK_S) and clock_s() < due:
            if not self._session.turn.acquire(blocking=False):
                continue
            try:
                connection = self._session.connection
                if connection is None or connection.closed:
                    return
                if _is_idle(connection) and select.select([connection.fileno()], [], [], 0)[0]:
                    return
            finally:
                self._session.turn.release()

    def beat(self) -> None:
        """One heartbeat: over the session itself if it is idle, else beside it. A lost session is opened again."""
        session = self._session
        if session.is_superseded or session.is_closed:
            return
        if not session.turn.acquire(blocking=False):
            self._beat_beside()
            return
        try:
            connection = session.connection
            if connection is None:
                return
            if connection.closed:
                session.reopen(self._every_s)
            elif _is_idle(connection):
                session.begin(BEAT_S)
                session.beat()
            else:
                self._beat_beside()
        except ProsemError as error:
            log.warning("the session with PostgreSQL is lost: %s", error.detail)
        finally:
            session.end()
            session.turn.release()

    def _beat_beside(self) -> None:
        """While the session is in use: renew the lease over another connection."""
        if clock_s() - self._session.proven_at < self._every_s:
            return
        try:
            if self._beside is None or self._beside.closed:
                self._beside = psycopg.connect(
                    self._session.url, application_name="prosem heartbeat", cursor_factory=psycopg.RawCursor,
                    **KEEPALIVE,
                )  # fmt: skip
            self._session.beat(self._beside)
        except psycopg.Error as error:
            log.warning("the lease cannot be renewed: %s", str(error).strip())

    # -- the watchdog ----------------------------------------------------------------------------------------
    def _watch(self) -> None:
        while not self._closing.wait(min(0.5, self._every_s)):
            operation = self._session.operation
            if operation is not None and clock_s() - operation[0] > operation[1]:
                log.error("the session with PostgreSQL hangs for %.0f s: it is broken off", operation[1])
                self._session.end()
                self._session.break_off()


def _is_idle(connection: Connection) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE
