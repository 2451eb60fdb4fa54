"""Which radius or threshold would have given about so many notifications per day.

A candidate is a subscription like any other, so one pass tries many values for each subscription; a second pass tries
values between the two best. Candidates of a threshold are quantiles of the column that it is compared with; those of a
radius grow geometrically. The number of notifications need not fall with every step of a radius: what is suggested is the
candidate that was nearest, with the number it would have had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipeline.backtest.asked import thresholds
from pipeline.backtest.job import Backtest
from pipeline.backtest.period import Period
from pipeline.backtest.plan import Question
from pipeline.backtest.report import count, counted_hourly
from prosem.language.syntax import Aggregate, ColumnName
from prosem.values.model import JsonObject

CANDIDATES = 16  # per subscription and pass


@dataclass(frozen=True)
class Suggestion:
    """For one subscription: the value of the parameter, and the notifications per day it would have had."""

    params: JsonObject
    value: Any
    per_day: float


def suggest(
    backtest: Backtest,
    question: Question,
    population: Sequence[JsonObject],
    period: Period,
    name: str,
    wanted: float,
) -> list[Suggestion]:
    """For each subscription the value with which the number per day is nearest to the one wanted."""
    first = _candidates(backtest, question, period, name)
    best: list[Suggestion] = []
    tried: list[Sequence[Any]] = [first] * len(population)
    for _ in range(2):
        subscriptions = [
            params | {name: value}
            for params, values in zip(population, tried, strict=True)
            for value in values
        ]
        found = _counts(backtest, question, subscriptions, period)
        best, at = [], 0
        following: list[Sequence[Any]] = []
        for params, values in zip(population, tried, strict=True):
            rates = found[at : at + len(values)]
            at += len(values)
            nearest = min(range(len(values)), key=lambda one: abs(rates[one] - wanted))
            best.append(Suggestion(params, values[nearest], rates[nearest]))
            low, high = values[max(0, nearest - 1)], values[min(len(values) - 1, nearest + 1)]
            following.append(_between(low, values[nearest], high))
        tried = following
    return best


def _counts(
    backtest: Backtest, question: Question, subscriptions: Sequence[JsonObject], period: Period
) -> list[float]:
    with counted_hourly(backtest.run(question, subscriptions, period)) as hourly:
        made = count(hourly, len(subscriptions), period)
    return [notified / period.days for notified in made.per_subscription]


def _between(low: Any, middle: Any, high: Any) -> list[Any]:
    """Values from one to the other, with the middle one among them, ascending."""
    step = (float(high) - float(low)) / (CANDIDATES - 1)
    values = {_rounded(float(low) + at * step) for at in range(CANDIDATES)}
    return sorted(values | {middle})


def _candidates(backtest: Backtest, question: Question, period: Period, name: str) -> list[Any]:
    notify = question.statement.notify or {}
    form = next((form for form, given in notify.items() if given == f":{name}"), None)
    if form is None:
        column = thresholds(question)[name]
        values = backtest.quantiles(
            question, period, column, [at / CANDIDATES for at in range(CANDIDATES + 1)]
        )
    elif form == "factor":
        return [_rounded(1 + step) for step in _geometric(0.001, 10)]
    elif form == "percent":
        return [_rounded(step) for step in _geometric(0.01, 1000)]
    else:
        values = _radii(backtest, question, period)
    return sorted({_rounded(value) for value in values})


def _radii(backtest: Backtest, question: Question, period: Period) -> list[float]:
    """From a small part of what the values span to all of it; a sum spans many values, a count is one of rows."""
    selection = question.statement.query.selection
    is_sum = isinstance(selection, Aggregate) and selection.function.upper() in ("SUM", "COUNT")
    if isinstance(selection, Aggregate) and (
        selection.column is None or selection.function.upper() == "COUNT"
    ):
        return _geometric(1, 100_000)
    column = selection.column if isinstance(selection, Aggregate) else _only_column(selection)
    assert column is not None
    low, high = backtest.quantiles(question, period, column.name, [0.0, 1.0])
    return [value * max(high - low, 1e-9) for value in _geometric(1e-4, 100 if is_sum else 1)]


def _only_column(selection: Any) -> ColumnName:
    """The column of a value notification."""
    found: ColumnName = selection.items[0].column
    return found


def _geometric(low: float, high: float) -> list[float]:
    step = math.log(high / low) / (CANDIDATES - 1)
    return [low * math.exp(at * step) for at in range(CANDIDATES)]


def _rounded(value: float) -> Decimal:
    """To four digits: a suggestion is to be read."""
    return Decimal(f"{value:.4g}").normalize() + 0
