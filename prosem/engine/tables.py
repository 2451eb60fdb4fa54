"""All tables and their rows in memory. A table is found by its tenant and its name: two tenants may have one of a name.

A table that others extend is seen with their rows too, cut to its own columns: `visible` holds them beside its own
`rows`. While no table extends it the two are one. Rows of tables are packed in columns, those of views are tuples by key.
With `stored` a table holds only the columns that are used; one of a family holds all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import cast

from prosem.engine.sizes import SAFE_COLUMNS
from prosem.engine.stored_columns import Found, StoredColumns, WholeRows
from prosem.values.model import Key, Row, Table, View
from prosem.values.narrow_rows import NarrowRows
from prosem.values.packed_columns import Arrays
from prosem.values.packed_rows import TableRows, packed_rows
from prosem.values.undo import NO_UNDO, UndoLog

Content = MutableMapping[Key, Row]  # of a table or a view


class Tables:
    """Tables and views that come and go are recorded in `undo`; rows are not, since their events are.

    Nor are columns that were loaded: they stay in memory. `stored`: where columns that are not used are; None: nowhere.
    """

    def __init__(self, undo: UndoLog = NO_UNDO, stored: StoredColumns | None = None) -> None:
        self._undo, self.stored = undo, stored
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

    def add(self, table: Table, columns: Collection[int] = ()) -> None:
        """A table without rows. `columns` are used; those of the tables that it extends are all held already."""
        self._name(table)[table.name] = table
        self._keep(table)
        self.rows[table.id] = self.visible[table.id] = self._made(table, columns)
        if len(table.columns) > SAFE_COLUMNS:
            self.wide.add(table.id)
            self._undo.add(self.wide.discard, table.id)
        for ancestor in table.ancestors:
            if self.rows[ancestor.id] is self.visible[ancestor.id]:
                self._undo.keep(self.rows, ancestor.id)
                self.rows[ancestor.id] = copy(self.rows[ancestor.id])

    def _made(self, table: Table, columns: Collection[int]) -> TableRows:
        is_whole = len({*columns, *table.key_positions}) == len(table.columns)
        if self.stored is None or table.parent is not None or is_whole:
            return packed_rows(table)
        return NarrowRows(table, columns, self.stored.fetch)

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

    # -- columns that are not in memory --------------------------------------------------------------------------
    def hold(self, used: Mapping[Table, Collection[int]]) -> None:
        """Have these columns of tables in memory; a BusyError if they cannot be read."""
        for table, columns in used.items():
            rows = self.rows[table.id]
            if isinstance(rows, NarrowRows) and not {*columns} <= {*rows.held}:
                assert self.stored is not None
                self.stored.load(rows, columns)

    def whole(self, table: Table) -> Mapping[Key, Row]:
        """A table's own rows with all columns, for work that is `complete`d."""
        rows = self.rows[table.id]
        if isinstance(rows, NarrowRows) and not rows.is_whole:
            assert self.stored is not None
            return WholeRows(rows, self.stored)
        return rows

    def complete(self, work: Callable[[], Found]) -> Found:
        """What `work` gives, which changes nothing and reads `whole` rows."""
        return work() if self.stored is None else self.stored.complete(work)

    def read_ahead(self, works: Iterable[Callable[[], object]]) -> None:
        """Some works will be completed soon: read what they need together."""
        if self.stored is not None:
            self.stored.read_ahead(works)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Batches that are not committed are taken back; messages are thrown away meanwhile."""
        if self.stored is None:
            yield
            return
        with self.stored.undoing():
            yield
        self.stored.taken_back()

    @contextmanager
    def rehearsed(self, table: Table, key: Key, old: Row | None, new: Row | None) -> Iterator[None]:
        """A row is set for a while, in no batch."""
        with nullcontext() if self.stored is None else self.stored.rehearsed(table, key, new):
            self.put(table, key, new)
            try:
                yield
            finally:
                self.put(table, key, old)

    def held(self, table: Table) -> tuple[int, ...]:
        """The columns that are in memory."""
        rows = self.rows[table.id]
        return rows.held if isinstance(rows, NarrowRows) else tuple(range(len(table.columns)))

    def put(self, table: Table, key: Key, row: Row | None) -> None:
        """Set or take away a row, also where the tables that this one extends see it."""
        own = self.rows[table.id]
        put(own, key, row)
        if own is not self.visible[table.id]:
            put(self.visible[table.id], key, row)
        for ancestor in table.ancestors:
            put(self.visible[ancestor.id], key, cut(row, ancestor))

    def setter(self, table: Table) -> Callable[[Key, Row | None], None]:
        """`put` for several rows of a table after each other."""
        own = self.rows[table.id]
        is_alone = table.parent is None and own is self.visible[table.id]
        return partial(put, own) if is_alone else partial(self.put, table)

    def load(self, table: Table, rows: Sequence[Row] | Arrays) -> None:
        """Set many rows that are new, as a recovery reads them: with the columns that are `held`."""
        for held, one in self._holders(table):
            if isinstance(held, NarrowRows) and not held.is_whole:
                held.load_held(rows)
                continue
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
