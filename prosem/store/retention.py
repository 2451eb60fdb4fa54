"""Retention: forgetting what only old seqs need, on a connection of its own, so that no commit waits for it.

In two steps. First one transaction, proven by the epoch, folds messages that are about to go into marks, deletes history
that is no longer needed and raises `retained_after`: from then on nothing below it is read. Then partitions below it are
detached with PostgreSQL's CONCURRENTLY and dropped. Readers of the log postpone the second step, which can be repeated at
any time; a commit waits for neither.
"""

from __future__ import annotations

import logging
import re
from typing import NoReturn

import msgspec
import psycopg
from psycopg import sql

from prosem.store.connecting import KEEPALIVE
from prosem.store.last_notified import LAST_PART, marks_as_of
from prosem.store.packing import Packed, PackedDumper
from prosem.store.partitions import PARENTS, Connection, child
from prosem.store.session import SUPERSEDED, Session
from prosem.store.writeset import history
from prosem.values.errors import CommitError

log = logging.getLogger("prosem.retention")
IDEMPOTENCY_S = 24 * 3600
_PARTITIONS = (
    "SELECT c.relname, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false) FROM pg_class c"
    " LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
    " WHERE c.relnamespace = 'prosem'::regnamespace AND c.relkind = 'r'"
)
_NAME = re.compile(rf"({'|'.join(PARENTS)})_(\d+)_(\d+)")
# Rows that a batch has locked are left for the next time: retention never waits for a batch while it holds rows.
_OLD_HISTORY = (
    "DELETE FROM prosem.history h USING (SELECT h.ctid FROM prosem.history h WHERE h.seq <= $1 AND (h.kind = 'deleted'"
    " OR EXISTS (SELECT FROM prosem.history later WHERE later.kind <> 'created' AND later.seq <= $1"
    " AND later.sid = h.sid AND (later.seq, later.part) > (h.seq, h.part))) FOR UPDATE SKIP LOCKED) old"
    " WHERE h.ctid = old.ctid"
)
_ORPHANS = (  # marks of subscriptions that were deleted while retention wrote the marks
    "DELETE FROM prosem.history h WHERE kind = 'told' AND NOT EXISTS"
    " (SELECT FROM prosem.subscription s WHERE s.sid = h.sid)"
)
_RETAINED = (
    "UPDATE prosem.engine_state SET retained_after = greatest(retained_after, $1),"
    " epoch = prosem.hold_epoch(epoch, $2) RETURNING retained_after"
)


class Retention:
    """Used by one thread; the session has the address and the epoch."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.wait_s = 1.0
        """how long to wait for a lock"""
        self._connection: Connection | None = None
        self.is_behind = False
        """whether partitions that are no longer needed are still there, because other sessions read them"""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def retire(self, before_seq: int, idempotency_s: float = IDEMPOTENCY_S) -> int:
        """Forget what only seqs before this one need; the new `retained_after`.

        Of a point's history the last entry up to `retained_after` stays: later messages meet it. If it has a mark,
        with the value notified by then: messages that are about to go are folded into the marks first.
        """
        epoch = self._session.epoch
        try:
            connection = self._open()
            bounds = sorted({bound for _, bound, is_part, _ in self._partitions(connection) if is_part})
            going = [end - 1 for _, end in bounds[:-1] if end <= before_seq]
            with connection.transaction():
                retained_after = self._forget(connection, epoch, going[-1] if going else 0, idempotency_s)
            self._drop(connection, retained_after)
        except psycopg.Error as error:
            if error.sqlstate == SUPERSEDED:
                with self._session.turn:  # else the server may be raising the epoch itself
                    if self._session.epoch == epoch:
                        self._session.supersede()
            self._fail(error)
        return retained_after

    def trim(self, most: int) -> None:
        """Keep about `most` measurements of plans, the newest."""
        try:
            self._open().execute(
                "DELETE FROM prosem.plan_measurement WHERE seq <="
                " (SELECT seq FROM prosem.plan_measurement ORDER BY seq DESC OFFSET $1 LIMIT 1)",
                [most],
            )
        except psycopg.Error as error:
            self._fail(error)

    def _forget(self, connection: Connection, epoch: int, upto: int, idempotency_s: float) -> int:
        row = connection.execute("SELECT retained_after FROM prosem.engine_state").fetchone()
        assert row is not None
        retained_after = int(row[0])
        if upto > retained_after:
            rows = [
                (sid, upto, LAST_PART, "told", None, None, msgspec.json.encode(mark))
                for sid, _, is_new, mark in marks_as_of(connection, retained_after, upto)
                if is_new
            ]
            connection.execute(_ORPHANS)
            if rows:
                connection.execute(*history(rows))
            connection.execute(_OLD_HISTORY, [upto])
        connection.execute(
            "DELETE FROM prosem.idempotency i USING (SELECT key FROM prosem.idempotency"
            " WHERE at < now() - make_interval(secs => $1) FOR UPDATE SKIP LOCKED) old WHERE i.key = old.key",
            [float(idempotency_s)],
        )
        row = connection.execute(_RETAINED, [upto, epoch]).fetchone()  # last: commits wait for this row
        assert row is not None
        return int(row[0])

    def _drop(self, connection: Connection, retained_after: int) -> None:
        """Drop the partitions up to there, as far as no session reads them."""
        self.is_behind = False
        parts = [part for part in self._partitions(connection) if part[1][1] <= retained_after + 1]
        for parent, bound, is_part, is_pending in sorted(parts, key=lambda part: (not part[3], part[1])):
            names = {"parent": sql.Identifier("prosem", parent), "child": child(parent, *bound)}
            try:
                if is_part:
                    mode = sql.SQL("FINALIZE" if is_pending else "CONCURRENTLY")
                    detach = sql.SQL("ALTER TABLE {parent} DETACH PARTITION {child} {mode}")
                    connection.execute(detach.format(**names, mode=mode))
                connection.execute(sql.SQL("DROP TABLE {child}").format(**names))
            except (psycopg.errors.LockNotAvailable, psycopg.errors.ObjectNotInPrerequisiteState) as error:
                self.is_behind = True
                log.info(
                    "an old partition of %s is still read and stays for now: %s", parent, str(error).strip()
                )

    def _partitions(self, connection: Connection) -> list[tuple[str, tuple[int, int], bool, bool]]:
        """Parent, bounds, whether it is attached, whether it is being detached."""
        found = []
        for name, is_part, is_pending in connection.execute(_PARTITIONS).fetchall():
            if match := _NAME.fullmatch(name):
                found.append((match[1], (int(match[2]), int(match[3])), is_part, is_pending))
        return found

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._session.url, client_encoding="utf8", application_name="prosem retention", autocommit=True,
                cursor_factory=psycopg.RawCursor, **KEEPALIVE,
            )  # fmt: skip
            self._connection.adapters.register_dumper(Packed, PackedDumper)
            self._connection.execute(f"SET timezone = 'UTC'; SET lock_timeout = {int(self.wait_s * 1000)}")
        return self._connection

    def _fail(self, error: psycopg.Error) -> NoReturn:
        raise CommitError(f"PostgreSQL could not retire what is no longer needed: {error}") from error
