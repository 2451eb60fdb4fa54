"""What the optimizer keeps in PostgreSQL: its weights, what plans were measured to cost, and runs of the statistics job.

A run that becomes active is announced on the channel `prosem_statistics`. `Listener` receives it on a connection of its own;
it also looks after every reconnect, so that a missed announcement is not lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from optimizer.estimate import Entry
from optimizer.plan import Estimate
from prosem.runtime.backoff import Backoff
from prosem.runtime.supervise import end, supervise
from prosem.store.connecting import KEEPALIVE
from prosem.store.recovery import register_loaders
from prosem.values.model import JsonObject
from prosem.values.statistics import (
    NO_FIGURES,
    ColumnStatistics,
    HotKey,
    JoinStatistics,
    PointStatistics,
    RunFigures,
    SideStatistics,
    is_stale,
)

log = logging.getLogger("prosem.statistics")
CHANNEL = "prosem_statistics"
_RUN = "SELECT id, created, job, state, since, rows FROM prosem.statistics_run WHERE active"
_TRAINING = (
    "SELECT group_id, part, plan, descriptor, server_time, response_time, server_stress, bandwidth, affected"
    " FROM prosem.statistics_training WHERE run = %s"
)
# The newest measurements after a seq, oldest of them first; each belongs to the oldest group that its space has now, or to
# the group that its space is a part of. If that is gone, and others have the part, their measurements tell: no number of a
# space is used again.
_MEASURED = (
    "WITH newest AS (SELECT * FROM prosem.plan_measurement WHERE seq > %s ORDER BY seq DESC LIMIT %s),"
    " owned AS (SELECT newest.*, g.id AS owner FROM newest"
    " LEFT JOIN (SELECT id, space, id = min(id) OVER (PARTITION BY space) AS is_first FROM prosem.group_) g"
    " ON CASE part WHEN 0 THEN g.is_first AND g.space = newest.space ELSE g.id = newest.group_id END),"
    " last AS (SELECT DISTINCT ON (space) space, owner, part FROM owned WHERE owner IS NOT NULL ORDER BY space, seq DESC)"
    " SELECT coalesce(owned.owner, last.owner), CASE WHEN owned.owner IS NULL THEN last.part ELSE owned.part END, plan,"
    " descriptor, server_time_us + send_us, latency_us, bytes_out::float8, network_bytes::float8, affected::float8"
    " FROM owned LEFT JOIN last USING (space) WHERE coalesce(owned.owner, last.owner) IS NOT NULL ORDER BY seq"
)
_COLUMNS = (
    "SELECT table_id, position, name, type, events, nulls, distinct_values, changes, histogram, rank_error,"
    " hot_keys"
    " FROM prosem.statistics_column WHERE run = %s ORDER BY table_id, position"
)
_JOINS = (
    "SELECT table_r, columns_r, p_r, j_r, keys_r, skew_r, table_s, columns_s, p_s, j_s, keys_s, skew_s"
    " FROM prosem.statistics_join WHERE run = %s ORDER BY table_r, table_s, columns_r"
)
_POINTS = (
    "SELECT group_id, dimension, subscriptions, distinct_values, histogram, rank_error, hot_keys"
    " FROM prosem.statistics_point WHERE run = %s ORDER BY group_id, dimension"
)
_SUBSCRIPTIONS = "SELECT group_id, count(*) FROM prosem.subscription WHERE active GROUP BY group_id"
ByGroup = dict[tuple[int, int], dict[str, list[Entry]]]  # group and part of its space → plan → measurements


@dataclass(frozen=True)
class Statistics:
    """The run in force as it is shown, None if there is none; what estimators learn from, and the other figures.

    `training` is the run's of groups that are not stale, and what the server itself has measured since.
    """

    run: JsonObject | None = None
    training: ByGroup = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    figures: RunFigures = NO_FIGURES


def load_statistics(url: str, recent: int) -> Statistics:
    """The active run, and the `recent` newest measurements of the server itself that are not in it."""
    with psycopg.connect(
        url, client_encoding="utf8", application_name="prosem statistics", **KEEPALIVE
    ) as connection:
        register_loaders(connection)
        connection.execute("SET timezone = 'UTC'")
        weights: dict[str, float] = dict(
            connection.execute("SELECT metric, weight FROM prosem.optimizer_weight").fetchall()
        )
        run = _shown(connection.execute(_RUN, binary=True).fetchone())
        figures, after, rows = NO_FIGURES, -1, []
        if run is not None:
            figures, after = _figures(connection, run["run"]), run["rows"].get("upto")
            trained = connection.execute(_TRAINING, [run["run"]], binary=True)
            rows = [row for row in trained if row[0] not in figures.stale]
        rows += connection.execute(_MEASURED, [after, recent], binary=True)
    return Statistics(run, by_group(rows), weights, figures)


def load_figures(connection: psycopg.Connection[tuple[Any, ...]]) -> tuple[JsonObject | None, RunFigures]:
    """The active run as it is shown, and its figures."""
    run = _shown(connection.execute(_RUN).fetchone())
    return run, NO_FIGURES if run is None else _figures(connection, run["run"])


def _figures(connection: psycopg.Connection[tuple[Any, ...]], run: int) -> RunFigures:
    columns: dict[int, list[ColumnStatistics]] = {}
    for table, *fields in connection.execute(_COLUMNS, [run], binary=True):
        one = ColumnStatistics(*fields)
        columns.setdefault(table, []).append(one._replace(bounds=_json(one.bounds), hot=_hot(one.hot)))
    joins = []
    for row in connection.execute(_JOINS, [run], binary=True):
        r, s = (SideStatistics(side[0], tuple(side[1]), *side[2:]) for side in (row[:6], row[6:]))
        joins.append(JoinStatistics(r, s))
    points: dict[int, list[PointStatistics]] = {}
    for group, *fields in connection.execute(_POINTS, [run], binary=True):
        found = PointStatistics(*fields)
        points.setdefault(group, []).append(found._replace(bounds=_json(found.bounds), hot=_hot(found.hot)))
    present: dict[int, int] = dict(connection.execute(_SUBSCRIPTIONS).fetchall()) if points else {}
    stale = frozenset(group for group, some in points.items() if is_stale(some, present.get(group, 0)))
    return RunFigures(columns, joins, points, stale)


def _hot(stored: Any) -> list[HotKey]:
    return [HotKey(value, share) for value, share in _json(stored)]


def _json(stored: Any) -> Any:
    """JSON as it is stored: the loaders of the server leave it as bytes."""
    return msgspec.json.decode(stored) if isinstance(stored, bytes | str) else stored


def active_run(url: str) -> int | None:
    """The number of the active run."""
    with psycopg.connect(url, application_name="prosem statistics", **KEEPALIVE) as connection:
        row = connection.execute("SELECT id FROM prosem.statistics_run WHERE active").fetchone()
    return None if row is None else int(row[0])


def archive_id(url: str) -> str:
    """Under which name archives hold this database."""
    with psycopg.connect(url, application_name="prosem statistics", **KEEPALIVE) as connection:
        row = connection.execute("SELECT id::text FROM prosem.statistics_archive").fetchone()
    assert row is not None, "the schema makes the only row"
    return str(row[0])


def by_group(rows: Iterable[tuple[Any, ...]]) -> ByGroup:
    found: ByGroup = {}
    for group, part, plan, descriptor, *metrics in rows:
        entry = (tuple(descriptor), Estimate(*metrics))
        found.setdefault((int(group), int(part)), {}).setdefault(plan, []).append(entry)
    return found


def _shown(row: tuple[Any, ...] | None) -> JsonObject | None:
    if row is None:
        return None
    number, created, job, state, since, counts = row
    return {"run": number, "created": created, "job": job, "state": state, "since": since, "rows": counts}


class Listener:
    """Calls `changed` after each announcement, and once after each connecting. Runs on the loop."""

    def __init__(
        self,
        address: Callable[[], str],
        changed: Callable[[], Awaitable[None]],
        channel: str = CHANNEL,
        restarts: MutableMapping[str, int] | None = None,
    ) -> None:
        self._address, self._changed, self._channel = address, changed, channel
        self._restarts: MutableMapping[str, int] = {} if restarts is None else restarts
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = supervise(self._channel, self._run, self._restarts)

    async def close(self) -> None:
        await end(self._task)

    async def _run(self) -> None:
        backoff = Backoff(0.2, 30.0)
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self._address(), autocommit=True, application_name="prosem listener", **KEEPALIVE
                )
                async with connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    await self._changed()
                    backoff.reset()
                    async for _ in connection.notifies():
                        await self._changed()
            except Exception as error:
                log.warning("no news on %s, trying again: %s", self._channel, error)
            self._restarts[self._channel] = self._restarts.get(self._channel, 0) + 1
            await backoff.wait()
