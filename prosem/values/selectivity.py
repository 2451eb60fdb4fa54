"""How many subscriptions select a row, by histograms: of a column's values, and of the constants compared with them.

Both are of a run of the statistics job; constants may also be those in memory. It loses where conditions on several columns
depend on each other: they are taken as independent by all that use this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from prosem.values.columns import ColumnType
from prosem.values.model import Table
from prosem.values.statistics import Bounds, ColumnStatistics, HotKey, PointStatistics

_UNORDERED = ("bytea", "jsonb")  # their histograms are not in the order of what the API shows


def selected_share(
    table: Table, column: ColumnStatistics, points: Mapping[str, PointStatistics], name: str
) -> float | None:
    """The share of subscriptions whose range on a column holds a value of it, on average; None if that is not known.

    A row with a NULL is held by none. Shares below the error of the ranks of column and constants are not distinguished. A
    subscription without an end has no constant for it. O(bounds · log bounds).
    """
    type = table.columns[table.position[column.name]].type
    equal, low, high = (points.get(f"{name} {op}") for op in ("=", ">=", "<="))
    if not (equal or low or high) or (equal is None and (column.bounds is None or type.name in _UNORDERED)):
        return None
    share = _equal_share(column, equal, type) if equal else _ranged_share(column, low, high, points, type)
    error = column.rank_error + max(one.share_error for one in (equal, low, high) if one)
    return None if share is None else column.present * max(share, error)


def supposed_share(column: ColumnStatistics, is_equal: bool) -> float:
    """The same where nothing is known of the constants: a random range holds 1/3 of the values, and constants are spread as
    the values are."""
    return column.present * (1 / column.effective_distinct if is_equal else 1 / 3)


def _equal_share(column: ColumnStatistics, constants: PointStatistics, type: ColumnType) -> float:
    """How likely a constant equals a value: of hot keys as often as both have them, of the others by the distinct values.

    A value that is hot in one of them alone is one of the others there.
    """
    values, asked = _hot(column.hot, type), _hot(constants.hot, type)
    others = max(1.0, column.distinct - len(values)), max(1.0, constants.distinct - len(asked))
    rest = max(0.0, 1 - sum(values.values())), max(0.0, 1 - sum(asked.values()))
    share = rest[0] * rest[1] / max(others)
    for value in values.keys() | asked.keys():
        share += values.get(value, rest[0] / others[0]) * asked.get(value, rest[1] / others[1])
    return min(1.0, share)


def _hot(hot: Sequence[HotKey], type: ColumnType) -> dict[Any, float]:
    return dict(zip(_ordered([one.value for one in hot], type), (one.share for one in hot), strict=True))


def _ranged_share(
    column: ColumnStatistics,
    low: PointStatistics | None,
    high: PointStatistics | None,
    points: Mapping[str, PointStatistics],
    type: ColumnType,
) -> float | None:
    """A range holds a value unless it begins above or ends below it, never both."""
    assert column.bounds is not None
    subscriptions = max(one.subscriptions for one in points.values())
    values = _ordered(column.bounds, type)
    begun = _ends(low, subscriptions, values, type, bisect_right)
    ended = _ends(high, subscriptions, values, type, bisect_left)
    if begun is None or ended is None:
        return None
    rest = 1 - (0 if low is None else low.subscriptions / subscriptions)  # they have no beginning
    return sum(max(0.0, rest + one - other) for one, other in zip(begun, ended, strict=True)) / len(values)


def _ends(
    found: PointStatistics | None, subscriptions: int, values: Sequence[Any], type: ColumnType, side: Any
) -> list[float] | None:
    """For each value the share of all subscriptions whose constant is below it (or at it: `bisect_right`)."""
    if found is None:
        return [0.0] * len(values)
    if not found.bounds:
        return None
    bounds, share = _ordered(found.bounds, type), found.subscriptions / subscriptions
    return [share * side(bounds, value) / len(bounds) for value in values]


def _ordered(bounds: Bounds, type: ColumnType) -> list[Any]:
    """Bounds as values that Python orders as the type does; numbers of columns may be texts, those of points are doubles."""
    return [float(one) for one in bounds] if type.numeric else list(bounds)
