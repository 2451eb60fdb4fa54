"""The rank of a row under ORDER BY: bytes that compare as PostgreSQL orders, ties by primary key ascending.

| part | bytes |
| --- | --- |
| NULL flag | 0 for what comes first of values and NULLs, 1 for the other |
| a 64-bit code | 8 bytes, big-endian, with the sign bit turned |
| a text code | UTF-8, which keeps the order of code points, and a zero byte |
| descending | every byte of the value's part turned |

Key columns follow, ascending; those of views may be NULL, which sorts last. One type of code serves the index, the edge and
(in hexadecimal digits) clients. Comparing two costs less than comparing tuples of codes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from prosem.values.columns import ColumnType

_SIGN = 1 << 63
_LARGEST = (1 << 64) - 1
_TURNED = bytes(range(255, -1, -1))
_long = struct.Struct(">Q").pack
_flagged = struct.Struct(">BQQ").pack
Ranker = Callable[[Sequence[Any]], bytes]


def ranker(
    order: tuple[int, ColumnType],
    keys: Sequence[tuple[int, ColumnType]],
    *,
    is_descending: bool,
    nulls_first: bool,
    keys_may_be_null: bool = False,
) -> Ranker:
    """A function that ranks rows, or what was selected of them; columns are given by position and type.

    >>> from prosem.values.columns import column_type
    >>> text, number = column_type("text"), column_type("integer")
    >>> rank = ranker((0, text), [(1, number)], is_descending=True, nulls_first=False)
    >>> sorted([("a", 2), ("ab", 1), (None, 0), ("a", 1)], key=rank)
    [('ab', 1), ('a', 1), ('a', 2), (None, 0)]
    """
    at, kind = order
    value_flag, null_flag = (b"\1", b"\0") if nulls_first else (b"\0", b"\1")
    of_value, of_keys = _part(kind), [(place, _part(other)) for place, other in keys]

    def rank(row: Sequence[Any]) -> bytes:
        value = row[at]
        if value is None:
            parts = [null_flag]
        else:
            part = of_value(value)
            parts = [value_flag, part.translate(_TURNED) if is_descending else part]
        for place, of_key in of_keys:
            value = row[place]
            if keys_may_be_null:
                parts.append(b"\1" if value is None else b"\0")
            if value is not None:
                parts.append(of_key(value))
        return b"".join(parts)

    if keys_may_be_null or len(keys) != 1 or not (kind.int64 and keys[0][1].int64):
        return rank
    place, encode, encode_key, flag = keys[0][0], kind.encode, keys[0][1].encode, value_flag[0]
    assert encode is not None, "ORDER BY names a column that has an order"
    assert encode_key is not None, "keys have an order"

    def rank_integers(row: Sequence[Any]) -> bytes:
        value = row[at]
        if value is None:
            return rank(row)
        code: Any = encode(value)
        key: Any = encode_key(row[place])
        code += _SIGN
        return _flagged(flag, _LARGEST - code if is_descending else code, key + _SIGN)

    return rank_integers


def _part(kind: ColumnType) -> Callable[[Any], bytes]:
    encode = kind.encode
    assert encode is not None, "rows are ordered by columns that have an order"
    if kind.int64:
        return lambda value: _long(int(encode(value)) + _SIGN)
    return lambda value: f"{encode(value)}\0".encode()
