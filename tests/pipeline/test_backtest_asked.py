"""What cannot succeed is refused by `prosem backtest` before Spark is started; and what it says of suggestions."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich.console import Console

pytest.importorskip("pyspark")

from api.commands.backtest import Options, backtest, show_suggestions
from pipeline.backtest.request import Request
from pipeline.backtest.tuning import Suggestion
from prosem.values.errors import SetupError

QUERY = "SELECT price FROM stocks WHERE symbol = :s"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(master: str) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("pipeline.statistics.session.open_session", start)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    (tmp_path / "archive" / "database" / "definition").mkdir(parents=True)
    return str(tmp_path / "archive")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sql": "SELECT price FROM"}, "syntax error"),
        ({"since": "yesterday"}, "--since takes a moment"),
        ({"since": "2999-01-01"}, "lies in the future"),
        ({"since": "9999999999d"}, "within the calendar"),
        ({"since": "0001-01-01"}, "more than 3,660 days ago"),
        ({"notify": {"change": -1}}, "change is greater than zero"),
        ({"per_day": 5.0, "notify": {"may": 1, "must": 2}}, "may and must are two"),
        ({"per_day": float("nan")}, "per-day takes a number"),
        ({"tune": "s"}, "tune needs per-day"),
        ({"archive": "/absent"}, "--archive /absent is empty: prosem stats refresh fills it"),
    ],
)
def test_a_wrong_request_is_refused_before_spark_starts(archive: str, given: Any, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        backtest(Options(Request(**{"sql": QUERY, "archive": archive, **given})))


def test_a_file_of_parameters_must_be_there(archive: str) -> None:
    with pytest.raises(SetupError, match=r"--params absent\.csv is no file"):
        backtest(Options(Request(QUERY, archive), file="absent.csv"))


def test_what_may_succeed_starts_spark(archive: str) -> None:
    with pytest.raises(AssertionError, match="Spark was started"):
        backtest(Options(Request(QUERY, archive, since="30d", per_day=5.0, notify={"percent": 1})))
    with pytest.raises(AssertionError, match="Spark was started"):
        backtest(Options(Request(QUERY, "hdfs://elsewhere/archive")))


def test_a_wanted_number_that_no_value_gives_is_said() -> None:
    said = io.StringIO()
    found = [Suggestion({"s": "a"}, 1.5, 4.0), Suggestion({"s": "b"}, 0.01, 0.2)]
    show_suggestions(Console(file=said, width=160), "radius", 5.0, found)
    assert "nearest to 5 notifications per day: :radius = 0.755 in the median" in said.getvalue()
    assert (
        "for 1 of 2 subscriptions no value that was tried gives between 2.5 and 10 per day" in said.getvalue()
    )
