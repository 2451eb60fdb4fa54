"""How the messages of filters are written and read.

| event | payload | contents |
| --- | --- | --- |
| a row came or changed | [columns, their values, columns that changed (null: it came)] | the values of the others |
| a row went | [the values of its key] | |

The payload has the key and the columns that some condition looks at; the others are the content, unless they are
short. An event that leaves them as they were has the digest of the event before it, so a network that remembers contents
does not carry them again: a select with payload ([ProSem thesis] 5.6.1) without a join. The attribute vectors have no codes
for columns without a condition. Old values do not travel: an edge only asks which of its columns changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2s
from typing import Any

import msgspec

from prosem.types.base import Draft
from prosem.types.shared import rules
from prosem.types.shared.messages import LONG_MESSAGES, SHORT_MESSAGE
from prosem.values.model import Row, Table
from prosem.values.wire import changed_columns, encode, is_same

DIGEST_SIZE = 12
SHORT = 64  # bytes of columns without a condition that travel in the payload: a digest would save little
_read = msgspec.json.Decoder(list[Any]).decode

_new = tuple.__new__  # a third quicker than calling the class of a named tuple
Vector = tuple[Any, ...]  # a code per column


def vectors_of(
    table: Table, old: Row | None, new: Row | None, conditions: Collection[int]
) -> tuple[Vector | None, Vector | None]:
    """The attribute vectors of a row before and after an event."""
    return codes(table, old, conditions), codes(table, new, conditions)


def row_draft(table: Table, old: Row | None, new: Row | None, conditions: Collection[int]) -> Draft:
    """The message of an event for filters with conditions on these columns."""
    return draft_with(vectors_of(table, old, new, conditions), table, old, new, conditions)


def draft_with(
    vectors: tuple[Vector | None, Vector | None],
    table: Table,
    old: Row | None,
    new: Row | None,
    conditions: Collection[int],
) -> Draft:
    """The same with vectors that are known."""
    if new is None:
        assert old is not None, "an event has a row before or after it"
        return Draft("row", attributes=vectors, payload=encode([table.key_of(old)]))
    wanted = {*conditions, *table.key_positions}
    rest = encode([value for at, value in enumerate(new) if at not in wanted])
    if len(rest) <= SHORT:
        wanted = {*range(len(new))}
    places = sorted(wanted)
    payload = encode((places, [new[at] for at in places], None if old is None else _changed(old, new)))
    if len(rest) <= SHORT:
        return _new(Draft, ("row", b"", (), None, vectors, payload, (), ()))
    digest = blake2s(rest, digest_size=DIGEST_SIZE).digest()
    return Draft("row", attributes=vectors, payload=payload, contents=(rest,), digests=(digest,))


def codes(table: Table, row: Row | None, conditions: Collection[int]) -> Vector | None:
    """The attribute vector of a row: one code per column, None for NULL (jsonb: 0, it is only asked whether it is NULL)."""
    if row is None:
        return None
    found: list[Any] = [None] * len(row)
    for at in conditions:
        value = row[at]
        if value is not None:
            encode = table.columns[at].type.encode
            found[at] = 0 if encode is None else encode(value)
    return tuple(found)


def _changed(old: Row, new: Row) -> list[int]:
    return [at for at in changed_columns(old, new) if not is_equal(old[at], new[at])]


def is_equal(was: Any, now: Any) -> bool:
    """Whether a reader sees no difference; decimals of a view that differ in their scale alone are not one."""
    return is_same(was, now) or (type(was) is type(now) is Decimal and was == now)


def row_change(
    payload: bytes,
    contents: tuple[bytes, ...],
    was: bool,
    now: bool,
    table: Table,
    columns: tuple[int, ...],
) -> bytes | None:
    """The change of one event, the same for all filters with these columns; None if they are not notified.

    Cached: many subscriptions need the change of one message, one after the other. Of large rows few are remembered.
    """
    size = len(payload) + sum(map(len, contents))
    cached = _short_change if size <= SHORT_MESSAGE else _long_change
    return cached(payload, contents, was, now, table, columns)


def _row_change(
    payload: bytes,
    contents: tuple[bytes, ...],
    was: bool,
    now: bool,
    table: Table,
    columns: tuple[int, ...],
) -> bytes | None:
    body, names = _read(payload), table.names
    change: dict[str, list[Any]] = {"add": [], "remove": [], "update": []}
    if len(body) == 1:
        (key,) = body
        change["remove"] = [dict(zip(table.primary_key, key, strict=True))]
        return encode(change) if was else None
    places, values, changed = body
    row = dict(zip(places, values, strict=True))
    if now:
        if was and changed is not None and not set(changed) & set(columns):
            return None
        row |= _rest(table, places, contents)
        change["update" if was else "add"] = [{names[at]: row[at] for at in columns}]
    elif was:
        change["remove"] = [{names[at]: row[at] for at in table.key_positions}]
    else:
        return None
    return encode(change)


def union(changes: Sequence[bytes]) -> bytes | None:
    """The changes of several rows as one; None if there are none. A row has at most one of them."""
    if len(changes) <= 1:
        return changes[0] if changes else None
    read = [rules.listed(change) for change in changes]
    return encode({name: [row for change in read for row in change[name]] for name in read[0]})


_short_change = lru_cache(maxsize=512)(_row_change)
_long_change = lru_cache(maxsize=LONG_MESSAGES)(_row_change)


def _rest(table: Table, places: Sequence[int], contents: tuple[bytes, ...]) -> dict[int, Any]:
    if not contents:
        return {}
    others = [at for at in range(len(table.columns)) if at not in set(places)]
    return dict(zip(others, _read(contents[0]), strict=True))
