"""The sketches of the log: kept for each segment of the archive, made once, and merged by every run.

A run scans the segments that have no sketches yet: those it has just added. With `--since` it leaves out segments that end
before, and scans the one in which the moment lies; what it finds there is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.statistics.archive import Archive
from pipeline.statistics.catalog import family
from pipeline.statistics.columns import SKETCHES, column_sketches, merged_sketches, union
from pipeline.statistics.manifest import Manifest
from pipeline.statistics.segments import Segment
from prosem.values.model import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORED = "sketch"  # the folder of the archive


class LogSketches:
    """`scanned`: how many events were read, of those that the sketches are of."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.scanned = 0

    def of(self, tables: Mapping[int, Table], since_us: int | None = None) -> DataFrame | None:
        """The sketches of the columns that these tables have, from this moment on (µs since 1970); None if none.

        Events of a table that extends others are events of those too.
        """
        from pyspark.sql import functions as f

        kept = {(one.after, one.upto): one.path for one in self._archive.segments(STORED)}
        whole: list[str] = []
        parts: list[DataFrame] = []
        for segment in self._archive.segments("event_log"):
            manifest = self._archive.manifest(segment)
            contents = [one for one in manifest.tables.values() if one.rows]
            if not contents or (since_us is not None and max(one.last_us for one in contents) < since_us):
                continue
            if since_us is not None and min(one.first_us for one in contents) < since_us:
                parts.append(self._scan(segment, manifest, since_us))
                continue
            bounds = segment.after, segment.upto
            if bounds not in kept:
                self._archive.append(STORED, self._scan(segment, manifest).repartition(1), *bounds)
                kept[bounds] = next(one.path for one in self._archive.segments(STORED) if one[:2] == bounds)
            whole.append(kept[bounds])
        if whole:
            parts.append(self._archive.read_paths(STORED, SKETCHES, whole))
        if not parts:
            return None
        found = union(parts)
        known = [
            (member.id, column.name, column.type.name, table.id)
            for table in tables.values()
            for member in family(tables, table.id)
            for column in table.columns
        ]
        # Dropped tables and columns have sketches too; a column whose type has changed starts anew.
        wanted = found.sparkSession.createDataFrame(
            known, "table_id int, name string, type string, owner int"
        )
        joined = found.join(f.broadcast(wanted), ["table_id", "name", "type"])
        return joined.withColumn("table_id", f.col("owner")).select(found.columns)

    def _scan(self, segment: Segment, manifest: Manifest, since_us: int | None = None) -> DataFrame:
        parts = []
        for number, content in manifest.tables.items():
            rows = self._archive.segment_rows("event_log", segment, number, content)
            if since_us is not None:
                rows = rows.where(f"unix_micros(at) >= {since_us}")
            parts.append(column_sketches(rows, number, content.columns))
            self.scanned += content.rows
        return union(parts)


def compacted_sketches(archive: Archive, series: list[Segment]) -> DataFrame | None:
    """The sketches of segments that become one, merged: one row per column, however many segments there were.

    None if a segment has none, so that the next run scans the new one.
    """
    kept = {(one.after, one.upto): one.path for one in archive.segments(STORED)}
    paths = [kept.get((one.after, one.upto), "") for one in series]
    if not all(paths):
        return None
    return merged_sketches(archive.read_paths(STORED, SKETCHES, paths)).repartition(1)
