"""The first k rows at the edge: what messages do to them.

The edge holds the answer, for each topic of the subscription apart: `put` brings a row in, replaces it or moves it; `take`
takes one out and names those that may come in. A message about a row that is not among the first k, before or after it,
changes nothing: regions may be wider than what an event affects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import merge
from typing import Any

import msgspec

from cn.model.message import Message
from prosem.types.top_k.shape import Entry, TopKShape, Values
from prosem.values.wire import decode, encode

Held = Mapping[bytes, tuple[Entry, ...]]  # topic → its first rows by rank
_REMEMBERED = 64  # messages that were read: one concerns many subscriptions
_read_put = msgspec.json.Decoder(tuple[str | None, list[Any]]).decode
_read_take = msgspec.json.Decoder(tuple[str, list[tuple[Any, list[Any]]]]).decode


def write_put(before: bytes | None, values: Values) -> bytes:
    """The payload of `put`: the rank the row had under this topic, and its selected columns."""
    return encode((None if before is None else before.hex(), values))


def write_take(before: bytes, candidates: Sequence[tuple[Any, Values]]) -> bytes:
    """The payload of `take`: the rank the row had, and by rank the x and selected columns of those that may come in."""
    return encode((before.hex(), candidates))


class TopKFold:
    """Folds messages for all subscriptions of one shape. A message costs O(log k + what comes in) and a copy of k places."""

    def __init__(self, shape: TopKShape) -> None:
        self._shape = shape
        self._put = lru_cache(_REMEMBERED)(self._read_put)
        self._take = lru_cache(_REMEMBERED)(self._read_take)

    def _read_put(self, payload: bytes) -> tuple[bytes | None, Entry]:
        before, values = _read_put(payload)
        return None if before is None else bytes.fromhex(before), self._shape.read(values)

    def _read_take(self, payload: bytes) -> tuple[bytes, list[tuple[Any, Entry]]]:
        before, candidates = _read_take(payload)
        return bytes.fromhex(before), [(x, self._shape.read(values)) for x, values in candidates]

    def apply(self, held: Held, messages: Sequence[Message], place: Sequence[Any]) -> Held:
        """What is held after some messages, in their order."""
        after = dict(held)
        for message in messages:
            rows = list(after.get(message.topic, ()))
            if message.kind == "put":
                self._bring(rows, *self._put(message.payload))
            else:
                self._remove(rows, *self._take(message.payload), place)
            after[message.topic] = tuple(rows)
        return after

    def _bring(self, rows: list[Entry], before: bytes | None, entry: Entry) -> None:
        if before is not None:
            _drop(rows, before)
        at = bisect_left(rows, (entry[0],))
        if at < self._shape.count:
            rows.insert(at, entry)
            del rows[self._shape.count :]

    def _remove(
        self, rows: list[Entry], before: bytes, candidates: list[tuple[Any, Entry]], place: Sequence[Any]
    ) -> None:
        if not _drop(rows, before) or len(rows) < self._shape.count - 1:
            return  # it was not held, or all rows of the range are
        low, high = place
        for x, entry in candidates:
            if low <= x <= high and (not rows or rows[-1][0] < entry[0]):
                rows.append(entry)
                return

    def answer(self, held: Held) -> Sequence[Entry]:
        """The first k of all topics, by rank."""
        if len(held) == 1:
            (rows,) = held.values()
            return rows
        return list(merge(*held.values()))[: self._shape.count]

    # -- in another process ----------------------------------------------------------------------------------------
    def pack(self, held: Held) -> bytes:
        return encode([(topic.hex(), [values for _, values in rows]) for topic, rows in held.items()])

    def unpack(self, packed: bytes) -> Held:
        read = self._shape.read
        return {bytes.fromhex(topic): tuple(map(read, rows)) for topic, rows in decode(packed)}


def _drop(rows: list[Entry], rank: bytes) -> bool:
    """Take the row of a rank out; whether it was there."""
    at = bisect_left(rows, (rank,))
    if at == len(rows) or rows[at][0] != rank:
        return False
    del rows[at]
    return True
