"""USING against tables: which columns of a join are one.

PostgreSQL merges the columns of USING: after `r JOIN s USING (b)` there is one b. A later USING (b) joins with that one. A
name that stands more than once on the left, unmerged, is ambiguous and refused, as PostgreSQL refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from prosem.language.positions import located
from prosem.language.syntax import Query
from prosem.values.errors import LanguageError
from prosem.values.model import Table

_EXACT_NUMBERS = ("integer", "bigint", "numeric")


def join_classes(query: Query, tables: Sequence[Table]) -> tuple[Mapping[int, int], ...]:
    """The classes of columns that are equal in every joined row: {table's number: column's position} each."""
    left: dict[
        str, list[dict[int, int]]
    ] = {}  # by name, the columns that stand on the left, merged ones as one
    _stand(left, 0, tables[0], ())
    classes: list[dict[int, int]] = []
    for number, (table, names) in enumerate(zip(tables[1:], query.using, strict=True), 1):
        for name in names:
            merged = _left_column(query, left, tables, number, name)
            merged[number] = table.position[name]
            _check_types(query, tables, merged, name)
            if merged not in classes:
                classes.append(merged)
        _stand(left, number, table, names)
    return tuple(classes)


def _stand(left: dict[str, list[dict[int, int]]], number: int, table: Table, merged: Sequence[str]) -> None:
    for name, at in table.position.items():
        if name not in merged:
            left.setdefault(name, []).append({number: at})


def _left_column(
    query: Query, left: dict[str, list[dict[int, int]]], tables: Sequence[Table], number: int, name: str
) -> dict[int, int]:
    columns = left.get(name, [])
    aliases = [source.alias for source in query.sources]
    if not columns:
        names = ", ".join(aliases[:number])
        raise _in_using(query, name, f"USING ({name}): there is no column {name} in {names}")
    if name not in tables[number].position:
        raise _in_using(query, name, f"USING ({name}): there is no column {name} in {aliases[number]}")
    if len(columns) > 1:
        holders = ", ".join(aliases[at] for at in range(number) if name in tables[at].position)
        raise _in_using(
            query,
            name,
            f"USING ({name}) is ambiguous: {holders} have a column {name} each, which are not joined with one "
            "another; join them by USING it too, or put the tables into another order",
        )
    return columns[0]


def _check_types(query: Query, tables: Sequence[Table], merged: Mapping[int, int], name: str) -> None:
    types = {number: tables[number].columns[at].type for number, at in merged.items()}
    for kind in types.values():
        if not kind.ordered:
            raise _in_using(query, name, f"the {kind.name} column {name} cannot be compared; join by another")
    plain = {kind.name.partition("(")[0] for kind in types.values()}
    if len(plain) > 1 and not plain <= set(_EXACT_NUMBERS):
        which = ", ".join(
            f"{query.sources[number].alias}.{name} is {kind.name}" for number, kind in types.items()
        )
        raise _in_using(
            query,
            name,
            f"USING ({name}) joins columns of different types: {which}; they must be of one type, "
            "or all be integer, bigint or numeric",
        )


def _in_using(query: Query, name: str, detail: str) -> LanguageError:
    quoted = re.escape(name.replace('"', '""'))
    place = re.search(rf'(?i)\busing\b\s*\([^)]*?("?\b{quoted}\b"?)', query.sql)
    start, end = place.span(1) if place else (None, None)
    return located(detail, query.sql, start, end)
