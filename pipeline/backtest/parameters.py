"""The subscriptions of a backtest: the rows of a CSV file, whose head names the parameters."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from pipeline.backtest.plan import Question
from pipeline.statistics import StatisticsError
from prosem.values.wire import decode_exact


def read_parameters(path: str, question: Question, left_out: Set[str] = frozenset()) -> list[dict[str, Any]]:
    """One subscription per line; all parameters but those left out must be there."""
    needed = question.parameters - left_out
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            found = list(_rows(csv.reader(file), path, needed, question.texts))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StatisticsError(f"--params {path} cannot be read: {error}") from error
    if not found:
        raise StatisticsError(f"--params {path} has no line below its head")
    return found


def _rows(
    lines: Iterator[list[str]], path: str, needed: frozenset[str], texts: frozenset[str]
) -> Iterator[dict[str, Any]]:
    head = next(lines, [])
    missing, other = sorted(needed - {*head}), sorted({*head} - needed)
    if missing or other:
        wrong = (
            f"has no column {missing[0]}" if missing else f"has a column {other[0]}, which is no parameter"
        )
        raise StatisticsError(
            f"--params {path} {wrong}; the query's parameters are {', '.join(sorted(needed))}"
        )
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        if len(line) != len(head):
            raise StatisticsError(
                f"--params {path}, line {number}: {len(line)} values for {len(head)} columns"
            )
        yield {name: value(text, name in texts) for name, text in zip(head, line, strict=True)}


def value(text: str, is_text: bool = False) -> Any:
    """A value as JSON, or a text where it is none; an empty one is NULL.

    >>> value("1.50"), value("abc"), value("[7]", is_text=True), value("[7]"), value("")
    (Decimal('1.50'), 'abc', '[7]', [7], None)
    """
    if not text:
        return None
    if is_text:
        return text
    try:
        return decode_exact(text)
    except ValueError:
        return text
