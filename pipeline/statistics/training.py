"""The training set over months: measurements are reduced once, when their segment is new, and old ones fade.

Of each segment of measurements the archive keeps what `plans.entries_of` makes of it; a run reduces new segments, and
combines what it kept of the others. A measurement counts half as much after `HALF_LIFE_DAYS`, so that means follow what
plans cost now; an entry goes when its measurements are `KEPT_DAYS` old on average. Groups that are gone fade with them.

With `--since` the measurements themselves are read: the moment may lie within a segment.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pipeline.statistics.archive import Archive
from pipeline.statistics.archiving import COPIES
from pipeline.statistics.plans import ENTRIES, combined, entries_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEASURED = "plan_measurement"  # the folders of the archive
STORED = "training"
KEPT = 1_000  # entries per group, part and plan that are kept of a segment
KEPT_DAYS = 180


def training_set(archive: Archive, entries: int, since_us: int | None = None) -> DataFrame:
    """At most so many entries per group and part; rows of `ENTRIES`."""
    if since_us is not None:
        recent = measurements(archive, max(since_us, _oldest_us()))
        return combined(entries_of(recent, KEPT), entries)
    _reduce_new(archive)
    return combined(_recent(archive), entries)


def measurements(archive: Archive, since_us: int | None = None) -> DataFrame:
    """Those that are archived, from this moment on."""
    rows = archive.read(MEASURED, COPIES[MEASURED][0])
    return rows if since_us is None else rows.where(f"at >= {since_us}")


def _recent(archive: Archive) -> DataFrame:
    return archive.read(STORED, ENTRIES).where(f"at >= {_oldest_us()}")


def _oldest_us() -> int:
    return int((time.time() - KEPT_DAYS * 86_400) * 1_000_000)


def _reduce_new(archive: Archive) -> None:
    kept = {(one.after, one.upto) for one in archive.segments(STORED)}
    for segment in archive.segments(MEASURED):
        bounds = segment.after, segment.upto
        if bounds not in kept:
            rows = archive.read_paths(MEASURED, COPIES[MEASURED][0], [segment.path])
            archive.append(STORED, entries_of(rows, KEPT), *bounds)


def compact_measurements(archive: Archive, least: int) -> None:
    """Make one segment of at least so many, without what has faded, and reduce what is kept of them once more."""
    series = archive.segments(MEASURED)
    if len(series) < max(2, least):
        return
    bounds = series[0].after, series[-1].upto
    if {one[:2] for one in series} == {one[:2] for one in archive.segments(STORED)}:
        archive.append(STORED, combined(_recent(archive), KEPT).repartition(1), *bounds)
    archive.append(MEASURED, measurements(archive, _oldest_us()).repartition(1), *bounds)
    archive.clear()
