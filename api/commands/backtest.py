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

from pipeline.backtest.request import MOST_SHOWN, Request
from pipeline.statistics import StatisticsError
from prosem.values.errors import SetupError
from prosem.values.model import JsonObject

if TYPE_CHECKING:
    from pipeline.backtest.execution import Outcome
    from pipeline.backtest.period import Period
    from pipeline.backtest.plan import Question
    from pipeline.backtest.tuning import Suggestion
    from pipeline.statistics.progress import Steps
    from pipeline.statistics.session import Session

WIDTH = 40  # of the longest bar


@dataclass(frozen=True)
class Options:
    """What `prosem backtest` takes; `params` are those of all subscriptions, `file` has those that differ."""

    request: Request
    params: JsonObject | None = None
    file: str = ""
    plot: str = ""
    master: str = ""


def backtest(options: Options) -> int:
    try:
        from pipeline.statistics.session import check_spark, open_session

        check_spark()
        from pipeline.statistics.progress import Steps

        _check(options)
        with Steps() as steps, ExitStack() as stack:
            with steps.step("starting Spark"):
                session = stack.enter_context(open_session(options.master))
            steps.context = session.spark.sparkContext
            run(options, session, steps, Console())
    except StatisticsError as error:
        raise SetupError(str(error)) from error
    return 0


def _check(options: Options) -> None:
    """What cannot succeed ends before Spark takes its time."""
    from pipeline.backtest.asked import check_wanted, since, tunable
    from pipeline.backtest.plan import statement_of
    from pipeline.statistics.places import check_archive

    request = options.request
    since(request.since)
    check_wanted(request.per_day, request.tune)
    notify = tunable(request.notify) if request.per_day else request.notify
    statement_of(request.sql, notify, request.per, request.tenant)
    if options.file and not Path(options.file).is_file():
        raise StatisticsError(f"--params {options.file} is no file")
    check_archive(request.archive, options.master)


def run(options: Options, session: Session, steps: Steps, console: Console) -> None:
    """One backtest in a given session."""
    from pipeline.backtest.execution import carry_out
    from pipeline.backtest.parameters import read_parameters
    from pipeline.backtest.report import draw

    given = dict(options.params or {})

    def population(question: Question, name: str) -> list[JsonObject]:
        if not options.file:
            return [given]
        return [row | given for row in read_parameters(options.file, question, {name, *given})]

    outcome = carry_out(session, options.request, population, steps.step)
    _show_period(console, outcome.type, len(outcome.population), outcome.period)
    if outcome.tuned:
        show_suggestions(console, outcome.tuned, options.request.per_day, outcome.suggestions)
    if options.plot:
        draw(outcome.counts, Path(options.plot))
    _show_counts(console, outcome)


def _show_period(console: Console, type: str, subscriptions: int, period: Period) -> None:
    console.print(
        f"{type}: {subscriptions:,} subscriptions, {period.since:%Y-%m-%d %H:%M} to {period.until:%Y-%m-%d %H:%M} UTC"
        f" ({period.days:.1f} days)",
        highlight=False,
    )


def show_suggestions(console: Console, name: str, wanted: float, found: Sequence[Suggestion]) -> None:
    middle = median(float(one.value) for one in found)
    console.print(
        f"nearest to {wanted:g} notifications per day: :{name} = {middle:g} in the median", highlight=False
    )
    far = sum(not wanted / 2 <= one.per_day <= wanted * 2 for one in found)
    if far:
        console.print(
            f"for {far:,} of {len(found):,} subscriptions no value that was tried gives between {wanted / 2:g} and"
            f" {wanted * 2:g} per day",
            highlight=False,
        )
    table = Table("parameters", box=None, padding=(0, 2, 0, 0))
    table.add_column(f":{name}", justify="right")
    table.add_column("per day", justify="right")
    for one in found[:MOST_SHOWN]:
        table.add_row(_shown(one.params), f"{one.value}", f"{one.per_day:.2f}")
    console.print(table)
    _say_more(console, len(found))


def _show_counts(console: Console, outcome: Outcome) -> None:
    counts = outcome.counts
    console.print(f"{counts.total:,} notifications", highlight=False)
    spread = Table("share of subscriptions", box=None, padding=(0, 2, 0, 0))
    spread.add_column("notifications per day, at most", justify="right")
    for share, per_day in counts.distribution:
        spread.add_row(f"{share:.0%}", f"{per_day:.2f}")
    console.print(spread)
    console.print(_bars("day", [(f"{day:%Y-%m-%d}", count) for day, count in counts.per_day.items()]))
    console.print(_bars("hour (UTC)", [(f"{hour:02}", count) for hour, count in counts.per_hour.items()]))
    table = Table("most notified", box=None, padding=(0, 2, 0, 0))
    table.add_column("notifications", justify="right")
    table.add_column("per day", justify="right")
    for params, count, per_day in outcome.most_notified():
        table.add_row(_shown(params), f"{count:,}", f"{per_day:.2f}")
    console.print(table)
    _say_more(console, len(outcome.population))


def _say_more(console: Console, subscriptions: int) -> None:
    if subscriptions > MOST_SHOWN:
        console.print(f"and {subscriptions - MOST_SHOWN:,} more, which --output writes", highlight=False)


def _bars(name: str, rows: Sequence[tuple[str, int]]) -> Table:
    table = Table(name, box=None, padding=(0, 2, 0, 0))
    table.add_column("notifications", justify="right")
    table.add_column("")
    longest = max((count for _, count in rows), default=1)
    for label, count in rows:
        table.add_row(label, f"{count:,}", "▇" * (max(1, round(WIDTH * count / longest)) if count else 0))
    return table


def _shown(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items()) or "none"
