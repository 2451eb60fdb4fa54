"""Compaction: adjacent small segments of the log become one, with one sorted file per table and day.

Every run adds at least two files per table and day. The new segment is in force once it is complete and in its place, and
those that it was made of are removed then; a backtest that was reading them takes the new one (`Backtest.steady`). A segment
is not compacted with one in which a table has other columns, since no column of either may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.statistics.archive import Archive
from pipeline.statistics.incremental import STORED, compacted_sketches
from pipeline.statistics.manifest import Manifest
from pipeline.statistics.segments import Segment
from pipeline.statistics.training import compact_measurements
from pipeline.statistics.typed import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIZE_BYTES = 256 << 20  # of a compacted segment, at most
FILE_BYTES = 128 << 20
AFTER = 32  # small segments that a run compacts by itself


def compact(archive: Archive, least: int = 2) -> int:
    """Make one segment of each series of at least so many small ones, of measurements likewise.

    Returns how many segments of the log were compacted.
    """
    compacted = 0
    for series in list(small_series(archive)):
        if len(series) >= max(2, least):
            _merge(archive, series)
            compacted += len(series)
    compact_measurements(archive, least)
    return compacted


def small_series(archive: Archive) -> Iterator[list[Segment]]:
    """Adjacent segments that fit into one, oldest first."""
    series: list[Segment] = []
    columns: dict[int, Columns] = {}
    size_bytes, upto = 0, -1
    for segment in archive.segments("event_log"):
        manifest = archive.manifest(segment)
        own_bytes = _bytes(manifest)
        is_alike = all(columns.get(n, one.columns) == one.columns for n, one in manifest.tables.items())
        if segment.after != upto or size_bytes + own_bytes > SIZE_BYTES or not is_alike:
            yield series
            series, columns, size_bytes = [], {}, 0
        series.append(segment)
        columns |= {number: one.columns for number, one in manifest.tables.items()}
        size_bytes, upto = size_bytes + own_bytes, segment.upto
    yield series


def _bytes(manifest: Manifest) -> int:
    return sum(sum(one.files.values()) for one in manifest.tables.values())


def _merge(archive: Archive, series: list[Segment]) -> None:
    first, last = series[0], series[-1]
    columns: dict[int, Columns] = {}
    left_out: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for manifest in map(archive.manifest, series):
        for number, content in manifest.tables.items():
            columns[number] = content.columns
            sizes[number] = sizes.get(number, 0) + sum(content.files.values())
        for number, rows in manifest.left_out.items():
            left_out[number] = left_out.get(number, 0) + rows
    tables = {
        number: (own, _sorted(archive.rows("event_log", number, own, first.upto, last.upto), sizes[number]))
        for number, own in columns.items()
    }
    sketches = compacted_sketches(archive, series)
    if sketches is not None:
        archive.append(STORED, sketches, first.after, last.upto)
    archive.rewrite_rows("event_log", tables, Segment(first.after, last.upto, ""), left_out)
    archive.remove_unmatched()


def _sorted(rows: DataFrame, size_bytes: int) -> DataFrame:
    files = -(-size_bytes // FILE_BYTES)
    parts = rows.repartitionByRange(files, "day", "seq") if files > 1 else rows.coalesce(1)
    return parts.sortWithinPartitions("day", "seq")
