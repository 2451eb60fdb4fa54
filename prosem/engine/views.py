"""All views in memory: which table or view each reads, their operators, and views that are being built.

Views are numbered with the tables and read smaller numbers only, or, unnamed ones, tables that exist: in the order in which
they were opened each comes after its inputs. An event passes through each view that depends on its table once, in that
order, so that a view over two others sees both changed. The rows of views are kept beside those of the tables.

A view is built aside: its operator fills from copies of its inputs' rows, in another thread, while what changes meanwhile is
queued; it is brought up to date, and takes its place in the engine's order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prosem.engine.tables import Tables, cut
from prosem.types.base import Rows
from prosem.values.errors import ViewRowError
from prosem.values.model import Key, Row, RowChange, Table, View
from prosem.views.definition import ViewDefinition
from prosem.views.operator import ViewOperator

Changes = dict[int, Sequence[RowChange]]  # table or view id → net changes of its rows at one event
FEW_QUEUED = 500  # events that may be left when a view takes its place in the order


class Step(NamedTuple):
    """What one view was given at an event, and the changes of its rows."""

    view: View
    given: Changes
    rows: list[RowChange]


class Derived(NamedTuple):
    """What an event led to: the changes of all rows, and the steps of the views in their order."""

    changes: Changes
    steps: list[Step]


class ViewBuild:
    """A view before it takes its place. `rows` are its contents; `queue` what changed since they were read.

    `fill` and `catch_up` run in a thread of the caller's; the engine appends to the queue.
    """

    def __init__(self, definition: ViewDefinition, rows_of: Callable[[Table], Rows]) -> None:
        self.definition, self.view = definition, definition.view
        self._copies = {table.id: dict(rows_of(table)) for table in self.view.inputs}
        self.operator = definition.open(lambda table: self._copies[table.id])
        self.rows: dict[Key, Row] = {}
        self.queue: list[Changes] = []
        self._lock = threading.Lock()

    @property
    def input_rows(self) -> int:
        return sum(map(len, self._copies.values()))

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
                _put(self.rows, change)
            for id, some in changes.items():
                for change in some:
                    _put(self._copies[id], change)


class Views:
    """Owned by the engine thread."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._open: dict[int, tuple[View, ViewOperator]] = {}  # each after its inputs
        self._downstream: dict[int, list[int]] = {}  # table or view → views that depend on it, at any depth
        self._builds: dict[int, ViewBuild] = {}

    def __iter__(self) -> Iterator[View]:
        return (view for view, _ in self._open.values())

    def __contains__(self, view: View) -> bool:
        return view.id in self._open

    def is_read(self, table: Table) -> bool:
        """Whether an event of the table concerns a view."""
        if not self._open and not self._builds:
            return False
        ids = {table.id, *(ancestor.id for ancestor in table.ancestors)}
        return bool(self._builds) or any(self._downstream.get(id) for id in ids)

    def readers(self, table: Table) -> list[View]:
        """The views that have the table in their FROM, named or not, also while they are being built."""
        return [view for view in (*self, *self.being_built) if any(one.id == table.id for one in view.inputs)]

    @property
    def being_built(self) -> list[View]:
        return [build.view for build in self._builds.values()]

    # -- opening and closing -------------------------------------------------------------------------------------
    def open(self, definition: ViewDefinition, progress: Callable[[int], None] | None = None) -> None:
        """Build a view at once, in this thread: O(rows)."""
        operator = definition.open(self._rows_of)
        rows = dict(operator.build(progress))
        self._place(definition.view, operator, rows)

    def begin(self, definition: ViewDefinition) -> ViewBuild:
        """Build a view aside; from now on changes of its inputs are queued for it."""
        build = self._builds[definition.view.id] = ViewBuild(definition, self._rows_of)
        return build

    def abandon(self, build: ViewBuild) -> None:
        self._builds.pop(build.view.id, None)

    def is_building(self, build: ViewBuild) -> bool:
        return self._builds.get(build.view.id) is build

    def finish(self, build: ViewBuild) -> None:
        """A view that was built aside takes its place; ViewRowError if what changed meanwhile forbids it."""
        del self._builds[build.view.id]
        build.apply_queue()
        build.operator.rebind(self._rows_of)
        self._place(build.view, build.operator, build.rows)

    def _rows_of(self, table: Table) -> Rows:
        return self._tables.visible[table.id]

    def _place(self, view: View, operator: ViewOperator, rows: dict[Key, Row]) -> None:
        self._tables.add_view(view, rows)
        self._open[view.id] = view, operator
        self._connect()

    def close(self, view: View) -> None:
        del self._open[view.id]
        self._tables.drop_view(view)
        self._connect()

    def _connect(self) -> None:
        self._downstream = {}
        reached: dict[int, set[int]] = {}  # view → all that it depends on
        for id, (view, _) in self._open.items():
            mine = reached[id] = set()
            for table in view.inputs:
                mine |= {table.id, *reached.get(table.id, ())}
            for source in mine:
                self._downstream.setdefault(source, []).append(id)

    # -- events --------------------------------------------------------------------------------------------------
    def propagate(self, changes: Changes) -> Derived:
        """Pass the changes of an event through all views that depend on them; ViewRowError leaves these as they were."""
        steps: list[Step] = []
        for id in self._concerned(changes):
            view, operator = self._open[id]
            given = {one.id: changes[one.id] for one in view.inputs if one.id in changes}
            if not given:
                continue
            try:
                rows = operator.apply(given)
            except ViewRowError:
                self.undo(Derived(changes, steps))
                raise
            steps.append(Step(view, given, rows))
            if rows:
                changes[id] = rows
                self._put(view, rows)
        return Derived(changes, steps)

    def _concerned(self, changes: Mapping[int, object]) -> list[int]:
        """In the order in which they were opened."""
        if len(changes) == 1:
            return self._downstream.get(next(iter(changes)), [])
        found = {id for table in changes for id in self._downstream.get(table, ())}
        return [id for id in self._open if id in found]

    def undo(self, derived: Derived) -> None:
        """Take an event back: the opposite changes, in the opposite order."""
        for view, given, rows in reversed(derived.steps):
            self._put(view, _inverse(rows))
            self._open[view.id][1].apply({id: _inverse(some) for id, some in given.items()})

    def note(self, derived: Derived) -> None:
        """An event counts: views that are being built take it later."""
        for build in self._builds.values():
            build.note(derived.changes)

    def _put(self, view: View, rows: Sequence[RowChange]) -> None:
        present = self._tables.rows[view.id]
        for change in rows:
            _put(present, change)


def changes_of(table: Table, key: Key, old: Row | None, new: Row | None) -> Changes:
    """What an event changes in its table and in those that it extends."""
    return {one.id: (RowChange(key, cut(old, one), cut(new, one)),) for one in (table, *table.ancestors)}


def _put(rows: dict[Key, Row], change: RowChange) -> None:
    if change.new is None:
        rows.pop(change.key, None)
    else:
        rows[change.key] = change.new


def _inverse(changes: Sequence[RowChange]) -> list[RowChange]:
    return [RowChange(change.key, change.new, change.old) for change in changes]
