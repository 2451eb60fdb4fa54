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
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # by spark-submit, which puts only this file's folder on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psycopg

from pipeline.statistics import StatisticsError
from pipeline.statistics.archive import check_folder, reason
from pipeline.statistics.catalog import Catalog, family, key_queries, open_catalog, row_queries
from pipeline.statistics.database import Connection, connect, take_lock
from pipeline.statistics.figures import Collected, Figures
from pipeline.statistics.joins import SIDE, Frequencies, JoinStatistics, frequencies
from pipeline.statistics.moments import moment
from pipeline.statistics.progress import Steps
from pipeline.statistics.runs import write_run
from pipeline.statistics.session import Session, check_spark, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.statistics.archive import Archive

TRAINING = 1_000
_MICROSECONDS = "(extract(epoch FROM at) * 1000000)::bigint"
# name: (schema in Spark, the query of a range, whether it is a log, which only grows)
TABLES = {
    "event_log": (
        "seq long, table_id int, op string, old string, new string, request_end long, at long, day string",
        "SELECT seq, table_id, op, old::text, new::text, coalesce(request_end, seq),"
        f" {_MICROSECONDS}, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM prosem.event_log"
        " WHERE seq > {after} AND seq <= {upto}",
    ),
    "plan_measurement": (
        "seq long, group_id int, plan string, descriptor string, server_time_us double, send_us double,"
        " bytes_out long, network_bytes long, latency_us double, affected long, at long",
        "SELECT seq, group_id, plan, array_to_json(descriptor)::text, server_time_us, send_us, bytes_out,"
        f" network_bytes, latency_us, affected, {_MICROSECONDS} FROM prosem.plan_measurement"
        " WHERE seq > {after} AND seq <= {upto}",
    ),
    "subscription": (
        "sid long, group_id int, active boolean, params string, sql string, notify string, per string, tenant string",
        "SELECT sid, group_id, active, params::text, sql, notify::text, per, statement.tenant FROM prosem.subscription"
        " JOIN prosem.statement ON statement.id = statement_id WHERE sid > {after} AND sid <= {upto}",
    ),
}  # fmt: skip
BASE = "table_id int, row string"
DEFINITION = "kind string, id int, tenant string, name string, definition string"


@dataclass(frozen=True)
class Options:
    """What `prosem stats refresh` takes."""

    database: str
    archive: str
    master: str = ""
    since: datetime | None = None
    training: int = TRAINING
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
            self.counts["collected"] = vars(self.collected)
            run = write_run(self.connection, job, self.options.since, kept.parts(self.collected), self.counts)
        kept.release()
        return Outcome(run, job, self.counts)

    def update_archive(self) -> tuple[Archive, Catalog]:
        """Read what is new, and compute nothing: what a backtest needs."""
        from pipeline.statistics.archive import Archive
        from pipeline.statistics.source import driver

        self.steps.context = self.session.spark.sparkContext
        self._driver = self.options.driver or driver()
        with open_catalog(self.connection) as catalog:
            archive = Archive(self.session.spark, self.options.archive, catalog.database)
            archive.check()
            self._archive(archive, catalog)
        return archive, catalog

    # -- reading ---------------------------------------------------------------------------------------------
    def _archive(self, archive: Archive, catalog: Catalog) -> None:
        """Only what is new of the logs is read; subscriptions are copied as they are."""
        if archive.upto("event_log") > catalog.last_seq:
            raise StatisticsError(
                f"--archive {self.options.archive} knows later events than the database, which was probably "
                "restored from a backup: give another folder"
            )
        after = max(archive.upto("event_log"), catalog.retained_after)
        measured = max(archive.upto("plan_measurement"), catalog.first_measurement - 1)
        with self.steps.step("archiving the event log"):
            self._append(archive, "event_log", after, catalog.last_seq)
        if not archive.bases:
            with self.steps.step("copying the tables"):
                archive.append("base", self._rows(catalog), catalog.last_seq, catalog.last_seq)
        with self.steps.step("archiving measurements"):
            self._append(archive, "plan_measurement", measured, catalog.last_measurement)
        with self.steps.step("archiving subscriptions"):
            copy = self._read("subscription", 0, catalog.last_sid)
            archive.replace("subscription", copy, catalog.last_seq)
        definitions = self.session.spark.createDataFrame(catalog.definitions, DEFINITION)
        archive.replace("definition", definitions.coalesce(1), catalog.last_seq)

    def _rows(self, catalog: Catalog) -> DataFrame:
        """The rows of all tables as of the catalog's snapshot."""
        from pipeline.statistics.source import frame

        queries = row_queries(self.connection, catalog)
        spark, url, snapshot = self.session.spark, self.options.database, catalog.snapshot
        if not queries:
            return spark.createDataFrame([], BASE)
        return frame(spark, url, queries, BASE, self._driver, snapshot)

    def _append(self, archive: Archive, name: str, after: int, upto: int) -> None:
        if upto > after:
            archive.append(name, self._read(name, after, upto), after, upto)

    def _read(self, name: str, after: int, upto: int) -> DataFrame:
        from pipeline.statistics.source import frame, ranges

        schema, query = TABLES[name]
        queries = [
            query.format(after=first, upto=last)
            for first, last in ranges(after, upto, self.session.partitions)
        ]
        self.counts.setdefault("partitions", {})[name] = len(queries)
        return frame(self.session.spark, self.options.database, queries, schema, self._driver)

    # -- computing -------------------------------------------------------------------------------------------
    def _compute(self, archive: Archive, catalog: Catalog) -> Figures:
        from pipeline.statistics.histograms import column_statistics
        from pipeline.statistics.plans import training_set
        from pipeline.statistics.points import point_statistics

        def read(name: str) -> DataFrame:
            rows = archive.read(name, TABLES[name][0])
            if self.options.since is not None and "at" in rows.columns:
                return rows.where(rows["at"] >= int(self.options.since.timestamp() * 1_000_000))
            return rows

        events, measurements, subscriptions = (
            read("event_log"),
            read("plan_measurement"),
            read("subscription"),
        )
        with self.steps.step("columns"):
            columns = list(self.collected.of(column_statistics(events, catalog.tables)))
        with self.steps.step("points of subscriptions"):
            points = list(self.collected.of(point_statistics(subscriptions, catalog.definitions)))
        with self.steps.step("joins"):
            joins = self._joins(catalog, {row.owner: row.events for row in columns if row.item == "0"})
        with self.steps.step("training set"):
            training = training_set(measurements, self.options.training).persist()
            self.counts |= {"upto": catalog.last_seq, "training": training.count()}
        with self.steps.step("counting"):
            for name, rows in (("event_log", events), ("plan_measurement", measurements)):
                self.counts[name] = rows.count()
            self.counts["subscription"] = subscriptions.count()
        return Figures(catalog, columns, points, training, joins)

    def _joins(self, catalog: Catalog, events: dict[int, int]) -> list[JoinStatistics]:
        from pipeline.statistics.source import frame

        sides = sorted({side for edge in catalog.edges for side in edge})
        if not sides:
            return []
        queries = key_queries(self.connection, catalog, sides)
        keys = frame(self.session.spark, self.options.database, queries, SIDE, self._driver)
        found = {
            row.side: Frequencies(row.keys, row.rows, row.skew)
            for row in self.collected.of(frequencies(keys))
        }
        total = sum(events.values()) or 1

        def share(table: int) -> float:
            return sum(events.get(one.id, 0) for one in family(catalog.tables, table)) / total

        nothing = Frequencies(0, 0.0, 1.0)
        return [
            JoinStatistics(
                edge,
                (share(edge.r.table), share(edge.s.table)),
                found.get(sides.index(edge.r), nothing),
                found.get(sides.index(edge.s), nothing),
            )
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
    parser.add_argument("--master", default="", help="Spark's master (default: spark-submit's)")
    given = parser.parse_args(arguments)
    try:
        done = refresh(
            Options(given.database, given.archive, given.master, moment(given.since), given.training)
        )
    except StatisticsError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"run {done.run} is active")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
