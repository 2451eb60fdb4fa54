"""A view kept up to date: changes of its tables at one event in, net changes of its rows out.

The sources of FROM are joined from left to right (`join.py`); WHERE and the select list, or the groups, come last and see
net joined rows alone. The operator keeps identities and groups, never rows of its tables.

Of the tables it reads only rows that the event did not change: those that it changed, before and after, are taken from the
list of changes. So it does not matter whether the tables hold the rows before or after, and applying the inverse changes
restores the state exactly; that is how a request is undone.

Cost: a few dictionary operations per changed row and partner. It loses to recomputing where an event changes most of the
view: a row of a table with which every row of another one joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prosem.values.errors import ViewRowError
from prosem.values.model import Key, Row, RowChange, Table
from prosem.views.join import Join
from prosem.views.joined import JoinedChange, Keys, Lookup, Rows

PROGRESS = 1_000  # rows of the first table between two reports of a build
Changes = Mapping[int, Sequence[RowChange]]  # table id → its net changes at one event
RowsOf = Callable[[Table], Mapping[Key, Row]]


class Output(Protocol):
    """The last stage: a `Projection` or `Groups`."""

    def apply(self, changes: Sequence[JoinedChange]) -> list[RowChange]: ...

    def build(self, joined: Iterable[tuple[Keys, Rows]]) -> Iterator[tuple[Key, Row]]: ...

    def state(self) -> object: ...


class ViewOperator:
    """`joins[i]` joins `sources[i + 1]` with the sources before it. A table may be a source more than once.

    `rows_of` gives the live rows of a table: the mapping that it gives at the start is read at every event.
    """

    def __init__(
        self, sources: Sequence[Table], joins: Sequence[Join], output: Output, rows_of: RowsOf
    ) -> None:
        self._tables = tuple(sources)
        self._ids = tuple(table.id for table in sources)
        self._joins, self._output = tuple(joins), output
        self.rebind(rows_of)

    def rebind(self, rows_of: RowsOf) -> None:
        """Read from now on the rows that this gives, which are the same: a view that was built over copies."""
        self._rows = tuple(rows_of(table) for table in self._tables)
        self._lookups: tuple[Lookup, ...] = tuple(rows.get for rows in self._rows)
        self._rows_of = _finders(self._lookups)

    def build(self, progress: Callable[[int], None] | None = None) -> Iterator[tuple[Key, Row]]:
        """The first contents, from the rows that the tables have; called once, and read to the end.

        ViewRowError if the view cannot have a row. `progress` is called with the number of rows of the first table read.
        """
        for join, rows in zip(self._joins, self._rows[1:], strict=True):
            join.fill(rows.items())
        joined: Iterable[tuple[Keys, Rows]] = _first(self._rows[0], progress)
        for join, lookup in zip(self._joins, self._lookups[1:], strict=True):
            joined = join.probe(joined, lookup)
        return self._output.build(joined)

    def apply(self, changes: Changes) -> list[RowChange]:
        """The net changes of the view's rows, at most one per key; ViewRowError if it cannot have one of them.

        The state is unchanged if it raises.
        """
        given = [changes.get(id, ()) for id in self._ids]
        before, after, rows_of = self._lookups, self._lookups, self._rows_of
        if len(given) > 1 and len([some for some in given if some]) > 1:
            before = tuple(map(_before, given, before))
            after = tuple(map(_after, given, after))
            rows_of = _finders(after)
        joined: list[JoinedChange] = [
            ((key,), None if old is None else (old,), None if new is None else (new,))
            for key, old, new in given[0]
        ]
        done: list[tuple[Join, Sequence[JoinedChange], Sequence[RowChange]]] = []
        for number, join in enumerate(self._joins, 1):
            right = given[number]
            if joined or right:
                done.append((join, joined, right))
                joined = join.apply(joined, right, before[number], after[0], rows_of[number - 1])
        if not joined:
            return []
        try:
            return self._output.apply(joined)
        except ViewRowError:
            for join, left, right in done:
                join.revert(left, right)
            raise

    def state(self) -> object:
        """All that is kept, to be compared: it is a function of the tables' rows."""
        return [join.state() for join in self._joins], self._output.state()


def _first(rows: Mapping[Key, Row], progress: Callable[[int], None] | None) -> Iterator[tuple[Keys, Rows]]:
    for number, (key, row) in enumerate(rows.items(), 1):
        yield (key,), (row,)
        if progress is not None and number % PROGRESS == 0:
            progress(number)


def _before(changes: Sequence[RowChange], lookup: Lookup) -> Lookup:
    """The rows of a source before the event."""
    return _overlaid({change.key: change.old for change in changes}, lookup)


def _after(changes: Sequence[RowChange], lookup: Lookup) -> Lookup:
    return _overlaid({change.key: change.new for change in changes}, lookup)


def _overlaid(changed: Mapping[Key, Row | None], lookup: Lookup) -> Lookup:
    if not changed:
        return lookup
    return lambda key: changed[key] if key in changed else lookup(key)


def _finders(lookups: Sequence[Lookup]) -> tuple[Callable[[Keys], Rows], ...]:
    """For each join, what finds a joined row of its left side by the row's identity."""
    return tuple(_finder(lookups[:number]) for number in range(1, len(lookups)))


def _finder(lookups: Sequence[Lookup]) -> Callable[[Keys], Rows]:
    if len(lookups) == 1:
        (only,) = lookups
        return lambda keys: (only(keys[0]),)  # type: ignore[arg-type]  # the first source is never absent
    return lambda keys: tuple(
        [None if key is None else lookup(key) for key, lookup in zip(keys, lookups, strict=True)]
    )
