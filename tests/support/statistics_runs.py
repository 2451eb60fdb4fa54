"""A run of the statistics job, written as the job writes it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pipeline.statistics.database import connect
from pipeline.statistics.runs import write_run


def column(
    table: int,
    position: int,
    name: str,
    type: str,
    bounds: Any,
    distinct: float = 50,
    changes: int = 250,
    hot: Iterable[tuple[Any, float]] = (),
) -> tuple[Any, ...]:
    """1,000 events, of which so many changed the column."""
    shown = None if bounds is None else json.dumps(bounds)
    return (
        table,
        position,
        name,
        type,
        1_000,
        10,
        float(distinct),
        changes,
        shown,
        0.002,
        json.dumps([*hot]),
    )


def point(group: int, dimension: str, bounds: Any, subscriptions: int = 20) -> tuple[Any, ...]:
    return (group, dimension, subscriptions, float(len(set(bounds))), json.dumps(bounds), 0.002, "[]")


def join(
    r: tuple[int, str], s: tuple[int, str], shares: tuple[float, float] = (0.5, 0.5),
    rows: tuple[float, float] = (1.0, 1.0), skew: tuple[float, float] = (1.0, 1.0),
) -> tuple[Any, ...]:  # fmt: skip
    return (r[0], [r[1]], s[0], [s[1]], *shares, *rows, 9, 9, *skew)


def make_run(
    url: str,
    columns: Iterable[tuple[Any, ...]] = (),
    points: Iterable[tuple[Any, ...]] = (),
    joins: Iterable[tuple[Any, ...]] = (),
    training: Iterable[tuple[Any, ...]] = (),
    upto: int = 2**62,
) -> int:
    """Active and announced; its number. It has read the log up to a seq: by default, all that there will be."""
    parts = {
        "statistics_column": columns,
        "statistics_point": points,
        "statistics_join": joins,
        "statistics_training": training,
    }
    with connect(url) as connection:
        return write_run(
            connection, "test", None, parts, {"event_log": 1_000, "subscription": 20, "upto": upto}
        )
