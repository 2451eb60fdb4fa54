"""The views of all tenants as a graph: one event flows through every view that depends on its table, at any depth.

Views are in topological order: a view is added after those that it reads. Each is stepped at most once per event, when all
its inputs have their net changes, and its rows are stored before a later view is stepped. If a view cannot have a row,
what the event did to the views before it is undone.

Cost per event: the operators of the views whose inputs changed; views that the event does not reach cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        self._reached: dict[tuple[int, ...], tuple[Node, ...]] = {}  # by ids of tables that change together

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

    def remove(self, view: View) -> Node:
        """Forget a view that no other view reads; what was known of it."""
        users = self.dependents(view)
        if users:
            raise ValueError(f"{users[0].name} reads {view.name}")
        node = self._nodes.pop(view)
        self._reached.clear()
        return node

    def dependents(self, table: Table) -> list[View]:
        """The views that have the table or view in their FROM."""
        return [view for view in self._nodes if table in view.inputs]

    def is_read(self, table: Table) -> bool:
        """Whether an event of the table may change a view."""
        return bool(self._nodes) and bool(self._reach((table.id, *(one.id for one in table.ancestors))))

    def propagate(self, changes: Changes, put: Put) -> Effects:
        """The changes of tables at one event, through all views; `put` stores the rows of views.

        ViewRowError if a view cannot have a row of it: then no view has changed.
        """
        nodes = self._reach(tuple(changes))
        if not nodes:
            return []
        known = dict(changes)
        stepped: list[tuple[Node, list[RowChange]]] = []
        try:
            for node in nodes:
                if node.inputs.isdisjoint(known):
                    continue
                found = node.operator.apply(known)
                stepped.append((node, found))
                if found:
                    known[node.view.id] = found
                    for change in found:
                        put(node.view, change.key, change.new)
        except ViewRowError:
            opposite = inverse(known)
            for node, found in reversed(stepped):
                node.operator.apply(opposite)
                for change in found:
                    put(node.view, change.key, change.old)
            raise
        return [(node.view, found) for node, found in stepped if found]

    def undo(self, changes: Changes, put: Put) -> Effects:
        """Take back the last event, which made these changes."""
        return self.propagate(inverse(changes), put)

    def _reach(self, ids: tuple[int, ...]) -> tuple[Node, ...]:
        """The views that read one of these tables, directly or through other views, in order."""
        reached = self._reached.get(ids)
        if reached is None:
            sources, found = set(ids), []
            for node in self._nodes.values():
                if not sources.isdisjoint(node.inputs):
                    sources.add(node.view.id)
                    found.append(node)
            reached = self._reached[ids] = tuple(found)
        return reached


def changes_of(table: Table, key: Key, old: Row | None, new: Row | None) -> Changes:
    """What an event changes in its table and, cut to their columns, in those that it extends."""
    found = {table.id: (RowChange(key, old, new),)}
    for one in table.ancestors:
        width = len(one.columns)
        cut = RowChange(key, None if old is None else old[:width], None if new is None else new[:width])
        found[one.id] = (cut,)
    return found


def inverse(changes: Changes) -> Changes:
    """The changes that take these back."""
    return {id: [RowChange(key, new, old) for key, old, new in some] for id, some in changes.items()}
