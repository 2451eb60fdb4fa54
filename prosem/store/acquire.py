"""Opening a session, and what a server sees of the lock that another one holds.

A lease is judged by the clock of the server that waits: the owner is silent when epoch, token and beats have stayed the
same for as long as the lease that the owner stored. No clock is compared with another.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import psycopg

from prosem.store import schema
from prosem.store.connecting import KEEPALIVE, SERVER_KEEPALIVE
from prosem.store.packing import Packed, PackedDumper
from prosem.store.partitions import Connection
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.session")
LOCK_TIMEOUT_S = 30  # no statement of the session waits longer for a lock that another program holds
# The session writes by key only: a plan made while a table was empty must not scan it when it is large.
_SESSION = (
    "SET timezone = 'UTC'; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;"
    f" SET lock_timeout = '{LOCK_TIMEOUT_S}s'; {SERVER_KEEPALIVE}"
)
_HOLDER = (
    "locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = $1 AND objid::bigint = $2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@dataclass
class Seen:
    """What a waiting server has seen of the owner, and since when that has not changed."""

    is_locked: bool = False
    epoch: int = 0
    token: int = 0
    beats: int = 0
    lease_s: float = 0.0
    since_s: float = 0.0

    def look(self, is_locked: bool, epoch: int, token: int, beats: int, lease_s: float, now_s: float) -> None:
        if (epoch, token, beats) != (self.epoch, self.token, self.beats) or not self.since_s:
            self.since_s = now_s
        self.is_locked, self.epoch, self.token, self.beats, self.lease_s = (
            is_locked, epoch, token, beats, lease_s,
        )  # fmt: skip

    def is_expired(self, now_s: float) -> bool:
        return self.lease_s > 0 and now_s - self.since_s > self.lease_s


def try_lock(connection: Connection) -> tuple[bool, int, int, int, float]:
    """Whether the lock was taken; epoch, token, beats and lease as they are."""
    row = connection.execute(
        "SELECT pg_try_advisory_lock($1), epoch, token, beats, lease_s FROM prosem.engine_state",
        [schema.ENGINE_LOCK],
    ).fetchone()
    connection.rollback()
    assert row is not None, "the schema makes the only row"
    return row


def terminate_owner(connection: Connection, seen: Seen, process: int | None = None) -> None:
    """End the session that holds the lock, unless its owner has renewed its lease since; only of this process, if given."""
    try:
        connection.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {_HOLDER} AND EXISTS (SELECT FROM"
            " prosem.engine_state WHERE epoch = $3 AND token = $4 AND beats = $5) AND pid = coalesce($6, pid)",
            [
                schema.ENGINE_LOCK >> 32, schema.ENGINE_LOCK & 0xFFFFFFFF, seen.epoch, seen.token, seen.beats,
                process,
            ],
        )  # fmt: skip
    except psycopg.errors.InsufficientPrivilege as error:
        log.error(
            "the session of the former owner cannot be ended (%s): use one database user for all servers,"
            " or grant pg_signal_backend",
            str(error).strip(),
        )
    connection.rollback()


def superseded_error(name: str) -> SetupError:
    return SetupError(f"{name} has taken the database over: this server must start again")


def open_session(url: str) -> Connection:
    """A session of the kind the writer needs. OperationalError if the database cannot be reached at the moment."""
    try:
        connection = psycopg.connect(
            url, client_encoding="utf8", application_name="prosem writer",
            cursor_factory=psycopg.RawCursor, **KEEPALIVE,
        )  # fmt: skip
    except psycopg.ProgrammingError as error:
        raise SetupError(
            f"the database address cannot be read: {str(error).strip()}; "
            "it is like postgresql://user:password@host:5432/name"
        ) from error
    connection.adapters.register_dumper(Packed, PackedDumper)
    connection.prepare_threshold = (
        None  # what is prepared is the writer's: psycopg would take it away with its own
    )
    try:
        connection.execute(_SESSION)
        connection.commit()
        check_server(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_server(connection: Connection) -> None:
    """SetupError if this PostgreSQL cannot hold our schema."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SetupError(f"the database's encoding is {encoding}; prosem needs one in UTF8")
    if connection.info.server_version < 140_000:
        raise SetupError("PostgreSQL 14 or newer is needed")
