"""Names of a query over a join against its tables: every column qualified by the alias of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prosem.language.joins import join_classes
from prosem.language.positions import located
from prosem.language.resolve import source_of
from prosem.language.syntax import (
    Aggregate,
    Aggregates,
    ColumnName,
    Columns,
    Distinct,
    Grouped,
    Query,
    SelectedColumn,
    Selection,
    Star,
    TopK,
)
from prosem.values.model import Table


def qualify(query: Query, tables: Sequence[Table]) -> Query:
    """The same query with qualified columns; `tables` are those of its sources. LanguageError for what is no column.

    A column of USING is that of the first source that has it, which is the value PostgreSQL gives to the merged column
    of inner and left joins. Afterwards equal names are equal columns: the columns of GROUP BY are those selected. The
    text is unchanged. Linear in the query.
    """
    join_classes(query, tables)  # refuses what USING cannot join
    names = _Names(query, tables)
    for source in query.sources:
        for pair in source.on:
            for name in pair:
                names(name)
    where = tuple(tuple(replace(atom, column=names(atom.column)) for atom in atoms) for atoms in query.where)
    return replace(query, selection=_selection(query, names), where=where)


class _Names:
    def __init__(self, query: Query, tables: Sequence[Table]) -> None:
        self._query, self._tables = query, tables

    def __call__(self, name: ColumnName) -> ColumnName:
        number = source_of(self._query, self._tables, name)
        return replace(name, table=self._query.sources[number].alias)

    def aggregate(self, item: Aggregate) -> Aggregate:
        return item if item.column is None else replace(item, column=self(item.column))

    def column(self, item: SelectedColumn) -> SelectedColumn:
        return replace(item, column=self(item.column))


def _selection(query: Query, names: _Names) -> Selection:
    chosen = query.selection
    if isinstance(chosen, Star):
        return chosen
    if isinstance(chosen, Columns):
        return Columns(tuple(map(names.column, chosen.items)))
    if isinstance(chosen, Distinct):
        return Distinct(names(chosen.column))
    if isinstance(chosen, Aggregate):
        return names.aggregate(chosen)
    if isinstance(chosen, Aggregates):
        return Aggregates(tuple(map(names.aggregate, chosen.items)))
    if isinstance(chosen, TopK):
        made = replace(chosen, items=tuple(map(names.column, chosen.items)), order=names(chosen.order))
        _check_among(query, (made.order,), [item.column for item in made.items], "ORDER BY is not selected")
        return made
    return _grouped(query, chosen, names)


def _grouped(query: Query, chosen: Grouped, names: _Names) -> Grouped:
    by = tuple(dict.fromkeys(map(names, chosen.by)))
    items = tuple(
        names.column(item) if isinstance(item, SelectedColumn) else names.aggregate(item)
        for item in chosen.items
    )
    selected = [item.column for item in items if isinstance(item, SelectedColumn)]
    _check_among(query, by, selected, "GROUP BY is not selected")
    _check_among(query, selected, by, "SELECT is not in GROUP BY")
    having = tuple(replace(one, aggregate=names.aggregate(one.aggregate)) for one in chosen.having)
    return Grouped(by, items, having)


def _check_among(query: Query, some: Sequence[ColumnName], others: Sequence[ColumnName], what: str) -> None:
    """What the parser could not decide: whether `x` and `a.x` are the same column."""
    for name in some:
        if name not in others:
            raise located(f"the column {name.table}.{name.name} of {what}", query.sql, name.start)
