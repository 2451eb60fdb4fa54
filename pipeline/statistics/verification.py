"""`prosem archive verify`: whether the archive holds what its manifests say, without a gap, and what the log still has.

Every file is read. Of each segment and table: the files and their sizes, the number of rows, their checksum, the first and
last seq; of the log: that segments follow each other, and that each has as many events of each table as the log, as far as
PostgreSQL still has it; of the other folders see `verified_copies`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from pipeline.statistics.archive import ROWS, Archive
from pipeline.statistics.database import Connection
from pipeline.statistics.manifest import REMEDIES, Content, Manifest, measures
from pipeline.statistics.manifest import content as content_of
from pipeline.statistics.segments import Segment
from pipeline.statistics.verified_copies import attempt, broken_copies

_REFRESH = "run prosem stats refresh"


class Finding(NamedTuple):
    """What is wrong with a folder, and what to do. `is_broken`: rows are missing or not what was written."""

    path: str
    wrong: str
    remedy: str
    is_broken: bool = True


@dataclass
class Verified:
    """How much was read, and what was found."""

    segments: int = 0
    tables: set[int] = field(default_factory=set)
    rows: int = 0
    upto: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not any(finding.is_broken for finding in self.findings)


def verify(archive: Archive, connection: Connection | None = None) -> Verified:
    """Read everything; with a connection, compare it with the log too."""
    made = Verified(upto=archive.upto("event_log"))
    for path in archive.incomplete():
        made.findings.append(
            Finding(
                path,
                "it is incomplete: a run was killed, or is at work",
                f"{_REFRESH}, which removes it",
                False,
            )
        )
    for name in ROWS:
        for segment in archive.segments(name):
            made.segments += 1
            made.findings += _segment(archive, name, segment, made)
    made.findings += _gaps(archive)
    made.findings += [Finding(*broken) for broken in broken_copies(archive)]
    if connection is not None:
        made.findings += _log(archive, connection)
    return made


def _segment(archive: Archive, name: str, segment: Segment, made: Verified) -> Iterator[Finding]:
    remedy = REMEDIES[name]
    if not segment.is_typed:
        yield Finding(segment.path, "an older version wrote it", f"{_REFRESH}, which rewrites it once", False)
        return
    manifest = archive.manifest(segment)
    is_readable = True
    for number, content in manifest.tables.items():
        made.tables.add(number)
        made.rows += content.rows
        for file, wrong in archive.differences(segment, number, content):
            is_readable = False
            yield Finding(file, wrong, remedy)
    if is_readable:
        yield from _contents(archive, name, segment, manifest, remedy)


def _contents(
    archive: Archive, name: str, segment: Segment, manifest: Manifest, remedy: str
) -> Iterator[Finding]:
    for number, content in manifest.tables.items():
        path = f"{segment.path}/table_id={number}"
        found, wrong = attempt(_measured, archive, name, segment, number, content)
        if found is None:
            yield Finding(path, wrong, remedy)
            continue
        for what in ("rows", "checksum", "first_seq", "last_seq"):
            has, had = getattr(found, what), getattr(content, what)
            if has != had:
                yield Finding(path, f"{what} is {has} instead of {had}", remedy)
    if name == "event_log":
        rows = sum(one.rows for one in manifest.tables.values()) + sum(manifest.left_out.values())
        if rows > segment.upto - segment.after or not all(map(segment.holds, _seqs(manifest))):
            yield Finding(segment.path, "it has events that are not between its seqs", remedy)


def _measured(archive: Archive, name: str, segment: Segment, table_id: int, written: Content) -> Content:
    """What the files of a segment hold of a table, in the words of its manifest."""
    if not written.rows:
        return content_of(written.columns, {}, {})
    rows = archive.segment_rows(name, segment, table_id, written)
    (found,) = rows.agg(*measures(rows)).collect()
    return content_of(written.columns, found.asDict(), {})


def _seqs(manifest: Manifest) -> Iterator[int]:
    for content in manifest.tables.values():
        yield from (content.first_seq, content.last_seq) if content.rows else ()


def _gaps(archive: Archive) -> Iterator[Finding]:
    segments = archive.segments("event_log")
    for before, after in pairwise(segments):
        if before.upto != after.after:
            yield Finding(
                after.path,
                f"the events {before.upto + 1} to {after.after} before it are not in the archive",
                "run prosem stats refresh more often than the log's retention; backtests begin after the gap",
                False,
            )
    if segments and not archive.bases:
        yield Finding(
            segments[-1].path, "no copy of the tables goes with the log", f"{_REFRESH}, which makes one"
        )


def _log(archive: Archive, connection: Connection) -> Iterator[Finding]:
    """What PostgreSQL still has, table by table."""
    row = connection.execute("SELECT last_seq, retained_after FROM prosem.engine_state").fetchone()
    assert row is not None, "the schema makes the only row"
    last_seq, retained_after = row
    for segment in archive.segments("event_log"):
        after = max(segment.after, retained_after)
        if segment.upto > last_seq:
            wrong = f"it ends at {segment.upto}, but the database's log at {last_seq}"
            yield Finding(segment.path, wrong, "the database was restored from a backup: give another folder")
        elif segment.is_typed and after < segment.upto:
            there: dict[int, int] = dict(
                connection.execute(
                    "SELECT table_id, count(*) FROM prosem.event_log WHERE seq > %s AND seq <= %s GROUP BY 1",
                    [after, segment.upto],
                ).fetchall()
            )
            left_out = archive.manifest(segment).left_out
            for number, rows in archive.counted(segment, after).items():
                if number not in left_out and there.pop(number, 0) != rows:
                    yield Finding(
                        f"{segment.path}/table_id={number}",
                        "the database's log has other events",
                        REMEDIES["event_log"],
                    )
            for number in there.keys() - left_out.keys():
                yield Finding(
                    f"{segment.path}/table_id={number}",
                    "the database's log has its events",
                    REMEDIES["event_log"],
                )
