"""Where the constants of groups lie that the run in force has not seen, and how many subscriptions an event then affects.

A run of the statistics job has histograms of the columns of every table, whether a group compares them or not. Of a group
that is new, or that has changed much since the run, the constants are in memory: with a sample of them the run's columns
say as much as of a group that it has seen. Joins are arranged by it, and spaces are put in order by it while nothing was
measured there.

It loses where conditions depend on each other, and where events are not like those of the log.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from typing import Any, NamedTuple

from optimizer.plan import Expected
from prosem.engine.groups import Groups
from prosem.engine.subscriptions import SubscriptionRegistry
from prosem.language.dimensions import placed
from prosem.types import registry as types
from prosem.types.base import AdaptiveSpace
from prosem.values.model import Group, Table
from prosem.values.selectivity import selected_share, supposed_share
from prosem.values.statistics import (
    IN_MEMORY,
    OF_RUN,
    STALE,
    ColumnStatistics,
    HotKey,
    PointStatistics,
    RunFigures,
)
from prosem.values.undo import UndoLog
from prosem.values.wire import decode_exact

SAMPLE = 256  # subscriptions whose constants are read
FEWEST = 16  # below, they say too little to arrange a join anew
READ_GROUPS = 32  # between two looks: parameters are decoded for it, about 20 µs per subscription
LARGEST = 8  # groups of one space by which all of them are judged
BUCKETS = 64


class Share(NamedTuple):
    """Of its subscriptions that an event selects, the statistic behind it, and how many there were then."""

    share: float
    statistic: str
    size: int


class Constants:
    """Constants in memory, read once per group until it has four times as many subscriptions."""

    def __init__(self, groups: Groups, subscriptions: SubscriptionRegistry, undo: UndoLog) -> None:
        self._groups, self._subscriptions, self._undo = groups, subscriptions, undo
        self._of_joins: dict[int, tuple[int, list[PointStatistics]]] = {}  # by group, with its size then
        self._shares: dict[int, Share | None] = {}
        self._of_space: dict[int, list[Group]] | None = None
        self._reads_left = READ_GROUPS

    def forget(self) -> None:
        """Another run is in force."""
        self._of_joins.clear()
        self._shares.clear()
        self.look()

    def look(self) -> None:
        """Groups have come, grown and gone."""
        self._of_space, self._reads_left = None, READ_GROUPS
        sizes = self._groups.sizes
        for gone in self._of_joins.keys() - sizes.keys():
            del self._of_joins[gone]
        for group, known in list(self._shares.items()):
            if group not in sizes or known is None or sizes[group] > STALE * known.size:
                del self._shares[group]

    # -- joins ---------------------------------------------------------------------------------------------------
    def grown(self) -> RunFigures | None:
        """The figures in force with the constants in memory of joins that the run does not know.

        None if none of these is new, or has four times as many subscriptions as when its constants were read.
        """
        figures, sizes, by_id = self._groups.figures, self._groups.sizes, self._groups.by_id
        if not figures.columns:
            return None
        fresh = [group for group in by_id.values() if self._is_fresh(group, figures)]
        for group in fresh:
            self._undo.keep(self._of_joins, group.id)
            self._of_joins[group.id] = sizes[group.id], self._read(group.id)
        known = {group: points for group, (_, points) in self._of_joins.items() if group in by_id}
        return figures.with_constants(known) if fresh else None

    def _is_fresh(self, group: Group, figures: RunFigures) -> bool:
        size, (before, _) = self._groups.sizes[group.id], self._of_joins.get(group.id, (0, []))
        is_large = size >= max(FEWEST, STALE * before) and not figures.points_of(group.id)
        return is_large and isinstance(self._groups.spaces.get(group.space), AdaptiveSpace)

    def _read(self, group: int) -> list[PointStatistics]:
        """Histograms of a sample of the constants of a group, by dimension."""
        size, sids = self._groups.sizes[group], self._subscriptions.some(group, SAMPLE)
        constants: dict[str, list[Any]] = {}
        subscriptions: Counter[str] = Counter()
        for sid in sids:
            params, compared = decode_exact(self._subscriptions.params(sid)), set()
            for one in types.dimensions(self._groups.form(self._subscriptions.statement(sid))):
                found = [placed(value, one.type) for value in one.constants(params)]
                if values := [value for value in found if value is not None]:
                    constants.setdefault(one.name, []).extend(values)
                    compared.add(one.name)
            subscriptions.update(compared)
        return [
            _histogram(name, sorted(values), max(1, round(size * subscriptions[name] / len(sids))), size)
            for name, values in constants.items()
        ]

    # -- what is expected of an event ------------------------------------------------------------------------------
    def expected(self, space: int) -> Expected | None:
        """About how many subscriptions of a space an event affects, by columns of the run; None if they say nothing."""
        if not self._groups.figures.columns:
            return None
        if self._of_space is None:
            self._of_space = {}
            for group in self._groups.by_id.values():
                for at in self._groups.taking(group):
                    self._of_space.setdefault(at, []).append(group)
        sizes, groups = self._groups.sizes, self._of_space.get(space, [])
        largest = nlargest(LARGEST, groups, key=lambda group: sizes.get(group.id, 0))
        known = [(sizes.get(group.id, 0), share) for group in largest if (share := self._share(group))]
        counted = sum(size for size, _ in known)
        if not counted:
            return None
        affected = sum(size * one.share for size, one in known)
        every = sum(sizes.get(group.id, 0) for group in groups)
        by = ", ".join(dict.fromkeys(one.statistic for _, one in known))
        return Expected(affected * every / counted, by)

    def _share(self, group: Group) -> Share | None:
        if group.id not in self._shares:
            self._shares[group.id] = self._computed(group)
        return self._shares[group.id]

    def _computed(self, group: Group) -> Share | None:
        figures, form = self._groups.figures, self._groups.form_of(group)
        compared = {one.name for one in types.dimensions(form)}
        known: list[tuple[Table, ColumnStatistics, str]] = []
        for table in form.tables:
            for column in figures.columns.get(table.id, ()):
                name = f"{table.name}.{column.name}" if len(form.tables) > 1 else column.name
                if compared & {f"{name} {op}" for op in ("=", ">=", "<=")} and column.name in table.position:
                    known.append((table, column, name))
        if not known:
            return None
        points, by = figures.points_of(group.id), OF_RUN
        if not points and self._reads_left:
            self._reads_left -= 1
            points = {one.dimension: one for one in self._read(group.id)}
            by = IN_MEMORY
        if not points:
            by = "distinct values, hot keys"
        share = 1.0
        for table, column, name in known:
            found = selected_share(table, column, points, name)
            share *= supposed_share(column, f"{name} =" in compared) if found is None else found
        return Share(share, by, self._groups.sizes.get(group.id, 0))


def _histogram(name: str, values: list[Any], subscriptions: int, size: int) -> PointStatistics:
    """Of sorted values of a sample; where nearly all of them are different, so are those that are not in it."""
    count, frequency = len(values), Counter(values)
    bounds = [values[(count - 1) * at // BUCKETS] for at in range(BUCKETS + 1)]
    is_varied = 2 * len(frequency) > count
    distinct = len(frequency) * (max(1.0, size / SAMPLE) if is_varied else 1.0)
    hot = [HotKey(value, times / count) for value, times in frequency.most_common(BUCKETS) if times > 2]
    return PointStatistics(name, subscriptions, distinct, bounds, 1 / count, hot)
