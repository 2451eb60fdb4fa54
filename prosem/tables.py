"""All tables and their rows in memory.

A table that others extend is seen with their rows too, cut to its own columns: `visible` holds them beside its own
`rows`. While nobody extends a table the two are one dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping

from prosem.model import Key, Row, Table


class Tables:
    def __init__(self) -> None:
        self.by_name: dict[str, Table] = {}
        self.rows: dict[int, dict[Key, Row]] = {}
        self.visible: dict[int, dict[Key, Row]] = {}

    def add(self, table: Table) -> None:
        self.by_name[table.name] = table
        self.rows[table.id] = self.visible[table.id] = {}
        for ancestor in table.ancestors:
            if self.rows[ancestor.id] is self.visible[ancestor.id]:
                self.rows[ancestor.id] = dict(self.rows[ancestor.id])

    def put(self, table: Table, key: Key, row: Row | None) -> None:
        """Set or take away a row, also where the tables that this one extends see it."""
        own = self.rows[table.id]
        _put(own, key, row)
        if own is not self.visible[table.id]:
            _put(self.visible[table.id], key, row)
        for ancestor in table.ancestors:
            _put(self.visible[ancestor.id], key, cut(row, ancestor))

    def family(self, table: Table) -> Mapping[Key, Row] | None:
        """The keys of all tables that this one extends or that extend it; None if it stands alone."""
        if table.parent is None and self.rows[table.id] is self.visible[table.id]:
            return None
        return self.visible[table.root.id]

    def heirs(self, table: Table) -> list[Table]:
        return [other for other in self.by_name.values() if other.parent is table]

    def drop(self, table: Table) -> None:
        for key in list(self.rows[table.id]):
            self.put(table, key, None)
        del self.by_name[table.name], self.rows[table.id], self.visible[table.id]


def _put(rows: dict[Key, Row], key: Key, row: Row | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row


def cut(row: Row | None, table: Table) -> Row | None:
    """A row as a table that its own one extends sees it."""
    return row if row is None or len(row) == len(table.columns) else row[: len(table.columns)]
