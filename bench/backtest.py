"""Backtests on Spark: subscriptions that never were over an archived log, on one core and on two.

One table whose rows are updated in turn, in requests of ten events; the statistics job archives the log, as every night.
Two questions that are split in different ways: ranges, whose slices take every event, and items, whose constants
divide the events too. Each runs as `prosem backtest --output` does: to notifications in Parquet, and their counts.

Beside it the product's engine takes the same log once, read from PostgreSQL, without Spark, files or slices: every
notification of every run must be one of its own, or the bench fails.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from bench.common import Curve, Report, fail, progress
from pipeline.statistics import StatisticsError
from prosem.store import schema
from prosem.store.catalog import create, table_from
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import SetupError
from prosem.values.model import JsonObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.statistics.session import Session

CORES = (1, 2)
REQUEST = 10  # events
WIDEST = 20  # rows of a range
WARM = 200  # events of a run before the measured one
DEFINITION = {
    "name": "stocks",
    "columns": [
        {"name": "k", "type": "integer", "nullable": False},
        {"name": "x", "type": "integer", "nullable": False},
        {"name": "price", "type": "bigint", "nullable": False},
    ],
    "primary_key": ["k"],
}
PRIME = 2_147_483_647
# Event n updates row n * 7919 % rows to the price n: the fifth power modulo the prime, so that no two are equal.
_PRICES = """
    CREATE FUNCTION pg_temp.price(n bigint) RETURNS bigint LANGUAGE sql AS
    'SELECT square * square % {prime} * m % {prime}
     FROM (SELECT m, m * m % {prime} AS square FROM (SELECT n + {offset} AS m) a) b'
"""
_ROWS = """
    INSERT INTO tenant_default.stocks
    SELECT k, k, pg_temp.price(n - {rows})
    FROM (SELECT n, n * 7919 % {rows} AS k FROM generate_series(1, {rows}::bigint) n) one
"""
_EVENTS = """
    INSERT INTO prosem.event_log (seq, table_id, op, old, new, at, request_end)
    SELECT n, 1, 'update', json_build_array(k, k, pg_temp.price(n - {rows})), json_build_array(k, k, pg_temp.price(n)),
           '2026-03-01T00:00:00Z'::timestamptz + (n + {request} - 1) / {request} * interval '1 second',
           least({events}, (n + {request} - 1) / {request} * {request})
    FROM (SELECT n, n * 7919 % {rows} AS k FROM generate_series(1, {events}::bigint) n) one
"""


class Size(NamedTuple):
    """How much is measured."""

    subscriptions: int
    events: int
    rows: int


FULL = Size(10_000, 1_000_000, 50_000)
QUICK = Size(1_000, 40_000, 5_000)


class Asked(NamedTuple):
    """One question to the log with its population."""

    name: str
    sql: str
    notify: JsonObject | None
    population: Sequence[JsonObject]


def questions(size: Size) -> list[Asked]:
    places = [number * size.rows // size.subscriptions for number in range(size.subscriptions)]
    ranges = [{"lo": place, "hi": place + number % WIDEST} for number, place in enumerate(places)]
    items = [{"k": place, "r": (1 + number % 8) << 28} for number, place in enumerate(places)]
    return [
        Asked("ranges", "SELECT MIN(price) FROM stocks WHERE x BETWEEN :lo AND :hi", None, ranges),
        Asked("items", "SELECT price FROM stocks WHERE k = :k", {"change": ":r"}, items),
    ]


def run(quick: bool) -> Report:
    size = QUICK if quick else FULL
    report = Report("backtest", {**size._asdict(), "cores": CORES, "events_per_request": REQUEST})
    try:
        report.figures |= measure(size)
    except StatisticsError as error:
        raise SetupError(str(error)) from error
    rows = report.figures["by_cores"]
    report.tables.append((f"{size.subscriptions:,} subscriptions, {size.events:,} events", rows))
    for name, engine in report.figures["engine"].items():
        report.notes.append(
            f"{name}: {report.figures['scaling'][name]:.2f} times as quick on {CORES[-1]} cores as on one; the engine alone"
            f" {engine['events_per_s']:,} events/s; all {engine['notifications']:,} notifications are equal"
        )
    lines = {
        asked: [(row["cores"], row["events_per_s"]) for row in rows if row["question"] == asked]
        for asked in report.figures["engine"]
    }
    report.curves.append(Curve("Backtests", "cores", "events per second", lines))
    return report


def measure(size: Size) -> dict[str, Any]:
    """The figures of one size."""
    from pipeline.statistics.session import open_session

    found: list[dict[str, Any]] = []
    with database(size) as (url, folder):
        archive = str(folder / "archive")
        with open_session(f"local[{CORES[-1]}]") as session:
            progress(f"archiving {size.events:,} events")
            archive_log(session, url, archive, size)
        alone: dict[str, Any] = {}
        for asked in questions(size):
            progress(f"{asked.name}: the engine alone")
            alone[asked.name] = engine(url, asked, folder / "engine" / asked.name, size.events)
        for cores in CORES:
            with open_session(f"local[{cores}]") as session:
                for asked in questions(size):
                    row = backtested(session, archive, asked, folder, cores)
                    if row["events"] != size.events:
                        fail(f"the archive has {row['events']:,} events of {size.events:,}")
                    found.append(row)
                    progress(", ".join(f"{name} {value}" for name, value in row.items()))
    seconds = {(row["question"], row["cores"]): row["seconds"] for row in found}
    scaling = {name: seconds[name, CORES[0]] / seconds[name, CORES[-1]] for name in alone}
    return {"by_cores": found, "scaling": scaling, "engine": alone}


# -- on Spark --------------------------------------------------------------------------------------------------
def backtested(session: Session, archive: str, asked: Asked, folder: Path, cores: int) -> dict[str, Any]:
    """One question in a session with so many cores, compared with what the engine found (see `engine`)."""
    from pipeline.backtest.job import Backtest
    from pipeline.backtest.report import count, counted_hourly, write

    backtest = Backtest(session, archive)
    question = backtest.ask(asked.sql, asked.notify)
    period = backtest.period(None)
    warm = replace(period, end=period.start + WARM)
    with counted_hourly(backtest.run(question, asked.population, warm)) as hourly:
        count(hourly, len(asked.population), warm)
    began = time.perf_counter()
    made = backtest.run(question, asked.population, period)
    notifications = write(made, str(folder / f"{asked.name}-{cores}"))
    with counted_hourly(notifications) as hourly:
        counts = count(hourly, len(asked.population), period)
    seconds = time.perf_counter() - began
    _compare(notifications, session.spark.read.parquet(str(folder / "engine" / asked.name)), asked.name)
    events = period.end - period.start
    return {
        "question": asked.name,
        "cores": cores,
        "subscriptions": len(asked.population),
        "events": events,
        "seconds": round(seconds, 2),
        "events_per_s": round(events / seconds),
        "subscription_events_per_s": round(events * len(asked.population) / seconds),
        "notifications": counts.total,
    }


def _compare(found: DataFrame, expected: DataFrame, name: str) -> None:
    """By subscription, seq and change; `exceptAll` counts what is there twice."""
    columns = ("subscription", "seq", "change")
    both = found.select(*columns), expected.select(*columns)
    missing, more = (
        both[1].exceptAll(both[0]).limit(3).collect(),
        both[0].exceptAll(both[1]).limit(3).collect(),
    )
    if missing or more:
        fail(f"{name}: the backtest lacks {missing} of the engine's notifications, and has {more} besides")


def archive_log(session: Session, url: str, archive: str, size: Size) -> None:
    """The rows from before the log are copied, then the log is made and archived."""
    _archive(session, url, archive)
    _fill_log(url, size)
    _archive(session, url, archive)


def _archive(session: Session, url: str, folder: str) -> None:
    from pipeline.statistics.database import connect, take_lock
    from pipeline.statistics.job import Job, Options
    from pipeline.statistics.progress import Steps

    with connect(url) as connection:
        take_lock(connection)
        Job(session, Options(url, folder, quiet=True), Steps(quiet=True), connection).update_archive()


# -- without Spark -----------------------------------------------------------------------------------------------
def engine(url: str, asked: Asked, folder: Path, events: int) -> dict[str, Any]:
    """All subscriptions in one engine over the log of the database; its notifications go to a file."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    from pipeline.backtest.plan import ask
    from pipeline.backtest.simulation import Event, Simulation
    from pipeline.statistics.definitions import Definitions

    definitions = Definitions([("table", 1, "default", "stocks", json.dumps(DEFINITION))])
    question = ask(definitions, asked.sql, asked.notify, "event", "default")
    told: list[tuple[int, int, str]] = []
    simulation = Simulation(
        question.tables, question.views, lambda one, seq, at, change: told.append((one, seq, change.decode()))
    )
    (table,) = question.tables
    with psycopg.connect(url) as connection, connection.cursor("log") as log:
        log.itersize = 20_000
        rows = connection.execute(b"SELECT k, x, price FROM tenant_default.stocks").fetchall()
        simulation.load(table.id, rows)
        began = time.perf_counter()
        simulation.subscribe(question.statement, list(enumerate(asked.population)), 0)
        subscribed = time.perf_counter()
        log.execute("SELECT seq, request_end, table_id, old, new FROM prosem.event_log ORDER BY seq")
        simulation.take(
            Event(seq, end, 0, number, tuple(old), tuple(new)) for seq, end, number, old, new in log
        )
        simulation.finish()
    seconds = time.perf_counter() - subscribed
    folder.mkdir(parents=True)
    names = ("subscription", "seq", "change")
    columns: Sequence[Any] = list(zip(*told, strict=True)) or [[], [], []]
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), folder / "notifications.parquet")
    return {
        "seconds_subscribe": round(subscribed - began, 2),
        "seconds": round(seconds, 2),
        "events_per_s": round(events / seconds),
        "notifications": len(told),
    }


# -- the database ------------------------------------------------------------------------------------------------
@contextmanager
def database(size: Size) -> Iterator[tuple[str, Path]]:
    """A database with the table and its rows, and a folder; the log is empty."""
    folder = Path(tempfile.mkdtemp(prefix="prosem-bench-"))
    folder.chmod(0o755)
    postgres = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    table = table_from(1, "default", DEFINITION)
    try:
        url = postgres.start()
        schema.migrate(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE prosem.event_log_all PARTITION OF prosem.event_log DEFAULT")
            for statement in create(table):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO prosem.tenant_table VALUES (1, 'default', 'stocks', %s, 0)",
                [json.dumps(DEFINITION)],
            )
            _execute(connection, _ROWS, size)
        yield url, folder
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _fill_log(url: str, size: Size) -> None:
    """The rows of the table stay those of its beginning, which the archive has a copy of."""
    with psycopg.connect(url) as connection:
        _execute(connection, _EVENTS, size)
        connection.execute("UPDATE prosem.engine_state SET last_seq = %s", [size.events])


def _execute(connection: psycopg.Connection[Any], statement: str, size: Size) -> None:
    connection.execute(_PRICES.format(prime=PRIME, offset=size.rows).encode())
    connection.execute(statement.format(rows=size.rows, events=size.events, request=REQUEST).encode())
