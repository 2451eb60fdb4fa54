"""Views: defined, built aside, put into place and dropped; and what keeps a table or a view from being dropped."""

from __future__ import annotations

from collections.abc import Collection

from prosem.engine import commands as c
from prosem.engine.columns_used import used_by_view
from prosem.engine.memory import EngineMemory
from prosem.engine.subscribing import Subscribing
from prosem.engine.validate import identifier, known_view
from prosem.values.errors import ConflictError, RecoveringError
from prosem.values.model import Table, View
from prosem.views.subscription import named_view

_LISTED = 5  # names in a message


class Defining:
    """What the definers of views ask for."""

    def __init__(self, memory: EngineMemory, subscribing: Subscribing) -> None:
        self._memory, self._subscribing = memory, subscribing

    def prepare(self, command: c.PrepareView) -> c.PreparedView:
        """Check a definition and begin to build it aside. Copies the rows of its inputs: O(rows) of memory moved."""
        memory, tenant = self._memory, command.scope.tenant
        name, tables = identifier(command.name, "/name"), memory.tables(tenant)
        known = tables.get(name)
        if isinstance(known, View) and known.sql == command.sql:
            return c.PreparedView(known, None)
        definition = named_view(command.sql, tables, memory.next_table, name, tenant)
        if known is None and self._is_being_built(name, tenant):
            raise ConflictError(
                f"a view {name!r} is being built; wait for it, or choose another name", "/name"
            )
        if known is not None:
            kind = "different view" if isinstance(known, View) else "table"
            raise ConflictError(f"a {kind} {name!r} exists; drop it first, or choose another name", "/name")
        memory.table_store.hold(used_by_view(definition))
        memory.undo.keep_attribute(memory, "next_table")
        memory.next_table += 1
        return c.PreparedView(definition.view, memory.views.begin(definition))

    def _is_being_built(self, name: str, tenant: str) -> bool:
        return any((view.name, view.tenant) == (name, tenant) for view in self._memory.views.being_built)

    def install(self, command: c.InstallView) -> View:
        memory, build = self._memory, command.build
        if not memory.views.is_building(build):
            raise RecoveringError("the server has recovered while the view was being built; send it again")
        memory.views.finish(build)
        memory.batch.writes.views.append(build.view)
        return build.view

    def drop(self, command: c.DropView) -> None:
        memory = self._memory
        view = known_view(memory.tables(command.scope.tenant), command.name)
        unstreamed = self._subscribing.unstreamed_users(view)
        check_unused(memory, unstreamed, view)
        self._subscribing.end(unstreamed)
        memory.group_store.forget(view)
        memory.views.close(view)
        memory.batch.writes.dropped_views.append(view.id)


def check_unused(memory: EngineMemory, disregarded: Collection[int], table: Table) -> None:
    """ConflictError that names what uses a table or a view; subscriptions that may end by themselves do not count."""
    kind = "view" if isinstance(table, View) else "table"
    readers = [view.name for view in memory.views.readers(table) if not view.is_unnamed]
    if readers:
        raise ConflictError(
            f"the {kind} {table.name!r} is used by {_listed('view', readers)}; drop that first"
        )
    groups = memory.group_store.using(table)
    count = sum(memory.group_sizes[group.id] for group in groups) - len(disregarded)
    if count:
        names = _listed("group", [group.name for group in groups if memory.group_sizes[group.id]])
        raise ConflictError(
            f"{count} subscriptions use the {kind} {table.name!r} (those of {names}); delete them first"
        )


def _listed(kind: str, names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(names[:_LISTED])}{more}"
