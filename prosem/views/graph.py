"""The views of all tenants as a graph: one event flows through every view that depends on its table, at any depth.

Views are in topological order: a view is added after those that it reads. Each is stepped at most once per event, when all
its inputs have their net changes, and its rows are stored before a later view is stepped. If a view cannot have a row,
what the event did to the views before it is undone.

Cost per event: the operators of the views whose inputs changed; views that the event does not reach cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prosem.values.errors import ViewRowError
from prosem.values.model import Key, Row, RowChange, Table, View
from prosem.views.definition import ViewDefinition
from prosem.views.operator import Changes, ViewOperator

Put = Callable[[View, Key, Row | None], None]  # stores or removes a row of a view
Effects = list[tuple[View, list[RowChange]]]  # in topological order, views without a change left out


class Node(NamedTuple):
    view: View
    definition: ViewDefinition
    operator: ViewOperator
    inputs: frozenset[int]  # ids of tables


class ViewGraph:
    def __init__(self) -> None:
        self._nodes: dict[View, Node] = {}  # in topological order
        self._reached: dict[Table, tuple[Node, ...]] = {}  # by table, those that an event of it may reach

    def __iter__(self) -> Iterator[View]:
        return iter(self._nodes)

    def __contains__(self, view: View) -> bool:
        return view in self._nodes

    def add(self, definition: ViewDefinition, operator: ViewOperator) -> None:
        """Take a view, its operator built, after the views that it reads."""
        missing = [one for one in definition.view.inputs if isinstance(one, View) and one not in self._nodes]
        if missing:
            raise ValueError(f"{definition.view.name} reads {missing[0].name}, which is not in the graph")
        ids = frozenset(table.id for table in definition.view.inputs)
        self._nodes[definition.view] = Node(definition.view, definition, operator, ids)
        self._reached.clear()

    def remove(self, view: View) -> None:
        """Forget a view that no other view reads."""
        users = self.dependents(view)
        if users:
            raise ValueError(f"{users[0].name} reads {view.name}")
        del self._nodes[view]
        self._reached.clear()

    def definition(self, view: View) -> ViewDefinition:
        return self._nodes[view].definition

    def dependents(self, table: Table) -> list[View]:
        """The views that have the table or view in their FROM."""
        return [view for view in self._nodes if table in view.inputs]

    def is_read(self, table: Table) -> bool:
        """Whether an event of the table may change a view."""
        return bool(self._reach(table))

    def propagate(self, table: Table, key: Key, old: Row | None, new: Row | None, put: Put) -> Effects:
        """One event, which the table's rows have taken, through all views; `put` stores the rows of views.

        The tables that this one extends see the event too, cut to their columns. ViewRowError if a view cannot have a row
        of it: then no view has changed.
        """
        nodes = self._reach(table)
        if not nodes:
            return []
        changes: dict[int, Sequence[RowChange]] = {table.id: (RowChange(key, old, new),)}
        for ancestor in table.ancestors:
            changes[ancestor.id] = (RowChange(key, _cut(old, ancestor), _cut(new, ancestor)),)
        stepped: list[tuple[Node, list[RowChange]]] = []
        try:
            for node in nodes:
                if node.inputs.isdisjoint(changes):
                    continue
                found = node.operator.apply(changes)
                stepped.append((node, found))
                if found:
                    changes[node.view.id] = found
                    for change in found:
                        put(node.view, change.key, change.new)
        except ViewRowError:
            _take_back(stepped, changes, put)
            raise
        return [(node.view, found) for node, found in stepped if found]

    def undo(self, table: Table, key: Key, old: Row | None, new: Row | None, put: Put) -> Effects:
        """Take back the last event, which went from `old` to `new`; the table's rows have been set back."""
        return self.propagate(table, key, new, old, put)

    def _reach(self, table: Table) -> tuple[Node, ...]:
        """The views that read the table or one that it extends, directly or through other views, in order."""
        reached = self._reached.get(table)
        if reached is None:
            sources: set[Table] = {table, *table.ancestors}
            found = []
            for view, node in self._nodes.items():
                if not sources.isdisjoint(view.inputs):
                    sources.add(view)
                    found.append(node)
            reached = self._reached[table] = tuple(found)
        return reached


def _take_back(stepped: Sequence[tuple[Node, list[RowChange]]], changes: Changes, put: Put) -> None:
    """Undo an event in the views that have taken it."""
    inverse = {id: [RowChange(key, new, old) for key, old, new in some] for id, some in changes.items()}
    for node, found in reversed(stepped):
        node.operator.apply(inverse)
        for change in found:
            put(node.view, change.key, change.old)


def _cut(row: Row | None, table: Table) -> Row | None:
    """A row as a table that its own one extends sees it."""
    return None if row is None else row[: len(table.columns)]
