"""The statistics job: rows of the event log a second, from a million to ten, and how that grows.

One embedded PostgreSQL whose log grows; for each size the job runs on an empty archive: read by two executors or more,
archived as Parquet, sketched and written as a run. The time of the session's start is told apart. Then a run that finds 1 %
new, which scans those alone. Beside it, at the smallest size, the columns' figures from PostgreSQL alone, which has them as
JSON in its log, and from DuckDB over the same archive, both exact, one column after the other.
"""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.common import Curve, Report, fail, progress, resident_bytes
from pipeline.statistics import StatisticsError
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import SetupError

if TYPE_CHECKING:
    from pipeline.statistics.job import Outcome
    from pipeline.statistics.session import Session

SIZES = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
QUICK = (20_000, 40_000)
MEASUREMENTS = 20_000
SUBSCRIPTIONS = 100_000
COLUMNS = ({"name": "k", "type": "integer"}, {"name": "x", "type": "integer"}, {"name": "price", "type": "numeric(12,2)"},
           {"name": "name", "type": "text"})  # fmt: skip
_STATEMENT = "SELECT MIN(price) FROM stocks WHERE x BETWEEN :lo AND :hi"
_EVENTS = """
    INSERT INTO prosem.event_log (seq, table_id, op, old, new)
    SELECT n, 1, 'update',
           json_build_array(n % 100000, n % 9973, ((n % 9999) / 100.0)::numeric(12,2)::text, 'name ' || n % 500),
           json_build_array(n % 100000, n % 10007, ((n * 7 % 10000) / 100.0)::numeric(12,2)::text,
                            CASE WHEN n % 10 > 0 THEN 'name ' || n % 500 END)
    FROM generate_series(%s::bigint, %s::bigint) n
"""
_BY_SQL = """
    SELECT count(new->>{at}), count(DISTINCT new->>{at}),
           percentile_disc(array(SELECT i / 64.0 FROM generate_series(0, 64) i))
               WITHIN GROUP (ORDER BY (new->>{at})::{type}),
           count(*) FILTER (WHERE old->>{at} IS DISTINCT FROM new->>{at})
    FROM prosem.event_log
"""
_BY_DUCKDB = """
    SELECT count(new.{name}), count(DISTINCT new.{name}),
           quantile_disc(new.{name}, {ranks}),
           count(*) FILTER (WHERE old.{name} IS DISTINCT FROM new.{name})
    FROM read_parquet('{folder}/*/event_log/segment=*/table_id=1/*/*.parquet')
"""


def run(quick: bool) -> Report:
    from pipeline.statistics.session import open_session

    sizes, subscriptions = (QUICK, SUBSCRIPTIONS // 50) if quick else (SIZES, SUBSCRIPTIONS)
    report = Report("spark", {"rows": sizes, "columns": len(COLUMNS), "subscriptions": subscriptions})
    try:
        with open_session() as session:
            report.figures["seconds_start"] = time.perf_counter() - report.started
            with log_database(subscriptions) as (url, folder):
                report.figures |= measure(session, url, folder, sizes)
    except StatisticsError as error:
        raise SetupError(str(error)) from error
    rows = report.figures["by_rows"]
    report.tables.append(("the job on an empty archive", rows))
    figures = report.figures
    report.notes.append(
        f"growth: time ~ rows^{figures['growth']:.2f}; 1 % new on a full archive: {figures['seconds_incremental']:.1f} s,"
        f" {figures['incremental_share']:.0%} of the first run ({figures['scanned_incremental']:,} events scanned)"
    )
    report.notes.append(
        f"computing {rows[0]['rows']:,} rows: the job {rows[0]['seconds_compute']:.1f} s; the columns' figures alone,"
        f" exact: PostgreSQL {figures['seconds_sql']:.1f} s, DuckDB {_shown(figures['seconds_duckdb'])}"
    )
    report.curves.append(
        Curve("The statistics job", "rows of the event log", "seconds", {
            "all": [(row["rows"], row["seconds"]) for row in rows],
            "reading and archiving": [(row["rows"], row["seconds_archive"]) for row in rows],
            "computing": [(row["rows"], row["seconds_compute"]) for row in rows],
        })
    )  # fmt: skip
    return report


def measure(session: Session, url: str, folder: Path, sizes: tuple[int, ...]) -> dict[str, Any]:
    """The figures for these sizes."""
    made: list[dict[str, Any]] = []
    last, by_sql_s = 0, 0.0
    by_duckdb_s: float | None = None
    for size in sizes:
        progress(f"{size:,} rows of the log")
        _grow(url, last, size)
        if not last:
            progress("PostgreSQL alone, and a first run that lets Spark compile what it runs")
            by_sql_s = _by_sql(url)
            _refresh(session, url, folder / "warm")
            by_duckdb_s = _by_duckdb(folder / "warm")
        last = size
        done, seconds = _refresh(session, url, folder / str(size))
        if done.rows["event_log"] != size:
            fail(f"the job counted {done.rows['event_log']:,} events of {size:,}")
        parts, collected = done.rows["seconds"], done.rows["collected"]
        made.append(
            {
                "rows": size,
                "seconds": seconds,
                "rows_per_s": round(size / seconds),
                "seconds_archive": parts["archive"],
                "seconds_compute": parts["compute"],
                "partitions": done.rows["partitions"]["event_log"],
                "collected_rows": collected["rows"],
                "collected_bytes": collected["size_bytes"],
                "driver_mb": round(resident_bytes() / 2**20),
                "driver_heap_mb": _heap_mb(session),
            }
        )
        progress(", ".join(f"{name} {value}" for name, value in made[-1].items()))
    _grow(url, last, last + max(1, last // 100))
    added, incremental_s = _refresh(session, url, folder / str(last))
    growth = math.log(made[-1]["seconds"] / made[0]["seconds"]) / math.log(sizes[-1] / sizes[0])
    return {
        "by_rows": made,
        "growth": growth,
        "seconds_incremental": incremental_s,
        "incremental_share": incremental_s / made[-1]["seconds"],
        "scanned_incremental": added.rows["scanned"],
        "seconds_sql": by_sql_s,
        "seconds_duckdb": by_duckdb_s,
    }


def _refresh(session: Session, url: str, archive: Path) -> tuple[Outcome, float]:
    from pipeline.statistics.database import connect, take_lock
    from pipeline.statistics.job import Job, Options
    from pipeline.statistics.progress import Steps

    begun = time.perf_counter()
    with connect(url) as connection:
        take_lock(connection)
        done = Job(session, Options(url, str(archive), quiet=True), Steps(quiet=True), connection).run()
    return done, time.perf_counter() - begun


def _heap_mb(session: Session) -> int:
    """What the driver's Java keeps after a collection; on a local master the executors' threads are among it."""
    machine: Any = session.spark.sparkContext._jvm
    machine.java.lang.System.gc()
    runtime = machine.java.lang.Runtime.getRuntime()
    used: int = runtime.totalMemory() - runtime.freeMemory()
    return round(used / 2**20)


def _by_sql(url: str) -> float:
    started = time.perf_counter()
    with psycopg.connect(url) as connection:
        for at, column in enumerate(COLUMNS):
            connection.execute(_BY_SQL.format(at=at, type=column["type"]).encode()).fetchall()
    return time.perf_counter() - started


def _by_duckdb(archive: Path) -> float | None:
    """None where DuckDB is not installed."""
    if importlib.util.find_spec("duckdb") is None:
        return None
    import duckdb

    ranks = [at / 64 for at in range(65)]
    started = time.perf_counter()
    with duckdb.connect(":memory:") as connection:
        for column in COLUMNS:
            connection.execute(_BY_DUCKDB.format(name=column["name"], folder=archive, ranks=ranks)).fetchall()
    return time.perf_counter() - started


def _shown(seconds: float | None) -> str:
    return "is not installed" if seconds is None else f"{seconds:.1f} s"


@contextmanager
def log_database(subscriptions: int) -> Iterator[tuple[str, Path]]:
    """A database with one table, a group of subscriptions and measurements, and room for the log."""
    folder = Path(tempfile.mkdtemp(prefix="prosem-bench-"))
    folder.chmod(0o755)
    postgres = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    try:
        url = postgres.start()
        schema.migrate(url)
        definition = {
            "name": "stocks",
            "columns": [c | {"nullable": True} for c in COLUMNS],
            "primary_key": ["k"],
        }
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE prosem.event_log_all PARTITION OF prosem.event_log DEFAULT")
            connection.execute(
                "INSERT INTO prosem.tenant_table VALUES (1, 'default', 'stocks', %s, 0)",
                [json.dumps(definition)],
            )
            connection.execute(
                "INSERT INTO prosem.group_ VALUES (1, 'g', 'MIN', 'g', 1, '{stocks}', %s)", [_STATEMENT]
            )
            connection.execute("INSERT INTO prosem.statement VALUES (1, %s, NULL, 'd')", [_STATEMENT])
            connection.execute(
                "INSERT INTO prosem.subscription (sid, id, statement_id, group_id, params, created_seq)"
                " SELECT n, 'sub-' || n, 1, 1,"
                " json_build_object('lo', n %% 10007, 'hi', n %% 10007 + n %% 100), 0 FROM generate_series(1, %s) n",
                [subscriptions],
            )
            connection.execute("UPDATE prosem.engine_state SET next_sid = %s", [subscriptions + 1])
            connection.execute(
                "INSERT INTO prosem.plan_measurement (seq, group_id, space, plan, descriptor, server_time_us, send_us,"
                " bytes_out, network_bytes, latency_us, affected)"
                " SELECT n, 1, 1, (ARRAY['reformulate', 'enumerate'])[1 + n %% 2],"
                " ARRAY[n %% 101, log(1 + n %% 997)], n %% 50, 1, n %% 900, n %% 800, n %% 70, n %% 60"
                " FROM generate_series(1, %s) n",
                [MEASUREMENTS],
            )
        yield url, folder
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _grow(url: str, last: int, upto: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(_EVENTS.replace("%", "%%").replace("%%s", "%s").encode(), [last + 1, upto])
        connection.execute("UPDATE prosem.engine_state SET last_seq = %s", [upto])
