"""Reads the rows of all tables over several connections that share one snapshot.

Tables are read in ranges of blocks (TID range scans), so that one large table is shared too. PostgreSQL works on the next
ranges while the rows of one are decoded; decoding itself holds Python's lock, and bounds the rate. Rows come in no order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from queue import Full, Queue
from typing import Any

import psycopg
from psycopg import sql

from prosem.store import catalog
from prosem.values.model import Row, Table

Connection = psycopg.Connection[tuple[Any, ...]]
Chunk = tuple[Table, list[Row]]
Range = tuple[Table, int, int | None]  # of blocks, from the first to before the last; None: to the end

ROWS_PER_CHUNK = 10_000
BLOCKS_PER_RANGE = 1_024
READERS = 3
_WAIT_S = 0.1


def block_ranges(
    connection: Connection, tables: Sequence[Table], blocks_per_range: int = BLOCKS_PER_RANGE
) -> list[Range]:
    """What there is to read, in ranges of blocks."""
    found: list[Range] = []
    for table in tables:
        size = sql.SQL(
            "SELECT pg_relation_size({}::regclass) / current_setting('block_size')::integer"
        ).format(sql.Literal(catalog.relation(table).as_string(connection)))
        row = connection.execute(size).fetchone()
        assert row is not None
        firsts = range(0, max(1, int(row[0])), blocks_per_range)
        found += [(table, first, first + blocks_per_range) for first in firsts[:-1]]
        found.append((table, firsts[-1], None))
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
    table, first, end = range
    text = sql.SQL("SELECT {} FROM ONLY {} WHERE ctid >= {}").format(
        sql.SQL(", ").join(catalog.column_names(table)), catalog.relation(table), sql.Literal(f"({first},0)")
    )
    if end is not None:
        text = sql.SQL("{} AND ctid < {}").format(text, sql.Literal(f"({end},0)"))
    with connection.cursor("prosem_rows") as cursor:
        cursor.execute(text, binary=True)
        while rows := cursor.fetchmany(ROWS_PER_CHUNK):
            yield table, rows
