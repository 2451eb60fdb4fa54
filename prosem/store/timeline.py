"""Timelines in PostgreSQL: the current one, and when another begins.

Another one begins when the operator says so, when fewer events are stored than were committed before, and when the database
is not the one that the current timeline was begun on: `fingerprint` is another after pg_restore, after a copy of the data
folder, after point-in-time recovery and after the promotion of a replica. Where nothing was lost a new timeline costs
little: both share everything up to the last seq, so every stream resumes. A disk that was set back as a whole goes
unnoticed.
"""

from __future__ import annotations

import logging
import secrets
from hashlib import blake2s
from typing import Any

import psycopg

from prosem.values.errors import SetupError
from prosem.values.timeline import Timeline, Timelines

log = logging.getLogger("prosem")
Connection = psycopg.Connection[tuple[Any, ...]]
_FINGERPRINT = (
    "SELECT system_identifier FROM pg_control_system()",
    # pg_restore makes the table anew
    "SELECT oid, 'prosem.engine_state'::regclass::oid FROM pg_database WHERE datname = current_database()",
    # PostgreSQL's own timeline: another one after recovery from an archive, and after a promotion
    "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)",
    # a copy of the cluster has files of its own; only a superuser may ask
    "SELECT change FROM pg_stat_file('PG_VERSION')",
)


def establish(url: str, *, new: bool = False, seen: int = 0) -> Timelines:
    """The timelines of a database that this server has the lock of; begins one where that is due.

    `new`: the operator asks for it; `seen`: the last seq that this process saw committed.
    """
    try:
        with psycopg.connect(url, client_encoding="utf8", application_name="prosem timeline") as connection:
            found = fingerprint(connection)
            row = connection.execute(
                "SELECT fingerprint FROM prosem.timeline ORDER BY number DESC LIMIT 1"
            ).fetchone()
            (last_seq,) = connection.execute("SELECT last_seq FROM prosem.engine_state").fetchone() or (0,)
            if row is None:
                begin(connection, found, "")
            elif new:
                begin(connection, found, "--new-timeline was given")
            elif seen > last_seq:
                begin(connection, found, f"seq {seen} was committed, and the database ends at {last_seq}")
            elif row[0] != found:
                begin(connection, found, "the database was restored, copied or promoted")
            return load(connection)
    except psycopg.Error as error:
        raise SetupError(f"the timeline of the database cannot be read: {str(error).strip()}") from error


def begin(connection: Connection, found: str | None = None, reason: str = "") -> Timeline:
    """Begin a timeline at the last seq; the caller commits, and holds the lock or knows that no server runs.

    What receivers of webhooks have seen is unknown from here on: they are sent snapshots. So is what the statistics job has
    archived: it begins another archive.
    """
    found = fingerprint(connection) if found is None else found
    row = connection.execute(
        "INSERT INTO prosem.timeline (number, id, parent, parted, first_sid, fingerprint, reason)"
        " SELECT coalesce(parent.number, 0) + 1, %s, parent.id, last_seq, next_sid, %s, %s FROM prosem.engine_state"
        " LEFT JOIN (SELECT number, id FROM prosem.timeline ORDER BY number DESC LIMIT 1) parent ON true"
        " RETURNING id, parted, first_sid, parent",
        [secrets.token_hex(5), found, reason],
    ).fetchone()
    assert row is not None, "the schema makes the only row"
    made = Timeline(*row[:3])
    if row[3] is not None:
        connection.execute("UPDATE prosem.webhook SET progress = 0")
        connection.execute("UPDATE prosem.webhook_subscription SET seq = NULL")
        connection.execute("UPDATE prosem.statistics_archive SET id = gen_random_uuid()")
        log.warning("timeline %s begins after seq %d of %s: %s", made.id, made.parted, row[3], reason)
    return made


def load(connection: Connection) -> Timelines:
    """All that are known."""
    rows = connection.execute("SELECT id, parted, first_sid FROM prosem.timeline ORDER BY number").fetchall()
    return Timelines([Timeline(*row) for row in rows])


def fingerprint(connection: Connection) -> str:
    """What distinguishes the database from every copy of it, as far as the user may know."""
    answers = []
    for text in _FINGERPRINT:
        try:
            with connection.transaction():
                answers.append(repr(connection.execute(text).fetchone()))
        except psycopg.Error:
            if connection.closed:
                raise
            answers.append("")
    return blake2s("\n".join(answers).encode(), digest_size=16).hexdigest()
