"""Which open spaces an event of a table concerns: by the columns that it changes, not by asking each space.

A thousand templates on one table mostly read few of its columns each; an update of one column visits those that read it.
An insert or a delete concerns all. Loses nothing where every space reads all columns: then rows are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from prosem.types.base import Space
from prosem.values.model import Row
from prosem.values.wire import changed_columns

_REMEMBERED = 1_024  # sets of changed columns of a table
Numbered = tuple[int, Space]


class Routes:
    """The spaces over one table, each with its number. Made anew when one opens or closes.

    O(columns) for an update, and O(spaces that read one of them) the first time a set of columns changes.
    """

    __slots__ = ("_all", "_by_columns", "_is_selective", "_of_column", "_whole")

    def __init__(self, spaces: Iterable[Space]) -> None:
        self._all: tuple[Numbered, ...] = tuple([(space.network.id, space) for space in spaces])
        self._whole = [one for one in self._all if one[1].reads is None]
        self._of_column: dict[int, list[Numbered]] = {}
        for one in self._all:
            for at in one[1].reads or ():
                self._of_column.setdefault(at, []).append(one)
        self._is_selective = len(self._whole) + 1 < len(self._all)
        self._by_columns: dict[tuple[int, ...], tuple[Numbered, ...]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def concerned(self, old: Row | None, new: Row | None) -> tuple[Numbered, ...]:
        """The spaces that must take an event; with one space or none to spare, all."""
        if not self._is_selective or old is None or new is None:
            return self._all
        columns = changed_columns(old, new)
        found = self._by_columns.get(columns)
        if found is None:
            if len(self._by_columns) >= _REMEMBERED:
                self._by_columns.clear()
            some = dict.fromkeys(one[0] for at in columns for one in self._of_column.get(at, ()))
            some |= dict.fromkeys(one[0] for one in self._whole)
            found = self._by_columns[columns] = tuple([one for one in self._all if one[0] in some])
        return found
