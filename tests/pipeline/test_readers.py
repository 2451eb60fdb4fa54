"""Each figure of a run is in the list of what decides by it, with a file and a test that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.statistics.runs import COLUMNS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/nightly-statistics.md").read_text()
NAMES = {
    "statistics_column": {"table_id", "position", "name", "type"},
    "statistics_join": {"table_r", "columns_r", "table_s", "columns_s"},
    "statistics_point": {"group_id", "dimension"},
}  # what a figure is of
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ") and "`test_" in line]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_each_figure_has_a_decision() -> None:
    listed = {name for figure, *_ in ROWS for name in quoted(figure)}
    known = {
        f"{table}.{name}"
        for table, columns in COLUMNS.items()
        for name in columns.split(", ")
        if table in NAMES and name not in NAMES[table]
    }
    assert listed == known | {"statistics_training"}


@pytest.mark.parametrize("row", ROWS, ids=[quoted(row[3])[0] for row in ROWS])
def test_the_file_and_the_test_of_a_decision_are_there(row: list[str]) -> None:
    (path,), (name,) = quoted(row[2]), quoted(row[3])
    assert (ROOT / path).is_file()
    found = [one for one in (ROOT / "tests").rglob("test_*.py") if f"def {name}(" in one.read_text()]
    assert len(found) == 1
