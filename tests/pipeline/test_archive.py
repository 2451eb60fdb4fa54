"""The archive as a product: verified against its manifests and the log, compacted, and read by others as documented."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from api.commands.archive import Options, compact, verify
from pipeline.backtest.execution import carry_out, given
from pipeline.backtest.job import Backtest
from pipeline.backtest.request import Request
from pipeline.statistics import StatisticsError
from pipeline.statistics.archive import MANIFEST, Archive
from pipeline.statistics.catalog import archive_id
from pipeline.statistics.columns import SKETCHES, column_sketches, merged_figures, merged_sketches, union
from pipeline.statistics.compaction import small_series
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.job import Job
from pipeline.statistics.job import Options as JobOptions
from pipeline.statistics.progress import Steps
from pipeline.statistics.session import Session
from pipeline.statistics.typed import Columns
from pipeline.statistics.verified_copies import KINDS
from prosem.store import schema
from prosem.store.embedded import EmbeddedPostgres
from prosem.values.errors import SetupError
from tests.support.database import empty_database
from tests.support.histograms import check_histogram
from tests.support.processes import open_folder

pytestmark = pytest.mark.slow  # what the job writes and reads is tested with the statistics, too
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "archive.md"
STOCKS: Columns = (("k", "integer"), ("price", "numeric(12,2)"), ("name", "text"))
BEGUN = datetime(2026, 1, 31, tzinfo=UTC)


class World:
    """A database with two tables and a log, and its archive of three runs."""

    def __init__(self, url: str, session: Session, folder: Path) -> None:
        self.url, self.session, self.folder = url, session, folder
        with connect(url) as connection:
            self.name = archive_id(connection)

    def grow(self, count: int) -> None:
        """Events on both tables; four of five are updates, of which one of seven has no name."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "INSERT INTO prosem.event_log (seq, table_id, op, old, new, at)"
                " SELECT last_seq + n, CASE WHEN n %% 10 = 0 THEN 2 ELSE 1 END,"
                " CASE WHEN n %% 5 > 0 THEN 'update' ELSE 'insert' END,"
                " CASE WHEN n %% 5 > 0 THEN json_build_array(n %% 40, (n / 100.0)::numeric(12,2)::text, 'a') END,"
                " json_build_array(n %% 40, ((n * 7 %% 999) / 100.0)::numeric(12,2)::text,"
                " CASE WHEN n %% 7 > 0 THEN 'name ' || n %% 9 END), %s::timestamptz + (last_seq + n) * interval '5 minutes'"
                " FROM prosem.engine_state, generate_series(1, %s) n",
                [BEGUN, count],
            )
            connection.execute("UPDATE prosem.engine_state SET last_seq = last_seq + %s", [count])

    def refresh(self, archive: Path, **options: Any) -> Any:
        with connect(self.url) as connection:
            take_lock(connection)
            chosen = JobOptions(self.url, str(archive), quiet=True, **options)
            return Job(self.session, chosen, Steps(quiet=True), connection).run()

    def add(self, archive: Path) -> None:
        """What a run adds to the archive, without the statistics."""
        with connect(self.url) as connection:
            take_lock(connection)
            chosen = JobOptions(self.url, str(archive), quiet=True)
            Job(self.session, chosen, Steps(quiet=True), connection).update_archive()

    def archive(self, folder: Path) -> Archive:
        return Archive(self.session.spark, str(folder), self.name)

    def verified(self, folder: Path, database: bool = True) -> tuple[int, str]:
        said = io.StringIO()
        options = Options(str(folder), self.url if database else "", self.name)
        code = verify(options, self.session, Console(file=said, width=1_000))
        return code, said.getvalue()


@pytest.fixture(scope="module")
def world(postgres: EmbeddedPostgres, spark: Session) -> Iterator[World]:
    url = empty_database(postgres)
    schema.migrate(url)
    columns = [{"name": name, "type": kind, "nullable": True} for name, kind in STOCKS]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE prosem.event_log_all PARTITION OF prosem.event_log DEFAULT")
        for number, name in ((1, "stocks"), (2, "bonds")):
            definition = {"name": name, "columns": columns, "primary_key": ["k"]}
            connection.execute(
                "INSERT INTO prosem.tenant_table (id, tenant, name, definition, created_seq)"
                " VALUES (%s, 'default', %s, %s, 0)",
                [number, name, json.dumps(definition)],
            )
    folder = open_folder("prosem-archive-")
    made = World(url, spark, folder)
    for count in (300, 200, 100):
        made.grow(count)
        made.add(folder / "archive")
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def copy(world: World, tmp_path: Path) -> Path:
    """A copy of the archive that may be broken."""
    return Path(shutil.copytree(world.folder / "archive", tmp_path / "archive"))


def segment(world: World, folder: Path, bounds: str, name: str = "event_log") -> Path:
    return folder / world.name / name / f"segment={bounds}"


def rewrite(manifest: Path, **changed: Any) -> None:
    """Put other values into a manifest, beside whose file Hadoop keeps the checksum."""
    manifest.with_name(f".{MANIFEST}.crc").unlink(missing_ok=True)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changed))


def rows(world: World, folder: Path, table: int = 1) -> list[Any]:
    found: list[Any] = world.archive(folder).rows("event_log", table, STOCKS).orderBy("seq").collect()
    return found


# -- verify ----------------------------------------------------------------------------------------------------
def test_a_whole_archive_is_whole(world: World) -> None:
    code, said = world.verified(world.folder / "archive")
    assert said == (
        "4 segments, 2 tables, 600 rows, up to seq 600, compared with the database's log: whole\n"
    ), "three of the log, and a copy of the tables"
    assert code == 0


def test_what_is_broken_is_named_with_what_to_do(world: World, copy: Path) -> None:
    first, second, third = (segment(world, copy, bounds) for bounds in ("0-300", "300-500", "500-600"))
    missing, *_ = sorted(first.glob("table_id=1/*/*.parquet"))
    missing.unlink()
    tables = json.loads((second / MANIFEST).read_text())["tables"]
    tables["1"]["checksum"] += 1
    tables["2"]["rows"] -= 1
    rewrite(second / MANIFEST, tables=tables)
    grown, *_ = sorted(third.glob("table_id=2/*/*.parquet"))
    grown.write_bytes(grown.read_bytes() + b"x")
    half = segment(world, copy, "600-700")
    half.mkdir()
    code, said = world.verified(copy, database=False)
    assert code == 1
    found = dict(re.findall(r"(/\S+): (.+)", said))
    assert found[str(missing)] == "the file is missing"
    assert found[str(grown)].startswith("the file has ")
    assert found[str(second / "table_id=1")].startswith("checksum is ")
    assert found[str(second / "table_id=2")] == "rows is 20 instead of 19"
    assert found[str(half)].startswith("it is incomplete")
    assert "remove the folder of this segment and those of later segments" in said
    assert said.endswith("broken\n")
    for broken in (first, second, third):
        shutil.rmtree(broken)
    world.add(copy)
    assert world.verified(copy)[0] == 0, "what to do has been done"
    assert rows(world, copy) == rows(world, world.folder / "archive")


def test_copies_and_what_runs_make_of_them_are_read(world: World, copy: Path) -> None:
    """One broken file of each kind, of the size that it had."""
    world.refresh(copy)
    assert world.verified(copy)[0] == 0
    parts = ["definition", "subscription", "plan_measurement", "training", "sketch", "join_key"]
    archive = copy / world.name
    for name in ("plan_measurement", "training", "join_key"):  # nothing was measured, and nothing is joined
        columns = KINDS[name].schema
        row = world.session.spark.createDataFrame([(None,) * len(columns.split(","))], columns)
        world.archive(copy).append(name, row, 0, 600)
    for name in (*parts, "event_log"):
        *_, file = sorted(archive.glob(f"{name}/*/**/*.parquet"))
        file.write_bytes(bytes(len(file.read_bytes())))
    code, said = world.verified(copy, database=False)
    assert code == 1
    for name in (*parts, "event_log"):
        assert re.search(rf"/{name}/segment=\S+: it cannot be read: .+\n  (remove|restore)", said), name
    for name in parts:
        shutil.rmtree(archive / name)
        (archive / name).mkdir()
    said = world.verified(copy, database=False)[1]
    for name in ("definition", "subscription"):
        assert f"no copy of {name} goes with the log\n  run prosem stats refresh" in said
    shutil.rmtree(archive / "event_log")
    world.refresh(copy)
    assert world.verified(copy)[0] == 0, "what to do has been done"


def test_sketches_of_other_events_and_stray_measurements_are_found(world: World, copy: Path) -> None:
    world.refresh(copy)
    archive = world.archive(copy)
    sketches = archive.read("sketch", SKETCHES).where("name = 'k'").localCheckpoint()
    archive.append("sketch", sketches.coalesce(1), 300, 500)
    archive.append("plan_measurement", world.session.spark.range(8, 12).selectExpr("id AS seq"), 0, 9)
    code, said = world.verified(copy, database=False)
    assert code == 1
    assert "segment=300-500: it has 540 events of k of table 1, its segment of the log 180\n" in said
    assert "segment=0-9: 2 measurements in it are not between its seqs\n" in said


def test_the_log_and_the_archive_are_compared(world: World, copy: Path) -> None:
    with psycopg.connect(world.url) as connection:
        deleted = connection.execute(
            "DELETE FROM prosem.event_log WHERE seq = 451 RETURNING seq, table_id, op, old::text, new::text, at, request_end"
        ).fetchone()
    try:
        code, said = world.verified(copy)
        assert code == 1
        assert f"{segment(world, copy, '300-500')}/table_id=1: the database's log has other events" in said
    finally:
        with psycopg.connect(world.url) as connection:
            connection.execute("INSERT INTO prosem.event_log VALUES (%s, %s, %s, %s, %s, %s, %s)", deleted)
    ahead = segment(world, copy, "600-99999")
    ahead.mkdir()
    (ahead / MANIFEST).write_text('{"after": 600, "upto": 99999, "tables": {}}')
    assert "the database was restored from a backup" in world.verified(copy)[1]
    shutil.rmtree(ahead)
    shutil.rmtree(segment(world, copy, "300-500"))
    code, said = world.verified(copy)
    assert "the events 301 to 500 before it are not in the archive" in said
    assert "no copy of the tables goes with the log" in said
    assert code == 1
    world.add(copy)
    code, said = world.verified(copy)
    assert "the events 301 to 500 before it" in said
    assert code == 0, "with a copy of the tables from after it, a gap is only what it is"


# -- compaction ------------------------------------------------------------------------------------------------
def test_small_segments_become_one(world: World, copy: Path) -> None:
    before = [rows(world, copy, table) for table in (1, 2)]
    said = io.StringIO()
    assert compact(Options(str(copy), world.url), world.session, Console(file=said)) == 0
    assert said.getvalue() == "3 segments of the event log are now 1\n"
    (whole,) = (copy / world.name / "event_log").iterdir()
    assert whole == segment(world, copy, "0-600")
    days = {path.parent.name for path in whole.glob("table_id=1/*/*.parquet")}
    assert len(list(whole.glob("table_id=1/*/*.parquet"))) == len(days) == 3, "one file a day"
    assert [rows(world, copy, table) for table in (1, 2)] == before
    assert world.verified(copy)[0] == 0
    assert compact(Options(str(copy), world.url), world.session, Console(file=said)) == 0
    assert said.getvalue().endswith("1 segments of the event log are now 1\n")


def test_a_killed_compaction_is_finished_or_undone(world: World, copy: Path) -> None:
    log = copy / world.name / "event_log"
    shutil.copytree(world.folder / "archive", copy.parent / "other")
    compact(Options(str(copy.parent / "other"), world.url), world.session, Console(file=io.StringIO()))
    done = segment(world, copy.parent / "other", "0-600")
    shutil.copytree(done, log / "_rewritten_segment=0-600")
    (log / "_rewritten_segment=0-600" / MANIFEST).unlink()
    world.archive(copy).clear()
    assert len(list(log.iterdir())) == 3, "it was not complete"
    shutil.copytree(done, log / "_rewritten_segment=0-600")  # it was not yet put in its place
    world.archive(copy).clear()
    assert [path.name for path in log.iterdir()] == ["segment=0-600"]
    assert rows(world, copy) == rows(world, world.folder / "archive")


def test_what_was_compacted_counts_no_more_while_it_is_still_there(world: World, copy: Path) -> None:
    before = rows(world, copy)
    compact(Options(str(copy), world.url), world.session, Console(file=io.StringIO()))
    for bounds in ("0-300", "500-600"):  # it was killed while it removed those that it replaced
        shutil.copytree(segment(world, world.folder / "archive", bounds), segment(world, copy, bounds))
    assert rows(world, copy) == before
    assert world.verified(copy)[0] == 0
    assert [one[:2] for one in world.archive(copy).segments("event_log")] == [(0, 600)]
    world.archive(copy).clear()
    assert [path.name for path in (copy / world.name / "event_log").iterdir()] == ["segment=0-600"]
    assert rows(world, copy) == before


def test_a_backtest_outlives_the_compaction_of_what_it_reads(world: World, copy: Path) -> None:
    backtest = Backtest(world.session, str(copy))
    question = backtest.ask("SELECT * FROM stocks WHERE price < :p")
    population, period = [{"p": 2}, {"p": 5}], backtest.period(None)
    expected = sorted(backtest.run(question, population, period).collect())
    assert len(expected) > 100
    frames = []

    def taken() -> list[Any]:
        frames.append(backtest.run(question, population, period))
        if len(frames) == 1:
            compact(Options(str(copy), world.url), world.session, Console(file=io.StringIO()))
        return sorted(frames[-1].collect())

    assert backtest.steady(taken) == expected
    assert len(frames) == 2, "what it was reading is gone"

    def broken() -> list[Any]:
        frame = backtest.run(question, population, period)
        next(segment(world, copy, "0-600").glob("table_id=1/*/*.parquet")).unlink()
        return frame.collect()

    with pytest.raises((PySparkException, Py4JError), match="FILE_NOT_EXIST"):  # it was not replaced
        backtest.steady(broken)


def test_nothing_is_computed_from_an_archive_that_lacks_a_file(world: World, copy: Path) -> None:
    backtest = Backtest(world.session, str(copy))
    question = backtest.ask("SELECT * FROM stocks WHERE price < :p")
    population, period = [{"p": 2}, {"p": 5}], backtest.period(None)
    missing = sorted(segment(world, copy, "300-500").glob("table_id=1/*/*.parquet"))[0]
    held = missing.read_bytes()

    def refusal() -> str:
        with pytest.raises(StatisticsError) as caught:
            backtest.run(question, population, period)
        return str(caught.value)

    missing.unlink()
    expected = f"{missing}: the file is missing; restore it from a copy of the archive; without one, remove"
    assert expected in refusal()
    assert backtest.period(None) == period, "which follows from the manifests"
    with pytest.raises(StatisticsError, match="the file is missing"):
        backtest.period(BEGUN + timedelta(minutes=5 * 400))
    with pytest.raises(SetupError, match="the file is missing"):
        compact(Options(str(copy), world.url), world.session, Console(file=io.StringIO()))
    missing.write_bytes(held + b"x")
    assert "bytes instead of" in refusal()
    missing.write_bytes(held)
    double = missing.with_name("copy.parquet")
    double.write_bytes(held)
    assert f"{double}: the file is not of the segment" in refusal()
    double.unlink()
    assert backtest.run(question, population, period).count()
    missing.write_bytes(bytes(len(held)))
    request = Request("SELECT * FROM stocks WHERE price < :p", str(copy))
    with pytest.raises(
        StatisticsError, match="the backtest failed: "
    ):  # what only a reader of the file notices
        carry_out(world.session, request, given(population), Steps(quiet=True).step)


def test_segments_with_other_columns_or_a_gap_between_are_not_compacted(world: World, copy: Path) -> None:
    archive = world.archive(copy)
    assert [len(series) for series in small_series(archive) if series] == [3]
    path = segment(world, copy, "300-500") / MANIFEST
    tables = json.loads(path.read_text())["tables"]
    tables["2"]["columns"][1][1] = "bigint"
    rewrite(path, tables=tables)
    assert [len(series) for series in small_series(archive) if series] == [1, 1, 1]
    shutil.rmtree(path.parent)
    assert [len(series) for series in small_series(archive) if series] == [1, 1]


# -- as documented -----------------------------------------------------------------------------------------------
def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_duckdb_reads_it_as_documented(world: World) -> None:
    duckdb = pytest.importorskip("duckdb")
    (query,) = examples("sql")
    found = duckdb.sql(query.replace("'archive/", f"'{world.folder}/archive/")).fetchall()
    expected: dict[str, list[Any]] = {}
    for row in rows(world, world.folder / "archive"):
        expected.setdefault(row.day, []).append(row.new.price)
    assert [(str(day), count, low) for day, count, low in found] == [
        (day, len(prices), min(prices)) for day, prices in sorted(expected.items())
    ]


def test_pandas_and_spark_read_it_as_documented(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.folder)
    by_pandas, by_spark = examples("py")
    here: dict[str, Any] = {}
    exec(by_pandas, here)
    own = rows(world, world.folder / "archive")
    assert [
        tuple(row) for row in here["events"].sort_values("seq")[["seq", "op", "new.price"]].to_numpy()
    ] == [(row.seq, row.op, row.new.price) for row in own]
    assert own[-1].at == BEGUN.replace(tzinfo=None) + timedelta(minutes=5 * own[-1].seq)
    capsys.readouterr()
    exec(by_spark.replace('"archive/', f'"{os.getcwd()}/archive/'), here)
    updates = [row.new.price - row.old.price for row in own if row.op == "update"]
    shown = re.findall(r"-?\d+\.\d+", capsys.readouterr().out)
    assert [float(one) for one in shown] == [pytest.approx(float(sum(updates) / len(updates)), abs=1e-5)]


# -- sketches by segment -----------------------------------------------------------------------------------------
def figures(world: World, run: int) -> dict[tuple[int, str], tuple[Any, ...]]:
    with psycopg.connect(world.url) as connection:
        found = connection.execute(
            "SELECT table_id, name, events, nulls, changes, distinct_values, histogram FROM prosem.statistics_column"
            " WHERE run = %s",
            [run],
        ).fetchall()
    return {(table, name): tuple(row) for table, name, *row in found}


def events_since(world: World, seq: int) -> dict[int, int]:
    with psycopg.connect(world.url) as connection:
        return dict(
            connection.execute(
                "SELECT table_id, count(*) FROM prosem.event_log WHERE seq >= %s GROUP BY 1", [seq]
            ).fetchall()
        )


def test_since_takes_whole_segments_by_their_sketches(world: World, copy: Path) -> None:
    assert world.refresh(copy).rows["scanned"] == 600
    for seq, scanned in ((350, 200), (501, 0), (595, 100)):
        done = world.refresh(copy, since=BEGUN + timedelta(minutes=5 * seq))
        assert done.rows["scanned"] == scanned, "only the segment in which the moment lies"
        found = figures(world, done.run)
        assert {table: found[table, "k"][0] for table in (1, 2)} == events_since(world, seq)


def test_sketches_outlive_compaction(world: World, copy: Path) -> None:
    world.refresh(copy)
    before = world.refresh(copy)
    compact(Options(str(copy), world.url), world.session, Console(file=io.StringIO()))
    assert [path.name for path in (copy / world.name / "sketch").iterdir()] == ["segment=0-600"]
    sketches = world.archive(copy).read("sketch", SKETCHES).select("table_id", "name")
    assert sorted(map(tuple, sketches.collect())) == [
        (table, name) for table in (1, 2) for name in ("k", "name", "price")
    ], "one row per column"
    after = world.refresh(copy)
    assert (before.rows["scanned"], after.rows["scanned"]) == (0, 0)
    assert figures(world, after.run) == figures(world, before.run), "few values: every sketch is exact"
    shutil.rmtree(copy / world.name / "sketch")
    again = world.refresh(copy)
    assert again.rows["scanned"] == 600
    assert figures(world, again.run) == figures(world, before.run), "the compacted segment holds the same"


def test_merged_sketches_are_right_within_their_error(spark: Session) -> None:
    """More values than a sketch holds; what was merged before is merged again."""
    columns = (("i", "bigint"), ("f", "double precision"), ("t", "text"))
    numbers = [None if n % 50 == 0 else n * 7919 % 30_011 for n in range(24_000)]

    def sketches(part: int) -> Any:
        made = spark.spark.range(6_000 * part, 6_000 * part + 6_000).selectExpr(
            "IF(id % 50 = 0, NULL, id * 7919 % 30011) AS n"
        )
        row = "struct(n AS i, CAST(n AS double) / 4 AS f, CAST(n AS string) AS t) AS new"
        return column_sketches(made.selectExpr(row, "IF(false, new, NULL) AS old"), 1, columns)

    some = merged_sketches(union([sketches(part) for part in range(3)]))
    whole = merged_sketches(union([some, sketches(3)]))
    assert whole.count() == some.count() == len(columns), "one row per column"
    present = [n for n in numbers if n is not None]
    values: dict[str, list[Any]] = {"i": present, "f": [n / 4 for n in present], "t": [*map(str, present)]}
    for row in merged_figures(whole).collect():
        assert (row.events, row.nulls) == (len(numbers), len(numbers) - len(present))
        assert row.distinct_values == pytest.approx(len(set(present)), rel=0.04)
        assert 0 < row.rank_error < 0.005
        check_histogram(row.type, values[row.item], json.loads(row.histogram), 2 * row.rank_error)


def test_a_dropped_table_and_changed_columns(world: World, copy: Path) -> None:
    """Last in the file: what was written of columns that are gone stays, and is in no figure."""
    columns = [("k", "integer"), ("price", "bigint"), ("more", "text")]
    definition = {
        "name": "stocks",
        "columns": [{"name": name, "type": kind, "nullable": True} for name, kind in columns],
        "primary_key": ["k"],
    }
    assert world.refresh(copy).rows["scanned"] == 600
    with psycopg.connect(world.url) as connection:
        connection.execute("DELETE FROM prosem.tenant_table WHERE id = 2")
        connection.execute(
            "UPDATE prosem.tenant_table SET definition = %s WHERE id = 1", [json.dumps(definition)]
        )
        connection.execute(
            "INSERT INTO prosem.event_log (seq, table_id, op, new)"
            " SELECT last_seq + 1, 1, 'insert', '[1, 77, \"new\"]' FROM prosem.engine_state"
        )
        connection.execute("UPDATE prosem.engine_state SET last_seq = last_seq + 1")
    done = world.refresh(copy)
    assert done.rows["scanned"] == 1
    found = figures(world, done.run)
    assert found.keys() == {(1, "k"), (1, "price"), (1, "more")}
    assert found[1, "k"][0] == events_since(world, 0)[1], "it has not changed"
    assert found[1, "price"] == (1, 0, 0, 1, [77] * 65), "a column of another type is another"
    assert found[1, "more"][0] == 1
    assert world.verified(copy)[0] == 0
    new = world.archive(copy).rows("event_log", 1, tuple(columns)).orderBy("seq").collect()
    assert [new[-1].new.more, new[0].new.more, new[0].new.price] == ["new", None, None]
