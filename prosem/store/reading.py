"""Reads the rows of all tables over several connections that share one snapshot.

Tables are read in ranges of blocks (TID range scans), so that one large table is shared too. PostgreSQL works on the next
ranges while the rows of one are decoded. A range is one binary array per column, which columns of the engine's memory take
as they are; values that PostgreSQL stores outside of the table may be too large for an array, so such tables are read row by
row. Rows come in no order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from queue import Full, Queue
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import psycopg
from psycopg import sql

from prosem.store import catalog
from prosem.values.columns import ColumnType
from prosem.values.model import Row, Table
from prosem.values.packed_columns import OBJECT, Arrays, Reader, kind_of
from prosem.values.wire import decode

Connection = psycopg.Connection[tuple[Any, ...]]
Chunk = tuple[Table, list[Row] | Arrays]


class Range(NamedTuple):
    """Blocks of a table, from the first to before the last; None: to the end. `columns` are read."""

    table: Table
    columns: Sequence[int]
    first: int
    end: int | None
    in_arrays: bool


ROWS_PER_CHUNK = 10_000
BLOCKS_PER_RANGE = 1_024
BLOCKS_OF_OBJECTS = 64  # where values may be compressed: PostgreSQL refuses an array of 1 GiB
READERS = 3
_WAIT_S = 0.1
_EPOCHS = {"date": date(2000, 1, 1), "timestamptz": datetime(2000, 1, 1, tzinfo=UTC)}
_READERS: dict[str, Reader] = {"bytea": bytes, "jsonb": lambda sent: decode(sent[1:])}  # after its version


def block_ranges(
    connection: Connection,
    tables: Sequence[Table],
    columns: Mapping[int, Sequence[int]] = MappingProxyType({}),
    blocks_per_range: int = BLOCKS_PER_RANGE,
) -> list[Range]:
    """What there is to read, in ranges of blocks. `columns` are those of some tables by id; of others all are read."""
    found: list[Range] = []
    for table in tables:
        read = columns.get(table.id, range(len(table.columns)))
        size = sql.SQL(
            "SELECT pg_relation_size(oid) / current_setting('block_size')::integer,"
            " coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0) FROM pg_class WHERE oid = {}::regclass"
        ).format(sql.Literal(catalog.relation(table).as_string(connection)))
        row = connection.execute(size).fetchone()
        assert row is not None
        blocks, outside_bytes = row
        in_arrays = not outside_bytes
        step = blocks_per_range
        if in_arrays and any(kind_of(table.columns[at].type)[0] == OBJECT for at in read):
            step = min(step, BLOCKS_OF_OBJECTS)
        firsts = range(0, max(1, int(blocks)), step)
        found += [Range(table, read, first, first + step, in_arrays) for first in firsts[:-1]]
        found.append(Range(table, read, firsts[-1], None, in_arrays))
    return found


def read_ranges(connections: Sequence[Connection], ranges: Sequence[Range]) -> Iterator[Chunk]:
    """The rows of all ranges in chunks, read by one thread per connection; an error of any of them is raised."""
    if len(connections) == 1:
        for one in ranges:
            yield from _read(connections[0], one)
        return
    waiting = deque(ranges)
    chunks: Queue[Chunk | BaseException | None] = Queue(maxsize=2 * len(connections))
    is_over = threading.Event()
    threads = [
        threading.Thread(
            target=_work, args=(connection, waiting, chunks, is_over), name="prosem-reader", daemon=True
        )
        for connection in connections
    ]
    for thread in threads:
        thread.start()
    try:
        working = len(threads)
        while working:
            chunk = chunks.get()
            if isinstance(chunk, BaseException):
                raise chunk
            if chunk is None:
                working -= 1
            else:
                yield chunk
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _work(
    connection: Connection,
    waiting: deque[Range],
    chunks: Queue[Chunk | BaseException | None],
    is_over: threading.Event,
) -> None:
    try:
        while waiting:
            try:
                one = waiting.popleft()
            except IndexError:
                break
            for chunk in _read(connection, one):
                if not _put(chunks, chunk, is_over):
                    return
        _put(chunks, None, is_over)
    except BaseException as error:
        _put(chunks, error, is_over)


def _put(
    chunks: Queue[Chunk | BaseException | None], chunk: Chunk | BaseException | None, is_over: threading.Event
) -> bool:
    """Hand a chunk over; False if the reader has stopped."""
    while not is_over.is_set():
        try:
            chunks.put(chunk, timeout=_WAIT_S)
        except Full:
            continue
        return True
    return False


def _read(connection: Connection, range: Range) -> Iterator[Chunk]:
    table, read, first, end, in_arrays = range
    every = catalog.column_names(table)
    names = [every[at] for at in read]
    elements = [_element(table.columns[at].type, every[at]) for at in read]
    selected = [sql.SQL("array_agg({})").format(one.expression) for one in elements] if in_arrays else names
    text = sql.SQL("SELECT {} FROM ONLY {} WHERE ctid >= {}").format(
        sql.SQL(", ").join(selected), catalog.relation(table), sql.Literal(f"({first},0)")
    )
    if end is not None:
        text = sql.SQL("{} AND ctid < {}").format(text, sql.Literal(f"({end},0)"))
    if in_arrays:
        result = connection.execute(text, binary=True).pgresult
        assert result is not None
        columns = [result.get_value(0, at) for at, _ in enumerate(elements)]
        if None not in columns:  # there are rows
            readers, shifts = [one.reader for one in elements], [one.shift for one in elements]
            yield table, Arrays(cast("list[bytes]", columns), readers, shifts)
        return
    with connection.cursor("prosem_rows") as cursor:
        cursor.execute(text, binary=True)
        while rows := cursor.fetchmany(ROWS_PER_CHUNK):
            yield table, rows


class _Element(NamedTuple):
    """What is read of a column, and how it becomes a value: see `Arrays`."""

    expression: sql.Composable
    reader: Reader = None
    shift: int = 0


def _element(type: ColumnType, name: sql.Identifier) -> _Element:
    kind, scale = kind_of(type)
    if kind == "numeric":
        return _Element(sql.SQL("({} * {}::numeric)::bigint").format(name, sql.Literal(10**scale)))
    if type.name.startswith("numeric"):
        return _Element(sql.SQL("{}::text").format(name), lambda text: Decimal(text.decode()))
    if type.name in _EPOCHS:
        return _Element(name, shift=cast(int, type.code(_EPOCHS[type.name])))
    return _Element(name, _READERS.get(type.name))
