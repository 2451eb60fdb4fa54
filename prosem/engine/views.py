"""All views in memory: the graph that changes flow through, their rows, and views that are being built.

The rows of views are kept beside those of the tables.

A view is built aside: its operator fills from copies of its inputs' rows, in another thread, while what changes meanwhile is
queued; it is brought up to date, and takes its place in the engine's order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from copy import copy
from typing import NamedTuple

from prosem.engine.tables import Content, Tables, put
from prosem.values.model import Key, Row, Table, View
from prosem.values.undo import NO_UNDO, UndoLog
from prosem.views.definition import ViewDefinition
from prosem.views.graph import Effects, ViewGraph, inverse
from prosem.views.operator import Changes, ViewOperator

FEW_QUEUED = 500  # events that may be left when a view takes its place in the order


class Derived(NamedTuple):
    """What an event led to: the changes of its tables, and those of the views that depend on them, in their order."""

    changes: Changes
    effects: Effects


class ViewBuild:
    """A view before it takes its place. `rows` are its contents; `queue` what changed since they were read.

    `fill` and `catch_up` run in a thread of the caller's; the engine appends to the queue.
    """

    def __init__(self, definition: ViewDefinition, rows_of: Callable[[Table], Content]) -> None:
        self.definition, self.view = definition, definition.view
        self._copies = {table.id: copy(rows_of(table)) for table in self.view.inputs}
        self.operator = definition.open(lambda table: self._copies[table.id])
        self.rows: dict[Key, Row] = {}
        self.queue: list[Changes] = []
        self.is_abandoned = False
        """It will not take its place. Set by the thread that builds it, so no state of the engine keeps it alive."""
        self._lock = threading.Lock()

    @property
    def input_rows(self) -> int:
        return sum(map(len, self._copies.values()))

    def reopen(self) -> None:
        """Read from the copies again: it was in its place, and that was taken back."""
        self.operator.rebind(lambda table: self._copies[table.id])

    def fill(self, progress: Callable[[int], None] | None = None) -> None:
        """The contents as of the copies; ViewRowError names a row that the view cannot have."""
        self.rows.update(self.operator.build(progress))

    def note(self, changes: Changes) -> None:
        mine = {table.id: changes[table.id] for table in self.view.inputs if table.id in changes}
        if mine:
            with self._lock:
                self.queue.append(mine)

    def catch_up(self) -> None:
        """Until only few events wait."""
        while len(self.queue) > FEW_QUEUED:
            self.apply_queue()

    def apply_queue(self) -> None:
        with self._lock:
            queue, self.queue = self.queue, []
        for changes in queue:
            for change in self.operator.apply(changes):
                put(self.rows, change.key, change.new)
            for id, some in changes.items():
                for change in some:
                    put(self._copies[id], change.key, change.new)


class Views:
    """The graph of all views with the rows of each. Owned by the engine thread."""

    def __init__(self, tables: Tables, undo: UndoLog = NO_UNDO) -> None:
        self._tables, self._undo = tables, undo
        self._graph = ViewGraph()
        self._builds: dict[int, ViewBuild] = {}

    def __iter__(self) -> Iterator[View]:
        return iter(self._graph)

    def __contains__(self, view: View) -> bool:
        return view in self._graph

    def is_read(self, table: Table) -> bool:
        """Whether an event of the table concerns a view."""
        return bool(self._builds) or self._graph.is_read(table)

    def readers(self, table: Table) -> list[View]:
        """The views that have the table in their FROM, named or not, also while they are being built."""
        building = [view for view in self.being_built if table in view.inputs]
        return [*self._graph.dependents(table), *building]

    @property
    def being_built(self) -> list[View]:
        return [build.view for build in self._wanted_builds()]

    def _wanted_builds(self) -> Collection[ViewBuild]:
        """Abandoned ones are forgotten here."""
        for id in [id for id, build in self._builds.items() if build.is_abandoned]:
            del self._builds[id]
        return self._builds.values()

    # -- opening and closing -------------------------------------------------------------------------------------
    def open(self, definition: ViewDefinition, progress: Callable[[int], None] | None = None) -> None:
        """Build a view at once, in this thread: O(rows)."""
        operator = definition.open(self._rows_of)
        self._place(definition, operator, dict(operator.build(progress)))

    def begin(self, definition: ViewDefinition) -> ViewBuild:
        """Build a view aside; from now on changes of its inputs are queued for it."""
        build = self._builds[definition.view.id] = ViewBuild(definition, self._rows_of)
        self._undo.add(self._builds.pop, build.view.id, None)
        return build

    def is_building(self, build: ViewBuild) -> bool:
        return self._builds.get(build.view.id) is build and not build.is_abandoned

    def finish(self, build: ViewBuild) -> None:
        """A view that was built aside takes its place; ViewRowError if what changed meanwhile forbids it."""
        del self._builds[build.view.id]  # for good if the next line raises: some of the queue is applied then
        build.apply_queue()
        self._undo.add(self._unfinish, build)
        build.operator.rebind(self._rows_of)
        self._place(build.definition, build.operator, build.rows)

    def _unfinish(self, build: ViewBuild) -> None:
        self._builds[build.view.id] = build
        build.reopen()

    def _rows_of(self, table: Table) -> Content:
        return self._tables.visible[table.id]

    def _place(self, definition: ViewDefinition, operator: ViewOperator, rows: Content) -> None:
        self._tables.add_view(definition.view, rows)
        self._graph.add(definition, operator)
        self._undo.add(self._graph.remove, definition.view)

    def close(self, view: View) -> None:
        node = self._graph.remove(view)
        self._undo.add(self._graph.add, node.definition, node.operator)
        self._tables.drop_view(view)

    # -- events --------------------------------------------------------------------------------------------------
    def propagate(self, changes: Changes) -> Derived:
        """Pass the changes of an event through all views that depend on them; ViewRowError leaves these as they were."""
        return Derived(changes, self._graph.propagate(changes, self._put))

    def undo(self, derived: Derived) -> None:
        self._graph.undo(derived.changes, self._put)

    def take_back(self, derived: Derived) -> None:
        """The last event that counted does not any more."""
        self.note(Derived(inverse(derived.changes), self._graph.undo(derived.changes, self._put)))

    def note(self, derived: Derived) -> None:
        """An event counts: views that are being built take it later."""
        if self._builds:
            changes = {**derived.changes, **{view.id: rows for view, rows in derived.effects}}
            for build in self._wanted_builds():
                build.note(changes)

    def _put(self, view: View, key: Key, row: Row | None) -> None:
        put(self._tables.rows[view.id], key, row)
