"""`prosem stats`: run the statistics job, list its runs, show the active one, and go back to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from api.commands.plain_table import plain_table
from pipeline.statistics import StatisticsError
from prosem.values.errors import SetupError
from prosem.values.statistics import HotKey, RunFigures


def refresh(url: str, archive: str, since: str, master: str, training: int, keep: int) -> int:
    """Run the job once; the server takes the new run over by itself."""
    from pipeline.statistics.session import check_spark

    with _errors_reported():
        check_spark()
        from pipeline.statistics.job import Options
        from pipeline.statistics.job import refresh as run
        from pipeline.statistics.moments import moment

        done = run(Options(url, archive, master, moment(since), training, keep))
    rows = done.rows
    Console().print(
        f"run {done.run} is active: {rows['event_log']:,} events ({rows['scanned']:,} scanned),"
        f" {rows['subscription']:,} subscriptions, {rows['plan_measurement']:,} measurements,"
        f" {rows['training']:,} entries of training"
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


def show_figures(url: str, tenant: str, table: str = "") -> int:
    """The active run: its columns (of one table, if it is named), joins and the dimensions of groups."""
    from pipeline.statistics.database import connect
    from prosem.store.statistics import load_figures

    with _errors_reported(), connect(url) as connection:
        run, figures = load_figures(connection)
        tables: dict[int, str] = dict(
            connection.execute(
                "SELECT id, name FROM prosem.tenant_table WHERE tenant = %s", [tenant]
            ).fetchall()
        )
        groups: dict[int, str] = dict(
            connection.execute("SELECT id, name FROM prosem.group_ WHERE tenant = %s", [tenant]).fetchall()
        )
    console = Console()
    if run is None:
        console.print("no run is active: prosem stats refresh makes one")
        return 0
    if table:
        tables = {number: name for number, name in tables.items() if name == table}
        if not tables.keys() & figures.columns.keys():
            raise SetupError(f"run {run['run']} knows no table {table!r} of the tenant {tenant}")
    console.print(f"run {run['run']} of {run['created']:%Y-%m-%d %H:%M}", highlight=False)
    console.print(_columns(tables, figures))
    if not table:
        console.print(_joins(tables, figures), _points(groups, figures), sep="\n")
    return 0


def _columns(tables: Mapping[int, str], figures: RunFigures) -> RichTable:
    counted = ("events", "nulls", "distinct", "updated")
    made = plain_table("column", *counted, "from", "to", "hot keys", numbers=counted, whole=counted)
    for number in sorted(tables.keys() & figures.columns.keys(), key=tables.__getitem__):
        for one in figures.columns[number]:
            ends = ("", "") if not one.bounds else (str(one.bounds[0]), str(one.bounds[-1]))
            counts = (f"{one.events:,}", f"{one.nulls:,}", f"{one.distinct:,.0f}", f"{one.update_rate:.1%}")
            made.add_row(f"{tables[number]}.{one.name}", *counts, *map(escape, ends), _hot(one.hot))
    return made


def _joins(tables: Mapping[int, str], figures: RunFigures) -> RichTable:
    counted = ("events", "keys", "rows per key", "skew")
    made = plain_table("side of a join", *counted, numbers=counted)
    for side in (side for join in figures.joins for side in join if side.table in tables):
        name = f"{tables[side.table]} ({', '.join(side.columns)})"
        made.add_row(
            name, f"{side.event_share:.1%}", f"{side.keys:,}", f"{side.rows_per_key:.2f}", f"{side.skew:.2f}"
        )
    return made


def _points(groups: Mapping[int, str], figures: RunFigures) -> RichTable:
    counted = ("subscriptions", "distinct")
    made = plain_table("group", "dimension", *counted, "from", "to", "hot keys", numbers=counted)
    for number in sorted(groups.keys() & figures.points.keys(), key=groups.__getitem__):
        for one in figures.points[number]:
            ends = ("", "") if not one.bounds else (str(one.bounds[0]), str(one.bounds[-1]))
            counts = (f"{one.subscriptions:,}", f"{one.distinct:,.0f}")
            made.add_row(groups[number], escape(one.dimension), *counts, *map(escape, ends), _hot(one.hot))
    return made


def _hot(hot: Sequence[HotKey]) -> str:
    return escape(", ".join(f"{one.value} ≥ {one.share:.0%}" for one in hot[:3]))


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
