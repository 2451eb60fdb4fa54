"""What other threads may read of the engine's memory: an immutable view as of a commit.

Each batch makes the next view and its commit publishes it before its callers are answered: a view shows what is stored,
and a caller finds its own change in it. What a batch did not change is shared with the view before.
Cost per batch: O(tables) if it has events, O(groups) if subscriptions came or went, both copies of one dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optimizer.cost import Weights
from prosem.engine.memory import EngineMemory
from prosem.store.log import WriteSet
from prosem.values.model import DEFAULT_TENANT, Group, JsonObject, Table, View
from prosem.values.statistics import NO_FIGURES, RunFigures

VISITS_EVERY_S = 0.2  # counted at most so often: it takes a look at every space


@dataclass(frozen=True, slots=True)
class EngineView:
    seq: int = 0
    timeline: str = ""
    row_counts: Mapping[int, int] = field(default_factory=dict)
    """by table id"""
    columns_in_memory: Mapping[int, tuple[str, ...]] | None = None
    """by table id, the names of those that are there; None: all are"""
    groups: Mapping[int, Group] = field(default_factory=dict)
    group_sizes: Mapping[int, int] = field(default_factory=dict)
    measured_spaces: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """the spaces that measurements are of, by the group and the part that they are kept under"""
    weights: Weights = field(default_factory=Weights)
    statistics: JsonObject | None = None
    """the run in force"""
    figures: RunFigures = NO_FIGURES
    """what it says of columns, joins and points"""
    estimate_errors: Mapping[str, float] = field(default_factory=dict)
    """by metric: about by which factor estimates were wrong lately"""
    unstreamed: int = 0
    """ephemeral subscriptions that have had no stream yet"""
    index_visits: int = 0
    """about: counted now and then"""
    visits_at: float = 0.0
    by_tenant: Mapping[str, Mapping[str, Table]] = field(default_factory=dict)

    def tables(self, tenant: str = DEFAULT_TENANT) -> Mapping[str, Table]:
        """The tables of a tenant by their names."""
        return self.by_tenant.get(tenant, {})

    def groups_of(self, tenant: str) -> list[Group]:
        return [group for group in self.groups.values() if group.tenant == tenant]

    def size(self, group: Group) -> int:
        """Its subscriptions."""
        return self.group_sizes.get(group.id, 0)


def whole_view(memory: EngineMemory) -> EngineView:
    """A view of all there is, after a recovery."""
    visits: dict[str, Any] = {"index_visits": _visits(memory), "visits_at": memory.clock.monotonic()}
    return replace(
        EngineView(), **_tables(memory), **_rows(memory), **_groups(memory), **_small(memory), **visits
    )


def next_view(before: EngineView, memory: EngineMemory, writes: WriteSet) -> EngineView:
    """The view after a batch that makes these writes."""
    changed = _small(memory)
    if writes.created is not None or writes.dropped is not None or writes.views or writes.dropped_views:
        changed |= _tables(memory) | _rows(memory) | _groups(memory)
    elif writes.rows:
        changed |= _rows(memory)
    if writes.subscriptions or writes.deleted or writes.groups or writes.unused_groups:
        changed |= _groups(memory)
    if writes.events and memory.clock.monotonic() - before.visits_at >= VISITS_EVERY_S:
        changed |= {"index_visits": _visits(memory), "visits_at": memory.clock.monotonic()}
        changed["estimate_errors"] = memory.chooser.decisions.errors()
    return replace(before, **changed)


def _small(memory: EngineMemory) -> dict[str, Any]:
    return {
        "seq": memory.seq,
        "timeline": memory.timelines.current,
        "weights": memory.chooser.weights,
        "statistics": memory.statistics,
        "figures": memory.group_store.figures,
        "unstreamed": len(memory.unstreamed),
    }


def _tables(memory: EngineMemory) -> dict[str, Any]:
    by_tenant: dict[str, dict[str, Table]] = {}
    for table in memory.table_store:
        by_tenant.setdefault(table.tenant, {})[table.name] = table
    return {"by_tenant": by_tenant}


def _rows(memory: EngineMemory) -> dict[str, Any]:
    return {"row_counts": {table: len(rows) for table, rows in memory.rows.items()}}


def _groups(memory: EngineMemory) -> dict[str, Any]:
    return {
        "groups": dict(memory.groups),
        "group_sizes": dict(memory.group_sizes),
        "measured_spaces": memory.group_store.measured_spaces(),
        "columns_in_memory": _columns(memory),
    }


def _columns(memory: EngineMemory) -> dict[int, tuple[str, ...]] | None:
    """Groups that come may have columns loaded."""
    store = memory.table_store
    if store.stored is None:
        return None
    tables = [table for table in store if not isinstance(table, View)]
    return {table.id: tuple(table.names[at] for at in store.held(table)) for table in tables}


def _visits(memory: EngineMemory) -> int:
    return sum(space.visits for space in memory.spaces.values())
