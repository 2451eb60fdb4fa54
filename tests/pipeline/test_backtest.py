"""Backtests on a real Spark session over the archive of a real server's database."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from rich.console import Console

pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from api.commands.backtest import Options, run
from bench import backtest as bench
from pipeline.backtest.job import Backtest
from pipeline.backtest.period import Period
from pipeline.backtest.request import Request
from pipeline.statistics import StatisticsError, archiving
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.job import Job
from pipeline.statistics.job import Options as JobOptions
from pipeline.statistics.progress import Steps
from pipeline.statistics.session import Session
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from tests.support.backtested import CASES, Recorded, ordered, prepare, publish, record, requests
from tests.support.database import empty_database
from tests.support.live import Api
from tests.support.processes import ServerProcess, open_folder

SOME = ("minimum by symbol", "join")  # these also from a copy of the tables from after the events
pytestmark = pytest.mark.slow  # make test compares every type without Spark: test_backtest_simulation.py
DAY_S, DAY = 86_400, date(2026, 3, 1)
SEGMENT = r"(\w+)/segment=(\d+)-(\d+)"


class World(NamedTuple):
    """Archives of one log: `early` has a base copy from before the subscriptions, `late` one from the end, `often` two."""

    session: Session
    folder: Path
    recorded: Recorded

    def backtest(self, archive: str = "early") -> Backtest:
        return Backtest(self.session, str(self.folder / archive))

    def period(self) -> Period:
        return replace(self.backtest().period(None), start=self.recorded.start)


def refresh(session: Session, url: str, archive: Path) -> None:
    with connect(url) as connection:
        take_lock(connection)
        Job(
            session, JobOptions(url, str(archive), quiet=True), Steps(quiet=True), connection
        ).update_archive()


@pytest.fixture(scope="module")
def world(postgres: EmbeddedPostgres, spark: Session) -> Iterator[World]:
    url = empty_database(postgres)
    schema.migrate(url)
    server = ServerProcess("--database", url)
    folder = open_folder("prosem-backtest-")
    made = requests(random.Random(7), 120)
    try:
        with Api(server.start()) as api:
            prepare(api)
            publish(api, made[:30])
            refresh(spark, url, folder / "early")
            shutil.copytree(folder / "early", folder / "often")
            publish(api, made[30:50])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(archiving, "COPY_LEAST", 1)
                patch.setattr(archiving, "COPY_AFTER", 0)
                refresh(spark, url, folder / "often")
            recorded = record(api, server, made[50:], CASES)
    finally:
        server.remove()
    with psycopg.connect(url) as connection:  # as if each event were ten minutes after the one before
        connection.execute(
            "UPDATE prosem.event_log SET at = '2026-03-01T00:00:00Z'::timestamptz"
            " + coalesce(request_end, seq) * interval '10 minutes'"
        )
    for archive in ("early", "late", "often"):
        refresh(spark, url, folder / archive)
    yield World(spark, folder, recorded)
    shutil.rmtree(folder, ignore_errors=True)


def notified(world: World, name: str, archive: str) -> list[tuple[int, int, Any]]:
    case, backtest = CASES[name], world.backtest(archive)
    question = backtest.ask(case.sql, case.notify, case.per)
    found = backtest.run(question, case.population, world.period()).collect()
    return [(row["subscription"], row["seq"], json.loads(row["change"])) for row in found]


@pytest.mark.parametrize("name", CASES)
def test_a_backtest_on_spark_notifies_as_the_server_did(world: World, name: str) -> None:
    assert ordered(notified(world, name, "early")) == ordered(world.recorded.notified[name])
    if name in SOME:
        assert ordered(notified(world, name, "late")) == ordered(world.recorded.notified[name])


@pytest.mark.parametrize("name", SOME)
def test_a_backtest_reads_no_log_from_before_the_nearest_copy(world: World, name: str) -> None:
    """With equal notifications."""
    case = CASES[name]
    since = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=10 * (world.recorded.start + 40))
    read, told = {}, {}
    for archive in ("early", "often"):
        backtest = world.backtest(archive)
        question, period = backtest.ask(case.sql, case.notify, case.per), backtest.period(since)
        found = backtest.run(question, case.population, period)
        paths = " ".join(found.inputFiles())
        read[archive] = {(name, *map(int, bounds)) for name, *bounds in re.findall(SEGMENT, paths)}
        told[archive] = ordered([(row[0], row[1], json.loads(row["change"])) for row in found.collect()])
    assert told["often"] == told["early"]
    assert told["often"]
    ((_, _, copied),) = (one for one in read["often"] if one[0] == "base")
    assert ("base", copied, copied) not in read["early"]
    assert min(after for name, after, _ in read["early"] if name == "event_log") < copied
    assert min(after for name, after, _ in read["often"] if name == "event_log") == copied


def test_the_command_reports_how_often_and_when(world: World, tmp_path: Path) -> None:
    case = CASES["filter by symbol"]
    file = tmp_path / "symbols.csv"
    file.write_text("s\n" + "".join('"' + one["s"].replace('"', '""') + '"\n' for one in case.population))
    end = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=10 * world.recorded.start, seconds=1)
    said = io.StringIO()
    archive, output = str(world.folder / "late"), str(tmp_path / "out")
    request = Request(case.sql, archive, since=end.isoformat(), output=output)
    options = Options(request, file=str(file), plot=str(tmp_path / "plot.png"))
    run(options, world.session, Steps(quiet=True), Console(file=said, width=160))
    expected = world.recorded.notified["filter by symbol"]
    told = Counter(number for number, _, _ in expected)
    assert f"{len(expected):,} notifications" in said.getvalue()
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    read = world.session.spark.read
    rows = read.parquet(str(tmp_path / "out" / "subscriptions")).collect()
    assert {row["subscription"]: row["notifications"] for row in rows} == {
        number: told[number] for number in range(len(case.population))
    }
    assert [json.loads(row["params"]) for row in sorted(rows)] == list(case.population)
    out = read.parquet(str(tmp_path / "out" / "notifications"))
    whole = [(row["subscription"], row["seq"], json.loads(row["change"])) for row in out.collect()]
    assert ordered(whole) == ordered(expected)
    moments = out.selectExpr(
        "subscription", "unix_seconds(at) - unix_seconds(TIMESTAMP'2026-03-01 00:00:00') AS s"
    ).collect()
    for row in rows:
        at = [one["s"] for one in moments if one["subscription"] == row["subscription"]]
        hours = Counter(second % DAY_S // 3_600 for second in at)
        assert row["by_hour"] == [hours[hour] for hour in range(24)]
        found = Counter(DAY + timedelta(second // DAY_S) for second in at)
        assert row["by_day"] == {day: found[day] for day in row["by_day"]}
        assert [*row["by_day"]] == [DAY + timedelta(one) for one in range(len(row["by_day"]))], (
            "days of none too"
        )
    days = Counter(f"2026-03-{1 + 600 * seq // DAY_S:02}" for _, seq, _ in expected)
    lines = {
        line.split()[0]: line.split()[1] for line in said.getvalue().splitlines() if line.startswith("2026-")
    }
    assert {day: count for day, count in lines.items() if count != "0"} == {
        day: str(count) for day, count in days.items()
    }
    assert len(lines) == len(rows[0]["by_day"])
    quiet = [line for line in said.getvalue().splitlines() if line.split()[1:] == ["0"]]
    assert len(quiet) > 0, "hours of none have no bar"


def test_a_threshold_is_suggested_by_which_it_would_have_been_so_many(world: World) -> None:
    from pipeline.backtest.asked import tuned
    from pipeline.backtest.tuning import suggest

    backtest = world.backtest()
    question = backtest.ask("SELECT k, y FROM t WHERE x >= :a AND y < :limit")
    assert tuned(question, "limit") == "limit"
    period, population = world.period(), [{"a": 0}, {"a": 20}]

    def notified(*limits: Any) -> Counter[int]:
        asked = [one | {"limit": limit} for one, limit in zip(population, limits, strict=True)]
        return Counter(row["subscription"] for row in backtest.run(question, asked, period).collect())

    every = notified(10**6, 10**6)
    wanted = every[0] / 2 / period.days
    found = suggest(backtest, question, population, period, "limit", wanted)
    told = notified(*[one.value for one in found])
    assert [one.per_day * period.days for one in found] == pytest.approx([told[0], told[1]])
    assert abs(told[0] - every[0] / 2) <= every[0] / 10, "the nearest candidate is near"
    assert told[1] <= every[1] < every[0], "the other has fewer rows to begin with"


def test_a_radius_is_suggested_by_which_it_would_have_been_so_many(world: World) -> None:
    from pipeline.backtest.asked import tunable, tuned
    from pipeline.backtest.tuning import suggest

    backtest = world.backtest()
    question = backtest.ask("SELECT y FROM t WHERE k = :a", tunable({"change": 1}))
    assert tuned(question) == "radius"
    period, population = world.period(), [CASES["value"].population[0], {"a": 7}]
    every = Counter(number for number, *_ in world.recorded.notified["value"])
    wanted = every[0] / 2 / period.days
    found = suggest(backtest, question, population, period, "radius", wanted)
    again = backtest.run(question, [one.params | {"radius": one.value} for one in found], period).collect()
    told = Counter(row["subscription"] for row in again)
    assert [one.per_day * period.days for one in found] == pytest.approx([told[0], told[1]])
    assert 0 < told[0] < every[0], "a radius leaves some out"
    assert abs(told[0] - every[0] / 2) <= 2, "the nearest candidate is near"


def test_what_cannot_be_asked_is_refused_in_the_servers_words(world: World, tmp_path: Path) -> None:
    backtest = world.backtest()
    with pytest.raises(StatisticsError, match="nowhere"):
        backtest.ask("SELECT * FROM nowhere")
    question = backtest.ask("SELECT MIN(y) FROM t WHERE x BETWEEN :a AND :b")
    with pytest.raises(StatisticsError, match="subscription 2: the parameter :b is missing"):
        backtest.run(question, [{"a": 1, "b": 2}, {"a": 1}], world.period())
    with pytest.raises(StatisticsError, match="holds no event of this period"):
        backtest.period(datetime(2030, 1, 1, tzinfo=UTC))
    with pytest.raises(StatisticsError, match="is empty"):
        Backtest(world.session, str(tmp_path))


def test_the_bench_in_miniature(spark: Session, capsys: pytest.CaptureFixture[str]) -> None:
    size = bench.Size(40, 700, 90)
    with bench.database(size) as (url, folder):
        bench.archive_log(spark, url, str(folder / "archive"), size)
        for asked in bench.questions(size):
            engine = bench.engine(url, asked, folder / "engine" / asked.name, size.events)
            row = bench.backtested(spark, str(folder / "archive"), asked, folder, 2)
            assert (row["events"], row["subscriptions"]) == (size.events, size.subscriptions)
            assert row["notifications"] == engine["notifications"] > size.subscriptions
        (file,) = (folder / "engine" / asked.name).iterdir()
        told = pq.read_table(file)
        pq.write_table(told.slice(1), file)
        with pytest.raises(SystemExit):
            bench.backtested(spark, str(folder / "archive"), asked, folder, 1)
    assert "has [Row(subscription=" in capsys.readouterr().err
