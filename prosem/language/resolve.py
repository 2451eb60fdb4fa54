"""A query's names and terms against tables: columns, parameters, and WHERE as extents of codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from cn.model.geometry import Extent, Interval
from prosem.language.evaluate import evaluate
from prosem.language.extents import extent
from prosem.language.positions import located
from prosem.language.syntax import Atom, ColumnName, Query
from prosem.values.errors import InputError, LanguageError, pointer
from prosem.values.model import Column, Table

__all__ = [
    "check_parameters",
    "column",
    "conjunction",
    "evaluate",
    "extent",
    "normal_form",
    "owner",
    "source_of",
    "tables",
]
_LISTED = 20  # names that a message lists


def tables(query: Query, catalog: Mapping[str, Table]) -> tuple[Table, ...]:
    """The tables of FROM, in their order; LanguageError names the first that does not exist."""
    for name in query.tables:
        if name not in catalog:
            place = re.search(
                rf"(?i)\b(?:from|join)\b\s*\(*\s*(\"?{re.escape(name.replace(chr(34), chr(34) * 2))})",
                query.sql,
            )
            start, end = place.span(1) if place else (None, None)
            raise located(
                f"there is no table {name}{_listed('the tables are', catalog)}", query.sql, start, end
            )
    return tuple(catalog[name] for name in query.tables)


def column(query: Query, table: Table, name: ColumnName) -> Column:
    """The column of the table that a name means."""
    return table.columns[_position(query.sql, table, name)]


def owner(query: Query, tables: Sequence[Table], name: ColumnName) -> Table:
    """The table a name belongs to."""
    return tables[source_of(query, tables, name)]


def source_of(query: Query, tables: Sequence[Table], name: ColumnName) -> int:
    """The number of the source a name belongs to: the one whose alias qualifies it, or the only one with such a column.

    A column that all sources with it share by USING is the same in each of them, as PostgreSQL has it: the first is
    returned, whose column is never NULL-extended by the joins that share it.
    """
    aliases = [source.alias for source in query.sources]
    if name.table is not None:
        if name.table not in aliases:
            raise _at(
                query.sql, name, f"the table {name.table} of {name.table}.{name.name} does not stand in FROM"
            )
        number = aliases.index(name.table)
        _position(query.sql, tables[number], ColumnName(name.name, None, name.start))
        return number
    holders = [at for at, table in enumerate(tables) if name.name in table.position]
    if not holders:
        raise _at(
            query.sql, name, f"there is no column {name.name} in {', '.join(table.name for table in tables)}"
        )
    if not all(name.name in query.sources[at].using for at in holders[1:]):
        choices = ", ".join(f"{aliases[at]}.{name.name}" for at in holders)
        raise _at(query.sql, name, f"the column {name.name} is ambiguous; write one of {choices}")
    return holders[0]


def check_parameters(query: Query, params: Mapping[str, Any], radii: Set[str] = frozenset()) -> None:
    """Whether exactly the query's parameters are given, and those that are radii."""
    names = query.parameters | radii
    for name in sorted(names - params.keys()):
        raise InputError(f"the parameter :{name} is missing", pointer("params", name))
    for name in sorted(params.keys() - names):
        raise InputError(f"the query has no parameter :{name}", pointer("params", name))


def conjunction(
    atoms: Iterable[Atom], table: Table, params: Mapping[str, Any], sql: str = ""
) -> dict[int, Extent] | None:
    """For each column position that is constrained its extent; None if no row can satisfy the atoms.

    With `sql`, errors in the text show the place. O(n log n) in the number of intervals.
    """
    found: dict[int, list[Extent]] = {}
    for atom in atoms:
        position = _position(sql, table, atom.column)
        try:
            found.setdefault(position, []).append(extent(atom, table.columns[position], params))
        except LanguageError as error:
            raise _at(sql, atom.column, error.detail) from None
    result = {position: _common(extents) for position, extents in found.items()}
    return None if any(common.is_empty() for common in result.values()) else result


def normal_form(query: Query, table: Table, params: Mapping[str, Any]) -> tuple[dict[int, Extent], ...]:
    """The conjunctions that can be true, each once; one of them empty means that every row is selected.

    A single table's WHERE in [Beretta]'s normal form: an OR of attribute → extent.
    """
    result: dict[tuple[tuple[int, Extent], ...], dict[int, Extent]] = {}
    for atoms in query.where:
        found = conjunction(atoms, table, params, query.sql)
        if found is not None:
            result.setdefault(tuple(sorted(found.items())), found)
    return tuple(result.values())


# -- helpers -----------------------------------------------------------------------------------------------
def _position(sql: str, table: Table, name: ColumnName) -> int:
    if name.table is not None and name.table != table.name:
        raise _at(sql, name, f"{name.table}.{name.name} is no column of the table {table.name}")
    position = table.position.get(name.name)
    if position is None:
        detail = f"the table {table.name} has no column {name.name}{_listed('its columns are', table.names)}"
        raise _at(sql, name, detail)
    return position


def _listed(words: str, names: Iterable[str]) -> str:
    ordered = sorted(names) if isinstance(names, Mapping) else list(names)
    if not ordered:
        return ""
    more = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
    return f"; {words} {', '.join(name[:63] for name in ordered[:_LISTED])}{more}"


def _at(sql: str, name: ColumnName, detail: str) -> LanguageError:
    if not sql or name.start is None:
        return LanguageError(detail)
    written = re.compile(r'"(?:[^"]|"")*"|\w+').match(sql, name.start)
    return located(detail, sql, name.start, written.end() if written else None)


def _common(extents: list[Extent]) -> Extent:
    """The intersection, as a tournament: ten thousand `<>` must not build ten thousand growing lists."""
    while len(extents) > 1:
        pairs = [_both(*extents[at : at + 2]) for at in range(0, len(extents) - 1, 2)]
        extents = pairs + extents[len(pairs) * 2 :]
    return extents[0]


def _both(a: Extent, b: Extent) -> Extent:
    """The intersection of two extents by merging their ascending intervals; linear."""
    if len(a.intervals) == len(b.intervals) == 1:
        return a & b
    kept: list[Interval] = []
    left = right = 0
    while left < len(a.intervals) and right < len(b.intervals):
        one, other = a.intervals[left], b.intervals[right]
        both = one & other
        if not both.is_empty():
            kept.append(both)
        if other.high is None or (one.high is not None and _ends_before(one, other)):
            left += 1
        else:
            right += 1
    return Extent(tuple(kept), a.null and b.null)


def _ends_before(one: Interval, other: Interval) -> bool:
    return bool(one.high < other.high) or (one.high == other.high and one.high_open and not other.high_open)
