"""Sending a batch whole: psycopg leaves what did not fit the socket's buffer unsent in pipeline mode.

`Pipeline.sync` and `commit` flush once and then wait for results. What is left of a large batch is never sent, and both
sides wait for ever. `flush_all` sends everything before results are waited for; results that arrive meanwhile are read,
so that the server never waits for us either.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
from psycopg import waiting

PIECE_BYTES = 1 << 20  # a list of a large batch is written in statements of about this size


def flush_all(connection: psycopg.Connection[Any]) -> None:
    """Send all that libpq has buffered; returns once PostgreSQL's socket has taken it."""
    if connection.pgconn.flush():
        with connection.lock:
            connection.wait(_flush(connection))


def _flush(connection: psycopg.Connection[Any]) -> Generator[waiting.Wait, waiting.Ready | int, None]:
    link = connection.pgconn
    while link.flush():
        ready = yield waiting.Wait.RW
        if ready & waiting.Ready.R:
            link.consume_input()
