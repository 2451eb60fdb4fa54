"""How the messages of a select-join are written and read.

| kind | payload | content |
| --- | --- | --- |
| `upsert` | [table, values of its key, join and condition columns] | the values of its other columns |
| `drop` | [table, primary key] | |
| `lose` | [table, classes, their values]: every row with these values goes | |
| `joined` | [rows added, rows removed], each a list of one row a table | |

Values travel as JSON, as in an answer. Contents have a digest: a network may send that where the content is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2s
from typing import Any, NamedTuple

import msgspec

from cn.geometry import Region
from prosem.model import Key, Row
from prosem.types.base import Draft
from prosem.types.join_shape import JoinKey, JoinShape
from prosem.wire import encode

DIGEST_SIZE = 12
_read = msgspec.json.Decoder(list[Any]).decode
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
    """Writes and reads the messages of one shape; what was read lately is shared by all whom it concerns."""

    def __init__(self, shape: JoinShape) -> None:
        self._shape = shape
        self._used = [shape.columns(table) for table in range(len(shape.tables))]
        self._payload = [shape.payload(table) for table in range(len(shape.tables))]
        self._readers = [[column.type.read for column in table.columns] for table in shape.tables]
        self.read: Callable[[str, bytes, bytes], Content] = lru_cache(maxsize=256)(self._decode)

    # -- writing -------------------------------------------------------------------------------------------------
    def upsert(
        self, table: int, row: Row, region: Region = (), targets: tuple[int, ...] | None = None
    ) -> Draft:
        payload = encode((table, [row[at] for at in self._used[table]]))
        rest = self._payload[table]
        content = encode([row[at] for at in rest]) if rest else b""
        digest = blake2s(content, digest_size=DIGEST_SIZE).digest() if rest else b""
        return Draft("upsert", b"", region, targets, None, payload, content, digest)

    def remove(
        self, table: int, row: Row, region: Region = (), targets: tuple[int, ...] | None = None
    ) -> Draft:
        key = self._shape.tables[table].key_of(row)
        return Draft("drop", b"", region, targets, None, encode((table, key)))

    def lose(
        self,
        table: int,
        classes: Sequence[int],
        values: JoinKey,
        region: Region = (),
        targets: tuple[int, ...] | None = None,
    ) -> Draft:
        return Draft("lose", b"", region, targets, None, encode((table, classes, values)))

    def joined(
        self,
        added: Sequence[Joined],
        removed: Sequence[Joined],
        region: Region = (),
        targets: tuple[int, ...] | None = None,
    ) -> Draft:
        return Draft("joined", b"", region, targets, None, encode((added, removed)))

    # -- reading -------------------------------------------------------------------------------------------------
    def _decode(self, kind: str, payload: bytes, content: bytes) -> Content:
        body = _read(payload)
        if kind == "joined":
            return JoinedRows(*(tuple(map(self._joined, some)) for some in body))
        table, values = body[0], body[-1]
        own = self._shape.tables[table]
        if kind == "upsert":
            row: list[Any] = [None] * len(own.columns)
            for at, value in zip(self._used[table], values, strict=True):
                row[at] = self._value(table, at, value)
            if content:
                for at, value in zip(self._payload[table], _read(content), strict=True):
                    row[at] = self._value(table, at, value)
            whole = tuple(row)
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

    def _joined(self, rows: list[list[Any]]) -> Joined:
        return tuple(
            tuple([self._value(table, at, value) for at, value in enumerate(row)])
            for table, row in enumerate(rows)
        )

    def _value(self, table: int, at: int, value: Any) -> Any:
        return None if value is None else self._readers[table][at](value)
