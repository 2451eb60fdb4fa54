"""What PostgreSQL can hold: the size of an index entry and of a row, known before anything is written.

An entry of a B-tree must fit a third of a page; that bound is on the safe side by the alignment. Of a row, values longer
than 23 bytes may be moved out of line and leave a pointer of 18 bytes; the rest must fit a page. That bound is the least
that the row takes: PostgreSQL compresses first, and a value that shrinks to 24 bytes or fewer stays in the row. Hundreds of
such values in one row are not foreseen here: `suspects.py` has the events of tables with so many columns tried first.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from prosem.values.columns import Value
from prosem.values.model import Key, Row, Table

MAX_KEY_BYTES = 2_704
MAX_ROW_BYTES = 8_160
_POINTER_BYTES, _INLINE_BYTES = 18, 23
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
            size += _stored_bytes(jsonb_bytes(value))
        else:
            size += _stored_bytes(_value_bytes(value))
    return size


def _stored_bytes(length: int) -> int:
    return length + 1 if length <= _INLINE_BYTES else _POINTER_BYTES


def jsonb_bytes(value: Any) -> int:
    """The least that a jsonb takes, without alignment; counted no further than to what is moved out of line.

    >>> jsonb_bytes(True), jsonb_bytes("abc"), jsonb_bytes([]), jsonb_bytes({"a": [1, 20000]})
    (8, 11, 4, 25)
    """
    size = 0 if isinstance(value, list | dict) else 8  # a scalar is an array of one element
    todo = [value]
    while todo and size <= _INLINE_BYTES:
        node = todo.pop()
        if isinstance(node, dict):
            size += 4 + 8 * len(node) + sum(len(name) for name in node)
            todo += node.values()
        elif isinstance(node, list):
            size += 4 + 4 * len(node)
            todo += node
        elif isinstance(node, str):
            size += len(node)
        elif isinstance(node, int | float) and not isinstance(node, bool):
            size += 8 if node else 6
    return size


_FIXED_BYTES = {"boolean": 1, "integer": 4, "date": 4, "bigint": 8, "double precision": 8, "timestamptz": 8}


def _value_bytes(value: Value) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, Decimal):  # four digits to two bytes, and a group may begin anywhere
        return 4 + 2 * (len(value.as_tuple().digits) // 4 + 2)
    return len(value)
