"""What comes from the executors to the driver, and the rows of a run that it becomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.statistics.catalog import Catalog
from pipeline.statistics.joins import JoinStatistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Collected:
    """What came from the executors to the driver, counted from several threads: rows, and their size in bytes."""

    def __init__(self) -> None:
        self.counts = {"rows": 0, "size_bytes": 0}
        self._lock = Lock()

    def of(self, frame: DataFrame) -> Iterator[Any]:
        """The rows of a frame, one partition at a time in memory."""
        for row in frame.toLocalIterator():
            size_bytes = sum(len(value) if isinstance(value, str) else 8 for value in row)
            with self._lock:
                self.counts["rows"] += 1
                self.counts["size_bytes"] += size_bytes
            yield row


@dataclass(frozen=True)
class Figures:
    """All that was computed: one row per column, join and dimension; the training set is still on the executors."""

    catalog: Catalog
    columns: list[Any]
    points: list[Any]
    training: DataFrame
    joins: list[JoinStatistics]

    def parts(self, collected: Collected) -> dict[str, Iterator[tuple[Any, ...]]]:
        """The rows of each table of the run."""
        return {
            "statistics_column": self._columns(),
            "statistics_join": (
                (
                    edge.r.table,
                    list(edge.r.columns),
                    edge.s.table,
                    list(edge.s.columns),
                    *p,
                    r.rows,
                    s.rows,
                    r.keys,
                    s.keys,
                    r.skew,
                    s.skew,
                )
                for edge, p, r, s in self.joins
            ),
            "statistics_point": (
                (
                    row.owner,
                    row.item,
                    row.events,
                    row.distinct_values,
                    row.histogram,
                    row.rank_error,
                    row.hot_keys,
                )
                for row in self.points
            ),
            "statistics_training": (
                (
                    row.group_id,
                    row.part,
                    row.plan,
                    msgspec.json.decode(row.descriptor),
                    row.server_time,
                    row.response_time,
                    row.server_stress,
                    row.bandwidth,
                    row.affected,
                )
                for row in collected.of(self.training)
            ),
        }

    def _columns(self) -> Iterator[tuple[Any, ...]]:
        for row in self.columns:
            table = self.catalog.tables[row.owner]
            at = table.position[row.item]
            column = table.columns[at]
            yield (
                *(row.owner, at, column.name, column.type.name, row.events, row.nulls, row.distinct_values),
                *(row.changes, row.histogram, row.rank_error, row.hot_keys),
            )

    def release(self) -> None:
        self.training.unpersist()
