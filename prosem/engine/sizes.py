"""What PostgreSQL can hold: the size of an index entry and of a row, known before anything is written.

An entry of a B-tree must fit a third of a page. Of a row, values longer than 20 bytes may be moved out of line and leave a
pointer of 18 bytes; the rest must fit a page. Both bounds are on the safe side by the alignment.
"""

from __future__ import annotations

from decimal import Decimal

from prosem.values.columns import Value
from prosem.values.model import Key, Row, Table

MAX_KEY_BYTES = 2_704
MAX_ROW_BYTES = 8_160
_POINTER_BYTES, _INLINE_BYTES = 18, 20
SAFE_COLUMNS = 300  # rows of so many columns fit, whatever they hold


def key_bytes(key: Key) -> int:
    """The most that a key takes in its index.

    >>> key_bytes((1, "x" * 500)), key_bytes(("é" * 500,))
    (520, 1016)
    """
    size = 8
    for value in key:
        size += 8 if not isinstance(value, str | bytes | Decimal) else (_value_bytes(value) + 4 + 7) // 8 * 8
    return size


def row_bytes(table: Table, row: Row) -> int:
    """The least that a row takes in its page, with everything out of line that may be."""
    size = 32 + len(table.columns) // 8
    for column, value in zip(table.columns, row, strict=True):
        if value is None:
            continue
        if column.type.name in _FIXED_BYTES:
            width = _FIXED_BYTES[column.type.name]
            size = (size + width - 1) // width * width + width
        elif column.type.name == "jsonb":
            size += _INLINE_BYTES + 1
        else:
            length = _value_bytes(value)
            size += length + 1 if length <= _INLINE_BYTES else _POINTER_BYTES
    return size


_FIXED_BYTES = {"boolean": 1, "integer": 4, "date": 4, "bigint": 8, "double precision": 8, "timestamptz": 8}


def _value_bytes(value: Value) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, Decimal):  # four digits to two bytes, and a group may begin anywhere
        return 4 + 2 * (len(value.as_tuple().digits) // 4 + 2)
    return len(value)
