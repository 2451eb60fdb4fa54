"""What a run of the statistics job says of columns, joins and the points of groups: immutable values.

A histogram is equi-depth: its bounds part the values into runs of the same size, the least and the greatest value first and
last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from prosem.values.model import JsonObject

Bounds = Sequence[Any]
OF_RUN, IN_MEMORY = "point and column histograms", "constants in memory, column histograms"
STALE = 4  # statistics of a group with so many times as many subscriptions now, or so many times fewer, are not used


class HotKey(NamedTuple):
    """A frequent value and its share of all."""

    value: Any
    share: float


class ColumnStatistics(NamedTuple):
    """Of one column, over the rows that events left behind; `changes` are the events that gave it another value."""

    position: int
    name: str
    type: str
    events: int
    nulls: int
    distinct: float
    changes: int
    bounds: Bounds | None
    rank_error: float
    hot: Sequence[HotKey] = ()

    @property
    def update_rate(self) -> float:
        """Changes per event on the table."""
        return self.changes / self.events if self.events else 0.0

    @property
    def present(self) -> float:
        """The share of values that are not NULL."""
        return 1.0 - self.nulls / self.events if self.events else 1.0

    @property
    def together(self) -> float:
        """How likely two rows have the same value, because it is a hot key."""
        return sum(one.share**2 for one in self.hot)

    @property
    def effective_distinct(self) -> float:
        """How many equally frequent values would distinguish as many rows: 1 / Σ share².

        >>> even = ColumnStatistics(0, "x", "integer", 100, 0, 50.0, 0, list(range(65)), 0.0)
        >>> even.effective_distinct, round(even._replace(hot=[HotKey(7, 57 / 64)]).effective_distinct, 2)
        (50.0, 1.26)
        """
        rest = max(0.0, 1.0 - sum(one.share for one in self.hot))
        others = max(1.0, self.distinct - len(self.hot))
        return 1.0 / max(1e-12, self.together + rest**2 / others)

    def document(self) -> JsonObject:
        """As the API shows it."""
        return {
            "name": self.name,
            "type": self.type,
            "events": self.events,
            "nulls": self.nulls,
            "distinct_values": self.distinct,
            "changes": self.changes,
            "update_rate": self.update_rate,
            "hot_keys": [one._asdict() for one in self.hot],
        }


class SideStatistics(NamedTuple):
    """One side of a join: its table and columns, its share of all events, and how its rows share join keys.

    `skew`: rows that share the key of a row, over rows per key; 1 if all keys are equally frequent.
    """

    table: int
    columns: tuple[str, ...]
    event_share: float
    rows_per_key: float
    keys: int
    skew: float


class JoinStatistics(NamedTuple):
    r: SideStatistics
    s: SideStatistics


class PointStatistics(NamedTuple):
    """Of one dimension of a group: how many subscriptions compare it with a constant, or several, and where these lie."""

    dimension: str
    subscriptions: int
    distinct: float
    bounds: Bounds | None
    rank_error: float
    hot: Sequence[HotKey] = ()

    @property
    def share_error(self) -> float:
        """By how much a mean share of the subscriptions can be wrong; `rank_error` counts the constant at a bound itself.

        >>> few, many = PointStatistics("x >=", 10, 9.0, None, 0.1), PointStatistics("x >=", 10_000, 9e3, None, 0.0021)
        >>> few.share_error, round(many.share_error, 6)
        (0.0, 0.002)
        """
        return max(0.0, self.rank_error - 1 / max(1, self.subscriptions))

    def document(self) -> JsonObject:
        return {
            "dimension": self.dimension,
            "subscriptions": self.subscriptions,
            "distinct_values": self.distinct,
            "histogram": self.bounds,
            "rank_error": self.rank_error,
            "hot_keys": [one._asdict() for one in self.hot],
        }


def is_stale(points: Sequence[PointStatistics], present: int) -> bool:
    """Whether a group has changed so much since that what was known of it then says nothing of it any more.

    >>> points = PointStatistics("x >=", 100, 90.0, None, 0.0), PointStatistics("y =", 30, 90.0, None, 0.0)
    >>> [is_stale(points, now) for now in (25, 24, 400, 401)]
    [False, True, False, True]
    """
    then = max(one.subscriptions for one in points)
    return then > STALE * present or present > STALE * then


@dataclass(frozen=True)
class RunFigures:
    """All figures of one run but its training set; columns by table id, points by group id.

    `stale`: groups that have changed too much since. What the run says of them is shown, and nothing is decided by it.
    """

    columns: Mapping[int, Sequence[ColumnStatistics]] = field(default_factory=dict)
    joins: Sequence[JoinStatistics] = ()
    points: Mapping[int, Sequence[PointStatistics]] = field(default_factory=dict)
    stale: frozenset[int] = frozenset()
    in_memory: frozenset[int] = frozenset()
    """groups whose points are constants in memory, not of the run"""

    def with_constants(self, points: Mapping[int, Sequence[PointStatistics]]) -> RunFigures:
        """The same with the constants in memory of groups that the run has not seen, or that have changed since."""
        return replace(
            self, points={**self.points, **points}, stale=self.stale - {*points}, in_memory=frozenset(points)
        )

    def histograms_of(self, group: int) -> str:
        """Which histograms say what the subscriptions of a group select, in words."""
        return IN_MEMORY if group in self.in_memory else OF_RUN

    def column(self, table: int, name: str) -> ColumnStatistics | None:
        return next((one for one in self.columns.get(table, ()) if one.name == name), None)

    def points_of(self, group: int) -> dict[str, PointStatistics]:
        """The dimensions of a group by name; none if it is stale."""
        return {} if group in self.stale else {one.dimension: one for one in self.points.get(group, ())}

    @cached_property
    def event_shares(self) -> dict[int, float]:
        """The share of each table that is joined in all events."""
        return {side.table: side.event_share for join in self.joins for side in join}

    def rows_per_key_alone(self) -> RunFigures:
        """What a server without a run counts in the rows: rows per key, but no shares of events, skew or numbers of keys."""
        joins = [
            JoinStatistics(*(side._replace(event_share=0.0, skew=1.0, keys=0) for side in join))
            for join in self.joins
        ]
        return RunFigures(joins=joins)

    def side(self, table: int, columns: Set[str]) -> SideStatistics | None:
        """How the rows of a table share keys of these columns."""
        sides = (side for join in self.joins for side in join)
        return next((one for one in sides if one.table == table and {*one.columns} == columns), None)


NO_FIGURES = RunFigures()
