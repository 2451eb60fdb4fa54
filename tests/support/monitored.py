"""A table, a monitored query, and its answer by a scan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prosem_client.held import End

# what both clients must make of queries, parameters and histories; test/monitor.test.js of the other one reads it too
CASES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "clients" / "monitor_cases.json").read_text(encoding="utf-8")
)

SQL = "SELECT * FROM t WHERE x BETWEEN :lo AND :hi"
TABLE = {
    "name": "t",
    "columns": [
        {"name": "k", "type": "integer"},
        {"name": "x", "type": "integer"},
        {"name": "s", "type": "text"},
    ],
    "primary_key": ["k"],
}


def by_key(result: dict[str, Any] | None) -> dict[int, Any]:
    assert result is not None
    return {row["k"]: row for row in result["rows"]}


def scan(rows: dict[int, dict[str, Any]], ends: tuple[End, ...], params: dict[str, Any]) -> dict[int, Any]:
    """The answer, row by row, without any of the parts above."""
    signs: dict[tuple[bool, bool], Callable[[Any, Any], bool]] = {
        (True, True): lambda a, b: a > b, (True, False): lambda a, b: a >= b,
        (False, True): lambda a, b: a < b, (False, False): lambda a, b: a <= b,
    }  # fmt: skip
    found = {}
    for k, row in rows.items():
        sides = [(row[end.column], params[end.parameter], signs[end.is_lower, end.is_open]) for end in ends]
        if all(a is not None and b is not None and sign(a, b) for a, b, sign in sides):
            found[k] = row
    return found
