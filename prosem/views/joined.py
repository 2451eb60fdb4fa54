"""Joined rows: how the operators of a view name them, compare them and net their changes.

A joined row has one part per source of FROM, in order: the row of that source, None where a LEFT JOIN found no partner.
Its identity is the keys of its parts. Rows are references to those that the tables hold, never copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from prosem.values.columns import Value
from prosem.values.model import Column, Key, Row
from prosem.values.wire import is_same

Keys = tuple[Key | None, ...]  # the identity of a joined row
Rows = tuple[Row | None, ...]
JoinedChange = tuple[Keys, Rows | None, Rows | None]  # identity, before, after (None: there was or is none)
Lookup = Callable[[Key], Row | None]  # the row of a key in one source
Place = tuple[int, int]  # number of a source, position of a column in its rows


def net(changes: Sequence[JoinedChange]) -> list[JoinedChange]:
    """At most one change per joined row: the first before and the last after; none for a row that never existed.

    >>> absent, row, other = None, ((1, "a"),), ((1, "b"),)
    >>> net([(((1,),), absent, row), (((1,),), row, other), (((2,),), absent, row), (((2,),), row, absent)])
    [(((1,),), None, ((1, 'b'),))]
    """
    found: dict[Keys, JoinedChange] = {}
    for change in changes:
        first = found.get(change[0])
        found[change[0]] = change if first is None else (first[0], first[1], change[2])
    return [change for change in found.values() if change[1] is not None or change[2] is not None]


def row_key(positions: Sequence[int]) -> Callable[[Row], Value]:
    """The join key of a row: the value of one column, a tuple of several; None if one of them is NULL.

    Python's equality and hash agree with PostgreSQL's `=` on the types that may be joined: 1, 1.0 and 1.00 are one key.
    """
    get = itemgetter(*positions)
    if len(positions) == 1:
        return get

    def key(row: Row) -> Value:
        found = get(row)
        return None if None in found else found

    return key


def rows_key(places: Sequence[Place]) -> Callable[[Rows], Value]:
    """The join key of a joined row, as `row_key` has it; None also if a part is absent."""
    if len(places) == 1:
        ((source, position),) = places

        def single(rows: Rows) -> Value:
            row = rows[source]
            return None if row is None else row[position]

        return single

    def several(rows: Rows) -> Value:
        values = []
        for number, at in places:
            row = rows[number]
            value = None if row is None else row[at]
            if value is None:
                return None
            values.append(value)
        return tuple(values)

    return several


def difference(columns: Sequence[Column]) -> Callable[[Row | None, Row | None], bool]:
    """Whether a row differs from another: PostgreSQL's `=` with NULL equal to NULL.

    A numeric's scale alone is no difference, nor is the sign of a zero. Values of jsonb are compared as they are written.
    """
    written = [at for at, column in enumerate(columns) if not column.type.ordered]
    if not written:
        return lambda one, other: one != other

    def differs(one: Row | None, other: Row | None) -> bool:
        if one != other or one is None or other is None:
            return one is not other
        return any(not is_same(one[at], other[at]) for at in written)

    return differs
