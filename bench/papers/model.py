"""A figure of a paper: what the paper says of it, which part of the benches measures it, and how both compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]
Lines = list[Line]
Data = Mapping[str, Any]  # what a part has measured
LIMIT = 2.0  # beyond this ratio, either way, a difference needs a reason


@dataclass(frozen=True)
class Comparison:
    """A number of the paper beside ours; or a statement of its text, our measure of it, and whether it holds.

    `ours` is "-" where what was measured has no such ratio. `line` is the one of the table that the measure is of, where it
    is of one.

    >>> Comparison("messages", 2.0, 1.5).ratio
    0.75
    >>> Comparison("messages", 2.0, 0.5).differs, Comparison("S-CN", "flat", 1.1, holds=True).differs
    (True, False)
    """

    what: str
    paper: float | str
    ours: float | str
    holds: bool | None = None
    line: Line = field(default_factory=dict, compare=False)

    @property
    def ratio(self) -> float | None:
        if isinstance(self.paper, str) or isinstance(self.ours, str) or not self.paper:
            return None
        return self.ours / self.paper

    @property
    def differs(self) -> bool:
        ratio = self.ratio
        return self.holds is False if ratio is None else not 1 / LIMIT <= ratio <= LIMIT


Reason = Callable[[Data, Comparison], str]


@dataclass(frozen=True)
class Axes:
    """How the lines of a table are drawn: over the column `by`, these columns, or all that are numbers."""

    by: str
    y: str
    logarithmic: str = ""
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper.

    `part` is the measurement that its lines come from; "" for a drawing, where there is nothing to measure. `reasons`
    explain differences by what was measured, each those of comparisons whose names begin with its key; the longest counts.
    """

    name: str
    source: str  # in the bibliography
    title: str
    said: str
    workload: str
    part: str
    lines: Callable[[Data], Lines] = lambda data: []
    compare: Callable[[Data], list[Comparison]] = lambda data: []
    axes: Axes | None = None
    reasons: Mapping[str, Reason] = field(default_factory=dict)

    def reason(self, data: Data, one: Comparison) -> str:
        """Why a comparison differs; "" if no reason is known."""
        keys = [key for key in self.reasons if one.what.startswith(key)]
        return self.reasons[max(keys, key=len)](data, one) if keys else ""

    @property
    def called(self) -> str:
        """As a heading has it: `Figure 3.6`, `Table 3.2`."""
        return self.name if not self.name[0].isdigit() else f"figure {self.name}"

    @property
    def slug(self) -> str:
        return self.called.replace(" ", "-").lower()

    @property
    def command(self) -> str:
        name = f'"{self.name}"' if " " in self.name else self.name
        return f"prosem bench papers --only {name}"


def beside(lines: Lines, line: Line, **known: Any) -> Line:
    """The line of another table for the same step as this one's, its first column, and with these values.

    >>> beside([{"rows": 1, "a": 2}, {"rows": 5, "a": 3}], {"rows": 5, "b": 4})
    {'rows': 5, 'a': 3}
    """
    by = next(iter(line))
    return the(lines, **{by: line[by]} | known)


def the(lines: Lines, **known: Any) -> Line:
    """The first line that has these values."""
    return next(one for one in lines if all(one.get(name) == value for name, value in known.items()))


# -- comparisons with what a text says ---------------------------------------------------------------------------
def values(lines: Lines, column: str) -> list[float]:
    return [float(line[column]) for line in lines if isinstance(line.get(column), int | float)]


def flat(lines: Lines, *columns: str, limit: float = 2.0) -> list[Comparison]:
    """Whether columns hardly change: the largest value over the smallest."""
    found = []
    for column in columns:
        some = values(lines, column)
        spread = max(some) / max(1e-9, min(some))
        found.append(
            Comparison(f"{column}, largest over smallest", "flat", round(spread, 2), spread <= limit)
        )
    return found


def grows(lines: Lines, *columns: str, at_least: float = 1.1) -> list[Comparison]:
    """Whether columns grow: the last value over the first."""
    return [_last_over_first(lines, column, "grows", lambda factor: factor >= at_least) for column in columns]


def falls(lines: Lines, *columns: str, at_most: float = 0.95) -> list[Comparison]:
    return [_last_over_first(lines, column, "falls", lambda factor: factor <= at_most) for column in columns]


def _last_over_first(lines: Lines, column: str, said: str, is_so: Callable[[float], bool]) -> Comparison:
    some = values(lines, column)
    factor = some[-1] / max(1e-9, some[0])
    return Comparison(f"{column}, last over first", said, short(factor), is_so(factor), lines[-1])


def below(lines: Lines, column: str, others: Sequence[str], factor: float = 1.0) -> list[Comparison]:
    """Whether a column is less than a share of each other one, on every line that has both."""
    found = []
    for other in others:
        both = [line for line in lines if values([line], column) and values([line], other)]
        if not both:
            continue
        shares = [float(line[column]) / max(1e-9, float(line[other])) for line in both]
        most = max(shares)
        said = "less" if factor == 1 else f"{factor:g} and less"
        line = both[shares.index(most)]
        found.append(Comparison(f"{column} over {other}, at most", said, short(most), most <= factor, line))
    return found


def short(value: float) -> float:
    return float(f"{value:.3g}")
