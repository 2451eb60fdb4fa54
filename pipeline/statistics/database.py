"""The job's own session on PostgreSQL, and the lock that makes it the only run."""

from __future__ import annotations

from typing import Any

import psycopg

from pipeline.statistics import StatisticsError

NEEDED = "0003"
LOCK = 0x70726F73656D03  # "prosem" and a number, as the server's own advisory locks
Connection = psycopg.Connection[tuple[Any, ...]]


def connect(url: str) -> Connection:
    """A session on a database that has the tables of the job."""
    try:
        connection = psycopg.connect(
            url, client_encoding="utf8", application_name="prosem stats", connect_timeout=10, autocommit=True
        )
    except psycopg.Error as error:
        raise StatisticsError(f"the database cannot be reached: {str(error).strip()}") from error
    try:
        row = connection.execute("SELECT version_num FROM prosem.alembic_version").fetchone()
        if row is None or row[0] < NEEDED:
            raise StatisticsError("the database's schema is older than the job: run prosem migrate")
    except psycopg.errors.UndefinedTable:
        connection.close()
        raise StatisticsError("the database has no prosem schema yet: run prosem migrate") from None
    except BaseException:
        connection.close()
        raise
    return connection


def take_lock(connection: Connection) -> None:
    """Held until the session ends: two runs would write one archive."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
    if row is None or not row[0]:
        raise StatisticsError("another run of the statistics job uses this database; wait until it has ended")
