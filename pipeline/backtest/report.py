"""What a backtest found: counts per subscription, per day and per hour of the day, and how they are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.backtest.period import Period
from pipeline.statistics import StatisticsError
from pipeline.statistics.places import reason
from prosem.values.model import JsonObject
from prosem.values.wire import encode_exact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Counts:
    """`per_subscription` has an entry for each, in their order; hours are those of UTC."""

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


def count(notifications: DataFrame, subscriptions: int, period: Period) -> Counts:
    """One pass; one row per subscription and one per hour of the period come to the driver."""
    from pyspark.sql import functions as f

    day, hour = f.to_date("at").alias("day"), f.hour("at").alias("hour")
    hourly = notifications.groupBy("subscription", day, hour).count().persist()
    per_subscription = [0] * subscriptions
    per_day: dict[date, int] = {}
    per_hour: dict[int, int] = {}
    try:
        for row in hourly.groupBy("subscription").agg(f.sum("count").alias("notified")).toLocalIterator():
            per_subscription[row["subscription"]] = row["notified"]
        for row in hourly.groupBy("day", "hour").agg(f.sum("count").alias("notified")).toLocalIterator():
            per_day[row["day"]] = per_day.get(row["day"], 0) + row["notified"]
            per_hour[row["hour"]] = per_hour.get(row["hour"], 0) + row["notified"]
    finally:
        hourly.unpersist()
    return Counts(period, per_subscription, dict(sorted(per_day.items())), dict(sorted(per_hour.items())))


def write(notifications: DataFrame, folder: str) -> DataFrame:
    """The notifications as Parquet in `notifications` below the folder, and read from there: computed once."""
    path = f"{folder.rstrip('/')}/notifications"
    try:
        notifications.write.mode("overwrite").parquet(path)
    except Exception as error:
        raise StatisticsError(f"--output {folder}: {reason(error)}") from error
    return notifications.sparkSession.read.parquet(path)


def write_counts(
    spark: SparkSession, counts: Counts, subscriptions: Sequence[JsonObject], folder: str
) -> None:
    """One row per subscription as Parquet in `subscriptions` below the folder: its number, parameters and counts."""
    import pyarrow as pa  # type: ignore[import-untyped]

    notified = list(counts.per_subscription)
    columns = {
        "subscription": list(range(len(notified))),
        "params": [encode_exact(params).decode() for params in subscriptions],
        "notifications": notified,
        "per_day": [counts.per_day_and_subscription(number) for number in range(len(notified))],
    }
    made = spark.createDataFrame(pa.table(columns))
    made.write.mode("overwrite").parquet(f"{folder.rstrip('/')}/subscriptions")


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
        hours.bar(list(range(24)), [counts.per_hour.get(hour, 0) for hour in range(24)])
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
