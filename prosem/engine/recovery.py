"""The state in memory from PostgreSQL: rows, then groups and statements, then subscriptions, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable

from prosem.engine.state import EngineState
from prosem.language.parse import parse
from prosem.store.recovery import load
from prosem.types.registry import recognise
from prosem.values.errors import ProsemError, SetupError


def recover(
    url: str, state: EngineState, tell: Callable[..., None], *, restart: bool = True, epoch: int | None = None
) -> int:
    """Fill an empty state; returns the seq after which everything can be replayed. `tell` is a logger's info."""
    start = time.monotonic()
    with load(url, restart=restart, epoch=epoch) as loaded:
        stored = loaded.state
        state.seq = stored.last_seq
        tables, groups = state.table_store, state.group_store
        state.next_table = stored.counters.table
        groups.next_group, groups.next_statement = stored.counters.group, stored.counters.statement
        state.registry.reserve(stored.counters.sid)
        state.marks.moves = loaded.last_move()
        for table in loaded.tables:
            tables.add(table)
        for table, rows in loaded.rows(*loaded.tables):
            tables.load(table, rows)
        for table in loaded.tables:
            tell("recovery: table %s has %d rows", table.name, len(tables.rows[table.id]))
        for statement in loaded.statements:
            groups.add_statement(statement)
        for group in loaded.groups:
            seen = [state.tables(group.tenant)[name] for name in group.tables]
            form = recognise(parse(group.sample_sql), seen, group.sample_notify)
            groups.add_group(group, form)
        count = 0
        for chunk in loaded.subscriptions():
            try:
                state.subscribing.restore(chunk)
            except ProsemError as error:
                raise SetupError(f"a stored subscription cannot be read any more: {error.detail}") from error
            count += len(chunk)
            if count % 100_000 < len(chunk):
                tell("recovery: %d subscriptions", count)
        state.marks.restore(loaded.marks())
        for space, kept in loaded.items().items():
            if space in groups.keeping:
                groups.keeping[space].restore_items(kept)
    tell("recovery: done at seq %d with %d subscriptions, %.1f s", state.seq, count, time.monotonic() - start)
    return stored.retained_after
