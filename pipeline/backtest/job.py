"""A backtest on Spark: subscriptions that never were, over the archive, exactly as the server would have notified them.

    prosem backtest "SELECT MIN(price) FROM stocks WHERE symbol = :s" --params symbols.csv --since 30d

Rows as of the start come from a base copy and the log; then all subscriptions of a slice are made, and the log is taken.
Slices are independent (see `plan`): each is one task, in one server of its own (see `simulation`). The driver holds the
parameters, and of the notifications only counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline.backtest.plan import Question, Split, ask, split
from pipeline.backtest.worker import BASE, EVENT, NOTIFICATIONS, PARAMS, ROLL, STREAM, Work, runner
from pipeline.statistics import StatisticsError
from pipeline.statistics.archive import Archive
from pipeline.statistics.definitions import Definitions
from pipeline.statistics.job import BASE as BASE_ROWS
from pipeline.statistics.job import DEFINITION, TABLES
from pipeline.statistics.session import Session
from prosem.values.errors import InputError
from prosem.values.model import JsonObject
from prosem.values.wire import encode_exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLICES_A_CORE = 4  # where events are divided too: small slices even out


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


class Backtest:
    """A question to an archive. `folder` holds the archive of one database, or of several of which one is named."""

    def __init__(self, session: Session, folder: str, database: str = "") -> None:
        self._session, self._spark = session, session.spark
        self._archive = Archive(session.spark, folder, database or _only(session, folder))
        rows = self._archive.read("definition", DEFINITION).collect()
        if not rows:
            raise StatisticsError(f"--archive {folder} holds no tables: prosem stats refresh fills it")
        self.definitions = Definitions([tuple(row) for row in rows])

    def ask(
        self, sql: str, notify: JsonObject | None = None, per: str = "event", tenant: str = "default"
    ) -> Question:
        return ask(self.definitions, sql, notify, per, tenant)

    def period(self, since: datetime | None) -> Period:
        """What the archive holds since this moment; StatisticsError if it begins later, or there is nothing."""
        from pyspark.sql import functions as f

        first = self._archive.log_start
        events = self._log(first)
        micros = 0 if since is None else int(since.timestamp() * 1_000_000)
        before = f.max(f.when(f.col("at") < micros, f.col("seq")))
        (row,) = events.agg(before, f.max("seq"), f.min("at"), f.max("at")).collect()
        start, end, earliest, latest = row
        if end is None or start == end:
            raise StatisticsError(
                "the archive holds no event of this period: prosem stats refresh reads new ones"
            )
        if start is None:
            start = first
            if since is not None and first > 0 and micros < earliest:
                raise StatisticsError(
                    f"the archive begins at {_moment(earliest):%Y-%m-%dT%H:%M:%SZ}; give a later --since"
                )
        return Period(start, end, since or _moment(earliest), _moment(latest))

    def run(
        self, question: Question, subscriptions: Sequence[JsonObject], period: Period, slices: int = 0
    ) -> DataFrame:
        """Rows of `NOTIFICATIONS`; the subscription is its place in the sequence. Nothing is computed yet."""
        for number, params in enumerate(subscriptions):
            try:
                question.check(params)
            except InputError as error:
                raise StatisticsError(f"subscription {number + 1}: {error.detail}") from error
        cores = self._session.partitions
        made = split(question, subscriptions, slices or cores)
        if made.dividing is not None and not slices:
            made = split(question, subscriptions, SLICES_A_CORE * cores)
        stream = self._stream(question, made, period).unionByName(self._subscriptions(subscriptions, made))
        work = Work(question.statement, question.tables, question.views, period.start, made.dividing)
        from pyspark.sql import functions as f

        parts = stream.repartitionById(made.count, f.col("slice"))
        return parts.sortWithinPartitions("slice", "kind", "place").mapInArrow(runner(work), NOTIFICATIONS)

    def quantiles(self, question: Question, period: Period, column: str, shares: list[float]) -> list[float]:
        """Quantiles of a column of numbers, over the rows that the events of the period made."""
        from pyspark.sql import functions as f

        tables = [table for table in question.tables if column in table.position]
        if not tables:
            raise StatisticsError(
                f"{column} is no column of a table; values to try are taken from tables alone"
            )
        rows = self._log(period.start).where(f"table_id = {tables[0].id} AND seq <= {period.end}")
        value = f.get_json_object("new", f"$[{tables[0].position[column]}]").try_cast("double")
        (row,) = rows.agg(f.percentile_approx(value, shares, 10_000)).collect()
        if row[0] is None:
            raise StatisticsError(f"no event of this period gives {column} a value")
        return list(row[0])

    # -- the stream ----------------------------------------------------------------------------------------------
    def _log(self, after: int) -> DataFrame:
        rows = self._archive.read("event_log", TABLES["event_log"][0], after)
        return rows.where(rows["seq"] > after)

    def _subscriptions(self, subscriptions: Sequence[JsonObject], made: Split) -> DataFrame:
        import pyarrow as pa  # type: ignore[import-untyped]

        texts = [encode_exact(params).decode() for params in subscriptions]
        columns = {"slice": pa.array(made.slices, pa.int32()), "seq": range(len(texts)), "new": texts}
        found = self._spark.createDataFrame(pa.table(columns))
        return found.selectExpr(
            *_selected(
                slice="slice", kind=str(PARAMS), place="seq", table_id="0", old="NULL", new="new", seq="seq"
            )
        )

    def _stream(self, question: Question, made: Split, period: Period) -> DataFrame:
        """Rows and events, each with the slice that needs it: as often as slices do."""
        ids = ", ".join(str(table.id) for table in question.tables)
        base = self._base(period.start)
        log = self._log(min(base, period.start)).where(f"table_id IN ({ids}) AND seq <= {period.end}")
        rows = self._archive.read("base", BASE_ROWS, base, base).where(f"table_id IN ({ids})")
        parts = [
            rows.selectExpr(
                *_selected(kind=str(BASE), place="0", table_id="table_id", old="NULL", new="row", seq="0")
            ),
            log.where(f"seq > {period.start}").selectExpr(
                *_selected(
                    kind=str(EVENT), place="seq", table_id="table_id", old="old", new="new", seq="seq",
                    request_end="coalesce(request_end, seq)", at="at",
                )
            ),
        ]  # fmt: skip
        roll = {"kind": str(ROLL), "table_id": "table_id"}
        if base < period.start:
            forwards = log.where(f"seq <= {period.start}")
            parts.append(forwards.selectExpr(*_selected(place="seq", old="old", new="new", **roll)))
        elif base > period.start:
            back = log.where(f"seq > {period.start} AND seq <= {base}")
            parts.append(back.selectExpr(*_selected(place="-seq", old="new", new="old", **roll)))
        stream = parts[0]
        for part in parts[1:]:
            stream = stream.unionByName(part)
        return self._divided(stream, made)

    def _base(self, start: int) -> int:
        """The base copy that is nearest: the last one before the start, else the first after it."""
        bases = self._archive.bases
        if not bases:
            raise StatisticsError("the archive holds no copy of the tables: prosem stats refresh makes one")
        return max((base for base in bases if base <= start), default=bases[0])

    def _divided(self, stream: DataFrame, made: Split) -> DataFrame:
        from pyspark.sql import functions as f

        if made.dividing is None:
            every = f.explode(f.array([f.lit(at) for at in range(made.count)])).alias("slice")
            return stream.select(every, *[name for name in stream.columns if name != "slice"])
        path = f"$[{made.dividing.position}]"
        values = f.array_compact(
            f.array_distinct(f.array(f.get_json_object("old", path), f.get_json_object("new", path)))
        )
        needed = self._spark.createDataFrame(sorted(made.values), "value string, slice int")
        keyed = stream.drop("slice").withColumn("value", f.explode(values))
        names = [name.partition(" ")[0] for name in STREAM.split(", ")]
        return keyed.join(needed, "value").select(*names)


def _selected(**columns: str) -> list[str]:
    """The columns of `STREAM`, those not given 0."""
    made = []
    for field in STREAM.split(", "):
        name, kind = field.split(" ")
        made.append(f"CAST({columns.get(name, '0')} AS {kind}) AS {name}")
    return made


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def _only(session: Session, folder: str) -> str:
    """The only database of an archive."""
    names = Archive(session.spark, folder, "").databases()
    if not names:
        raise StatisticsError(f"--archive {folder} is empty: prosem stats refresh fills it")
    if len(names) > 1:
        raise StatisticsError(
            f"--archive {folder} has several databases; give --archive-of one of {', '.join(names)}"
        )
    return names[0]
