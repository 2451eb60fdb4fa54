"""Event log and outbox in partitions by `seq`: made ahead of the order, dropped behind the retention.

Invariant: the partitions of both tables have the same bounds, follow each other without a gap, and
their names say their bounds. Attaching an empty table takes no lock that a reader would notice; `retention` drops old ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

PARENTS = ("event_log", "outbox")
# Before the snapshot of a transaction that reads the log: no partition of it is dropped until the transaction ends.
HOLD_LOG = "LOCK TABLE ONLY prosem.event_log, ONLY prosem.outbox IN ACCESS SHARE MODE"
Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass
class Partitions:
    """The bounds `[start, end)` of all partitions, oldest first; `size` counts only for new ones."""

    size: int
    bounds: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a partition holds at least one seq, got {self.size}")

    @property
    def end(self) -> int:
        """The first seq that has no place yet."""
        return self.bounds[-1][1] if self.bounds else 1

    def load(self, connection: Connection) -> None:
        """Read what there is; the connection is left idle."""
        self.bounds = read_bounds(connection)
        connection.rollback()

    def needs(self, seq: int) -> bool:
        """Whether it is time to make the next partition."""
        return seq + self.size // 2 >= self.end

    def extend(self, connection: Connection, seq: int, wait_ms: int | None = None) -> None:
        """Make one more partition, long enough to hold `seq` with half a size to spare; commits."""
        if wait_ms is not None:
            connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(wait_ms)))
        start = self.end
        end = start + self.size * max(1, (seq + self.size // 2 - start) // self.size + 1)
        attach(connection, start, end)
        connection.commit()
        self.bounds.append((start, end))


def read_bounds(connection: Connection) -> list[tuple[int, int]]:
    """The bounds of all partitions in the database, oldest first."""
    rows = connection.execute(
        "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid"
        " WHERE inhparent = 'prosem.event_log'::regclass"
    ).fetchall()
    names = [name.rsplit("_", 2) for (name,) in rows]
    return sorted((int(start), int(end)) for _, start, end in names)


def attach(connection: Connection, start: int, end: int) -> None:
    """Make the partitions `[start, end)` of both tables; the caller commits."""
    for parent in PARENTS:
        names = {"parent": sql.Identifier("prosem", parent), "child": child(parent, start, end)}
        connection.execute(sql.SQL("CREATE TABLE {child} (LIKE {parent} INCLUDING ALL)").format(**names))
        connection.execute(
            sql.SQL(
                "ALTER TABLE {parent} ATTACH PARTITION {child} FOR VALUES FROM ({start}) TO ({end})"
            ).format(**names, start=sql.Literal(start), end=sql.Literal(end))
        )


def child(parent: str, start: int, end: int) -> sql.Identifier:
    return sql.Identifier("prosem", f"{parent}_{start}_{end}")
