"""Messages of PostgreSQL's logical replication: the stream's own, and those of the plugin pgoutput (protocol 1).

Values come as text, as the type's output function writes them. Positions are LSNs: bytes of the source's log.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from prosem.values.errors import SetupError

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_INSERT, _UPDATE, _DELETE, _BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"IUDBCRT"  # kinds of messages
_NULL, _UNCHANGED, _TEXT = b"nut"  # kinds of values
_number, _count = struct.Struct("!I").unpack_from, struct.Struct("!H").unpack_from


class Unchanged:
    """The place of a long value that the source did not send, because the update left it as it was (TOAST)."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()
Cell = str | None | Unchanged
Cells = tuple[Cell, ...]


class Attribute(NamedTuple):
    """A column of a relation: its type (OID), the type's modifier (-1: none), and whether it identifies the row."""

    name: str
    type: int
    modifier: int
    is_key: bool


class Relation(NamedTuple):
    id: int
    """OID of the table"""
    schema: str
    name: str
    identity: str
    """its replica identity: d (primary key), i (an index), f (the whole row), n (nothing)"""
    columns: tuple[Attribute, ...]


class Begin(NamedTuple):
    at: datetime


class Commit(NamedTuple):
    end: int
    """the position after the transaction"""


class Changed(NamedTuple):
    """`old` is there if the key changed or the row is gone; cells outside of the key may be None in it."""

    op: str
    relation: int
    old: Cells | None
    new: Cells | None


class Truncated(NamedTuple):
    relations: tuple[int, ...]


Message = Relation | Begin | Commit | Changed | Truncated


class Data(NamedTuple):
    """A frame of the stream with a message of the plugin, None if it is of no concern; `end` is the end of the log."""

    message: Message | None
    end: int


class Alive(NamedTuple):
    """A keepalive; everything of the published tables before `end` has been sent."""

    end: int
    wants_reply: bool


def frame(data: bytes) -> Data | Alive:
    """One frame of the replication stream; SetupError if it is none that PostgreSQL's manual describes."""
    try:
        return _frame(data)
    except (struct.error, IndexError, ValueError, ArithmeticError) as error:
        raise SetupError(
            f"the source sent a frame of {len(data)} bytes that is none of its replication protocol ({error}): use a direct"
            " connection to a PostgreSQL 14 or newer"
        ) from error


def _frame(data: bytes) -> Data | Alive:
    if data[:1] == b"w":
        _, end, _ = struct.unpack_from("!QQq", data, 1)
        return Data(message(data[25:]), end)
    if data[:1] == b"k":
        end, _, wants_reply = struct.unpack_from("!QqB", data, 1)
        return Alive(end, bool(wants_reply))
    raise ValueError(f"unknown frame {data[:1]!r} in the replication stream")


def status_update(position: int, now: datetime) -> bytes:
    """The frame that reports to the source what is safe here; it may forget the log before that."""
    clock = (now - _EPOCH) // timedelta(microseconds=1)
    return b"r" + struct.pack("!QQQqB", position, position, position, clock, 0)


def lsn(text: str) -> int:
    """
    >>> lsn("16/B374D848"), written(lsn("16/B374D848"))
    (97500059720, '16/B374D848')
    """
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def written(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def message(data: bytes) -> Message | None:
    """One message of the plugin; None for kinds that say nothing about rows (origins, types)."""
    kind = data[0]
    if kind == _INSERT:
        (relation,) = _number(data, 1)
        return Changed("insert", relation, None, _cells(data, 6)[0])
    if kind == _UPDATE:
        (relation,) = _number(data, 1)
        old: Cells | None = None
        at = 6
        if data[5] in b"KO":
            old, at = _cells(data, 6)
            at += 1
        return Changed("update", relation, old, _cells(data, at)[0])
    if kind == _DELETE:
        (relation,) = _number(data, 1)
        return Changed("delete", relation, _cells(data, 6)[0], None)
    if kind == _BEGIN:
        _, microseconds, _ = struct.unpack_from("!QqI", data, 1)
        return Begin(_EPOCH + timedelta(microseconds=microseconds))
    if kind == _COMMIT:
        _, _, end, _ = struct.unpack_from("!BQQq", data, 1)
        return Commit(end)
    if kind == _RELATION:
        return _Reader(data, 1).relation()
    if kind == _TRUNCATE:
        count, _ = struct.unpack_from("!IB", data, 1)
        return Truncated(struct.unpack_from(f"!{count}I", data, 6))
    return None


def _cells(data: bytes, at: int) -> tuple[Cells, int]:
    """The values of a row, and where they end."""
    (count,) = _count(data, at)
    at += 2
    found: list[Cell] = []
    for _ in range(count):
        kind, at = data[at], at + 1
        if kind == _NULL:
            found.append(None)
        elif kind == _UNCHANGED:
            found.append(UNCHANGED)
        else:
            (length,) = _number(data, at)
            at += 4
            if kind != _TEXT or len(data) < at + length:
                raise ValueError(f"a value of {length} bytes and kind {kind} is not there")
            found.append(data[at : at + length].decode())
            at += length
    return tuple(found), at


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def unpack(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def take(self, form: str) -> bytes:
        (found,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return bytes(found)

    def name(self) -> str:
        end = self._data.index(b"\0", self._at)
        found, self._at = self._data[self._at : end].decode(), end + 1
        return found

    def relation(self) -> Relation:
        (number,) = self.unpack("!I")
        schema, name = self.name(), self.name()
        identity = self.take("c").decode()
        (count,) = self.unpack("!H")
        columns = []
        for _ in range(count):
            (flags,) = self.unpack("!B")
            column = self.name()
            kind, modifier = self.unpack("!Ii")
            columns.append(Attribute(column, kind, modifier, bool(flags & 1)))
        return Relation(number, schema, name, identity, tuple(columns))
