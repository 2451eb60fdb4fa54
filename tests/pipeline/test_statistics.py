"""The statistics job on a real Spark session, over what a real server has stored; every figure against brute force.

One database for the file; the runs build on each other.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from bench import spark as bench
from bench.common import Curve, Report
from bench.plots import draw
from pipeline.statistics import StatisticsError, plans, training, typed
from pipeline.statistics.archive import Archive
from pipeline.statistics.archiving import COPIES
from pipeline.statistics.columns import LG_REGISTERS
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.job import Job, Options, Outcome
from pipeline.statistics.progress import Steps
from pipeline.statistics.runs import list_runs, use_run
from pipeline.statistics.session import Session
from pipeline.statistics.source import frame
from prosem.store import schema
from prosem.store.catalog import table_from
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.statistics import load_statistics
from prosem.values.columns import column_type
from prosem.values.errors import SetupError
from prosem.values.wire import decode, encode
from tests.support.database import empty_database
from tests.support.histograms import check_histogram, check_hot_keys
from tests.support.live import Api
from tests.support.processes import ServerProcess, open_folder
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
TYPES = {
    "k": "integer", "b": "boolean", "i": "bigint", "f": "double precision", "t": "text", "d": "date",
    "m": "timestamptz", "n": "numeric(12,2)", "w": "numeric(30,10)", "y": "bytea", "j": "jsonb",
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "b": [True, False, None],
    "i": [2**63 - 1, -(2**63), 2**53 + 1, 0, None],
    "f": [1.5, -2.25, 1e300, 0.0],
    "t": ["", "é", "a,b", 'quo"te', "line\nbreak", "😀", None],
    "d": ["2024-12-31", "1999-01-01", None],
    "m": ["2024-12-31T23:59:59.5Z", "2024-12-31T23:59:59Z", "2025-01-01T00:00:00+02:00"],
    "n": ["12.50", "-0.01", 7, None],
    "w": ["12345678901234567890.5", "0.0000000002"],
    "y": ["AAE=", "", None],
    "j": [{"a": 1}, [1, 2], "x", None],
}
BULK = 1_500
LISTED = "mnopqrstu"
DISTINCT_ERROR = 1.04 / 2 ** (LG_REGISTERS / 2)
SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NOW = datetime.now(UTC).replace(microsecond=0)


class World:
    """A database a server has filled, and the session that reads it."""

    def __init__(self, url: str, session: Session, folder: Path) -> None:
        self.url, self.session, self.folder = url, session, folder
        self.outcomes: dict[str, Outcome] = {}

    def refresh(self, archive: str = "archive", **options: Any) -> Outcome:
        chosen = Options(self.url, str(self.folder / archive), quiet=True, **options)
        with connect(chosen.database) as connection:
            take_lock(connection)
            return Job(self.session, chosen, Steps(quiet=True), connection).run()

    def ask(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(text, values or None).fetchall()  # type: ignore[arg-type]

    def do(self, text: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(text.encode())

    def grow(self, count: int, at: datetime) -> None:
        """So many events on `bulk`, as the server writes them."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "INSERT INTO prosem.event_log (seq, table_id, op, old, new, at)"
                " SELECT last_seq + n, (SELECT id FROM prosem.tenant_table WHERE name = 'bulk'), 'update',"
                " json_build_array(n %% 100, n %% 13, 'v'), json_build_array(n %% 100, n %% 1000 * n %% 1009,"
                " CASE WHEN n %% 4 > 0 THEN 'v' END), %s FROM prosem.engine_state, generate_series(1, %s) n",
                [at, count],
            )
            connection.execute("UPDATE prosem.engine_state SET last_seq = last_seq + %s", [count])


def fill(url: str) -> None:
    """Through the API: a table of every type, two joined tables of which one is extended, and subscriptions."""
    server = ServerProcess("--database", url)
    try:
        with Api(server.start()) as api:
            api.table(TYPES, ["k"], "things")
            events: list[Any] = []
            for k in range(140):
                row = {name: some[k % len(some)] for name, some in VALUES.items()}
                events.append({"op": "insert", "row": {"k": k, **row}})
                if k % 3 == 0:
                    events.append({"op": "update", "key": {"k": k}, "set": {"i": k, "t": "new"}})
                if k % 7 == 0:
                    events.append({"op": "delete", "key": {"k": k}})
            api.publish("things", events)
            api.table({"k": "integer", "g": "integer", "a": "integer"}, ["k"], "r")
            api.table({"k": "integer", "g": "integer", "c": "integer"}, ["k"], "s")
            api.table({"k": "integer", "g": "integer", "a": "integer"}, ["k"], "q")
            for parent in "rq":
                more = [{"name": "more", "type": "text"}]
                child = {"name": f"{parent}2", "extends": parent, "columns": more}
                api.call("POST", "/v1/tables", json=child)
            rows = [{"k": k, "g": k, "a": k, "more": "x"} for k in range(7)]  # none of q itself
            api.publish("q2", [{"op": "insert", "row": row} for row in rows])
            api.publish(
                "r", [{"op": "insert", "row": {"k": k, "g": k % 5 or None, "a": k}} for k in range(50)]
            )
            api.publish(
                "r2",
                [{"op": "insert", "row": {"k": 1000 + k, "g": 1, "a": k, "more": "x"}} for k in range(30)],
            )
            api.publish("s", [{"op": "insert", "row": {"k": k, "g": k // 2, "c": k}} for k in range(20)])
            api.table({"k": "integer", "x": "integer", "z": "text"}, ["k"], "bulk")
            for lo in range(60):
                api.subscribe(
                    "SELECT MIN(x) FROM bulk WHERE k BETWEEN :lo AND :hi", {"lo": lo, "hi": lo + lo % 7}
                )
            for z in "abb":  # lists of ten
                params = {"more": 2.5, "some": [z, *LISTED]}
                api.subscribe("SELECT * FROM bulk WHERE z IN :some AND NOT x < 5 + :more", params)
            for k in range(8):
                moved = {"notify": {"change": ":r"}}
                api.subscribe("SELECT x FROM bulk WHERE k = :key", {"key": k, "r": 10 * k + 10}, **moved)
            for n in (3, 3, 9):
                api.subscribe("SELECT z, COUNT(*) FROM bulk GROUP BY z HAVING COUNT(*) > :n", {"n": n})
            gone = api.subscribe("SELECT MIN(x) FROM bulk WHERE k BETWEEN :lo AND :hi", {"lo": -99, "hi": 99})
            api.patch(gone["id"], active=False)
    finally:
        server.remove()
    with psycopg.connect(
        url
    ) as connection:  # as the server stores the group of a select-join, and what it measures
        connection.execute(
            "INSERT INTO prosem.group_ (id, name, type, label, space, tables, sample_sql) VALUES"
            " (9000, 'j', 'join', 'j', 9000, '{r,s}', 'SELECT * FROM r JOIN s USING (g) WHERE a < :a')"
        )
        connection.execute(
            "INSERT INTO prosem.plan_measurement (seq, group_id, part, space, plan, descriptor, server_time_us, send_us,"
            " bytes_out, network_bytes, latency_us, affected) SELECT n, 1 + n % 2, n % 2 * (n % 5 % 2), 1,"
            " (ARRAY['reformulate', 'enumerate'])[1 + n % 3 % 2], ARRAY[n % 11, log(1 + n % 7)], n % 50, 2, n, 2 * n,"
            " n % 9, n % 4 FROM generate_series(1, 900) n"
        )


@pytest.fixture(scope="module")
def world(postgres: EmbeddedPostgres, spark: Session) -> Iterator[World]:
    url = empty_database(postgres)
    schema.migrate(url)
    fill(url)
    folder = open_folder("prosem-statistics-")
    made = World(url, spark, folder)
    made.grow(BULK, NOW - timedelta(days=10))
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def first(world: World) -> Outcome:
    return world.refresh()


# -- figures against brute force -----------------------------------------------------------------------------
def logged(world: World, since: datetime | None = None) -> dict[str, list[tuple[Any, Any]]]:
    """Old and new rows of all events, by table."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for name, old, new in world.ask(
        "SELECT name, old, new FROM prosem.event_log JOIN prosem.tenant_table ON id = table_id"
        " WHERE at >= coalesce(%s, '-infinity'::timestamptz) ORDER BY seq",
        since,
    ):
        found.setdefault(name, []).append((old, new))
    return found


def check_columns(world: World, run: int, since: datetime | None = None) -> None:
    events = logged(world, since)
    for child in {"r2", "q2"} & events.keys():  # their events are events of the tables that they extend too
        cut = [(old and old[:3], new and new[:3]) for old, new in events[child]]
        events[child[0]] = events.get(child[0], []) + cut
    seen = set()
    for table, at, kind, count, nulls, distinct, changes, histogram, error, hot in world.ask(
        "SELECT t.name, position, type, events, nulls, distinct_values, changes, histogram, rank_error, hot_keys"
        " FROM prosem.statistics_column JOIN prosem.tenant_table t ON t.id = table_id WHERE run = %s",
        run,
    ):
        seen.add((table, at))
        rows = events[table]
        values = [(old if new is None else new)[at] for old, new in rows]
        present = [value for value in values if value is not None]
        differ = sum(old is not None and new is not None and old[at] != new[at] for old, new in rows)
        assert (count, nulls, changes) == (len(rows), len(values) - len(present), differ), (table, at)
        exact = len({json.dumps(value, sort_keys=True) for value in present})
        assert distinct == pytest.approx(exact, rel=4 * DISTINCT_ERROR, abs=0.5), (table, at)
        if kind in ("integer", "text"):
            check_hot_keys(present, hot, 2 * error)
        if kind == "jsonb":
            assert histogram is None
        elif kind == "numeric(30,10)":  # compared as doubles
            ends = (min(map(float, present)), max(map(float, present)))
            assert (float(histogram[0]), float(histogram[-1])) == pytest.approx(ends)
        else:
            check_histogram(
                kind, present, histogram, 2 * error
            )  # that of Spark's sketches holds in 99 of 100
    assert seen == {
        (table, at) for table, rows in events.items() for at in range(len(rows[0][0] or rows[0][1]))
    }


def test_columns_equal_brute_force(world: World, first: Outcome) -> None:
    check_columns(world, first.run)
    assert first.rows["event_log"] == sum(map(len, logged(world).values()))


def test_points_of_subscriptions_equal_brute_force(world: World, first: Outcome) -> None:
    rows = world.ask(
        "SELECT dimension, subscriptions, distinct_values, histogram FROM prosem.statistics_point WHERE run = %s",
        first.run,
    )
    found = {dimension: (count, distinct, histogram) for dimension, count, distinct, histogram in rows}
    assert found.keys() == {"k >=", "k <=", "z =", "x >=", "k =", "NOTIFY change", "HAVING COUNT(*) >="}
    assert found["k ="][:2] == found["NOTIFY change"][:2] == (8, 8)
    assert (found["NOTIFY change"][2][0], found["NOTIFY change"][2][-1]) == (10, 80)
    assert found["HAVING COUNT(*) >="][:2] == (3, 2)
    assert found["k >="][:2] == (60, 60), "who is suspended has no point"
    check_histogram("integer", list(range(60)), [int(bound) for bound in found["k >="][2]], 1 / 60)
    highs = [lo + lo % 7 for lo in range(60)]
    assert found["k <="][:2] == (60, len(set(highs)))
    assert (found["k <="][2][0], found["k <="][2][-1]) == (min(highs), max(highs))
    assert found["z ="][:2] == (3, 2 + len(LISTED)), "each list counts once"
    assert Counter(found["z ="][2]).keys() == {"a", "b", *LISTED}
    assert found["x >="] == (3, 1, [7.5] * 65)


def test_a_group_with_lists_is_as_large_as_it_was(world: World, first: Outcome) -> None:
    """Its measurements are used: what is compared are subscriptions, not the constants in their lists."""
    found = load_statistics(world.url, 0)
    assert not found.figures.stale
    assert {group for group, _ in found.training} == {1, 2}
    assert [one.dimension for one in found.figures.points[2]] == ["x >=", "z ="]


def test_joins_equal_brute_force(world: World, first: Outcome) -> None:
    (row,) = world.ask(
        "SELECT r.name, columns_r, s.name, columns_s, p_r, p_s, j_r, j_s, keys_r, keys_s, skew_r, skew_s"
        " FROM prosem.statistics_join JOIN prosem.tenant_table r ON r.id = table_r"
        " JOIN prosem.tenant_table s ON s.id = table_s WHERE run = %s",
        first.run,
    )
    assert row[:4] == ("r", ["g"], "s", ["g"])
    events = {name: len(some) for name, some in logged(world).items()}
    total = sum(events.values())
    keys_r = Counter([k % 5 for k in range(50) if k % 5] + [1] * 30)
    keys_s = Counter(k // 2 for k in range(20))
    p = ((events["r"] + events["r2"]) / total, events["s"] / total)
    j = [sum(keys.values()) / len(keys) for keys in (keys_r, keys_s)]
    skew = [
        sum(n * n for n in keys.values()) / sum(keys.values()) / rows
        for keys, rows in ((keys_r, j[0]), (keys_s, j[1]))
    ]
    assert row[4:] == pytest.approx((*p, *j, len(keys_r), len(keys_s), *skew))
    assert skew[0] > 1.2
    assert skew[1] == pytest.approx(1)


def trained(world: World, run: int) -> list[tuple[Any, ...]]:
    return world.ask(
        "SELECT group_id, part, plan, descriptor, server_time, response_time, server_stress, bandwidth, affected"
        " FROM prosem.statistics_training WHERE run = %s",
        run,
    )


def check_training(world: World, found: list[tuple[Any, ...]]) -> None:
    """The means of what was measured in the last 180 days, each weighed by its age."""
    measured: dict[Any, list[Any]] = {}
    for group, part, plan, descriptor, weight, *figures in world.ask(
        "SELECT group_id, part, plan, descriptor, power(0.5, extract(epoch FROM now() - at) / 86400 / 30),"
        " server_time_us + send_us, latency_us, bytes_out, network_bytes, affected FROM prosem.plan_measurement"
        " WHERE at > now() - interval '180 days'"
    ):
        measured.setdefault((group, part, plan, tuple(descriptor)), []).append(
            [float(figure) for figure in (weight, *figures)]
        )
    assert {(*one[:3], tuple(one[3])) for one in found} == measured.keys()
    for group, part, plan, descriptor, *figures in found:
        rows = np.array(measured[group, part, plan, tuple(descriptor)])
        assert figures == pytest.approx(list(np.average(rows[:, 1:], axis=0, weights=rows[:, 0])))


def test_the_training_set_holds_the_means_of_what_was_measured(world: World, first: Outcome) -> None:
    found = trained(world, first.run)
    check_training(world, found)
    assert {one[:2] for one in found} == {(1, 0), (2, 0), (2, 1)}, "a part of a join is on its own"


# -- how it runs ---------------------------------------------------------------------------------------------
def test_it_reads_in_parts_and_archives_them(world: World, first: Outcome) -> None:
    assert all(parts >= 2 for parts in first.rows["partitions"].values()), first.rows
    (segment,) = (world.folder / "archive").glob("*/event_log/*")
    assert segment.name == f"segment=0-{first.rows['upto']}"
    files = list(segment.rglob("part-*.parquet"))
    assert len(files) >= 2, "each part is written by itself"
    rows = (
        world.session.spark.read.parquet(str(segment)).selectExpr("count(*)", "count(distinct seq)").collect()
    )
    assert tuple(rows[0]) == (first.rows["event_log"],) * 2


def archive_name(world: World, archive: str = "archive") -> str:
    (name,) = (path.name for path in (world.folder / archive).iterdir())
    return name


def archived(world: World, table: str, archive: str = "archive") -> Any:
    """What the archive has of a table, by seq."""
    ((number, definition),) = world.ask(
        "SELECT id, definition FROM prosem.tenant_table WHERE name = %s", table
    )
    name = archive_name(world, archive)
    columns = tuple((column["name"], column["type"]) for column in definition["columns"])
    rows = Archive(world.session.spark, str(world.folder / archive), name).rows("event_log", number, columns)
    return rows.orderBy("seq")


def test_the_archive_holds_what_the_log_does_in_types(world: World, first: Outcome) -> None:
    """Every type: the archived rows are those that the server reads from the log."""
    ((definition,),) = world.ask("SELECT definition FROM prosem.tenant_table WHERE name = 'things'")
    table = table_from(1, "default", definition)
    logged_rows = world.ask(
        "SELECT seq, op, at, old::text, new::text FROM prosem.event_log JOIN prosem.tenant_table ON id = table_id"
        " WHERE name = 'things' ORDER BY seq"
    )
    found = archived(world, "things").toArrow()
    columns = typed.columns_of(table)
    assert found.schema.field("new").type == typed.struct(columns)
    old, new = (typed.rows(found[name].combine_chunks(), columns) for name in ("old", "new"))
    assert [row[3:] for row in logged_rows if row[4]] != []
    for name, rows, at in (("old", old, 3), ("new", new, 4)):
        expected = [None if row[at] is None else table.read(decode(row[at])) for row in logged_rows]
        assert list(map(encode, rows)) == list(map(encode, expected)), name
    assert found["seq"].to_pylist() == [row[0] for row in logged_rows]
    assert found["op"].to_pylist() == [row[1] for row in logged_rows]
    assert found["at"].to_pylist() == [row[2] for row in logged_rows]


@pytest.mark.slow
def test_both_ways_of_reading_give_the_same(world: World, first: Outcome) -> None:
    layout, query = COPIES["plan_measurement"]
    queries = [
        query.format(after=0, upto=100),
        query.format(after=100, upto=260),
        query.format(after=0, upto=0),
    ]
    both = [
        frame(world.session.spark, world.url, queries, layout, way).orderBy("seq").collect()
        for way in ("adbc", "copy")
    ]
    assert len(both[0]) == 260
    assert both[0] == both[1]
    world.refresh("copied", driver="copy")
    assert archived(world, "things", "copied").collect() == archived(world, "things").collect()


@pytest.mark.slow
def test_a_second_run_reads_only_what_is_new_and_equals_a_full_one(world: World, first: Outcome) -> None:
    """After ten times the rows: the same figures as from an empty archive, and no more comes to the driver."""
    with psycopg.connect(world.url, autocommit=True) as listener:
        listener.execute("LISTEN prosem_statistics")
        world.grow(9 * first.rows["event_log"], NOW - timedelta(days=1))
        second = world.refresh()
        told = [int(note.payload) for note in listener.notifies(timeout=5, stop_after=1)]
    assert told == [second.run]
    segments = sorted(path.name for path in (world.folder / "archive").glob("*/event_log/*"))
    upto = [0, first.rows["upto"], second.rows["upto"]]
    assert segments == sorted(f"segment={after}-{end}" for after, end in itertools.pairwise(upto))
    assert "plan_measurement" not in second.rows["partitions"], (
        "nothing new was measured, and nothing is read"
    )
    assert first.rows["scanned"] == first.rows["event_log"]
    assert second.rows["scanned"] == second.rows["event_log"] - first.rows["event_log"]
    check_columns(world, second.run)
    full = world.refresh("another", training=7)
    assert full.rows["scanned"] == full.rows["event_log"]
    check_columns(world, full.run)
    exact = (  # HyperLogLog gives the same however it was merged
        "SELECT table_id, position, events, nulls, distinct_values, changes FROM prosem.statistics_column WHERE run = %s"
        " ORDER BY 1, 2"
    )
    assert world.ask(exact, second.run) == world.ask(exact, full.run)
    for name in ("event_log", "plan_measurement", "subscription"):
        assert second.rows[name] == full.rows[name]
    assert second.rows["event_log"] == 10 * first.rows["event_log"]
    few, many = first.rows["collected"], second.rows["collected"]
    assert many["rows"] == few["rows"]
    assert many["size_bytes"] < 1.1 * few["size_bytes"]
    sizes = world.ask(
        "SELECT group_id, part, count(*) FROM prosem.statistics_training WHERE run = %s GROUP BY 1, 2 ORDER BY 1, 2",
        full.run,
    )
    assert [(group, part) for group, part, _ in sizes] == [(1, 0), (2, 0), (2, 1)]
    assert all(2 <= count <= 7 for _, _, count in sizes), "both plans have entries, within the limit"
    (longest,) = world.ask("SELECT max(length(rows::text)) FROM prosem.statistics_run")
    assert longest[0] < 2_000


def measure(world: World, count: int, days: int) -> None:
    """So many measurements that were made so many days ago, dearer the older they are."""
    (last,) = world.ask("SELECT max(seq) FROM prosem.plan_measurement")
    world.do(
        "INSERT INTO prosem.plan_measurement (seq, group_id, part, space, plan, descriptor, server_time_us, send_us,"
        f" bytes_out, network_bytes, latency_us, affected, at) SELECT {last[0]} + n, 1 + n % 2, 0, 1, 'reformulate',"
        f" ARRAY[n % 11, {days} / 100], 1000 + {days}, 2, n, 2 * n, n % 9, n % 4, now() - interval '{days} days'"
        f" FROM generate_series(1, {count}) n"
    )


def test_another_run_reads_only_what_is_new(
    world: World, first: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced: list[str] = []

    def noted(measurements: Any, size: int) -> Any:
        reduced.extend(re.findall(r"segment=[\d-]+", " ".join(measurements.inputFiles())))
        return plans.entries_of(measurements, size)

    monkeypatch.setattr(training, "entries_of", noted)
    before = sum(map(len, logged(world).values()))
    world.grow(500, NOW - timedelta(days=1))
    for days in (0, 30, 200):
        measure(world, 60, days)
    world.do(
        "INSERT INTO prosem.statistics_run (id, job, state)"
        " SELECT -n, 'older', 'complete' FROM generate_series(1, 60) n"
    )
    done = world.refresh(keep=50)
    assert world.ask("SELECT count(*), max(id) FROM prosem.statistics_run") == [(50, done.run)]
    assert done.rows["scanned"] == done.rows["event_log"] - before == 500
    check_columns(world, done.run)
    assert set(reduced) == {"segment=900-1080"}
    assert done.rows["plan_measurement"] == 1_080
    check_training(world, trained(world, done.run))
    archive = Archive(world.session.spark, str(world.folder / "archive"), archive_name(world))
    training.compact_measurements(archive, 2)
    for name in ("plan_measurement", "training"):
        assert [segment[:2] for segment in archive.segments(name)] == [(0, 1_080)]
    assert training.measurements(archive).count() == 1_020, "without the oldest"
    reduced.clear()
    rows = training.training_set(archive, 1_000).drop("weight", "at").collect()
    check_training(world, [(*row[:3], json.loads(row.descriptor), *row[4:]) for row in rows])
    assert not reduced, "it was reduced before"


@pytest.mark.slow
def test_since_counts_later_events_only(world: World, first: Outcome) -> None:
    since = NOW - timedelta(days=2)
    if len(list((world.folder / "archive").glob("*/event_log/*"))) == 1:
        world.grow(1_000, NOW - timedelta(days=1))
    done = world.refresh(since=since)
    check_columns(world, done.run, since)
    assert first.rows["event_log"] > done.rows["event_log"] > 0 or done.rows["event_log"] >= 9 * BULK
    assert world.ask("SELECT since FROM prosem.statistics_run WHERE id = %s", done.run) == [(since,)]


def test_runs_are_kept_and_can_be_switched_back_to(world: World, first: Outcome) -> None:
    with connect(world.url) as connection:
        newest = list_runs(connection)[0].id
        if newest == first.run:
            newest = world.refresh().run
        connection.execute("LISTEN prosem_statistics")
        use_run(connection, first.run)
        assert [note.payload for note in connection.notifies(timeout=5, stop_after=1)] == [str(first.run)]
        assert [run.id for run in list_runs(connection) if run.active] == [first.run]
    command = [sys.executable, "-m", "api.commands.cli", "stats"]
    variables = os.environ | {"PROSEM_DATABASE": world.url, "COLUMNS": "200", "NO_COLOR": "1"}

    def call(*words: str) -> Any:
        return subprocess.run([*command, *words], capture_output=True, text=True, check=False, env=variables)

    assert f"run {newest} is active" in call("use", str(newest)).stdout
    listed = call("list").stdout
    assert [line for line in listed.splitlines() if line.split()[:2] == [str(newest), "*"]]
    assert "Spark" in listed
    refused = call("use", "123456")
    assert refused.returncode == 1
    assert "there is no run 123456" in refused.stderr


@pytest.mark.slow
def test_killed_in_the_middle_nothing_has_changed(world: World, first: Outcome) -> None:
    """By spark-submit, as it stands; killed while it writes its run, with half of its rows sent."""
    before = world.ask("SELECT id, active FROM prosem.statistics_run ORDER BY id")
    submit = Path(sys.executable).with_name("spark-submit")
    script = ROOT / "pipeline" / "statistics" / "job.py"
    command = [str(submit), "--master", "local[2]", "--driver-java-options", SHORT_RUN, str(script)]
    command += ["--archive", str(world.folder / "archive"), "--since", "2d"]
    variables = os.environ | {"PROSEM_DATABASE": world.url, "PYSPARK_PYTHON": sys.executable}
    variables.pop("PYSPARK_GATEWAY_PORT", None)
    variables.pop("PYSPARK_GATEWAY_SECRET", None)
    output = world.folder / "killed.log"
    with psycopg.connect(world.url) as blocker, open(output, "wb") as log:
        blocker.execute("LOCK TABLE prosem.statistics_training IN ACCESS EXCLUSIVE MODE")
        job = subprocess.Popen(
            command, stdout=log, stderr=log, env=variables, cwd=world.folder, start_new_session=True
        )
        try:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'prosem.statistics_training'::regclass"

            def is_waiting() -> bool:
                assert job.poll() is None, output.read_text()
                return bool(world.ask(waiting) != [(0,)])

            until(is_waiting, 300, output.read_text)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    until(lambda: world.ask(waiting) == [(0,)])  # PostgreSQL notices that its client is gone
    assert world.ask("SELECT id, active FROM prosem.statistics_run ORDER BY id") == before
    for table in ("column", "join", "point", "training"):
        assert world.ask(f"SELECT count(*) FROM prosem.statistics_{table} WHERE run > %s", before[-1][0]) == [
            (0,)
        ]


ROW = (("k", "integer"), ("x", "text"))


def events(world: World, *seqs: int, columns: typed.Columns = ROW, values: str = '"a"') -> Any:
    """Events of a table with these columns, as the archive holds them."""
    schema = typed.schema("event_log", columns)
    made = {name: [] for name in typed.raw(schema).names}  # type: ignore[var-annotated]
    for seq in seqs:
        row = (seq, "insert", 1_000_000 * seq, seq, None, f"[{seq}, {values}]", "2026-01-31")
        for name, value in zip(made, row, strict=True):
            made[name].append(value)
    batch = pa.record_batch(pa.table(made, typed.raw(schema)).to_batches()[0])
    return world.session.spark.createDataFrame(
        pa.Table.from_batches([typed.convert(batch, schema, columns)])
    ).to(typed.spark_schema(schema))


def test_what_a_killed_run_left_half_archived_is_not_read(world: World) -> None:
    archive = Archive(world.session.spark, str(world.folder / "half"), "database")
    archive.append_rows("event_log", {1: (ROW, events(world, 1, 2, 50))}, 0, 50)
    folder = world.folder / "half" / "database" / "event_log"
    half = folder / "segment=50-70" / "table_id=1" / "day=2026-01-31"
    half.mkdir(parents=True)
    (half / "part-00000.parquet").write_bytes(b"half a file")
    (folder / "_rewritten_segment=0-50").mkdir()
    assert archive.upto("event_log") == 50
    archive.clear()
    assert [path.name for path in folder.iterdir()] == ["segment=0-50"]
    archive.append_rows("event_log", {1: (ROW, events(world, 51, 60))}, 50, 60)
    assert [row.seq for row in archive.rows("event_log", 1, ROW).orderBy("seq").collect()] == [
        1,
        2,
        50,
        51,
        60,
    ]
    assert archive.rows("event_log", 7, ROW).count() == archive.read("outbox", "id long").count() == 0
    (folder / "segment=50-60").rename(
        folder / "_rewritten_segment=50-60"
    )  # killed before it was in its place
    archive.clear()
    assert archive.upto("event_log") == 60


def test_columns_that_came_went_or_changed(world: World) -> None:
    """A segment has the columns of its time; a reader asks for those it knows."""
    archive = Archive(world.session.spark, str(world.folder / "evolved"), "database")
    later = (("k", "integer"), ("x", "bigint"), ("more", "text"))
    archive.append_rows("event_log", {1: (ROW, events(world, 1))}, 0, 1)
    changed = events(world, 2, columns=later, values='7, "b"')
    archive.append_rows("event_log", {1: (later, changed)}, 1, 2)

    def read(columns: typed.Columns) -> list[Any]:
        found = archive.rows("event_log", 1, columns).orderBy("seq").toArrow()
        return typed.rows(found["new"].combine_chunks(), columns)

    assert read(ROW) == [(1, "a"), (2, None)]
    assert read(later) == [(1, None, None), (2, 7, "b")]
    assert read((("more", "text"),)) == [(None,), ("b",)]


@pytest.mark.slow
def test_an_archive_of_an_older_version_is_rewritten_once(world: World, first: Outcome) -> None:
    """Its rows were JSON; the figures from it and what it holds are the same afterwards."""
    (name,) = (path.name for path in (world.folder / "archive").iterdir())
    spark, folder = world.session.spark, world.folder / "older"
    shutil.copytree(world.folder / "archive", folder)
    upto = first.rows["upto"]
    rows = (
        "SELECT seq, table_id, op, old::text AS old, new::text AS new, request_end,"
        " (extract(epoch FROM at) * 1000000)::bigint, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
        f" FROM prosem.event_log WHERE seq <= {upto}"
    )
    layout = (
        "seq long, table_id int, op string, old string, new string, request_end long, at long, day string"
    )
    old = frame(spark, world.url, [rows], layout)
    shutil.rmtree(folder / name / "event_log")
    path = str(folder / name / "event_log" / f"segment=0-{upto}")
    old.write.partitionBy("table_id", "day").parquet(path)
    with pytest.raises(StatisticsError, match="prosem stats refresh rewrites it once"):
        archived(world, "things", "older")
    done = world.refresh("older")
    check_columns(world, done.run)
    whole = archived(world, "things").where(f"seq <= {upto}").collect()
    assert archived(world, "things", "older").where(f"seq <= {upto}").collect() == whole


@pytest.mark.slow
def test_events_of_dropped_tables(world: World, first: Outcome) -> None:
    """One that the last run knew is archived to its end; of one that none knew the events are counted."""
    world.refresh("dropping")
    with psycopg.connect(world.url) as connection:
        connection.execute(
            "INSERT INTO prosem.event_log (seq, table_id, op, new) SELECT last_seq + n, CASE WHEN n = 1 THEN 9000"
            " ELSE (SELECT id FROM prosem.tenant_table WHERE name = 's') END, 'insert', '[70, 7, 7]'"
            " FROM prosem.engine_state, generate_series(1, 2) n"
        )
        connection.execute("UPDATE prosem.engine_state SET last_seq = last_seq + 2")
        dropped = connection.execute(
            "DELETE FROM prosem.tenant_table WHERE name = 's' RETURNING *"
        ).fetchone()
        group = connection.execute("DELETE FROM prosem.group_ WHERE id = 9000 RETURNING *").fetchone()
    assert dropped is not None
    assert group is not None
    try:
        done = world.refresh("dropping")
        found = world.ask(
            "SELECT count(*) FROM prosem.statistics_column WHERE run = %s AND table_id = %s",
            done.run,
            dropped[0],
        )
        assert found == [(0,)]
        (name,) = (path.name for path in (world.folder / "dropping").iterdir())
        archive = Archive(world.session.spark, str(world.folder / "dropping"), name)
        manifest = archive.manifest(archive.segments("event_log")[-1])
        assert manifest.left_out == {9000: 1}
        assert {number: one.rows for number, one in manifest.tables.items()} == {dropped[0]: 1}
    finally:
        with psycopg.connect(world.url) as connection:
            for table, row in (("tenant_table", dropped), ("group_", group)):
                values = [json.dumps(value) if isinstance(value, dict) else value for value in row]
                marks = ", ".join(["%s"] * len(values))
                connection.execute(f"INSERT INTO prosem.{table} VALUES ({marks})".encode(), values)
            connection.execute("DELETE FROM prosem.event_log WHERE table_id = 9000")


def test_an_archive_ahead_of_its_database_is_refused(world: World, first: Outcome) -> None:
    (name,) = (path.name for path in (world.folder / "archive").iterdir())
    ahead = world.folder / "ahead" / name / "event_log" / "segment=0-99999999"
    ahead.mkdir(parents=True)
    (ahead / "_SUCCESS").write_bytes(b"")
    with pytest.raises(StatisticsError, match="restored from a backup: give another folder"):
        world.refresh("ahead")


@pytest.mark.slow
def test_the_bench_in_miniature(world: World, tmp_path: Path) -> None:
    with bench.log_database(50) as (url, folder):
        figures = bench.measure(world.session, url, folder, (300, 3_000))
    few, many = figures["by_rows"]
    assert (few["rows"], many["rows"]) == (300, 3_000)
    assert many["collected_rows"] == few["collected_rows"]
    assert few["partitions"] >= 2
    assert figures["scanned_incremental"] == 30
    assert figures["seconds_duckdb"] is not None
    curve = Curve("t", "rows", "s", {"all": [(row["rows"], row["seconds"]) for row in (few, many)]})
    picture = tmp_path / "plot.png"
    draw(Report("spark", {}, curves=[curve]), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SetupError, match="nothing to plot"):
        draw(Report("spark", {}), picture)


def test_every_type_of_the_server_has_a_kind() -> None:
    from pipeline.statistics.kinds import kind
    from prosem.values import columns

    for name in (*columns._SIMPLE, "numeric(12,2)", "numeric(40,3)"):
        assert kind(name).ordered == column_type(name).ordered
