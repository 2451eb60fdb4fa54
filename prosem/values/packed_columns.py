"""Columns of fixed-width codes: how values of each type are packed, and read back exactly as they were.

An integer is its code, a double its bits; a date, a moment, a boolean and a numeric of at most 18 digits are their
order-preserving codes. Text, bytea, jsonb and wide numerics are held as Python objects.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prosem.values.columns import INT64_MAX, INT64_MIN, ColumnType, Value

Codes = NDArray[np.int64]
Reader = Callable[[bytes], Value] | None  # makes a value from PostgreSQL's bytes; None: they are text

OBJECT = "object"
_KINDS = {
    "boolean": "boolean",
    "integer": "int32",
    "bigint": "int64",
    "double precision": "double",
    "date": "date",
    "timestamptz": "moment",
}
_TYPECODES = {
    "boolean": "b",
    "int32": "i",
    "int64": "q",
    "double": "d",
    "date": "i",
    "moment": "q",
    "numeric": "q",
}
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_ARRAY_START = struct.Struct(">4xi4xi")  # of dimensions, whether there are NULLs, type, length, first place
_HEADER_BYTES = 20


def kind_of(type: ColumnType) -> tuple[str, int]:
    """How values of a type are held, and the decimals of a numeric.

    >>> from prosem.values.columns import column_type
    >>> kind_of(column_type("numeric(12,2)")), kind_of(column_type("numeric(19,0)")), kind_of(column_type("bigint"))
    (('numeric', 2), ('object', 0), ('int64', 0))
    """
    if type.name.startswith("numeric"):
        return ("numeric", type.scale) if type.int64 else (OBJECT, 0)
    return _KINDS.get(type.name, OBJECT), 0


class Arrays(NamedTuple):
    """Many rows as one binary array of PostgreSQL per column, with what makes values of the elements.

    A numeric of at most 18 digits is sent as its code. `shifts` are added to codes: PostgreSQL counts days and
    microseconds from 2000.
    """

    columns: list[bytes]
    readers: list[Reader]
    shifts: list[int]

    def first(self, count: int) -> Arrays:
        """The first columns."""
        return Arrays(self.columns[:count], self.readers[:count], self.shifts[:count])


class Packing(NamedTuple):
    """`pack` gives the code of a value, None if that would not give it back exactly; None: values are their codes."""

    pack: Callable[[Value], Any]
    unpack: Callable[[Any], Value] | None


def _packing(kind: str, scale: int) -> Packing:
    if kind == "numeric":
        unit = Decimal(1).scaleb(-scale)

        def pack(value: Value) -> int | None:
            if type(value) is not Decimal or not value.is_finite() or not value.same_quantum(unit):
                return None
            if value.is_signed() and not value:
                return None
            return int(value.scaleb(scale)) if value.adjusted() + scale < 18 else None

        return Packing(pack, lambda code: Decimal(code).scaleb(-scale))
    return _PACKINGS[kind]


def _integer(least: int, greatest: int) -> Callable[[Value], int | None]:
    return lambda value: value if type(value) is int and least <= value <= greatest else None


def _moment(value: Value) -> int | None:
    if type(value) is not datetime or value.fold or (value.tzinfo is not UTC and str(value.tzinfo) != "UTC"):
        return None
    span = value - _UNIX
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


_PACKINGS = {
    "boolean": Packing(lambda value: int(value) if type(value) is bool else None, bool),
    "int32": Packing(_integer(-(2**31), 2**31 - 1), None),
    "int64": Packing(_integer(INT64_MIN, INT64_MAX), None),
    "double": Packing(lambda value: value if type(value) is float else None, None),
    "date": Packing(lambda value: value.toordinal() if type(value) is date else None, date.fromordinal),
    "moment": Packing(_moment, lambda code: _UNIX + timedelta(microseconds=code)),
}


class Column:
    """One column in Python: an array of codes with a mark for each NULL, or a list of objects.

    A value that the code cannot hold exactly turns the whole column into one of objects.
    """

    __slots__ = ("_pack", "_unpack", "kind", "nulls", "values")

    def __init__(self, kind: str, scale: int) -> None:
        self.kind = kind
        self.nulls: bytearray | None = None
        if kind == OBJECT:
            self.values: Any = []
        else:
            self.values = array(_TYPECODES[kind])
            self._pack, self._unpack = _packing(kind, scale)

    def copy(self) -> Column:
        made = Column.__new__(Column)
        made.kind, made.values = self.kind, self.values[:]
        made.nulls = None if self.nulls is None else self.nulls[:]
        if self.kind != OBJECT:
            made._pack, made._unpack = self._pack, self._unpack
        return made

    def reader(self) -> Callable[[int], Value]:
        """Gives the value in a slot, until `put` says that values are held in another way."""
        values, nulls = self.values, self.nulls
        unpack = None if self.kind == OBJECT else self._unpack
        if nulls is None:
            return values.__getitem__ if unpack is None else lambda slot: unpack(values[slot])
        if unpack is None:
            return lambda slot: None if nulls[slot] else values[slot]
        return lambda slot: None if nulls[slot] else unpack(values[slot])

    def put(self, slot: int, value: Value) -> bool:
        """In the place of another value, or behind the last one; whether values are held in another way from here on."""
        is_widened = False
        if self.kind != OBJECT:
            code = 0 if value is None else self._pack(value)
            if code is not None:
                return self._put_code(slot, code, value is None)
            self._widen()
            is_widened = True
        self.values[slot : slot + 1] = [value]
        return is_widened

    def _put_code(self, slot: int, code: Any, is_null: bool) -> bool:
        """Whether it is the first NULL."""
        if slot == len(self.values):
            self.values.append(code)
            if self.nulls is not None:
                self.nulls.append(is_null)
        else:
            self.values[slot] = code
            if self.nulls is not None:
                self.nulls[slot] = is_null
        if is_null and self.nulls is None:
            self.nulls = bytearray(len(self.values))
            self.nulls[slot] = True
            return True
        return False

    def drop(self, slot: int) -> None:
        """The last value takes the place of this one."""
        last = self.values.pop()
        if slot < len(self.values):
            self.values[slot] = last
        if self.nulls is not None:
            mark = self.nulls.pop()
            if slot < len(self.nulls):
                self.nulls[slot] = mark

    def _widen(self) -> None:
        self.values = list(map(self.reader(), range(len(self.values))))
        self.kind, self.nulls = OBJECT, None

    def codes(self) -> tuple[Codes, bytes | None] | None:
        if self.kind == OBJECT:
            return None
        if self.kind == "double":
            bits = (np.array(self.values, np.float64) + 0.0).view(np.int64)
            found = np.where(bits >= 0, bits, INT64_MIN - bits)
        else:
            found = np.array(self.values, np.int64)
        return found, None if self.nulls is None else bytes(self.nulls)

    @property
    def nbytes(self) -> int:
        """Without the objects themselves."""
        return len(self.values) * (8 if self.kind == OBJECT else self.values.itemsize) + len(
            self.nulls or b""
        )

    def load_array(self, sent: bytes, reader: Reader, shift: int) -> int:
        """Append a binary array of PostgreSQL; its length."""
        if len(sent) < _HEADER_BYTES:
            return 0
        length: int
        has_nulls, length = _ARRAY_START.unpack_from(sent)
        if self.kind == OBJECT:
            self.values += [
                None if one is None else str(one, "utf8") if reader is None else reader(one)
                for one in _elements(sent, length)
            ]
        elif has_nulls:
            for one in _elements(sent, length):
                code: Any = 0 if one is None else int.from_bytes(one, "big", signed=len(one) > 1) + shift
                if one is not None and self.kind == "double":
                    (code,) = struct.unpack(">d", one)
                self._put_code(len(self.values), code, one is None)
        else:
            width = (len(sent) - _HEADER_BYTES) // length - 4
            form = "f" if self.kind == "double" else "i"
            elements = np.frombuffer(
                sent, [("size", ">i4"), ("code", f">{form}{width}")], offset=_HEADER_BYTES
            )
            if (elements["size"] != width).any():
                raise ValueError("the numbers of a column are equally wide")
            codes = elements["code"].astype(f"{form}{self.values.itemsize}")
            self.values.frombytes((codes + codes.dtype.type(shift) if shift else codes).tobytes())
            if self.nulls is not None:
                self.nulls += bytes(length)
        return length


def _elements(sent: bytes, length: int) -> list[bytes | None]:
    """The bytes of each element of a binary array, None for NULL."""
    found: list[bytes | None] = []
    at = _HEADER_BYTES
    for _ in range(length):
        size = int.from_bytes(sent[at : at + 4], "big", signed=True)
        at += 4
        found.append(None if size < 0 else sent[at : at + size])
        at += max(size, 0)
    return found
