"""Answers drawn as tables: every kind of answer has its rows and columns, and markup in values stays text."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from prosem_client import Change
from rich.console import Console

from api.commands.live_table import MOST_ROWS, LiveTable, answer_table

ANSWERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"value": 2.5, "row": {"symbol": "IBM"}}, ["value", "row.symbol", "2.5", "IBM"]),
    ({"value": None, "row": None}, ["value", "row", "NULL"]),
    ({"values": ["a", None]}, ["value", "a", "NULL"]),
    ({"rows": [{"k": 1, "t": "[red]x"}]}, ["k", "t", "[red]x"]),
    ({"rows": [{"r": {"a": 1}, "s": {"b": 2}}]}, ["r.a", "s.b"]),
    ({"groups": [{"sector": "tech", "n": 3}]}, ["sector", "n", "tech", "3"]),
    ({"columns": {"low": "1.50", "count": 4}}, ["low", "count", "1.50", "4"]),
    ({"items": [{"key": {"k": 7}, "value": 8}]}, ["k", "value", "7", "8"]),
    ({"rows": []}, []),
]


def drawn(result: dict[str, Any]) -> str:
    output = StringIO()
    Console(file=output, width=120).print(answer_table(result, "the query", 12, 3))
    return output.getvalue()


@pytest.mark.parametrize(("result", "words"), ANSWERS)
def test_every_answer_is_a_table(result: dict[str, Any], words: list[str]) -> None:
    text = drawn(result)
    assert [word for word in [*words, "seq 12, 3 changes"] if word not in text] == []


def test_a_long_answer_is_cut_and_says_so() -> None:
    text = drawn({"rows": [{"k": f"row-{k}"} for k in range(MOST_ROWS + 1)]})
    assert f"the first {MOST_ROWS} of {MOST_ROWS + 1} rows" in " ".join(text.split())
    assert f"row-{MOST_ROWS - 1}" in text
    assert f"row-{MOST_ROWS} " not in text


def test_changes_are_counted_and_drawn() -> None:
    output = StringIO()
    with LiveTable(Console(file=output, force_terminal=True, width=80), "q") as table:
        table.show(Change("a", 1, None, {"value": 3}, True))
        table.show(Change("a", 2, {"value": 4}, {"value": 4}))
    assert "seq 1, 0 changes" in output.getvalue()
    assert "seq 2, 1 changes" in output.getvalue()
