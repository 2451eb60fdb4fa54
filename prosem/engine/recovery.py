"""The state in memory from what is stored: rows, then groups and statements, then subscriptions, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from prosem.engine.columns_used import Used, every_column, together, used_by_form, used_by_view
from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.store.recovery import StoredState, StoredSubscription, StoredView, load
from prosem.values.errors import ProsemError, SetupError
from prosem.values.model import Group, PlaceMark, Row, Statement, Table
from prosem.values.packed_columns import Arrays
from prosem.views.subscription import named_view, recognise


class Stored(Protocol):
    """One consistent view of all that is stored."""

    state: StoredState
    tables: list[Table]
    views: list[StoredView]
    groups: list[Group]
    statements: list[Statement]

    def rows(
        self, *tables: Table, columns: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[Table, Sequence[Row] | Arrays]]:
        """`columns`: which are to be read of tables, by id."""
        ...

    def subscriptions(self) -> Iterator[list[StoredSubscription]]: ...
    def last_move(self) -> int: ...
    def marks(self) -> Mapping[int, tuple[int, PlaceMark]]: ...
    def items(self) -> Mapping[int, Sequence[bytes]]: ...


def recover(
    url: str,
    state: EngineState,
    report: Callable[..., None],
    *,
    restart: bool = True,
    epoch: int | None = None,
) -> int:
    """Fill an empty state; returns the seq after which everything can be replayed. `report` is a logger's info."""
    start = time.monotonic()
    with load(url, restart=restart, epoch=epoch) as stored:
        count = fill(state, stored, report)
    report(
        "recovery: done at seq %d with %d subscriptions, %.1f s", state.seq, count, time.monotonic() - start
    )
    return stored.state.retained_after


def _fill_view(state: EngineState, stored: StoredView, report: Callable[..., None]) -> None:
    """Build a view from the rows of its inputs, which come before it."""
    try:
        definition = named_view(
            stored.sql, state.tables(stored.tenant), stored.id, stored.name, stored.tenant
        )
        state.views.open(definition)
    except ProsemError as error:
        raise SetupError(f"the stored view {stored.name!r} cannot be built: {error.detail}") from error
    report("recovery: view %s has %d rows", stored.name, len(state.rows[stored.id]))


def _used(stored: Stored) -> Used:
    """The columns that groups and views use, and all of tables that others extend."""
    catalogs: dict[str, dict[str, Table]] = {}
    for table in stored.tables:
        catalogs.setdefault(table.tenant, {})[table.name] = table
    several = [{one: every_column(one)} for table in stored.tables for one in table.ancestors]
    for view in stored.views:
        catalog = catalogs.setdefault(view.tenant, {})
        definition = named_view(view.sql, catalog, view.id, view.name, view.tenant)
        catalog[view.name] = definition.view
        several.append(used_by_view(definition))
    for group in stored.groups:
        query = replace(parse(group.sample_sql), per=group.per)
        form = recognise(query, catalogs.get(group.tenant, {}), group.sample_notify)
        several.append(used_by_form(form))
    return together(several)


def fill(state: EngineState, stored: Stored, report: Callable[..., None]) -> int:
    """Fill an empty state from what is stored; returns the number of subscriptions."""
    with state.undo.paused():
        return _fill(state, stored, report)


def _fill(state: EngineState, stored: Stored, report: Callable[..., None]) -> int:
    state.seq = stored.state.last_seq
    tables, groups, counters = state.table_store, state.group_store, stored.state.counters
    state.next_table = counters.table
    groups.next_group, groups.next_statement = counters.group, counters.statement
    state.registry.reserve(counters.sid)
    state.marks.moves = stored.last_move()
    used = {} if tables.stored is None else _used(stored)
    for table in stored.tables:
        tables.add(table, used.get(table, ()))
    held = {table.id: tables.held(table) for table in stored.tables}
    for table, rows in stored.rows(*stored.tables, columns=held):
        tables.load(table, rows)
    for table in stored.tables:
        report("recovery: table %s has %d rows", table.name, len(tables.rows[table.id]))
    for view in stored.views:
        _fill_view(state, view, report)
    for statement in stored.statements:
        groups.add_statement(statement)
    for group in stored.groups:
        query = replace(parse(group.sample_sql), per=group.per)
        groups.add_group(group, groups.recognise(query, group.sample_notify, group.tenant))
    count = 0
    for chunk in stored.subscriptions():
        try:
            state.subscribing.restore(chunk)
        except ProsemError as error:
            raise SetupError(f"a stored subscription cannot be read any more: {error.detail}") from error
        count += len(chunk)
        if count % 100_000 < len(chunk):
            report("recovery: %d subscriptions", count)
    state.marks.restore(stored.marks())
    for space, kept in stored.items().items():
        if space in groups.keeping:
            groups.keeping[space].restore_items(kept)
    return count
