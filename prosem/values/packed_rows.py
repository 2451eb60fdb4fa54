"""The rows of a table by key, packed in columns; a row is made as a tuple when it is read.

Rows stand in slots without holes: the last one moves to the slot of a row that goes, so iteration follows no order. An
index of four bytes per place finds the slot of a key; it holds no keys. Three integers take 12 to 24 bytes and the index
6 to 12, where a dictionary of tuples takes 250. Reading is slower: a dictionary hands out the tuple it holds.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from cn.match import kernels
from prosem.values.model import Key, Row, Table
from prosem.values.packed_columns import Codes, Column, Reader, kind_of

_EMPTY, _GONE = -1, -2  # places of the index without a slot: never used, and left
_LEAST_PLACES = 8


@runtime_checkable
class CodedRows(Protocol):
    """Rows that give a column as codes."""

    def codes(self, at: int) -> tuple[Codes, bytes | None] | None:
        """`ColumnType.code` of every row's value, and a byte for each that is NULL where any is.

        In the order of iteration. None for a column of objects.
        """


def codes_of(rows: object, positions: Sequence[int]) -> list[Codes] | None:
    """Some columns as codes, of the rows in which none of them is NULL; None if the rows do not give them all."""
    if not isinstance(rows, CodedRows):
        return None
    found = [rows.codes(at) for at in positions]
    if None in found:
        return None
    columns = cast("list[tuple[Codes, bytes | None]]", found)
    is_null = [np.frombuffer(nulls, np.bool_) for _, nulls in columns if nulls is not None]
    if not is_null:
        return [codes for codes, _ in columns]
    kept = ~np.logical_or.reduce(is_null)
    return [codes[kept] for codes, _ in columns]


class TableRows(MutableMapping[Key, Row]):
    """What both implementations have; they can be copied, in O(N) of memory moved."""

    @abstractmethod
    def load(self, rows: Iterable[Row]) -> None:
        """Set many rows."""

    @abstractmethod
    def load_arrays(self, arrays: Sequence[bytes], readers: Sequence[Reader], shifts: Sequence[int]) -> None:
        """Add rows from one binary array of PostgreSQL per column; `shifts` are added to codes."""

    @abstractmethod
    def codes(self, at: int) -> tuple[Codes, bytes | None] | None:
        """As of `CodedRows`."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Of columns and index, without objects."""

    @abstractmethod
    def check(self) -> None:
        """The invariants, in O(N)."""


class PackedRows(TableRows):
    """In Python. `kinds` and `scales` of the columns as of `kind_of`; `key` are the positions of the key's columns.

    >>> rows = PackedRows(["int64", "object"], [0, 0], [0])
    >>> rows[7,] = (7, "seven")
    >>> rows[8,] = (8, None)
    >>> rows[7,], rows.pop((8,)), dict(rows)
    ((7, 'seven'), (8, None), {(7,): (7, 'seven')})
    """

    def __init__(self, kinds: Sequence[str], scales: Sequence[int], key: Sequence[int]) -> None:
        self._columns = [Column(kind, scale) for kind, scale in zip(kinds, scales, strict=True)]
        self._key_positions = tuple(key)
        self._count = 0
        self._index = array("i", [_EMPTY]) * _LEAST_PLACES
        self._taken = 0  # places that are not empty
        self._arrange()

    def _arrange(self) -> None:
        """After a column became one of objects, or has its first NULL: how rows and keys are read."""
        self._readers = [column.reader() for column in self._columns]
        self._key_readers = [self._readers[at] for at in self._key_positions]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: Key) -> Row:
        slot = self._find(key)
        if slot < 0:
            raise KeyError(key)
        return self._row(slot)

    def get(self, key: Key, default: Any = None) -> Any:
        slot = self._find(key)
        return default if slot < 0 else self._row(slot)

    def __contains__(self, key: object) -> bool:
        return self._find(cast(Key, key)) >= 0

    def __setitem__(self, key: Key, row: Row) -> None:
        """By the key that stands in the row."""
        if len(row) != len(self._columns):
            raise ValueError("a row is a tuple with a value for each column")
        own = tuple([row[at] for at in self._key_positions])
        slot = self._find(own)
        is_new = slot < 0
        if is_new:
            slot = self._count
        is_changed = False
        for column, value in zip(self._columns, row, strict=True):
            is_changed |= column.put(slot, value)
        if is_changed:
            self._arrange()
        if is_new:
            self._count += 1
            self._add(own, slot)

    def __delitem__(self, key: Key) -> None:
        place = self._place(key)
        if place < 0:
            raise KeyError(key)
        slot, last = self._index[place], self._count - 1
        if slot != last:
            self._index[self._place(self._key(last))] = slot
        self._index[place] = _GONE
        for column in self._columns:
            column.drop(slot)
        self._count = last

    def __iter__(self) -> Iterator[Key]:
        count = self._count
        for slot in range(count):
            if self._count != count:
                raise RuntimeError("rows came or went during iteration")
            yield self._key(slot)

    def clear(self) -> None:
        while self._count:
            del self[self._key(self._count - 1)]

    def update(self, rows: Mapping[Key, Row]) -> None:  # type: ignore[override]
        self.load(rows.values())

    def load(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self[()] = row

    def load_arrays(self, arrays: Sequence[bytes], readers: Sequence[Reader], shifts: Sequence[int]) -> None:
        given = zip(self._columns, arrays, readers, shifts, strict=True)
        lengths = {column.load_array(sent, reader, shift) for column, sent, reader, shift in given}
        if len(lengths) != 1:
            raise ValueError("arrays are equally long")
        self._arrange()
        for slot in range(self._count, self._count + lengths.pop()):
            key = self._key(slot)
            if self._find(key) >= 0:
                raise ValueError("a key is there already")
            self._count += 1
            self._add(key, slot)

    def codes(self, at: int) -> tuple[Codes, bytes | None] | None:
        return self._columns[at].codes()

    def __copy__(self) -> PackedRows:
        made = PackedRows.__new__(PackedRows)
        made._columns = [column.copy() for column in self._columns]
        made._key_positions, made._count = self._key_positions, self._count
        made._index, made._taken = self._index[:], self._taken
        made._arrange()
        return made

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns) + len(self._index) * self._index.itemsize

    def check(self) -> None:
        assert sorted(slot for slot in self._index if slot >= 0) == list(range(self._count)), (
            "a slot is in the index once"
        )
        assert self._taken == sum(slot != _EMPTY for slot in self._index), "the places taken are counted"
        for column in self._columns:
            assert len(column.values) == self._count, "columns are equally long"
            assert column.nulls is None or len(column.nulls) == self._count, "marks follow the values"
        assert all(self._find(self._key(slot)) == slot for slot in range(self._count)), (
            "keys find their slots"
        )

    def _row(self, slot: int) -> Row:
        return tuple([read(slot) for read in self._readers])

    def _key(self, slot: int) -> Key:
        return tuple([read(slot) for read in self._key_readers])

    def _find(self, key: Key) -> int:
        place = self._place(key)
        return place if place < 0 else self._index[place]

    def _place(self, key: Key) -> int:
        """Where the index has a key; negative if nowhere."""
        index = self._index
        mask = len(index) - 1
        place = hash(key) & mask
        while (slot := index[place]) != _EMPTY:
            if slot >= 0 and self._key(slot) == key:
                return place
            place = (place + 1) & mask
        return -1

    def _add(self, key: Key, slot: int) -> None:
        if 10 * (self._taken + 1) > 7 * len(self._index):
            self._rebuild()
        else:
            self._enter(key, slot)

    def _enter(self, key: Key, slot: int) -> None:
        mask = len(self._index) - 1
        place = hash(key) & mask
        while self._index[place] != _EMPTY:
            place = (place + 1) & mask
        self._index[place] = slot
        self._taken += 1

    def _rebuild(self) -> None:
        """Twice as many places as there are rows, or more, and none that was left."""
        places = _LEAST_PLACES
        while places < 2 * self._count:
            places *= 2
        self._index, self._taken = array("i", [_EMPTY]) * places, 0
        for slot in range(self._count):
            self._enter(self._key(slot), slot)


def packed_rows(table: Table, held: Sequence[int] | None = None) -> TableRows:
    """No rows yet; compiled where the kernels are in use. `held`: rows have these columns alone, in this order."""
    held = range(len(table.columns)) if held is None else held
    kinds, scales = zip(*(kind_of(table.columns[at].type) for at in held), strict=True)
    module = kernels.compiled()
    make = PackedRows if module is None else module.PackedRows
    return cast(TableRows, make(list(kinds), list(scales), [held.index(at) for at in table.key_positions]))
