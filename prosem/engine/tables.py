"""All tables and their rows in memory. A table is found by its tenant and its name: two tenants may have one of a name.

A table that others extend is seen with their rows too, cut to its own columns: `visible` holds them beside its own
`rows`. While no table extends it the two are one. Rows of tables are packed in columns, those of views are tuples by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from typing import cast

from prosem.engine.sizes import SAFE_COLUMNS
from prosem.values.model import Key, Row, Table, View
from prosem.values.packed_columns import Arrays
from prosem.values.packed_rows import TableRows, packed_rows
from prosem.values.undo import NO_UNDO, UndoLog

Content = MutableMapping[Key, Row]  # of a table or a view


class Tables:
    """Tables and views that come and go are recorded in `undo`; rows are not, since their events are."""

    def __init__(self, undo: UndoLog = NO_UNDO) -> None:
        self._undo = undo
        self._by_tenant: dict[str, dict[str, Table]] = {}
        self.rows: dict[int, Content] = {}
        self.visible: dict[int, Content] = {}
        self.wide: set[int] = set()  # the tables whose rows may not fit a page of PostgreSQL

    def __iter__(self) -> Iterator[Table]:
        """The tables and named views of all tenants."""
        return (table for tables in list(self._by_tenant.values()) for table in list(tables.values()))

    def of(self, tenant: str) -> Mapping[str, Table]:
        """The tables and views of a tenant by their names."""
        return self._by_tenant.get(tenant, {})

    def _name(self, table: Table) -> dict[str, Table]:
        """Where the name of a table is about to change."""
        names = self._by_tenant.setdefault(table.tenant, {})
        self._undo.keep(names, table.name)
        return names

    def _keep(self, table: Table) -> None:
        """The rows of a table are about to come or go as a whole."""
        for held in (self.rows, self.visible):
            self._undo.keep(held, table.id)

    def add(self, table: Table) -> None:
        self._name(table)[table.name] = table
        self._keep(table)
        self.rows[table.id] = self.visible[table.id] = packed_rows(table)
        if len(table.columns) > SAFE_COLUMNS:
            self.wide.add(table.id)
            self._undo.add(self.wide.discard, table.id)
        for ancestor in table.ancestors:
            if self.rows[ancestor.id] is self.visible[ancestor.id]:
                self._undo.keep(self.rows, ancestor.id)
                self.rows[ancestor.id] = copy(self.rows[ancestor.id])

    def add_view(self, view: View, rows: Content) -> None:
        """A view with its contents; an unnamed one is found by its number only."""
        if not view.is_unnamed:
            self._name(view)[view.name] = view
        self._keep(view)
        self.rows[view.id] = self.visible[view.id] = rows

    def drop_view(self, view: View) -> None:
        if not view.is_unnamed:
            del self._name(view)[view.name]
        self._keep(view)
        del self.rows[view.id], self.visible[view.id]

    def put(self, table: Table, key: Key, row: Row | None) -> None:
        """Set or take away a row, also where the tables that this one extends see it."""
        own = self.rows[table.id]
        put(own, key, row)
        if own is not self.visible[table.id]:
            put(self.visible[table.id], key, row)
        for ancestor in table.ancestors:
            put(self.visible[ancestor.id], key, cut(row, ancestor))

    def load(self, table: Table, rows: Sequence[Row] | Arrays) -> None:
        """Set many rows that are new, as a recovery reads them."""
        for held, one in self._holders(table):
            width = len(one.columns)
            if isinstance(rows, Arrays):
                held.load_arrays(*rows.first(width))
            else:
                held.load(rows if one is table else (row[:width] for row in rows))

    def _holders(self, table: Table) -> Iterator[tuple[TableRows, Table]]:
        """What holds the rows of a table, each with the table that they are cut to."""
        own, visible = self.rows[table.id], self.visible[table.id]
        yield cast(TableRows, own), table
        if visible is not own:
            yield cast(TableRows, visible), table
        for ancestor in table.ancestors:
            yield cast(TableRows, self.visible[ancestor.id]), ancestor

    def family(self, table: Table) -> Mapping[Key, Row] | None:
        """The keys of all tables that this one extends or that extend it; None if there are none."""
        if table.parent is None and self.rows[table.id] is self.visible[table.id]:
            return None
        return self.visible[table.root.id]

    def heirs(self, table: Table) -> list[Table]:
        return [other for other in self if other.parent is table]

    def descendants(self, tables: Sequence[Table]) -> list[Table]:
        """All tables that extend one of these."""
        return [other for other in self if any(ancestor in tables for ancestor in other.ancestors)]

    def drop(self, table: Table) -> None:
        own = self.rows[table.id]
        for ancestor in table.ancestors:
            seen = self.visible[ancestor.id]
            for key in own:
                seen.pop(key, None)
            self._undo.add(self._show, own, ancestor)
        self._keep(table)
        del self._name(table)[table.name], self.rows[table.id], self.visible[table.id]
        if table.id in self.wide:
            self.wide.discard(table.id)
            self._undo.add(self.wide.add, table.id)

    def _show(self, rows: Mapping[Key, Row], ancestor: Table) -> None:
        """Let a table that others extend have their rows again."""
        for key, row in rows.items():
            put(self.visible[ancestor.id], key, cut(row, ancestor))


def put(rows: Content, key: Key, row: Row | None) -> None:
    """Set or take away a row."""
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row


def cut(row: Row | None, table: Table) -> Row | None:
    """A row as a table that its own one extends sees it."""
    return row if row is None or len(row) == len(table.columns) else row[: len(table.columns)]
