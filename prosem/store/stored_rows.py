"""Reads rows that are committed, for an engine that does not hold all columns in memory.

One connection of the engine's thread, opened when it is first needed and again when it broke. A read shows every batch that
was acknowledged before it. A read that fails is a BusyError: PostgreSQL may be there again for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from prosem.store import catalog
from prosem.store.connecting import KEEPALIVE
from prosem.store.packing import Packed, PackedDumper
from prosem.store.reading import block_ranges, read_ranges
from prosem.store.recovery import register_loaders
from prosem.values.errors import BusyError
from prosem.values.model import Key, Row, Table
from prosem.values.packed_columns import Arrays

KEYS_AT_ONCE = 10_000  # in one statement
_LOCK_S = 10  # that a lock of another session may take
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class StoredRows:
    """`address` is asked at each connecting: the embedded PostgreSQL may come back at another one."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self._connection: psycopg.Connection[Any] | None = None
        self._statements: dict[tuple[int, tuple[int, ...]], catalog.ReadStatement] = {}

    def read(self, table: Table, columns: Sequence[int], keys: Sequence[Key]) -> list[tuple[Key, Row]]:
        """Some columns of the rows with these keys, in no order."""
        before = self._connection
        try:
            return self._found(self._connected(), table, columns, keys)
        except psycopg.Error as error:
            if before is None or not before.closed:
                raise _failed(error) from error
        try:  # the connection had broken since the last read
            return self._found(self._connected(), table, columns, keys)
        except psycopg.Error as error:
            raise _failed(error) from error

    def load(self, table: Table, columns: Sequence[int]) -> Iterator[list[Row] | Arrays]:
        """Some columns of all rows of the table, as of one moment."""
        self.close()  # a broken one is noticed only when it is used
        try:
            connection = self._connected()
            connection.execute(_BEGIN)
            for _, rows in read_ranges([connection], block_ranges(connection, [table], {table.id: columns})):
                yield rows
            connection.execute("COMMIT")
        except psycopg.Error as error:
            raise _failed(error) from error
        finally:
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _found(
        self, connection: psycopg.Connection[Any], table: Table, columns: Sequence[int], keys: Sequence[Key]
    ) -> list[tuple[Key, Row]]:
        at = table.id, tuple(columns)
        statement = self._statements.get(at)
        if statement is None:
            statement = self._statements[at] = catalog.read_statement(table, columns)
        found, width = [], len(table.key_positions)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = statement.pack_keys(keys[start : start + KEYS_AT_ONCE])
            for row in connection.execute(statement.text, some, binary=True):
                found.append((row[:width], row[width:]))
        return found

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = connection = psycopg.connect(
                self._address(), autocommit=True, client_encoding="utf8", application_name="prosem engine",
                cursor_factory=psycopg.RawCursor, **KEEPALIVE,
            )  # fmt: skip
            connection.adapters.register_dumper(Packed, PackedDumper)
            register_loaders(connection)
            connection.execute(f"SET timezone = 'UTC'; SET lock_timeout = '{_LOCK_S}s'")
        return self._connection


def _failed(error: psycopg.Error) -> BusyError:
    said = str(error).strip()
    return BusyError(f"columns that are not in memory could not be read ({said}); nothing was applied")
