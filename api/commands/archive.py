"""`prosem archive`: verify the Parquet archive, and compact its small files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from pipeline.statistics import StatisticsError
from prosem.values.errors import SetupError

if TYPE_CHECKING:
    from pipeline.statistics.archive import Archive
    from pipeline.statistics.database import Connection
    from pipeline.statistics.session import Session


@dataclass(frozen=True)
class Options:
    """What both commands take. `archive_of`: the database whose archive it is, if it is not asked."""

    archive: str
    database: str = ""
    archive_of: str = ""
    master: str = ""


def verify(options: Options, session: Session | None = None, console: Console | None = None) -> int:
    """1 if rows are missing or not what was written. Without a database only what the archive says of itself."""
    from pipeline.statistics.verification import verify as read

    said = console or Console()
    with _opened(options, session) as (archive, connection):
        found = read(archive, connection)
    for finding in found.findings:
        said.print(
            f"{escape(finding.path)}: {escape(finding.wrong)}\n  {escape(finding.remedy)}", highlight=False
        )
    compared = "" if connection is None else ", compared with the database's log"
    said.print(
        f"{found.segments:,} segments, {len(found.tables):,} tables, {found.rows:,} rows, up to seq {found.upto:,}"
        f"{compared}: {'whole' if found.is_whole else 'broken'}",
        highlight=False,
    )
    return 0 if found.is_whole else 1


def compact(options: Options, session: Session | None = None, console: Console | None = None) -> int:
    """Under the lock of the statistics job: two would write one archive."""
    from pipeline.statistics.compaction import compact as merge
    from pipeline.statistics.database import take_lock

    with _opened(options, session, take_lock) as (archive, _):
        archive.clear()
        segments = len(archive.segments("event_log"))
        merge(archive)
        left = len(archive.segments("event_log"))
    (console or Console()).print(f"{segments:,} segments of the event log are now {left:,}", highlight=False)
    return 0


@contextmanager
def _opened(
    options: Options, session: Session | None, prepare: Callable[[Connection], None] = lambda connection: None
) -> Iterator[tuple[Archive, Connection | None]]:
    """The archive, in this session or one of its own, and the database if there is one."""
    from pipeline.statistics.session import check_spark, open_session

    try:
        check_spark()
        from pipeline.statistics.archive import Archive, only_database
        from pipeline.statistics.catalog import archive_id
        from pipeline.statistics.database import connect

        with ExitStack() as stack:
            connection = stack.enter_context(connect(options.database)) if options.database else None
            if connection is not None:
                prepare(connection)
            spark = (session or stack.enter_context(open_session(options.master))).spark
            name = options.archive_of or (archive_id(connection) if connection else "")
            yield Archive(spark, options.archive, name or only_database(spark, options.archive)), connection
    except StatisticsError as error:
        raise SetupError(str(error)) from error
