"""What a backtest is asked for; needs no Spark, so that a command can read it before it looks for one."""

from __future__ import annotations

from dataclasses import dataclass

from prosem.values.model import JsonObject

MOST_SHOWN = 10  # subscriptions of a report


@dataclass(frozen=True)
class Request:
    """`per_day`: find the value of one parameter (`tune`) with about so many notifications per day.

    `output` is the folder of Parquet files, `pages` a file with what was found of each subscription; "" is none.
    """

    sql: str
    archive: str
    archive_of: str = ""
    notify: JsonObject | None = None
    per: str = "event"
    tenant: str = "default"
    since: str = ""
    per_day: float = 0.0
    tune: str = ""
    output: str = ""
    pages: str = ""
