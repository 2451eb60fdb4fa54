"""What is wrong with a request, as far as that shows without the archive: found before Spark takes its time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline.backtest.plan import Question
from pipeline.statistics import StatisticsError
from pipeline.statistics.moments import moment
from prosem.language.notify import radius_names
from prosem.language.syntax import Parameter
from prosem.values.errors import InputError
from prosem.values.model import JsonObject

MOST_DAYS = 3_660  # each subscription has a count for each day
RADIUS = "radius"  # the parameter that takes the place of a constant radius
_RANGES = ("<", "<=", ">", ">=")


def since(text: str) -> datetime | None:
    """From when on; an empty text is from the beginning. StatisticsError if nothing can have been then."""
    found, now = moment(text), datetime.now(UTC)
    if found is not None and found > now:
        raise StatisticsError(f"since {text} lies in the future")
    if found is not None and (now - found).days > MOST_DAYS:
        raise StatisticsError(
            f"since {text} is more than {MOST_DAYS:,} days ago; without it a backtest takes all of the archive"
        )
    return found


def check_wanted(per_day: float, tune: str) -> None:
    if not math.isfinite(per_day) or per_day < 0:
        raise StatisticsError("per-day takes a number of notifications greater than 0")
    if tune and not per_day:
        raise StatisticsError("tune needs per-day")


def check_population(question: Question, population: Sequence[JsonObject], name: str, at: str) -> None:
    """InputError if a subscription would be refused; the parameter of this name is still to be found.

    `at` is where it is given, with a place for the number of the subscription.
    """
    found = {name: 1} if name else {}
    for number, params in enumerate(population):
        try:
            question.check(params | found)
        except InputError as error:
            raise InputError(error.detail, at.format(number)) from None


def tunable(notify: JsonObject | None) -> JsonObject | None:
    """The same with a parameter in the place of a constant radius.

    >>> tunable({"change": 5}), tunable({"change": ":r"}), tunable(None)
    ({'change': ':radius'}, {'change': ':r'}, None)
    """
    if "may" in (notify or {}):
        raise StatisticsError(
            "per-day finds one radius, and may and must are two: give change, percent or factor"
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
                f"tune {name}: the query has no such parameter; it has {', '.join(sorted(known))}"
            )
        if name not in radii and name not in thresholds(question):
            raise StatisticsError(
                f"tune {name}: it is neither a radius nor compared with a column of numbers by < or >"
            )
        return name
    for some in (sorted(radii), sorted(thresholds(question))):
        if len(some) == 1:
            return some[0]
        if some:
            raise StatisticsError(
                f"per-day: say with tune which parameter is to be found, {' or '.join(some)}"
            )
    raise StatisticsError(
        "per-day needs a radius (notify) or a parameter that a column of numbers is compared with by < or >"
    )


def thresholds(question: Question) -> dict[str, str]:
    """The parameters that a column of numbers is compared with, and that column."""
    found: dict[str, str] = {}
    for atom in (atom for conjunction in question.statement.query.where for atom in conjunction):
        kind = question.column_of(atom)
        if atom.op in _RANGES and kind is not None and kind.numeric:
            found |= {term.name: atom.column.name for term in atom.args if isinstance(term, Parameter)}
    return found
