"""`prosem stats`: what cannot succeed ends in one line before Spark starts, and the list fits a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from api.commands.statistics import refresh, show_runs
from pipeline.statistics import job
from pipeline.statistics.database import connect, take_lock
from pipeline.statistics.runs import list_runs, remove_old_runs, use_run, write_run
from prosem.store.embedded import EmbeddedPostgres
from prosem.store.schema import migrate
from prosem.values.errors import SetupError
from tests.support.database import empty_database

pytest.importorskip("pyspark")


class SparkStarted(Exception):
    """The job went as far as Spark."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def started(master: str) -> Iterator[Any]:
        raise SparkStarted
        yield

    monkeypatch.setattr(job, "open_session", started)


@pytest.fixture(scope="module")
def url(postgres: EmbeddedPostgres) -> str:
    made = empty_database(postgres)
    migrate(made)
    return made


def test_an_archive_that_cannot_be_used_is_named_with_what_is_wrong(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(0o555)
    cases = {
        str(tmp_path / "file"): "file",
        str(tmp_path / "file" / "below"): "Not a directory",
        str(tmp_path / ("x" * 300)): "File name too long",
        "/proc/archive": "No such file|Permission|not permitted",
    }
    if os.geteuid():
        cases[str(tmp_path / "locked" / "archive")] = "Permission denied"
    for archive, wrong in cases.items():
        with pytest.raises(SetupError, match=wrong) as refusal:
            refresh(url, archive, "", "", 10, 7)
        assert f"--archive {archive}" in refusal.value.detail
        assert "\n" not in refusal.value.detail
    for archive in (str(tmp_path / "new" / "archive"), "s3a://bucket/archive"):
        with pytest.raises(SparkStarted):
            refresh(url, archive, "", "", 10, 7)


def test_a_second_run_is_refused_before_spark_starts(url: str, tmp_path: Path) -> None:
    with connect(url) as first:
        take_lock(first)
        with pytest.raises(SetupError, match="another run"):
            refresh(url, str(tmp_path), "", "", 10, 7)
    with pytest.raises(SparkStarted):
        refresh(url, str(tmp_path), "", "", 10, 7)


def test_the_list_of_runs_fits_eighty_columns(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    engine = "Spark 4.3.0 on local[*], Java 17 of /usr/lib/jvm/java-17-openjdk-amd64, by adbc"
    counts = {"event_log": 1_234_567_890, "subscription": 12_345_678, "training": 123_456}
    since = job.moment("2026-01-31T12:00:00Z")
    with connect(url) as connection:
        runs = [write_run(connection, engine, when, {}, counts) for when in (None, since)]
    assert show_runs(url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for run in runs:
        (line,) = [one for one in lines if one.split()[0] == str(run)]
        assert line.split()[-3:] == ["1,234,567,890", "12,345,678", "123,456"]
        assert ("*" in line) == (run == runs[-1])
    assert engine in " ".join(map(str.strip, lines))


def test_old_runs_are_removed_and_the_one_in_force_stays(url: str) -> None:
    with connect(url) as connection:
        first, *later = [
            write_run(
                connection, "Spark", None, {"statistics_training": [(1, 0, "p", [1.0], *[2.0] * 5)]}, {}
            )
            for _ in range(4)
        ]
        use_run(connection, first)
        assert remove_old_runs(connection, 2) >= 1
        assert [run.id for run in list_runs(connection)] == [*reversed(later[-2:]), first]
        use_run(connection, later[-1])
        assert remove_old_runs(connection, 2) == 1
        assert [run.id for run in list_runs(connection)] == [*reversed(later[-2:])]
        assert remove_old_runs(connection, 2) == 0
        rows = connection.execute("SELECT DISTINCT run FROM prosem.statistics_training ORDER BY 1").fetchall()
        assert [run for (run,) in rows] == later[-2:]
