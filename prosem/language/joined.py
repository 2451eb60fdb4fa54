"""A query over a join as the same query over an unnamed view of that join.

All subscriptions of a template share the view: what is joined is maintained once, and the query's ranges are reformulated
over its rows. The view has the columns that the query names, and the key columns of all its tables. `SELECT *` over inner
joins by USING is the select-join type's own, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from prosem.language.qualify import qualify
from prosem.language.syntax import (
    Aggregate,
    Aggregates,
    Atom,
    ColumnName,
    Columns,
    Distinct,
    Grouped,
    Query,
    SelectedColumn,
    Selection,
    Source,
    Star,
    TopK,
)
from prosem.language.view_syntax import ColumnRef, ViewItem, ViewQuery
from prosem.values.errors import LanguageError
from prosem.values.model import Table


class JoinedQuery(NamedTuple):
    """The view of a join, what it is called in templates, and the query over it."""

    view: ViewQuery
    name: str
    query: Query


def needs_view(query: Query) -> bool:
    """Whether a query is one over an unnamed view; LanguageError if it selects * and is not a select-join."""
    if len(query.sources) == 1:
        return False
    if not isinstance(query.selection, Star):
        return True
    if all(
        source.alias == source.table and not source.on and source.join != "left" for source in query.sources
    ):
        return False
    raise LanguageError(
        "SELECT * over a join takes inner joins by USING, without aliases; for ON, LEFT JOIN or a self-join name the columns"
    )


def over_view(query: Query, tables: Sequence[Table]) -> JoinedQuery:
    """The query over the join of its tables, which stand in the order of FROM."""
    query = qualify(query, tables)
    columns = _ViewColumns(query, tables)
    selection = _selection(columns, query.selection)
    where = tuple(tuple(columns.atom(atom) for atom in conjunction) for conjunction in query.where)
    if isinstance(query.selection, Aggregate | Aggregates | Grouped | Distinct):
        columns.add_keys()
    items = tuple(ViewItem(name, ColumnRef(ColumnName(*column))) for name, column in columns.items.items())
    view = ViewQuery(query.sql, items, query.sources)
    name = columns.words()
    over = replace(query, selection=selection, where=where, sources=(Source(name, name),))
    return JoinedQuery(view, name, over)


class _ViewColumns:
    """The columns of the view: names in the view → (column, alias of its source)."""

    def __init__(self, query: Query, tables: Sequence[Table]) -> None:
        self._query, self._tables = query, tables
        self.items: dict[str, tuple[str, str]] = {}
        self._name_of: dict[tuple[str, str], str] = {}
        selection = query.selection
        selected = selection.items if isinstance(selection, Columns | TopK | Grouped) else ()
        for item in selected:
            if isinstance(item, SelectedColumn):
                column = _place(item.column)
                self.items[item.name] = column
                self._name_of.setdefault(column, item.name)

    def name(self, given: ColumnName) -> ColumnName:
        """What the view calls a column of the query; it is added if need be."""
        return ColumnName(self._added(_place(given)), None, given.start)

    def _added(self, column: tuple[str, str]) -> str:
        known = self._name_of.get(column)
        if known is not None:
            return known
        name, alias = column
        shared = sum(name in table.position for table in self._tables) > 1
        made = f"{alias}.{name}" if shared or name in self.items else name
        while made in self.items:
            made += "'"
        self.items[made], self._name_of[column] = column, made
        return made

    def add_keys(self) -> None:
        """The key columns of all tables, where the result has no key of its own."""
        for source, table in zip(self._query.sources, self._tables, strict=True):
            for name in table.primary_key:
                self._added((name, source.alias))

    def atom(self, atom: Atom) -> Atom:
        return replace(atom, column=self.name(atom.column))

    def words(self) -> str:
        """The join in words; two joins of the same words are the same."""
        parts = []
        for source, table in zip(self._query.sources, self._tables, strict=True):
            join = f"{source.join.upper()} JOIN " if source.join else ""
            equal = [f"{_word(left)} = {_word(right)}" for left, right in source.on]
            by = f" ON {' AND '.join(equal)}" if equal else f" USING {source.using}" if source.join else ""
            parts.append(f"{join}{source.table!r}#{table.id} {source.alias!r}{by}")
        chosen = ", ".join(f"{alias}.{column} AS {name!r}" for name, (column, alias) in self.items.items())
        return f"({' '.join(parts)} SELECT {chosen})"


def _place(name: ColumnName) -> tuple[str, str]:
    """The column and the alias of the source that a qualified name means."""
    assert name.table is not None
    return name.name, name.table


def _word(name: ColumnName) -> str:
    return repr(name.name) if name.table is None else f"{name.table!r}.{name.name!r}"


def _selection(columns: _ViewColumns, selection: Selection) -> Selection:
    if isinstance(selection, Aggregate):
        return _aggregate(columns, selection)
    if isinstance(selection, Aggregates):
        return Aggregates(tuple(_aggregate(columns, item) for item in selection.items))
    if isinstance(selection, Distinct):
        return Distinct(columns.name(selection.column))
    if isinstance(selection, Columns):
        return Columns(_selected(selection.items))
    if isinstance(selection, TopK):
        return replace(selection, items=_selected(selection.items), order=columns.name(selection.order))
    assert isinstance(selection, Grouped)
    items = tuple(
        _aggregate(columns, item)
        if isinstance(item, Aggregate)
        else SelectedColumn(columns.name(item.column), item.name)
        for item in selection.items
    )
    having = tuple(replace(one, aggregate=_aggregate(columns, one.aggregate)) for one in selection.having)
    return Grouped(tuple(map(columns.name, selection.by)), items, having)


def _selected(items: Iterable[SelectedColumn]) -> tuple[SelectedColumn, ...]:
    """They are columns of the view, by the names of the result."""
    return tuple(SelectedColumn(ColumnName(item.name)) for item in items)


def _aggregate(columns: _ViewColumns, item: Aggregate) -> Aggregate:
    return item if item.column is None else replace(item, column=columns.name(item.column))
