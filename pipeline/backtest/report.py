"""What a backtest found: counts per subscription, per day and per hour of the day, and how they are distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.backtest.period import Period
from pipeline.statistics import StatisticsError
from pipeline.statistics.places import reason
from prosem.values.model import JsonObject
from prosem.values.wire import encode_exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Counts:
    """`per_subscription` has an entry for each, in their order; days and hours are those of UTC; none is left out."""

    period: Period
    per_subscription: Sequence[int]
    per_day: dict[date, int]
    per_hour: dict[int, int]

    @property
    def total(self) -> int:
        return sum(self.per_subscription)

    def per_day_and_subscription(self, number: int) -> float:
        return self.per_subscription[number] / self.period.days

    @property
    def distribution(self) -> list[tuple[float, float]]:
        """Notifications per day of the subscription below which a share of the population is, for some shares.

        The nearest rank: always the figure of a subscription.
        """
        ranked = sorted(self.per_subscription)
        return [
            (share, ranked[min(len(ranked) - 1, int(share * len(ranked)))] / self.period.days)
            for share in SHARES
        ]


def days_of(period: Period) -> list[date]:
    """Every day of the period, in UTC."""
    first, last = (at.astimezone(UTC).date() for at in (period.since, period.until))
    return [first + timedelta(at) for at in range((last - first).days + 1)]


@contextmanager
def counted_hourly(notifications: DataFrame) -> Iterator[DataFrame]:
    """How many there are per subscription, day and hour: computed once, whatever is read from it."""
    from pyspark.sql import functions as f

    day, hour = f.to_date("at").alias("day"), f.hour("at").alias("hour")
    hourly = notifications.groupBy("subscription", day, hour).count().persist()
    try:
        yield hourly
    finally:
        hourly.unpersist()


def count(hourly: DataFrame, subscriptions: int, period: Period) -> Counts:
    """One row per subscription and one per hour of the period come to the driver."""
    from pyspark.sql import functions as f

    per_subscription = [0] * subscriptions
    per_day, per_hour = dict.fromkeys(days_of(period), 0), dict.fromkeys(range(24), 0)
    for row in hourly.groupBy("subscription").agg(f.sum("count").alias("notified")).toLocalIterator():
        per_subscription[row["subscription"]] = row["notified"]
    for row in hourly.groupBy("day", "hour").agg(f.sum("count").alias("notified")).toLocalIterator():
        per_day[row["day"]] += row["notified"]
        per_hour[row["hour"]] += row["notified"]
    return Counts(period, per_subscription, per_day, per_hour)


def _by(hourly: DataFrame, unit: str, every: str) -> DataFrame:
    """Per subscription that was notified at all an array `by_…` with a count for each day or hour of `every`."""
    from pyspark.sql import functions as f

    found = hourly.groupBy("subscription", unit).agg(f.sum("count").alias("notified"))
    pairs = f.map_from_entries(f.collect_list(f.struct(unit, "notified")))
    mapped = found.groupBy("subscription").agg(pairs.alias("found"))
    filled = f"transform({every}, one -> coalesce(try_element_at(found, one), 0L)) AS by_{unit}"
    return mapped.selectExpr("subscription", filled)


def each_subscription(hourly: DataFrame, population: DataFrame, days: Sequence[date]) -> DataFrame:
    """The rows of `population`, with counts by day and by hour (`by_day`, `by_hour`); nothing comes to the driver."""
    every = f"sequence(DATE'{days[0]}', DATE'{days[-1]}')"
    by_day, by_hour = _by(hourly, "day", every), _by(hourly, "hour", "sequence(0, 23)")
    joined = population.join(by_day, "subscription", "left").join(by_hour, "subscription", "left")
    return joined.selectExpr(
        *population.columns,
        f"coalesce(by_day, array_repeat(0L, {len(days)})) AS by_day",
        "coalesce(by_hour, array_repeat(0L, 24)) AS by_hour",
    )


def write(notifications: DataFrame, folder: str) -> DataFrame:
    """The notifications as Parquet in `notifications` below the folder, and read from there: computed once."""
    path = f"{folder.rstrip('/')}/notifications"
    try:
        notifications.write.mode("overwrite").parquet(path)
    except Exception as error:
        raise StatisticsError(f"--output {folder}: {reason(error)}") from error
    return notifications.sparkSession.read.parquet(path)


def counted_population(hourly: DataFrame, counts: Counts, subscriptions: Sequence[JsonObject]) -> DataFrame:
    """One row per subscription: its number, parameters and counts."""
    import pyarrow as pa  # type: ignore[import-untyped]

    notified = list(counts.per_subscription)
    columns = {
        "subscription": list(range(len(notified))),
        "params": [encode_exact(params).decode() for params in subscriptions],
        "notifications": notified,
        "per_day": [counts.per_day_and_subscription(number) for number in range(len(notified))],
    }
    made = hourly.sparkSession.createDataFrame(pa.table(columns))
    return each_subscription(hourly, made, list(counts.per_day))


def write_counts(counted: DataFrame, days: Sequence[date], folder: str) -> None:
    """The rows of `counted_population` as Parquet in `subscriptions` below the folder; `by_day` has the days as keys."""
    every = f"sequence(DATE'{days[0]}', DATE'{days[-1]}')"
    by_day = f"map_from_arrays({every}, by_day) AS by_day"
    shown = counted.selectExpr(*[by_day if name == "by_day" else name for name in counted.columns])
    shown.write.mode("overwrite").parquet(f"{folder.rstrip('/')}/subscriptions")


def draw(counts: Counts, path: Path) -> None:
    """Notifications per day, per hour of the day, and the distribution over the population, in one image."""
    try:
        import matplotlib
    except ImportError:
        raise StatisticsError("plots need matplotlib: pip install prosem[plots]") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (days, hours, spread) = pyplot.subplots(1, 3, figsize=(15, 4), layout="constrained")
    try:
        days.bar([f"{day:%m-%d}" for day in counts.per_day], list(counts.per_day.values()))
        days.set(title="per day", ylabel="notifications")
        days.tick_params(axis="x", rotation=60)
        hours.bar(list(counts.per_hour), list(counts.per_hour.values()))
        hours.set(title="per hour of the day (UTC)", ylabel="notifications", xlabel="hour")
        ranked = sorted(one / counts.period.days for one in counts.per_subscription)
        spread.plot([(at + 1) / len(ranked) for at in range(len(ranked))], ranked)
        spread.set(
            title="over the population", xlabel="share of subscriptions", ylabel="notifications per day"
        )
        for axis in (days, hours, spread):
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise StatisticsError(f"the plot cannot be written to {path}: {error}") from error
    finally:
        pyplot.close(figure)
