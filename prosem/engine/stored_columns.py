"""Columns that are left in PostgreSQL: what commands need is read there, and overlaid with what is not committed yet.

An event needs the whole old row: it is logged, and an update keeps the columns that it does not name. A command is worked
out as if all columns were there; the rows that were missed are read together, and it is worked out again, until none is
missed. Nothing has changed by then, so a read that fails refuses the command alone. Answers and messages that show whole
rows which no event of the request has set (a snapshot of a filter, the next MIN) read them when they are made.

PostgreSQL shows what batches before the last one have committed. The last batch that was handed over may be committed or
not, and the open one is not: what they set is taken from them. What was read of other rows holds until the open batch is
handed over.

Cost: one read for all requests that wait, beside validating their events twice; one read per answer and per event that
exposes rows. Rows that are inserted need no read. It loses where most columns are used, and where rows are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast

from prosem.runtime.metrics import Metrics
from prosem.values.errors import BusyError, CommitError
from prosem.values.model import Key, Row, Table
from prosem.values.narrow_rows import NarrowRows
from prosem.values.packed_columns import Arrays

Found = TypeVar("Found")
Uncommitted = Mapping[int, Mapping[Key, Row | None]]  # table id → key → the row as it will be
_NOTHING: Mapping[Key, Row] = {}


class RowSource(Protocol):
    """Reads rows that are committed. An error is a BusyError."""

    def read(self, table: Table, columns: Sequence[int], keys: Sequence[Key]) -> Iterable[tuple[Key, Row]]:
        """Some columns of the rows with these keys, in no order."""

    def load(self, table: Table, columns: Sequence[int]) -> Iterator[Sequence[Row] | Arrays]:
        """Some columns of all rows of the table, as of one moment."""


class StoredColumns:
    """Owned by the engine. `opened` gives what the open batch has set so far."""

    def __init__(self, stored: RowSource, opened: Callable[[], Uncommitted], metrics: Metrics) -> None:
        self._stored, self._opened, self._metrics = stored, opened, metrics
        self._handed: Uncommitted = {}
        self._rehearsed: Uncommitted = {}
        self._is_undoing = False
        self._read: dict[int, dict[Key, Row]] = {}  # table id → key → the columns that are not held
        self._missed: dict[int, tuple[NarrowRows, dict[Key, None]]] = {}  # by table id

    def handed_over(self, rows: Uncommitted) -> None:
        """The open batch goes to the committer; the one before it is committed."""
        self._handed = rows
        self._read.clear()

    def taken_back(self) -> None:
        """What was not committed does not count any more."""
        self._handed = {}
        self._read.clear()

    def _uncommitted(self, table: Table) -> list[Mapping[Key, Row | None]]:
        """What batches have set, the last one first."""
        return [some[table.id] for some in (self._opened(), self._handed) if table.id in some]

    def _known(self, rows: NarrowRows, key: Key) -> Row | None:
        """The whole row of a key that is there; None if it must be read."""
        table = rows.table.id
        for uncommitted in (self._rehearsed, self._opened(), self._handed):
            some = uncommitted.get(table)
            if some is not None and key in some:
                row = some[key]
                assert row is not None, "memory has the row, so it was not deleted"
                return row
        others = self._read.get(table, _NOTHING).get(key)
        return None if others is None else rows.whole(key, others)

    # -- rows of events ------------------------------------------------------------------------------------------
    def whole(self, rows: NarrowRows, key: Key) -> Row:
        """The row of a key that is there. One that must be read first is noted, and returned as it is held."""
        row = self._known(rows, key)
        if row is None:
            self._missed.setdefault(rows.table.id, (rows, {}))[1][key] = None
            return rows[key]
        return row

    def complete(self, work: Callable[[], Found]) -> Found:
        """What `work`, which changes nothing, gives with all rows that it reads whole."""
        while True:
            self._missed = {}
            try:
                found = work()
            except Exception:
                if not self._missed:
                    raise
            else:
                if not self._missed:
                    return found
            self._read_missed()

    def read_ahead(self, works: Iterable[Callable[[], object]]) -> None:
        """Read at once what several works will need; those that fail do so again when their turn comes."""
        self._missed = {}
        for work in works:
            try:
                work()
            except Exception:
                continue
        self._read_missed()

    def _read_missed(self) -> None:
        missed, self._missed = self._missed, {}
        for rows, keys in missed.values():
            self._read_rows(rows, list(keys))

    def _read_rows(self, rows: NarrowRows, keys: Sequence[Key]) -> None:
        found = self._read.setdefault(rows.table.id, {})
        found.update(self._stored.read(rows.table, rows.unheld, keys))
        self._metrics.rows_read += len(keys)
        if not all(key in found for key in keys):
            raise CommitError(f"rows of the table {rows.table.name!r} are not in the database any more")

    # -- rows of answers -----------------------------------------------------------------------------------------
    def fetch(self, rows: NarrowRows, keys: Sequence[Key]) -> dict[Key, Row]:
        """Whole rows, all of which are there. CommitError if they cannot be read: memory may have changed half-way."""
        if self._is_undoing:
            return {key: rows.whole(key, (None,) * len(rows.unheld)) for key in keys}
        found = {key: self._known(rows, key) for key in keys}
        missing = [key for key, row in found.items() if row is None]
        if missing:
            try:
                self._read_rows(rows, missing)
            except BusyError as error:
                raise CommitError(error.detail) from error
            found |= {key: self._known(rows, key) for key in missing}
        return cast("dict[Key, Row]", found)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Messages are thrown away meanwhile: what they would show of rows is not read."""
        self._is_undoing = True
        try:
            yield
        finally:
            self._is_undoing = False

    @contextmanager
    def rehearsed(self, table: Table, key: Key, row: Row | None) -> Iterator[None]:
        """A row is set for a while that no batch has."""
        self._rehearsed = {table.id: {key: row}}
        try:
            yield
        finally:
            self._rehearsed = {}

    # -- columns -------------------------------------------------------------------------------------------------
    def load(self, rows: NarrowRows, columns: Iterable[int]) -> None:
        """Hold further columns: O(rows). Nothing changes if the read fails."""
        table = rows.table
        wider = NarrowRows(table, {*rows.held, *columns}, self.fetch)
        for some in self._stored.load(table, wider.held):
            wider.load_held(some)
        for uncommitted in reversed(self._uncommitted(table)):
            for key, row in uncommitted.items():
                if row is None:
                    wider.pop(key, None)
                else:
                    wider[key] = row
        if len(wider) != len(rows):
            raise CommitError(f"the table {table.name!r} has other rows in the database than in memory")
        rows.adopt(wider)
        self._read.pop(table.id, None)


class WholeRows(Mapping[Key, Row]):
    """The rows of a table with all columns, for what is worked out in `StoredColumns.complete`."""

    def __init__(self, rows: NarrowRows, stored: StoredColumns) -> None:
        self._rows, self._stored = rows, stored

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __getitem__(self, key: Key) -> Row:
        if key not in self._rows:
            raise KeyError(key)
        return self._stored.whole(self._rows, key)

    def get(self, key: Key, default: Any = None) -> Any:
        return self._stored.whole(self._rows, key) if key in self._rows else default
