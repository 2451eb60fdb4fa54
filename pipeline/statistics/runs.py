"""The runs in PostgreSQL: written and made active in one transaction, listed, switched back to, and removed.

Invariant: a run is there as a whole or not at all, and at most one is active. The server hears of the active one on the
channel `prosem_statistics` (payload: the run's id), which PostgreSQL sends with the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.statistics import StatisticsError
from pipeline.statistics.database import Connection
from prosem.store.statistics import CHANNEL

COLUMNS = {
    "statistics_column": "table_id, position, name, type, events, nulls, distinct_values, changes,"
    " histogram, rank_error, hot_keys",
    "statistics_join": "table_r, columns_r, table_s, columns_s, p_r, p_s, j_r, j_s, keys_r, keys_s, skew_r, skew_s",
    "statistics_point": "group_id, dimension, subscriptions, distinct_values, histogram, rank_error,"
    " hot_keys",
    "statistics_training": "group_id, part, plan, descriptor, server_time, response_time, server_stress, bandwidth,"
    " affected",
}


@dataclass(frozen=True)
class Run:
    """One line of `prosem stats list`."""

    id: int
    created: datetime
    job: str
    state: str
    since: datetime | None
    rows: dict[str, Any]
    active: bool


def write_run(
    connection: Connection,
    job: str,
    since: datetime | None,
    parts: Mapping[str, Iterable[tuple[Any, ...]]],
    rows: dict[str, Any],
) -> int:
    """Write a run and make it the active one; its id. `parts` are rows by the names of `COLUMNS`, taken as they come.

    `rows` is written last: it may count what was taken.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 0")
        cursor.execute(
            "INSERT INTO prosem.statistics_run (job, state, since) VALUES (%s, 'complete', %s) RETURNING id",
            [job, since],
        )
        found = cursor.fetchone()
        assert found is not None
        run = int(found[0])
        for table, items in parts.items():
            with cursor.copy(f"COPY prosem.{table} (run, {COLUMNS[table]}) FROM STDIN".encode()) as copy:
                for item in items:
                    copy.write_row((run, *item))
        cursor.execute("UPDATE prosem.statistics_run SET rows = %s WHERE id = %s", [json.dumps(rows), run])
        _activate(connection, run)
    return run


def use_run(connection: Connection, run: int) -> None:
    """Make an older (or newer) run the active one."""
    with connection.transaction():
        row = connection.execute(
            "SELECT state FROM prosem.statistics_run WHERE id = %s FOR UPDATE", [run]
        ).fetchone()
        if row is None:
            known = connection.execute("SELECT count(*), max(id) FROM prosem.statistics_run").fetchone()
            assert known is not None
            there = f"there are {known[0]}, the newest is {known[1]}" if known[0] else "there are none yet"
            raise StatisticsError(f"there is no run {run}; {there}: see prosem stats list")
        if row[0] != "complete":
            raise StatisticsError(
                f"run {run} is {row[0]}, not complete; choose another: see prosem stats list"
            )
        _activate(connection, run)


def remove_old_runs(connection: Connection, keep: int) -> int:
    """Remove all but so many of the newest runs, with their rows; the active one stays. Returns how many were removed."""
    return connection.execute(
        "DELETE FROM prosem.statistics_run WHERE NOT active AND id NOT IN"
        " (SELECT id FROM prosem.statistics_run ORDER BY id DESC LIMIT %s)",
        [keep],
    ).rowcount


def list_runs(connection: Connection, limit: int = 100) -> list[Run]:
    """The newest runs, newest first."""
    found = connection.execute(
        "SELECT id, created, job, state, since, rows, active FROM prosem.statistics_run ORDER BY id DESC LIMIT %s",
        [limit],
    )
    return [Run(*row) for row in found]


def _activate(connection: Connection, run: int) -> None:
    connection.execute("UPDATE prosem.statistics_run SET active = false WHERE active AND id <> %s", [run])
    connection.execute("UPDATE prosem.statistics_run SET active = true WHERE id = %s", [run])
    connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(run)])
