"""The part of the log that a backtest takes. It follows from the manifests, but for tables whose events lie on both sides of
`--since`: of these the moments are read, in the segments concerned.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import functions as f

from pipeline.statistics import StatisticsError
from pipeline.statistics.archive import Archive


@dataclass(frozen=True)
class Period:
    """The part of the log: after the seq `start` up to `end`, and the moments that this is from and to."""

    start: int
    end: int
    since: datetime
    until: datetime

    @property
    def days(self) -> float:
        return max((self.until - self.since).total_seconds(), 1.0) / 86_400


def archived_period(archive: Archive, since: datetime | None) -> Period:
    """What the archive holds since this moment; StatisticsError if it begins later, or there is nothing."""
    first = archive.log_start
    held = [
        (segment, number, written)
        for segment in archive.segments("event_log")
        if segment.after >= first
        for number, written in archive.manifest(segment).tables.items()
        if written.rows
    ]
    micros = 0 if since is None else int(since.timestamp() * 1_000_000)
    end = max((written.last_seq for *_, written in held), default=first)
    start = max((written.last_seq for *_, written in held if written.last_us < micros), default=first)
    divided = [
        part for part in held if part[2].first_us < micros <= part[2].last_us and part[2].last_seq > start
    ]
    if divided:
        earlier = archive.moments(divided).where(f.col("at") < f.timestamp_micros(f.lit(micros)))
        (row,) = earlier.agg(f.max("seq")).collect()
        start = max(start, row[0])
    if start == end:
        raise StatisticsError(
            "the archive holds no event of this period: prosem stats refresh reads new ones"
        )
    earliest = min(written.first_us for *_, written in held)
    if since is not None and first > 0 and micros < earliest:
        raise StatisticsError(
            f"the archive begins at {_moment(earliest):%Y-%m-%dT%H:%M:%SZ}; give a later --since"
        )
    return Period(
        start, end, since or _moment(earliest), _moment(max(written.last_us for *_, written in held))
    )


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)
