"""The statistics job and a backtest on a real cluster: a standalone master and two workers, by the commands of a user.

What they find there is what they find in a session on this machine.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pipeline.backtest.job import Backtest
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.job import Job, Options
from pipeline.statistics.progress import Steps
from pipeline.statistics.session import Session
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support.backtested import CASES, Recorded, T, U, ordered, prepare, publish, record, requests
from tests.support.database import empty_database
from tests.support.live import Api
from tests.support.processes import ServerProcess, open_folder
from tests.support.spark_cluster import MEMORY, Cluster, standalone

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TRIED = "minimum by symbol"
RUN_S = 300


class World(NamedTuple):
    """A cluster, a database that a server has filled, and what that server notified from a moment on."""

    cluster: Cluster
    session: Session  # on this machine
    url: str
    folder: Path
    recorded: Recorded
    since: str

    def prosem(self, *arguments: str) -> str:
        """A command as a user of the cluster gives it, in a folder of its own; what it prints."""
        settings = self.folder / "conf"
        settings.mkdir(exist_ok=True)
        (settings / "spark-defaults.conf").write_text(f"spark.executor.memory {MEMORY}\n")
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        spark = {"SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-m", "api.commands.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_S,
            cwd=settings,
            env=os.environ | spark | {"COLUMNS": "160", "NO_COLOR": "1"},
        )
        assert done.returncode == 0, f"{done.stderr[-4_000:]}\n{self.cluster.said()}"
        return done.stdout


@pytest.fixture(scope="module")
def world(postgres: EmbeddedPostgres, spark: Session) -> Iterator[World]:
    url = empty_database(postgres)
    schema.migrate(url)
    folder = open_folder("prosem-cluster-")
    server = ServerProcess("--database", url)
    made = requests(random.Random(21), 120)
    try:
        with Api(server.start()) as api:
            prepare(api)
            publish(api, made[:50])
            recorded = record(api, server, made[50:], {TRIED: CASES[TRIED]})
    finally:
        server.remove()
    with psycopg.connect(url) as connection:  # one event per minute, so that a moment names the first
        connection.execute(
            "UPDATE prosem.event_log SET at = '2026-03-01T00:00:00Z'::timestamptz"
            " + coalesce(request_end, seq) * interval '1 minute'"
        )
        ((since,),) = connection.execute(
            "SELECT ('2026-03-01T00:00:30Z'::timestamptz + %s * interval '1 minute')::text", [recorded.start]
        ).fetchall()
    try:
        with standalone(folder) as cluster:
            yield World(cluster, spark, url, folder, recorded, since.replace(" ", "T"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def figures(url: str, run: int) -> dict[str, list[str]]:
    """All that a run has written, but for its number."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.columns WHERE table_schema = 'prosem'"
            " AND table_name LIKE 'statistics\\_%' AND table_name <> 'statistics_run' AND column_name = 'run'"
        ).fetchall()
        found = {}
        for (table,) in tables:
            query = f"SELECT to_jsonb(one) - 'run' FROM prosem.{table} one WHERE run = %s"
            rows = connection.execute(query.encode(), [run]).fetchall()
            found[table] = sorted(json.dumps(row, sort_keys=True) for (row,) in rows)
    return found


def test_the_job_and_a_backtest_find_on_a_cluster_what_they_find_on_one_machine(world: World) -> None:
    url, here, there = world.url, world.folder / "here", world.folder / "there"
    cluster = ("--master", world.cluster.master)
    world.prosem("stats", "refresh", "--database", url, "--archive", str(there), *cluster)
    with connect(url) as connection:
        take_lock(connection)
        Job(world.session, Options(url, str(here), quiet=True), Steps(quiet=True), connection).run()
        runs = connection.execute("SELECT id, job FROM prosem.statistics_run ORDER BY id").fetchall()
    (on_cluster, job), (on_one_machine, _) = runs
    assert f"on {world.cluster.master}" in job
    written = figures(url, on_cluster)
    assert len(written["statistics_column"]) == len(T) + len(U)
    assert written == figures(url, on_one_machine)

    parameters, output = world.folder / "parameters.csv", world.folder / "result"
    write_parameters(parameters)
    given = ("--params", str(parameters), "--since", world.since, "--output", str(output))
    said = world.prosem("backtest", CASES[TRIED].sql, "--archive", str(there), *given, *cluster)
    assert f"{len(CASES[TRIED].population)} subscriptions" in said
    found = changes(pq.read_table(output / "notifications", partitioning=None).to_pylist())
    assert found == changes(on_this_machine(world, here))
    assert ordered(found) == ordered(world.recorded.notified[TRIED])
    applications = world.cluster.executors()
    assert [len(some) for some in applications.values()] == [2, 2], "both workers had a part in both"


def write_parameters(path: Path) -> None:
    population = CASES[TRIED].population
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, population[0].keys())
        lines.writeheader()
        lines.writerows(population)


def on_this_machine(world: World, archive: Path) -> list[Any]:
    case, backtest = CASES[TRIED], Backtest(world.session, str(archive))
    question, period = backtest.ask(case.sql), backtest.period(datetime.fromisoformat(world.since))
    assert (period.start, period.end) == (world.recorded.start, world.recorded.end)
    return backtest.run(question, case.population, period).collect()


def changes(rows: Iterable[Any]) -> list[tuple[int, int, Any]]:
    found = [(row["subscription"], row["seq"], json.loads(row["change"])) for row in rows]
    return sorted(found, key=lambda one: one[:2])
