"""What a backtest found of each subscription, in a SQLite file, so that pages of it are read without the rest.

subscription   its place in the population
found          JSON: parameters, counts by day and by hour, and the value that was suggested
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from prosem.values.model import JsonObject
from prosem.values.wire import decode, encode_exact


def write_pages(path: str, found: Iterable[JsonObject]) -> None:
    """The file, made anew; each of `found` says which `subscription` it is of."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE IF EXISTS page")
        file.execute("CREATE TABLE page (subscription INTEGER PRIMARY KEY, found BLOB)")
        rows = ((one["subscription"], encode_exact(one)) for one in found)
        file.executemany("INSERT INTO page VALUES (?, ?)", rows)


def read_page(path: str, after: int, limit: int) -> list[Any]:
    """At most so many subscriptions after a place; O(log subscriptions + limit)."""
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute(
            "SELECT found FROM page WHERE subscription > ? ORDER BY subscription LIMIT ?", [after, limit]
        )
        return [decode(found) for (found,) in rows]
