"""Locks that other sessions hold: a table is locked without waiting, or the error names what holds it."""

from __future__ import annotations

import psycopg
from psycopg import sql

from prosem.store.partitions import Connection
from prosem.values.errors import ConflictError

_AUTOVACUUM = "autovacuum worker"
_AUTOVACUUM_MS = 2500  # PostgreSQL cancels an autovacuum that is waited for, after deadlock_timeout (1 s)
_HOLDERS = (
    "SELECT a.pid, a.application_name, a.state, a.backend_type FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'relation' AND l.relation = {}::regclass AND l.granted AND l.pid <> pg_backend_pid()"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY a.pid"
)


def lock_alone(connection: Connection, relation: sql.Identifier) -> None:
    """Lock a table in the current transaction; ConflictError if another session uses it. Never queues: a waiting lock
    would make every later reader and writer of the table wait too."""
    text = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE {}")
    name = relation.as_string(connection)
    for _ in range(2):
        try:
            connection.execute(text.format(relation, sql.SQL("NOWAIT")))
            return
        except psycopg.errors.UndefinedTable:
            connection.rollback()  # removed by hand: nothing to lock
            return
        except psycopg.errors.LockNotAvailable:
            connection.rollback()
        found = connection.execute(sql.SQL(_HOLDERS).format(sql.Literal(name))).fetchall()
        connection.rollback()
        others = [row for row in found if row[3] != _AUTOVACUUM]
        if others:
            held = ", ".join(
                f"process {pid} ({app or kind}, {state or 'active'})" for pid, app, state, kind in others
            )
            raise ConflictError(
                f"other sessions of the database use the table {name}: {held}; end them (pg_terminate_backend) or"
                " wait for them, and send the request again"
            )
        if found:
            try:
                connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_AUTOVACUUM_MS)))
                connection.execute(text.format(relation, sql.SQL("")))
                return
            except psycopg.errors.LockNotAvailable:
                connection.rollback()
    raise ConflictError(f"the table {name} is in use in the database; send the request again")
