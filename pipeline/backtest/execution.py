"""One backtest from its request to its counts, for the command line and for the server's jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from pipeline.backtest import asked
from pipeline.backtest.asked import tunable, tuned
from pipeline.backtest.job import Backtest
from pipeline.backtest.pages import write_pages
from pipeline.backtest.period import Period
from pipeline.backtest.plan import Question
from pipeline.backtest.report import Counts, count, counted_hourly, counted_population, write, write_counts
from pipeline.backtest.request import MOST_SHOWN, Request
from pipeline.backtest.tuning import Suggestion, suggest
from pipeline.statistics import StatisticsError
from pipeline.statistics.places import reason
from prosem.values.model import JsonObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from pipeline.statistics.session import Session

Population = Callable[[Question, str], Sequence[JsonObject]]  # of the parameter that is found, or ""
Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Outcome:
    """`suggestions` of the parameter `tuned`, one for each subscription; none if nothing was to be found."""

    type: str
    population: Sequence[JsonObject]
    counts: Counts
    tuned: str = ""
    suggestions: Sequence[Suggestion] = ()

    @property
    def period(self) -> Period:
        return self.counts.period

    def most_notified(self) -> Iterator[tuple[JsonObject, int, float]]:
        """Parameters, notifications, and notifications per day of those with the most."""
        notified = self.counts.per_subscription
        for number in sorted(range(len(notified)), key=lambda one: -notified[one])[:MOST_SHOWN]:
            yield self.population[number], notified[number], self.counts.per_day_and_subscription(number)

    def document(self) -> JsonObject:
        """As the API shows it."""
        counts, period = self.counts, self.period
        found: dict[str, Any] = {
            "type": self.type,
            "subscriptions": len(self.population),
            "since": period.since.isoformat(),
            "until": period.until.isoformat(),
            "days": period.days,
            "notifications": counts.total,
            "distribution": [
                {"share": share, "per_day": notified} for share, notified in counts.distribution
            ],
            "per_day": [{"day": day.isoformat(), "notifications": n} for day, n in counts.per_day.items()],
            "per_hour": [{"hour": hour, "notifications": n} for hour, n in counts.per_hour.items()],
            "most_notified": [
                {"params": params, "notifications": notified, "per_day": per_day}
                for params, notified, per_day in self.most_notified()
            ],
        }
        if self.tuned:
            shown = self.suggestions[:MOST_SHOWN]
            found["suggestions"] = {
                "parameter": self.tuned,
                "values": [
                    {"params": one.params, "value": one.value, "per_day": one.per_day} for one in shown
                ],
            }
        return found


def carry_out(session: Session, request: Request, population: Population, step: Step) -> Outcome:
    """StatisticsError if it fails; in the server's own words if a subscription would be refused."""
    try:
        return _carried_out(session, request, population, step)
    except (PySparkException, Py4JError) as error:
        raise StatisticsError(f"the backtest failed: {reason(error)}") from error


def _carried_out(session: Session, request: Request, population: Population, step: Step) -> Outcome:
    made = Backtest(session, request.archive, request.archive_of)
    notify = tunable(request.notify) if request.per_day else request.notify
    question = made.ask(request.sql, notify, request.per, request.tenant)
    name = tuned(question, request.tune) if request.per_day else ""
    chosen = population(question, name)
    with step("looking for the period"):
        since = asked.since(request.since)
        period = made.steady(lambda: made.period(since))
    found: Sequence[Suggestion] = ()
    if name:
        with step(f"trying values of :{name}"):
            found = made.steady(lambda: suggest(made, question, chosen, period, name, request.per_day))
        chosen = [one.params | {name: one.value} for one in found]

    def counted() -> Counts:
        notifications = made.run(question, chosen, period)
        if request.output:
            notifications = write(notifications, request.output)
        with counted_hourly(notifications) as hourly:
            counts = count(hourly, len(chosen), period)
            if request.output or request.pages:
                _write_each(request, counts, counted_population(hourly, counts, chosen), chosen, found)
        return counts

    with step("taking the log"):
        counts = made.steady(counted)
    return Outcome(question.form.type, chosen, counts, name, found)


def _write_each(
    request: Request,
    counts: Counts,
    counted: DataFrame,
    chosen: Sequence[JsonObject],
    suggestions: Sequence[Suggestion],
) -> None:
    """What was found of each subscription, as Parquet and as pages."""
    if request.output:
        write_counts(counted, list(counts.per_day), request.output)
    if not request.pages:
        return
    rows = counted.drop("params").orderBy("subscription").toLocalIterator()

    def document(row: Row) -> JsonObject:
        number = row["subscription"]
        suggested = {"suggested": suggestions[number].value} if suggestions else {}
        return {**row.asDict(), "params": chosen[number], **suggested}

    write_pages(request.pages, map(document, rows))


def given(params: Sequence[Mapping[str, Any]]) -> Population:
    """These subscriptions, whatever the query."""
    return lambda question, name: [dict(one) for one in params]
