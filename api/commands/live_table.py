"""The present answer of a subscription as a table for the terminal, drawn anew in place with every change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from prosem_client import Change
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

MOST_ROWS = 40  # that are drawn; a caption says how many there are


class LiveTable:
    """A context manager: between its ends `show` replaces what is drawn."""

    def __init__(self, console: Console, title: str) -> None:
        self._title, self._changes = title, 0
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, change: Change) -> None:
        self._changes += not change.snapshot
        self._live.update(
            answer_table(change.result or {}, self._title, change.seq, self._changes), refresh=True
        )


def answer_table(result: Mapping[str, Any], title: str, seq: int, changes: int) -> Group:
    """The table of an answer between two lines, which are not wrapped to its width."""
    rows = answer_rows(result)
    shown = f", the first {MOST_ROWS} of {len(rows):,} rows" if len(rows) > MOST_ROWS else ""
    table = Table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        is_number = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows[:MOST_ROWS]:
        table.add_row(*[_cell(row.get(name)) for name in names])
    return Group(Text(title, "bold"), table, Text(f"seq {seq}, {changes:,} changes{shown}", "dim"))


def answer_rows(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The answer as rows of named cells; those of joined rows are `table.column`.

    >>> answer_rows({"columns": {"low": 1, "n": 2}})
    [{'low': 1, 'n': 2}]
    >>> answer_rows({"rows": [{"r": {"a": 1}, "s": {"b": 2}}]})
    [{'r.a': 1, 's.b': 2}]
    >>> answer_rows({"value": 3, "row": {"k": 1}})
    [{'value': 3, 'row.k': 1}]
    """
    if "values" in result:
        return [{"value": value} for value in result["values"]]
    if "items" in result:
        return [{**item["key"], "value": item["value"]} for item in result["items"]]
    if "groups" in result:
        return list(result["groups"])
    if "columns" in result:
        return [result["columns"]]
    return [_flat(row) for row in result.get("rows", [result])]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": part for inner, part in value.items()}
        else:
            flat[name] = value
    return flat


def _cell(value: Any) -> str:
    if value is None:
        return "[dim]NULL[/dim]"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escape(text)
