"""Tables, views over them and their graph, driven event by event; every step is compared with a recomputation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from prosem.values.columns import column_type
from prosem.values.errors import ViewRowError
from prosem.values.model import Column, Key, Row, Table
from prosem.views.definition import ViewDefinition
from prosem.views.expressions import EvaluationError
from prosem.views.graph import Effects, ViewGraph, changes_of
from prosem.views.operator import ViewOperator
from tests.support.naive_view import recomputed


def table(
    id: int, name: str, columns: Mapping[str, str], key: Sequence[str], parent: Table | None = None
) -> Table:
    made = tuple(Column(one, column_type(kind), one not in key) for one, kind in columns.items())
    return Table(id, name, made, tuple(key), parent=parent)


class World:
    """Rows of tables (those of heirs among them, cut) and of views, and the graph that keeps the latter."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = list(tables)
        self.rows: dict[int, dict[Key, Row]] = {one.id: {} for one in tables}
        self.graph = ViewGraph()
        self.definitions: list[ViewDefinition] = []
        self.operators: list[ViewOperator] = []

    def rows_of(self, table: Table) -> dict[Key, Row]:
        return self.rows[table.id]

    def recompute(self, definition: ViewDefinition, rows: Mapping[int, Mapping[Key, Row]]) -> dict[Key, Row]:
        """The rows that a view must have; EvaluationError if it cannot have one of them."""
        return recomputed(definition, lambda one: rows[one.id])

    def put(self, table: Table, key: Key, row: Row | None) -> None:
        if row is None:
            del self.rows[table.id][key]
        else:
            self.rows[table.id][key] = row

    def add(self, definition: ViewDefinition) -> bool:
        """Make a view; False if it cannot have a row, as the recomputation says too."""
        operator = definition.open(self.rows_of)
        try:
            expected = self.recompute(definition, self.rows)
        except EvaluationError:
            with pytest.raises(ViewRowError, match=definition.view.name):
                dict(operator.build())
            return False
        rows = dict(operator.build())
        assert rows == expected
        self.rows[definition.view.id] = rows
        self.graph.add(definition, operator)
        self.definitions.append(definition)
        self.operators.append(operator)
        return True

    def event(self, table: Table, key: Key, new: Row | None) -> Effects | None:
        """One event through all views; None if a view cannot have a row of it, which leaves everything as it was."""
        old = self.rows[table.id].get(key)
        if old is None and new is None:
            return []
        before = {view.id: dict(self.rows[view.id]) for view in self.graph}
        states = self.states()
        self.put_base(table, key, new)
        expected = self._expected()
        try:
            effects = self.graph.propagate(changes_of(table, key, old, new), self.put)
        except ViewRowError:
            assert expected is None, "the recomputation has all rows"
            assert {view.id: self.rows[view.id] for view in self.graph} == before
            assert self.states() == states
            self.put_base(table, key, old)
            return None
        assert expected is not None, "the recomputation fails"
        for view in self.graph:
            assert self.rows[view.id] == expected[view.id], view.sql or view.name
        self._check_effects(effects, before)
        return effects

    def undo(self, table: Table, key: Key, old: Row | None, new: Row | None) -> Effects:
        self.put_base(table, key, old)
        return self.graph.undo(changes_of(table, key, old, new), self.put)

    def states(self) -> list[object]:
        return [operator.state() for operator in self.operators]

    def check_states(self) -> None:
        """What operators keep is a function of the tables' rows."""
        for definition, operator in zip(self.definitions, self.operators, strict=True):
            fresh = definition.open(self.rows_of)
            assert dict(fresh.build()) == self.rows[definition.view.id]
            assert fresh.state() == operator.state(), definition.view.name

    def put_base(self, table: Table, key: Key, row: Row | None) -> None:
        for one in (table, *table.ancestors):
            cut = None if row is None else row[: len(one.columns)]
            if cut is not None or key in self.rows[one.id]:
                self.put(one, key, cut)

    def _expected(self) -> dict[int, dict[Key, Row]] | None:
        """The rows of all views, recomputed from the base tables; None if an expression fails."""
        found = {one.id: self.rows[one.id] for one in self.tables}
        try:
            for definition in self.definitions:
                found[definition.view.id] = self.recompute(definition, found)
        except EvaluationError:
            return None
        return found

    def _check_effects(self, effects: Effects, before: Mapping[int, Mapping[Key, Row]]) -> None:
        order = list(self.graph)
        places = [order.index(view) for view, _ in effects]
        assert places == sorted(set(places)), "each view once, in topological order"
        changed = dict(effects)
        for view in order:
            changes = changed.get(view, [])
            assert (view in changed) == bool(changes)
            expected = {
                key: (before[view.id].get(key), self.rows[view.id].get(key))
                for key in before[view.id].keys() | self.rows[view.id].keys()
                if before[view.id].get(key) != self.rows[view.id].get(key)
            }
            assert len(changes) == len(expected)
            assert {change.key: (change.old, change.new) for change in changes} == expected
