"""Verification of what the archive holds beside rows of tables: copies of other tables, and what runs have made of them.

These folders have no manifest. Every column of every file is read; sketches are of as many events as the manifest of their
segment of the log says; measurements have the seqs of their segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, ParamSpec, TypeVar

from pipeline.statistics.archive import Archive
from pipeline.statistics.archiving import COPIES, DEFINITION
from pipeline.statistics.columns import SKETCHES
from pipeline.statistics.join_keys import COUNTS
from pipeline.statistics.places import reason
from pipeline.statistics.plans import ENTRIES
from pipeline.statistics.segments import Segment

P = ParamSpec("P")
T = TypeVar("T")
_REMOVE = "remove the folder of this segment: the next prosem stats refresh"
_LOG = "event_log"


class Kind(NamedTuple):
    """The columns of a folder, and what to do with a segment of it that is broken. `is_needed`: every log has one."""

    schema: str
    remedy: str
    is_needed: bool = False


KINDS = {
    "definition": Kind(DEFINITION, f"{_REMOVE} copies tables and views again", True),
    "subscription": Kind(COPIES["subscription"][0], f"{_REMOVE} copies subscriptions again", True),
    "plan_measurement": Kind(
        COPIES["plan_measurement"][0],
        "restore it from a copy of the archive; without one, remove the folder of this segment and those of later segments"
        " of plan_measurement: prosem stats refresh reads again what the server still has",
    ),
    "training": Kind(ENTRIES, f"{_REMOVE} makes it again of the measurements"),
    "sketch": Kind(SKETCHES, f"{_REMOVE} makes it again of the log"),
    "join_key": Kind(COUNTS, f"{_REMOVE} counts again from a copy of the tables and the log"),
}


def broken_copies(archive: Archive) -> Iterator[tuple[str, str, str]]:
    """The folders that are broken, each with what is wrong and what to do."""
    log = {segment[:2]: segment for segment in archive.segments(_LOG)}
    for name, kind in KINDS.items():
        segments = archive.segments(name)
        if kind.is_needed and log and not segments:
            last = list(log.values())[-1]
            yield (
                last.path,
                f"no copy of {name} goes with the log",
                "run prosem stats refresh, which makes one",
            )
        for segment in segments:
            _, wrong = attempt(_read, archive, name, segment)
            if not wrong and name == "sketch":
                wrong = _miscounted(archive, segment, log.get(segment[:2]))
            if not wrong and name == "plan_measurement":
                wrong = _misplaced(archive, segment)
            if wrong:
                yield segment.path, wrong, kind.remedy


def attempt(read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> tuple[T | None, str]:
    """What is read of files; or None, and what Spark says of files that it cannot read."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return read(*arguments, **named), ""
    except (PySparkException, Py4JError) as error:
        return None, f"it cannot be read: {reason(error)}"


def _read(archive: Archive, name: str, segment: Segment) -> bool:
    from pyspark.sql import functions as f

    rows = archive.read_paths(name, KINDS[name].schema, [segment.path])
    rows.agg(f.bit_xor(f.xxhash64(*rows.columns))).collect()
    return True


def _miscounted(archive: Archive, segment: Segment, of: Segment | None) -> str:
    """A sketch of no segment of the log is not read by any run, and removed by the next."""
    if of is None or not of.is_typed:
        return ""
    from pyspark.sql import functions as f

    manifest = archive.manifest(of)
    rows = {
        (number, *column): content.rows
        for number, content in manifest.tables.items()
        for column in content.columns
        if content.rows
    }
    sketches = archive.read_paths("sketch", SKETCHES, [segment.path])
    counted = sketches.groupBy("table_id", "name", "type").agg(f.sum("events").alias("events"))
    events = {(row.table_id, row.name, row.type): row.events for row in counted.collect()}
    for one in sorted(rows.keys() | events.keys()):
        if rows.get(one, 0) != events.get(one, 0):
            table, name, _ = one
            return (
                f"it has {events.get(one, 0):,} events of {name} of table {table}, its segment of the log"
                f" {rows.get(one, 0):,}"
            )
    return ""


def _misplaced(archive: Archive, segment: Segment) -> str:
    name = "plan_measurement"
    rows = archive.read_paths(name, COPIES[name][0], [segment.path])
    strays = rows.where(f"seq <= {segment.after} OR seq > {segment.upto}").count()
    return f"{strays:,} measurements in it are not between its seqs" if strays else ""
