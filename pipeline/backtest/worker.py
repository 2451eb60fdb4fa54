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

from collections.abc import Callable, Iterator, Sequence
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
        slice_run: SliceRun | None = None
        for batch in batches:
            for number, *row in _records(batch, work.tables):
                if slice_run is None or slice_run.number != number:
                    if slice_run is not None:
                        yield from slice_run.finish()
                    slice_run = SliceRun(work, number)
                slice_run.take(*row)
                if len(slice_run.found) >= ROWS_A_BATCH:
                    yield slice_run.notifications()
        if slice_run is not None:
            yield from slice_run.finish()

    return run


def old_of(table: Table) -> str:
    return f"old_{table.id}"


def new_of(table: Table) -> str:
    return f"new_{table.id}"


def _records(batch: Any, tables: Sequence[Table]) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch as `SliceRun.take` has them, after their slice: what is of the record's table is old and new."""
    width = len(STREAM.split(", "))
    columns = [batch.column(at).to_pylist() for at in range(width)]
    table_ids = columns[3]
    old: list[Row | None] = [None] * batch.num_rows
    new: list[Row | None] = [None] * batch.num_rows
    for table in tables:
        places = [at for at, number in enumerate(table_ids) if number == table.id]
        if places:
            for target, name in ((old, old_of(table)), (new, new_of(table))):
                structs = batch.column(name).take(pa.array(places))
                for at, row in zip(places, typed_rows(structs, columns_of(table)), strict=True):
                    target[at] = row
    return zip(*columns, old, new, strict=True)


class SliceRun:
    """One slice: a server of its own with some of the subscriptions, and the events that concern them."""

    def __init__(self, work: Work, number: int) -> None:
        self._work, self.number = work, number
        self.found: list[tuple[int, int, int, str]] = []
        self._simulation = Simulation(work.tables, work.views, self._told, self._is_needed)
        self._constants: set[str] = set()
        self._rows: dict[int, list[Row]] = {}
        self._subscriptions: list[tuple[int, Any]] | None = []
        self._request: list[Event] = []
        self._at: dict[int, int] = {}  # of the seqs that may be notified of

    def take(
        self,
        kind: int,
        place: int,
        table_id: int,
        seq: int,
        request_end: int,
        at: int,
        params: str | None = None,
        old: Row | None = None,
        new: Row | None = None,
    ) -> None:
        if kind == EVENT:
            if self._request and self._request[-1].seq == seq:
                return  # a row that went from one value to another comes to a slice that needs both by either
            self._begin()
            event = Event(seq, table_id, old, new, request_end)
            if self._request and self._request[-1].request_end != request_end:
                self._end_request()
            self._request.append(event)
            self._at[seq] = self._at[request_end] = at
        elif kind == PARAMS:
            assert self._subscriptions is not None
            values = decode_exact(params or "{}")
            self._subscriptions.append((seq, values))
            if self._work.dividing is not None:
                self._constants.update(self._work.dividing.constants(values))
        elif kind == ROLL:
            self._load()
            self._simulation.roll(table_id, old, new)
        elif new is not None:
            rows = self._rows.setdefault(table_id, [])
            rows.append(new)
            if len(rows) >= ROWS_A_BATCH:
                self._load()

    def _is_needed(self, row: Row) -> bool:
        dividing = self._work.dividing
        if dividing is None:
            return True
        value = row[dividing.position]
        return value is not None and str(value) in self._constants

    def _load(self) -> None:
        for table_id, rows in self._rows.items():
            self._simulation.load(table_id, rows)
        self._rows = {}

    def _begin(self) -> None:
        """All rows and subscriptions have come."""
        if self._subscriptions is not None:
            self._load()
            made, self._subscriptions = self._subscriptions, None
            if made:
                self._simulation.subscribe(self._work.statement, made, self._work.start)

    def _end_request(self) -> None:
        request, self._request = self._request, []
        if request and self._simulation.take(request):
            self._at.clear()

    def _told(self, subscription: int, seq: int, change: bytes) -> None:
        self.found.append((subscription, seq, self._at[seq], change.decode()))

    def finish(self) -> Iterator[Any]:
        self._begin()
        self._end_request()
        self._simulation.finish()
        if self.found:
            yield self.notifications()

    def notifications(self) -> Any:
        """What was found since the last call, as a batch."""
        columns: Sequence[Any] = list(zip(*self.found, strict=True))
        self.found = []
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
        return pa.record_batch(arrays, schema=_SCHEMA)
