"""How the messages of a select-join are written and read.

| kind | payload | contents |
| --- | --- | --- |
| `upsert` | [table, values of its key, join and condition columns] | the values of its other columns |
| `drop` | [table, primary key] | |
| `lose` | [table, classes, their values]: every row with these values goes | |
| `joined` | [rows added, rows removed], each a list of [values as above, its content] a table | of all rows, each once |

Values travel as JSON, as in an answer. Contents have digests: a network may send those where the contents are known. A row
that joins with many others travels once in whole, and then by its digest ([ProSem thesis] 5.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2s
from typing import Any, NamedTuple

import msgspec

from cn.model.geometry import Region
from prosem.types.base import Draft
from prosem.types.join.shape import JoinKey, JoinShape
from prosem.types.shared.messages import LONG_MESSAGES, SHORT_MESSAGE
from prosem.values.model import Key, Row
from prosem.values.wire import encode

DIGEST_SIZE = 12
_read = msgspec.json.Decoder(list[Any]).decode
_new = tuple.__new__  # a third quicker than calling the class of a named tuple
Joined = tuple[Row, ...]  # one row of each table, in FROM order


class Upsert(NamedTuple):
    table: int
    key: Key
    row: Row


class Remove(NamedTuple):
    table: int
    key: Key


class Lose(NamedTuple):
    table: int
    classes: tuple[int, ...]
    values: JoinKey


class JoinedRows(NamedTuple):
    added: tuple[Joined, ...]
    removed: tuple[Joined, ...]


Content = Upsert | Remove | Lose | JoinedRows


class JoinCodec:
    """Writes and reads the messages of one shape; what was read lately is shared by all affected subscriptions."""

    def __init__(self, shape: JoinShape) -> None:
        self._shape = shape
        self._used = [shape.columns(table) for table in range(len(shape.tables))]
        self._payload = [shape.payload(table) for table in range(len(shape.tables))]
        self._readers = [[column.type.read for column in table.columns] for table in shape.tables]
        self._read_short = lru_cache(maxsize=256)(self._decode)
        self._read_long = lru_cache(maxsize=LONG_MESSAGES)(self._decode)

    def read(self, kind: str, payload: bytes, contents: tuple[bytes, ...]) -> Content:
        """What a message says; of long ones few are remembered."""
        size = len(payload) + sum(map(len, contents))
        return (self._read_short if size <= SHORT_MESSAGE else self._read_long)(kind, payload, contents)

    # -- writing -------------------------------------------------------------------------------------------------
    def upsert(
        self, table: int, row: Row, region: Region = (), targets: tuple[int, ...] | None = None
    ) -> Draft:
        payload = encode((table, [row[at] for at in self._used[table]]))
        contents = (self._content(table, row),) if self._payload[table] else ()
        return _new(Draft, ("upsert", b"", region, targets, None, payload, contents, _digests(contents)))

    def remove(
        self, table: int, row: Row, region: Region = (), targets: tuple[int, ...] | None = None
    ) -> Draft:
        return self.remove_key(table, self._shape.tables[table].key_of(row), region, targets)

    def remove_key(
        self, table: int, key: Key, region: Region = (), targets: tuple[int, ...] | None = None
    ) -> Draft:
        return _new(Draft, ("drop", b"", region, targets, None, encode((table, key)), (), ()))

    def lose(
        self,
        table: int,
        classes: Sequence[int],
        values: JoinKey,
        region: Region = (),
        targets: tuple[int, ...] | None = None,
    ) -> Draft:
        return _new(Draft, ("lose", b"", region, targets, None, encode((table, classes, values)), (), ()))

    def joined(
        self,
        added: Sequence[Joined],
        removed: Sequence[Joined],
        region: Region = (),
        targets: tuple[int, ...] | None = None,
    ) -> Draft:
        numbers: dict[bytes, int] = {}  # of contents
        payload = encode([[self._parts(joined, numbers) for joined in some] for some in (added, removed)])
        contents = tuple(numbers)
        return Draft("joined", b"", region, targets, None, payload, contents, _digests(contents))

    def _parts(self, joined: Joined, numbers: dict[bytes, int]) -> list[tuple[list[Any], int | None]]:
        parts = []
        for table, row in enumerate(joined):
            number = None
            if self._payload[table]:
                number = numbers.setdefault(self._content(table, row), len(numbers))
            parts.append(([row[at] for at in self._used[table]], number))
        return parts

    def _content(self, table: int, row: Row) -> bytes:
        return encode([row[at] for at in self._payload[table]])

    # -- reading -------------------------------------------------------------------------------------------------
    def _decode(self, kind: str, payload: bytes, contents: tuple[bytes, ...]) -> Content:
        body = _read(payload)
        if kind == "joined":
            read = [_read(content) for content in contents]
            return JoinedRows(*(tuple([self._joined(joined, read) for joined in some]) for some in body))
        table, values = body[0], body[-1]
        own = self._shape.tables[table]
        if kind == "upsert":
            whole = self._row(table, values, _read(contents[0]) if contents else ())
            return Upsert(table, own.key_of(whole), whole)
        if kind == "drop":
            return Remove(
                table,
                tuple(
                    [
                        self._value(table, at, value)
                        for at, value in zip(own.key_positions, values, strict=True)
                    ]
                ),
            )
        assert kind == "lose", f"an unknown kind of message: {kind}"
        classes = tuple(body[1])
        keys = [self._key_value(table, number, value) for number, value in zip(classes, values, strict=True)]
        return Lose(table, classes, tuple(keys))

    def _key_value(self, table: int, number: int, value: Any) -> Any:
        """The value of a class. Whole numbers and decimals may be joined: then it comes in the form of either."""
        members = self._shape.classes[number].items()
        if len({self._shape.tables[one].columns[at].type.name for one, at in members}) > 1:
            return Decimal(value)
        return self._value(table, self._shape.classes[number][table], value)

    def _joined(self, parts: list[tuple[list[Any], int | None]], contents: list[list[Any]]) -> Joined:
        return tuple(
            [
                self._row(table, values, () if number is None else contents[number])
                for table, (values, number) in enumerate(parts)
            ]
        )

    def _row(self, table: int, values: Sequence[Any], rest: Sequence[Any]) -> Row:
        row: list[Any] = [None] * len(self._readers[table])
        for places, some in ((self._used[table], values), (self._payload[table], rest)):
            for at, value in zip(places, some, strict=True):
                row[at] = self._value(table, at, value)
        return tuple(row)

    def _value(self, table: int, at: int, value: Any) -> Any:
        return None if value is None else self._readers[table][at](value)


def _digests(contents: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple([blake2s(content, digest_size=DIGEST_SIZE).digest() for content in contents])
