"""`prosem backtest`: how often subscriptions would have been notified."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from pipeline.statistics import StatisticsError
from prosem.values.errors import SetupError
from prosem.values.model import JsonObject

if TYPE_CHECKING:
    from pipeline.backtest.job import Period
    from pipeline.backtest.report import Counts
    from pipeline.backtest.tuning import Suggestion
    from pipeline.statistics.progress import Steps
    from pipeline.statistics.session import Session

MOST_SHOWN = 10  # subscriptions in a table
WIDTH = 40  # of the longest bar


@dataclass(frozen=True)
class Options:
    """What `prosem backtest` takes; `params` are those of all subscriptions, `file` has those that differ."""

    sql: str
    archive: str
    archive_of: str = ""
    params: JsonObject | None = None
    file: str = ""
    notify: JsonObject | None = None
    per: str = "event"
    tenant: str = "default"
    since: str = ""
    per_day: float = 0.0
    tune: str = ""
    output: str = ""
    plot: str = ""
    master: str = ""


def backtest(options: Options) -> int:
    try:
        from pipeline.statistics.session import check_spark, open_session

        check_spark()
        from pipeline.statistics.job import moment
        from pipeline.statistics.progress import Steps

        moment(options.since)  # what cannot succeed ends before Spark takes its time
        with Steps() as steps, ExitStack() as stack:
            with steps.step("starting Spark"):
                session = stack.enter_context(open_session(options.master))
            steps.context = session.spark.sparkContext
            run(options, session, steps, Console())
    except StatisticsError as error:
        raise SetupError(str(error)) from error
    return 0


def run(options: Options, session: Session, steps: Steps, console: Console) -> None:
    """One backtest in a given session."""
    from pipeline.backtest.job import Backtest
    from pipeline.backtest.parameters import read_parameters
    from pipeline.backtest.report import count, draw, write, write_counts
    from pipeline.backtest.tuning import suggest, tunable, tuned
    from pipeline.statistics.job import moment

    made = Backtest(session, options.archive, options.archive_of)
    notify = tunable(options.notify) if options.per_day else options.notify
    question = made.ask(options.sql, notify, options.per, options.tenant)
    name = tuned(question, options.tune) if options.per_day else ""
    given = dict(options.params or {})
    if options.file:
        rows = read_parameters(options.file, question, {name, *given})
        population: Sequence[JsonObject] = [row | given for row in rows]
    else:
        population = [given]
    with steps.step("looking for the period"):
        period = made.period(moment(options.since))
    _show_period(console, question.form.type, len(population), period)
    if options.per_day:
        with steps.step(f"trying values of :{name}"):
            found = suggest(made, question, population, period, name, options.per_day)
        _show_suggestions(console, name, options.per_day, found)
        population = [one.params | {name: one.value} for one in found]
    with steps.step("taking the log"):
        notifications = made.run(question, population, period)
        if options.output:
            notifications = write(notifications, options.output)
        counts = count(notifications, len(population), period)
    if options.output:
        write_counts(session.spark, counts, population, options.output)
    if options.plot:
        draw(counts, Path(options.plot))
    _show_counts(console, counts, population)


def _show_period(console: Console, type: str, subscriptions: int, period: Period) -> None:
    console.print(
        f"{type}: {subscriptions:,} subscriptions, {period.since:%Y-%m-%d %H:%M} to {period.until:%Y-%m-%d %H:%M} UTC"
        f" ({period.days:.1f} days)",
        highlight=False,
    )


def _show_suggestions(console: Console, name: str, wanted: float, found: Sequence[Suggestion]) -> None:
    middle = median(float(one.value) for one in found)
    console.print(
        f"about {wanted:g} notifications per day: :{name} = {middle:g} in the median", highlight=False
    )
    table = Table("parameters", box=None, padding=(0, 2, 0, 0))
    table.add_column(f":{name}", justify="right")
    table.add_column("per day", justify="right")
    for one in found[:MOST_SHOWN]:
        table.add_row(_shown(one.params), f"{one.value}", f"{one.per_day:.2f}")
    console.print(table)


def _show_counts(console: Console, counts: Counts, population: Sequence[JsonObject]) -> None:
    console.print(f"{counts.total:,} notifications", highlight=False)
    spread = Table("share of subscriptions", box=None, padding=(0, 2, 0, 0))
    spread.add_column("notifications per day, at most", justify="right")
    for share, per_day in counts.distribution:
        spread.add_row(f"{share:.0%}", f"{per_day:.2f}")
    console.print(spread)
    console.print(_bars("day", [(f"{day:%Y-%m-%d}", told) for day, told in counts.per_day.items()]))
    console.print(_bars("hour (UTC)", [(f"{hour:02}", told) for hour, told in counts.per_hour.items()]))
    most = sorted(range(len(population)), key=lambda number: -counts.per_subscription[number])[:MOST_SHOWN]
    table = Table("most notified", box=None, padding=(0, 2, 0, 0))
    table.add_column("notifications", justify="right")
    table.add_column("per day", justify="right")
    for number in most:
        per_day = counts.per_day_and_subscription(number)
        table.add_row(_shown(population[number]), f"{counts.per_subscription[number]:,}", f"{per_day:.2f}")
    console.print(table)


def _bars(name: str, rows: Sequence[tuple[str, int]]) -> Table:
    table = Table(name, box=None, padding=(0, 2, 0, 0))
    table.add_column("notifications", justify="right")
    table.add_column("")
    longest = max((told for _, told in rows), default=1)
    for label, told in rows:
        table.add_row(label, f"{told:,}", "▇" * max(1, round(WIDTH * told / longest)))
    return table


def _shown(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items()) or "none"
