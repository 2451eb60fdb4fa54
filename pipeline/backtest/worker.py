"""What an executor does with one slice of a backtest: rows, subscriptions and events come as one sorted stream.

    kind   ordered by            table_id  params          old of its table  new of its table
    PARAMS number                          of subscription
    BASE                         its                                         a row of a base copy
    ROLL   the log, or its end   its                       the row before    the row after; so rows get to the start
    EVENT  seq                   its                       the row before    the row after

Each table has two columns of its own, with rows as the archive has them: typed. Nothing but the rows, the subscriptions and
one batch of the stream is in memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from pipeline.backtest.plan import Dividing
from pipeline.backtest.simulation import Event, Simulation, Statement
from pipeline.statistics.typed import columns_of
from pipeline.statistics.typed import rows as typed_rows
from prosem.store.recovery import StoredView
from prosem.values.model import Row, Table
from prosem.values.wire import decode_exact

PARAMS, BASE, ROLL, EVENT = range(4)
STREAM = "slice int, kind int, place long, table_id int, seq long, request_end long, at long, params string"
NOTIFICATIONS = "subscription long, seq long, at timestamp, change string"
_SCHEMA = pa.schema(
    [
        ("subscription", pa.int64()),
        ("seq", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("change", pa.string()),
    ]
)
ROWS_A_BATCH = 20_000
ROWS_A_PART = 2_000
COLLECT = (50_000, 20, 1_000)


class Work(NamedTuple):
    """What all slices have in common; travels to the executors. `start`: the seq at which all subscribe.

    `dividing`: the equality by whose constants events are divided (None: every slice has all events).
    """

    statement: Statement
    tables: tuple[Table, ...]
    views: tuple[StoredView, ...]
    start: int
    dividing: Dividing | None = None


def runner(work: Work) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow` over sorted rows of `STREAM`: gives rows of `NOTIFICATIONS`."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        with _rare_collections():
            yield from _run(work, batches)

    return run


def _run(work: Work, batches: Iterator[Any]) -> Iterator[Any]:
    slice_run: SliceRun | None = None
    for batch in batches:
        for (number, kind), part in _parts(batch):
            if slice_run is None or slice_run.number != number:
                if slice_run is not None:
                    yield from slice_run.finish()
                slice_run = SliceRun(work, number)
            yield from slice_run.take(kind, part)
    if slice_run is not None:
        yield from slice_run.finish()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """As in a server: a full collection walks every row and subscription, and finds next to nothing."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def old_of(table: Table) -> str:
    return f"old_{table.id}"


def new_of(table: Table) -> str:
    return f"new_{table.id}"


def _parts(batch: Any) -> Iterator[tuple[tuple[int, int], Any]]:
    """The rows of a batch that have one slice and one kind, with these; a part is short enough for all it may notify of."""
    keys = zip(batch.column("slice").to_pylist(), batch.column("kind").to_pylist(), strict=True)
    start = 0
    for key, some in groupby(keys):
        end = start + sum(1 for _ in some)
        for at in range(start, end, ROWS_A_PART):
            yield key, batch.slice(at, min(end - at, ROWS_A_PART))
        start = end


def _rows(part: Any, tables: Sequence[Table]) -> Iterator[tuple[int, Row | None, Row | None]]:
    """Table, old and new row of each record: those that the columns of its own table have."""
    table_ids: list[int] = part.column("table_id").to_pylist()
    old: list[Row | None] = [None] * part.num_rows
    new: list[Row | None] = [None] * part.num_rows
    for table in tables:
        places = [at for at, number in enumerate(table_ids) if number == table.id]
        is_all = len(places) == part.num_rows
        for target, name in ((old, old_of(table)), (new, new_of(table))) if places else ():
            structs = part.column(name) if is_all else part.column(name).take(pa.array(places))
            rows = typed_rows(structs, columns_of(table))
            if is_all:
                target[:] = rows
            else:
                for at, row in zip(places, rows, strict=True):
                    target[at] = row
    return zip(table_ids, old, new, strict=True)


class SliceRun:
    """One slice: a server of its own with some of the subscriptions, and the events that concern them."""

    def __init__(self, work: Work, number: int) -> None:
        self._work, self.number = work, number
        self._found: list[tuple[int, int, int, str]] = []
        is_needed = None if work.dividing is None else self._is_needed
        self._simulation = Simulation(work.tables, work.views, self._told, is_needed)
        self._constants: set[str] = set()
        self._subscriptions: list[tuple[int, Any]] | None = []

    def take(self, kind: int, part: Any) -> Iterator[Any]:
        """Rows of `STREAM` of one kind; gives notifications when there are many."""
        if kind == PARAMS:
            for number, params in zip(part["seq"].to_pylist(), part["params"].to_pylist(), strict=True):
                self.subscribe(number, params)
            return
        rows = _rows(part, self._work.tables)
        if kind == BASE:
            self.load(rows)
        elif kind == ROLL:
            self.roll(rows)
        else:
            seqs, ends, moments = (part[name].to_pylist() for name in ("seq", "request_end", "at"))
            self.apply(
                Event(seq, end, at, *row) for seq, end, at, row in zip(seqs, ends, moments, rows, strict=True)
            )
            if len(self._found) >= ROWS_A_BATCH:
                yield self._notifications()

    def subscribe(self, number: int, params: str) -> None:
        assert self._subscriptions is not None
        values = decode_exact(params)
        self._subscriptions.append((number, values))
        if self._work.dividing is not None:
            self._constants.update(self._work.dividing.constants(values))

    def load(self, rows: Iterable[tuple[int, Row | None, Row | None]]) -> None:
        """Rows of base copies, which are the new ones."""
        by_table: dict[int, list[Row]] = {}
        for table_id, _, row in rows:
            if row is not None:
                by_table.setdefault(table_id, []).append(row)
        for table_id, some in by_table.items():
            self._simulation.load(table_id, some)

    def roll(self, rows: Iterable[tuple[int, Row | None, Row | None]]) -> None:
        for table_id, old, new in rows:
            self._simulation.roll(table_id, old, new)

    def apply(self, events: Iterable[Event]) -> None:
        self._begin()
        self._simulation.take(events)

    def _is_needed(self, row: Row) -> bool:
        assert self._work.dividing is not None
        value = row[self._work.dividing.position]
        return value is not None and str(value) in self._constants

    def _begin(self) -> None:
        """All rows and subscriptions have come."""
        if self._subscriptions is not None:
            made, self._subscriptions = self._subscriptions, None
            if made:
                self._simulation.subscribe(self._work.statement, made, self._work.start)

    def _told(self, subscription: int, seq: int, at: int, change: bytes) -> None:
        self._found.append((subscription, seq, at, change.decode()))

    def finish(self) -> Iterator[Any]:
        """Notifications that were not given yet."""
        self._begin()
        self._simulation.finish()
        if self._found:
            yield self._notifications()

    def _notifications(self) -> Any:
        """What was found since the last call, as a batch."""
        columns: Sequence[Any] = list(zip(*self._found, strict=True))
        self._found = []
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
        return pa.record_batch(arrays, schema=_SCHEMA)
