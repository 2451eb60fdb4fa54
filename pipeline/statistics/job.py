"""The statistics job: read what is new, archive it, compute from the archive, write one run.

    prosem stats refresh --archive /var/lib/prosem/archive
    spark-submit pipeline/statistics/job.py --database postgresql://… --archive s3a://…

Everything proportional to the input happens on the executors. The driver takes in one row per column, join, dimension
of a group, and the training set (at most `training` entries per group), row by row; `Collected` counts them. A run that
fails or is killed changes nothing but the archive, which only grows by whole segments.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # by spark-submit, which puts only this file's folder on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psycopg

from pipeline.statistics import StatisticsError
from pipeline.statistics.catalog import Catalog, open_catalog
from pipeline.statistics.database import Connection, connect, take_lock
from pipeline.statistics.figures import Collected, Figures
from pipeline.statistics.joins import Frequencies, JoinStatistics, Side, frequencies
from pipeline.statistics.moments import moment
from pipeline.statistics.places import check_folder, reason
from pipeline.statistics.progress import Steps
from pipeline.statistics.runs import remove_old_runs, write_run
from pipeline.statistics.session import Session, check_spark, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.statistics.archive import Archive

TRAINING = 1_000
KEEP = 7  # a week of nights


@dataclass(frozen=True)
class Options:
    """What `prosem stats refresh` takes."""

    database: str
    archive: str
    master: str = ""
    since: datetime | None = None
    training: int = TRAINING
    keep: int = KEEP  # runs in PostgreSQL
    driver: str = ""
    quiet: bool = False


@dataclass
class Outcome:
    """A run that was written."""

    run: int
    job: str
    rows: dict[str, Any]


def refresh(options: Options, steps: Steps | None = None) -> Outcome:
    """Run the job once, in a Spark session of its own."""
    if options.training < 1:
        raise StatisticsError(f"the training set holds at least one entry per group, got {options.training}")
    if options.keep < 1:
        raise StatisticsError(f"at least one run is kept, got {options.keep}")
    check_spark()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    with steps or Steps(options.quiet) as shown, ExitStack() as stack:
        connection = stack.enter_context(connect(options.database))
        take_lock(connection)  # what cannot succeed ends before Spark takes its time
        check_folder(options.archive, options.master)
        with shown.step("starting Spark"):
            session = stack.enter_context(open_session(options.master))
        shown.say(session.engine)
        try:
            return Job(session, options, shown, connection).run()
        except (PySparkException, Py4JError, psycopg.Error) as error:
            raise StatisticsError(f"the job failed and changed nothing: {reason(error)}") from error


@dataclass
class Job:
    """One run in a given session."""

    session: Session
    options: Options
    steps: Steps
    connection: Connection  # it holds the job's lock
    collected: Collected = field(default_factory=Collected)
    counts: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Outcome:
        from pipeline.statistics.compaction import AFTER, compact

        started = time.perf_counter()
        archive, catalog = self.update_archive()
        archived = time.perf_counter()
        kept = self._compute(archive, catalog)
        computed = time.perf_counter()
        self.counts["seconds"] = {
            "archive": round(archived - started, 3), "compute": round(computed - archived, 3)
        }  # fmt: skip
        job = f"{self.session.engine}, by {self._driver}"
        with self.steps.step("writing the run"):
            self.counts["collected"] = self.collected.counts  # those of the training set are yet to come
            run = write_run(self.connection, job, self.options.since, kept.parts(self.collected), self.counts)
            remove_old_runs(self.connection, self.options.keep)
        kept.release()
        with self.steps.step("compacting the archive"):
            compact(archive, AFTER)
        return Outcome(run, job, self.counts)

    def update_archive(self) -> tuple[Archive, Catalog]:
        """Read what is new, and compute nothing: what a backtest needs."""
        from pipeline.statistics.archive import Archive
        from pipeline.statistics.archiving import Archiving
        from pipeline.statistics.source import driver

        self.steps.context = self.session.spark.sparkContext
        self._driver = self.options.driver or driver()
        with open_catalog(self.connection) as catalog:
            archive = Archive(self.session.spark, self.options.archive, catalog.database)
            archive.check()
            added = Archiving(self.session, self.options.database, self._driver, self.steps, self.connection)
            added.update(archive, catalog)
        self.counts["partitions"] = added.partitions
        return archive, catalog

    # -- computing -------------------------------------------------------------------------------------------
    def _compute(self, archive: Archive, catalog: Catalog) -> Figures:
        from pipeline.statistics.archiving import COPIES
        from pipeline.statistics.columns import merged_figures
        from pipeline.statistics.incremental import LogSketches
        from pipeline.statistics.points import point_statistics
        from pipeline.statistics.training import measurements, training_set

        subscriptions = archive.read("subscription", COPIES["subscription"][0])

        def of_points() -> list[Any]:
            with self.steps.step("points of subscriptions"):
                self.counts["subscription"] = subscriptions.count()
                return list(self.collected.of(point_statistics(subscriptions, catalog.definitions)))

        def of_joins() -> dict[int, Frequencies]:
            with self.steps.step("joins"):
                return self._frequencies(archive, catalog)

        def of_training() -> DataFrame:
            with self.steps.step("training set"):
                training = training_set(archive, self.options.training, self._since_us).persist()
                measured = measurements(archive, self._since_us)
                self.counts |= {"training": training.count(), "plan_measurement": measured.count()}
                return training

        # At once: most of a step is Spark's planning and the start of its Python processes, while cores are idle.
        with ThreadPoolExecutor(3) as pool:
            points, joins, training = pool.submit(of_points), pool.submit(of_joins), pool.submit(of_training)
            with self.steps.step("columns"):
                log = LogSketches(archive)
                sketches = log.of(catalog.tables, self._since_us)
                columns = [] if sketches is None else list(self.collected.of(merged_figures(sketches)))
        first = {table.id: table.columns[0].name for table in catalog.tables.values()}
        events = {row.owner: row.events for row in columns if row.item == first[row.owner]}
        total = total_events(catalog, events)
        self.counts |= {"upto": catalog.last_seq, "event_log": total, "scanned": log.scanned}
        edges = join_statistics(catalog, events, joins.result())
        return Figures(catalog, columns, points.result(), training.result(), edges)

    @property
    def _since_us(self) -> int | None:
        since = self.options.since
        return None if since is None else int(since.timestamp() * 1_000_000)

    def _frequencies(self, archive: Archive, catalog: Catalog) -> dict[int, Frequencies]:
        """Of the sides of joins, by their places in `catalog.sides`."""
        from pipeline.statistics.join_keys import side_keys

        if not catalog.sides:
            return {}
        return {
            row.side: Frequencies(row.keys, row.rows, row.skew)
            for row in self.collected.of(frequencies(side_keys(archive, catalog)))
        }


def total_events(catalog: Catalog, events: dict[int, int]) -> int:
    """Those of a table that extends another are counted with that."""
    return sum(count for table, count in events.items() if catalog.tables[table].parent is None)


def join_statistics(
    catalog: Catalog, events: dict[int, int], found: dict[int, Frequencies]
) -> list[JoinStatistics]:
    """Of each join how its rows share keys, and the shares of its tables in all events."""
    total = total_events(catalog, events) or 1

    def share(table: int) -> float:
        return events.get(table, 0) / total

    def known(side: Side) -> Frequencies:
        return found.get(catalog.sides.index(side), Frequencies(0, 0.0, 1.0))

    return [
        JoinStatistics(edge, (share(edge.r.table), share(edge.s.table)), known(edge.r), known(edge.s))
        for edge in catalog.edges
    ]


# -- the command line of spark-submit ----------------------------------------------------------------------------
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Compute the optimizer's statistics (see prosem stats refresh)."
    )
    database = os.environ.get("PROSEM_DATABASE")
    parser.add_argument("--database", default=database, required=database is None, help="postgresql://…")
    parser.add_argument(
        "--archive", required=True, help="folder of the Parquet archive, of any file system Spark knows"
    )
    parser.add_argument(
        "--since", default="", help="count only events from this moment on (ISO 8601, or 7d, 12h)"
    )
    parser.add_argument("--training", type=int, default=TRAINING, help="entries of the training set a group")
    parser.add_argument(
        "--keep", type=int, default=KEEP, help="runs that stay in the database, with this one"
    )
    parser.add_argument("--master", default="", help="Spark's master (default: spark-submit's)")
    given = parser.parse_args(arguments)
    try:
        since = moment(given.since)
        done = refresh(
            Options(given.database, given.archive, given.master, since, given.training, given.keep)
        )
    except StatisticsError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"run {done.run} is active")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
