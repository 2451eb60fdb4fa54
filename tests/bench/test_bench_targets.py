"""The table of targets is made of what benches printed; nothing in its page is written by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.commands.cli import app
from bench.kept import keep, kept
from bench.registry import BENCHES
from bench.targets import PYTHON, TARGETS, Result, benches, lines, page, run
from prosem.values.errors import SetupError

ROOT = Path(__file__).parents[2]


def rows_result(bytes_per_row: float, size: str = "full", before: Result | None = None) -> Result:
    sizes = [{"rows": 10, "recovered_s": 2.0, "bytes_per_row": bytes_per_row}]
    figures: dict[str, Any] = {"sizes": sizes, "event_cost_ratio": 1.2}
    machine = {"cpu": "x", "cores": 2}
    return Result(
        "rows", size, "d", [0.0, 0.1], machine, 3.0, figures, {} if before is None else before.values
    )


def test_every_target_is_of_a_bench() -> None:
    assert {name.removesuffix(PYTHON) for name in benches()} <= BENCHES.keys()
    assert len({(one.bench, one.name) for one in TARGETS}) == len(TARGETS)


def test_a_figure_is_met_or_not_and_stands_beside_the_run_before() -> None:
    first = rows_result(120)
    found = [*lines([rows_result(120.5, before=first)])]
    shown = {one["figure"]: one for one in found if one["bench"] in ("rows", "templates")}
    of_memory = shown["bytes per row, 10,000,000 rows"]
    assert (of_memory["target"], of_memory["measured"], of_memory["before"]) == ("≤ 120", "120", "120")
    assert of_memory["met"] == "**no**", "by the figure, not by what is shown of it"
    assert shown["rows/s recovered"]["met"] == "**no**", "five of 200,000"
    assert shown["an event over one at 100,000 rows"]["met"] == "yes"
    assert shown["1,000 templates over ten"]["measured"] == "-", "not measured"


def test_a_figure_that_came_later_is_not_measured_in_an_older_result() -> None:
    result = rows_result(120)
    del result.figures["event_cost_ratio"]
    shown = {one["figure"]: one for one in lines([result]) if one["bench"] == "rows"}
    assert shown["an event over one at 100,000 rows"]["measured"] == "-"
    assert shown["bytes per row, 10,000,000 rows"]["measured"] == "120"


def test_small_sizes_do_not_replace_full_ones(tmp_path: Path) -> None:
    for result, left in ((rows_result(1, "quick"), 1), (rows_result(2), 2), (rows_result(3, "quick"), 2)):
        keep(tmp_path, result)
        assert kept(tmp_path, Result)["rows"].figures["sizes"][0]["bytes_per_row"] == left


def test_names_are_checked_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="'fan-out'; there are range-min"):
        run(True, ["rows, fan-out"], tmp_path / "targets.md")
    assert CliRunner().invoke(app, ["bench", "rows", "--kept"]).exit_code == 2


def test_a_bench_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench itself is replaced: what a process prints last is what is kept."""
    printed = {"machine": {"cpu": "x", "cores": 2}, "seconds": 1.5, "figures": rows_result(7).figures}
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho progress\necho '{json.dumps(printed)}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    out = tmp_path / "targets.md"
    for before in ({}, rows_result(7).values):
        run(True, ["rows"], out)
        assert kept(tmp_path / "targets", Result)["rows"].before == before
    assert "| bytes per row, 10,000,000 rows | ≤ 120 | 7 | 7 | yes |" in out.read_text()


def test_the_page_is_the_one_of_the_kept_results() -> None:
    found = kept(ROOT / "docs" / "targets", Result)
    assert found.keys() <= set(benches())
    assert all(one.size == "full" for one in found.values())
    shown = [one for one in lines(found.values()) if one["bench"] in found]
    assert all(one["measured"] != "-" for one in shown if one["figure"] != "over C++ alone, 1,000,000")
    assert page(found) == (ROOT / "docs" / "targets.md").read_text(), "stale: prosem bench targets --kept"
