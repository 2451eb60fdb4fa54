"""`prosem stats`: run the statistics job, list its runs, and go back to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from api.commands.plain_table import plain_table
from pipeline.statistics import StatisticsError
from prosem.values.errors import SetupError


def refresh(url: str, archive: str, since: str, master: str, training: int) -> int:
    """Run the job once; the server takes the new run over by itself."""
    from pipeline.statistics.session import check_spark

    with _errors_reported():
        check_spark()
        from pipeline.statistics.job import Options, moment
        from pipeline.statistics.job import refresh as run

        done = run(Options(url, archive, master, moment(since), training))
    rows = done.rows
    Console().print(
        f"run {done.run} is active: {rows['event_log']:,} events, {rows['subscription']:,} subscriptions,"
        f" {rows['plan_measurement']:,} measurements, {rows['training']:,} entries of training"
    )
    return 0


def show_runs(url: str) -> int:
    from pipeline.statistics.database import connect
    from pipeline.statistics.runs import list_runs

    with _errors_reported(), connect(url) as connection:
        found = list_runs(connection)
    console = Console()
    if not found:
        console.print("there are no runs yet: prosem stats refresh makes one")
        return 0
    counted = ("events", "subscribed", "training")
    whole = ("run", "created", "since", *counted)
    table = plain_table("run", "created", "since", *counted, numbers=counted, whole=whole)
    for run in found:
        counts = [f"{run.rows.get(name, 0):,}" for name in ("event_log", "subscription", "training")]
        since = f"{run.since:%Y-%m-%d %H:%M}" if run.since else "the start"
        created = f"{run.created:%Y-%m-%d %H:%M}"
        table.add_row(f"{run.id} *" if run.active else str(run.id), created, since, *counts)
    console.print(table)
    for run in found:
        if run.active:
            console.print(f"* active: {run.job}", markup=False, highlight=False)
    return 0


def use_run(url: str, run: int) -> int:
    from pipeline.statistics.database import connect
    from pipeline.statistics.runs import use_run as switch

    with _errors_reported(), connect(url) as connection:
        switch(connection, run)
    Console().print(f"run {run} is active")
    return 0


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Errors of the job as errors of the installation."""
    try:
        yield
    except StatisticsError as error:
        raise SetupError(str(error)) from error
