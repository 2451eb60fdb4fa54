"""A backtest on Spark: subscriptions that never were, over the archive, exactly as the server would have notified them.

    prosem backtest "SELECT MIN(price) FROM stocks WHERE symbol = :s" --params symbols.csv --since 30d

Rows as of the start come from a base copy and the log; then all subscriptions of a slice are made, and the log is taken.
Slices are independent (see `plan`): each is one task, in one server of its own (see `simulation`). The driver holds the
parameters, and of the notifications only counts. Meanwhile segments of the archive may be compacted: see `steady`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from pipeline.backtest.period import Period, archived_period
from pipeline.backtest.plan import Question, Split, ask, split
from pipeline.backtest.worker import (
    BASE,
    EVENT,
    NOTIFICATIONS,
    PARAMS,
    ROLL,
    STREAM,
    Work,
    new_of,
    old_of,
    runner,
)
from pipeline.statistics import StatisticsError
from pipeline.statistics.archive import Archive, only_database
from pipeline.statistics.archiving import archived_definitions
from pipeline.statistics.session import Session
from pipeline.statistics.typed import columns_of
from prosem.values.errors import InputError
from prosem.values.model import JsonObject, Table
from prosem.values.wire import encode_exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLICES_A_CORE = 4  # where events are divided too: small slices even out
TRIES = 3
T = TypeVar("T")


class Backtest:
    """A question to an archive. `folder` holds the archive of one database, or of several of which one is named."""

    def __init__(self, session: Session, folder: str, database: str = "") -> None:
        self._session, self._spark = session, session.spark
        self._archive = Archive(session.spark, folder, database or only_database(session.spark, folder))
        self.definitions = archived_definitions(self._archive)
        if not self.definitions.tables:
            raise StatisticsError(f"--archive {folder} holds no tables: prosem stats refresh fills it")

    def ask(
        self, sql: str, notify: JsonObject | None = None, per: str = "event", tenant: str = "default"
    ) -> Question:
        return ask(self.definitions, sql, notify, per, tenant)

    def period(self, since: datetime | None) -> Period:
        """What the archive holds since this moment; StatisticsError if it begins later, or there is nothing."""
        return archived_period(self._archive, since)

    def steady(self, work: Callable[[], T]) -> T:
        """What `work` computes from the archive; again, if it failed and segments that were there are gone.

        Compaction replaces segments by one with the same events, so that the outcome is the same. It is rare: a run in 32.
        """
        for _ in range(TRIES - 1):
            before = self._archive.segments("event_log")
            try:
                return work()
            except (PySparkException, Py4JError, StatisticsError):
                if not {*before} - {*self._archive.segments("event_log")}:
                    raise
        return work()

    def run(
        self, question: Question, subscriptions: Sequence[JsonObject], period: Period, slices: int = 0
    ) -> DataFrame:
        """Rows of `NOTIFICATIONS`; the subscription is its place in the sequence. Nothing is computed yet."""
        for number, params in enumerate(subscriptions):
            try:
                question.check(params)
            except InputError as error:
                raise StatisticsError(f"subscription {number + 1}: {error.detail}") from error
        cores = self._session.cores
        made = split(question, subscriptions, slices or cores)
        if made.dividing is not None and not slices:
            made = split(question, subscriptions, SLICES_A_CORE * cores)
        stream = self._stream(question, made, period)
        stream = stream.unionByName(self._subscriptions(subscriptions, made), allowMissingColumns=True)
        work = Work(question.statement, question.tables, question.views, period.start, made.dividing)
        parts = stream.repartitionById(made.count, f.col("slice"))
        return parts.sortWithinPartitions("slice", "kind", "place").mapInArrow(runner(work), NOTIFICATIONS)

    def quantiles(self, question: Question, period: Period, column: str, shares: list[float]) -> list[float]:
        """Quantiles of a column of numbers, over the rows that the events of the period made."""
        tables = [table for table in question.tables if column in table.position]
        if not tables:
            raise StatisticsError(
                f"{column} is no column of a table; values to try are taken from tables alone"
            )
        rows = self._log(tables[0], period.start).where(f"seq <= {period.end}")
        value = f.col("new").getField(column).try_cast("double")
        (row,) = rows.agg(f.percentile_approx(value, shares, 10_000)).collect()
        if row[0] is None:
            raise StatisticsError(f"no event of this period gives {column} a value")
        return list(row[0])

    # -- the stream ----------------------------------------------------------------------------------------------
    def _log(self, table: Table, after: int) -> DataFrame:
        rows = self._archive.rows("event_log", table.id, columns_of(table), after + 1)
        return rows.where(rows["seq"] > after)

    def _subscriptions(self, subscriptions: Sequence[JsonObject], made: Split) -> DataFrame:
        import pyarrow as pa  # type: ignore[import-untyped]

        texts = [encode_exact(params).decode() for params in subscriptions]
        columns = {"slice": pa.array(made.slices, pa.int32()), "seq": range(len(texts)), "params": texts}
        found = self._spark.createDataFrame(pa.table(columns))
        return found.selectExpr(
            *_selected(slice="slice", kind=str(PARAMS), place="seq", seq="seq", params="params")
        )

    def _stream(self, question: Question, made: Split, period: Period) -> DataFrame:
        """Rows and events, each with the slice that needs it: as often as slices do."""
        parts = [
            self._divided(part, table, made)
            for table in question.tables
            for part in self._parts(table, period, self._base(period.start))
        ]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)

    def _parts(self, table: Table, period: Period, base: int) -> Iterator[DataFrame]:
        """What concerns one table: its rows, how they become those of the start, and its events."""
        log = self._log(table, min(base, period.start)).where(f"seq <= {period.end}")
        rows = self._archive.rows("base", table.id, columns_of(table), base, base)
        old, new, number = old_of(table), new_of(table), str(table.id)

        def selected(some: DataFrame, before: str, after: str, **columns: str) -> DataFrame:
            names = (f"{before} AS {old}", f"{after} AS {new}")
            return some.selectExpr(*_selected(table_id=number, **columns), *names)

        no_row = rows.withColumn("none", f.when(f.lit(False), f.col("row")))
        yield selected(no_row, "none", "row", kind=str(BASE))
        event = {"seq": "seq", "request_end": "request_end", "at": "unix_micros(at)"}
        later = log.where(f"seq > {period.start}")
        yield selected(later, "old", "new", kind=str(EVENT), place="seq", **event)
        if base < period.start:
            forwards = log.where(f"seq <= {period.start}")
            yield selected(forwards, "old", "new", kind=str(ROLL), place="seq")
        elif base > period.start:
            back = log.where(f"seq > {period.start} AND seq <= {base}")
            yield selected(back, "new", "old", kind=str(ROLL), place="-seq")

    def _base(self, start: int) -> int:
        """The base copy with the fewest events between it and the start."""
        bases = self._archive.bases
        if not bases:
            raise StatisticsError("the archive holds no copy of the tables: prosem stats refresh makes one")
        return min(bases, key=lambda base: abs(base - start))

    def _divided(self, part: DataFrame, table: Table, made: Split) -> DataFrame:
        if made.dividing is None:
            every = f.explode(f.array([f.lit(at) for at in range(made.count)])).alias("slice")
            return part.select(every, *[name for name in part.columns if name != "slice"])
        if made.dividing.position >= len(table.names):  # of a table that the one of the query extends
            return part.where(f.lit(False))
        column = table.names[made.dividing.position]
        both = [f.col(name).getField(column).cast("string") for name in (old_of(table), new_of(table))]
        values = f.array_compact(f.array_distinct(f.array(both)))
        needed = self._spark.createDataFrame(sorted(made.values), "value string, slice int")
        keyed = part.drop("slice").withColumn("value", f.explode(values))
        return keyed.join(needed, "value").select(*part.columns)


def _selected(**columns: str) -> list[str]:
    """The columns of `STREAM`, those not given 0; parameters NULL."""
    made = []
    for field in STREAM.split(", "):
        name, kind = field.split(" ")
        default = "NULL" if kind == "string" else "0"
        made.append(f"CAST({columns.get(name, default)} AS {kind}) AS {name}")
    return made
