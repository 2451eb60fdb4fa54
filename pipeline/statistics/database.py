"""The job's own session on PostgreSQL, and the lock that makes it the only run."""

from __future__ import annotations

from typing import Any

import psycopg

from pipeline.statistics import StatisticsError
from prosem.store import schema
from prosem.store.connecting import KEEPALIVE
from prosem.values.errors import SetupError

Connection = psycopg.Connection[tuple[Any, ...]]


def connect(url: str) -> Connection:
    """A session on a database that has the schema of this version."""
    try:
        connection = psycopg.connect(
            url, client_encoding="utf8", application_name="prosem stats", autocommit=True, **KEEPALIVE
        )
    except psycopg.Error as error:
        raise StatisticsError(f"the database cannot be reached: {str(error).strip()}") from error
    try:
        schema.check_revision(connection)
    except SetupError as error:
        connection.close()
        raise StatisticsError(str(error)) from None
    except BaseException:
        connection.close()
        raise
    return connection


def take_lock(connection: Connection) -> None:
    """Held until the session ends: two runs would write one archive."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", [schema.STATISTICS_LOCK]).fetchone()
    if row is None or not row[0]:
        raise StatisticsError("another run of the statistics job uses this database; wait until it has ended")
