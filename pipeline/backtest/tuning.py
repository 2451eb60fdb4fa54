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

from pipeline.backtest.job import Backtest
from pipeline.backtest.period import Period
from pipeline.backtest.plan import Question
from pipeline.backtest.report import count, counted_hourly
from pipeline.statistics import StatisticsError
from prosem.language.notify import radius_names
from prosem.language.syntax import Aggregate, ColumnName, Parameter
from prosem.values.model import JsonObject

CANDIDATES = 16  # per subscription and pass
RADIUS = "radius"  # the parameter that takes the place of a constant radius
_RANGES = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Suggestion:
    """For one subscription: the value of the parameter, and the notifications per day it would have had."""

    params: JsonObject
    value: Any
    per_day: float


def tunable(notify: JsonObject | None) -> JsonObject | None:
    """The same with a parameter in the place of a constant radius.

    >>> tunable({"change": 5}), tunable({"change": ":r"}), tunable(None)
    ({'change': ':radius'}, {'change': ':r'}, None)
    """
    if "may" in (notify or {}):
        raise StatisticsError(
            "--per-day finds one radius, and may and must are two: give change, percent or factor"
        )
    if notify is None or radius_names(notify):
        return notify
    return dict.fromkeys(notify, f":{RADIUS}")


def tuned(question: Question, name: str = "") -> str:
    """The parameter to be found: the one named, else the only radius, else the only threshold."""
    radii, known = radius_names(question.statement.notify), question.parameters
    if name:
        if name not in known:
            raise StatisticsError(
                f"--tune {name}: the query has no such parameter; it has {', '.join(sorted(known))}"
            )
        if name not in radii and name not in _thresholds(question):
            raise StatisticsError(
                f"--tune {name}: it is neither a radius nor compared with a column of numbers by < or >"
            )
        return name
    for some in (sorted(radii), sorted(_thresholds(question))):
        if len(some) == 1:
            return some[0]
        if some:
            raise StatisticsError(
                f"--per-day: name the parameter to be found, --tune {' or --tune '.join(some)}"
            )
    raise StatisticsError("--per-day needs a radius (--notify) or a parameter that is compared by < or >")


def _thresholds(question: Question) -> dict[str, str]:
    """The parameters that a column of numbers is compared with, and that column."""
    found: dict[str, str] = {}
    for atom in (atom for conjunction in question.statement.query.where for atom in conjunction):
        kind = question.column_of(atom)
        if atom.op in _RANGES and kind is not None and kind.numeric:
            found |= {term.name: atom.column.name for term in atom.args if isinstance(term, Parameter)}
    return found


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
        column = _thresholds(question)[name]
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
