"""The rows of a table of which only some columns are in memory; the others are in PostgreSQL alone.

A row is read as a tuple of the table's width with `UNHELD` where a column is not held, and is set whole. Whatever reads rows
by their columns works on both kinds, as long as it reads columns that are held: `UNHELD` cannot be compared, hashed or
written, so a column that is missing is an error and never a wrong answer. Answers that show whole rows have `answer_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from copy import copy
from operator import itemgetter
from typing import Any, NoReturn, cast

from prosem.values.model import Key, Row, Table
from prosem.values.packed_columns import Arrays, Codes, Reader
from prosem.values.packed_rows import TableRows, packed_rows


class _Unheld:
    """Stands for a value that is not in memory."""

    __slots__ = ()

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a column that is not in memory was read")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = _refuse

    def __repr__(self) -> str:
        return "UNHELD"


UNHELD: Any = _Unheld()


Fetch = Callable[["NarrowRows", Sequence[Key]], Mapping[Key, Row]]  # whole rows by key


def answer_rows(rows: Mapping[Key, Row], keys: Iterable[Key]) -> Mapping[Key, Row]:
    """Rows in which those with these keys, all of which are there, have all columns."""
    if are_whole(rows):
        return rows
    found: Mapping[Key, Row] = cast(Any, rows).answer_rows(keys)
    return found


def are_whole(rows: Mapping[Key, Row]) -> bool:
    """Whether rows have all columns as they are."""
    return bool(getattr(rows, "is_whole", True))


def _nowhere(rows: NarrowRows, keys: Sequence[Key]) -> NoReturn:
    raise LookupError("there is nothing to read the other columns from")


class NarrowRows(TableRows):
    """`columns` are the positions of those to hold besides the key; `held` all of them, in order.

    `fetch` reads whole rows by key.

    >>> from prosem.values.columns import column_type
    >>> from prosem.values.model import Column
    >>> table = Table(1, "t", tuple(Column(name, column_type("integer")) for name in "kxyz"), ("k",))
    >>> rows = NarrowRows(table, [2])
    >>> rows[7,] = (7, 1, 2, 3)
    >>> rows[7,], rows.whole((7,), (1, 3)), rows.held, rows.unheld
    ((7, UNHELD, 2, UNHELD), (7, 1, 2, 3), (0, 2), (1, 3))
    """

    def __init__(self, table: Table, columns: Iterable[int], fetch: Fetch = _nowhere) -> None:
        self.table, self._fetch = table, fetch
        self._take(tuple(sorted({*columns, *table.key_positions})), None)

    def _take(self, held: tuple[int, ...], packed: TableRows | None) -> None:
        width = len(self.table.columns)
        self.held = held
        self.unheld = tuple(at for at in range(width) if at not in held)
        self._packed = packed_rows(self.table, held) if packed is None else packed
        self._cut = _picker(held)
        self._place = {at: number for number, at in enumerate(held)}
        self._fill = _picker([self._place.get(at, len(held)) for at in range(width)])
        self._join = _picker([(*held, *self.unheld).index(at) for at in range(width)])

    def adopt(self, other: NarrowRows) -> None:
        """Hold what another one of the table holds, which must not be used any more."""
        self._take(other.held, other._packed)

    @property
    def is_whole(self) -> bool:
        return not self.unheld

    def whole(self, key: Key, others: Row) -> Row:
        """The row of a key that is there, with the values of the columns that are not held."""
        return self._join((*self._packed[key], *others))

    def answer_rows(self, keys: Iterable[Key]) -> Mapping[Key, Row]:
        """These rows with all columns."""
        return self if self.is_whole else self._fetch(self, list(dict.fromkeys(keys)))

    def _shown(self, held: Row) -> Row:
        return self._fill((*held, UNHELD))

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, key: object) -> bool:
        return key in self._packed

    def __iter__(self) -> Iterator[Key]:
        return iter(self._packed)

    def __getitem__(self, key: Key) -> Row:
        return self._shown(self._packed[key])

    def get(self, key: Key, default: Any = None) -> Any:
        found = self._packed.get(key)
        return default if found is None else self._shown(found)

    def __setitem__(self, key: Key, row: Row) -> None:
        if len(row) != len(self.table.columns):
            raise ValueError("a row is a tuple with a value for each column")
        self._packed[key] = self._cut(row)

    def __delitem__(self, key: Key) -> None:
        del self._packed[key]

    def clear(self) -> None:
        self._packed.clear()

    def values(self) -> ValuesView[Row]:
        return _Values(self)

    def items(self) -> ItemsView[Key, Row]:
        return _Items(self)

    def update(self, rows: Mapping[Key, Row]) -> None:  # type: ignore[override]
        self.load(rows.values())

    def load(self, rows: Iterable[Row]) -> None:
        self._packed.load(map(self._cut, rows))

    def load_held(self, rows: Iterable[Row] | Arrays) -> None:
        """Add rows that have the columns held and no others."""
        if isinstance(rows, Arrays):
            self._packed.load_arrays(*rows)
        else:
            self._packed.load(rows)

    def load_arrays(self, arrays: Sequence[bytes], readers: Sequence[Reader], shifts: Sequence[int]) -> None:
        """Of whole rows."""
        some = [list(self._cut(tuple(each))) for each in (arrays, readers, shifts)]
        self._packed.load_arrays(*cast(Any, some))

    def codes(self, at: int) -> tuple[Codes, bytes | None] | None:
        return self._packed.codes(self._place[at])

    def __copy__(self) -> NarrowRows:
        made = NarrowRows.__new__(NarrowRows)
        made.table, made._fetch = self.table, self._fetch
        made._take(self.held, copy(self._packed))
        return made

    @property
    def nbytes(self) -> int:
        return self._packed.nbytes

    def check(self) -> None:
        self._packed.check()


class _Values(ValuesView[Row]):
    def __iter__(self) -> Iterator[Row]:
        rows = cast(NarrowRows, self._mapping)  # type: ignore[attr-defined]
        return map(rows._shown, rows._packed.values())


class _Items(ItemsView[Key, Row]):
    def __iter__(self) -> Iterator[tuple[Key, Row]]:
        rows = cast(NarrowRows, self._mapping)  # type: ignore[attr-defined]
        shown = rows._shown
        return ((key, shown(row)) for key, row in rows._packed.items())


def _picker(positions: Sequence[int]) -> Callable[[Row], Row]:
    """Some columns of a row as a row."""
    if len(positions) == 1:
        (at,) = positions
        return lambda row: (row[at],)
    return cast("Callable[[Row], Row]", itemgetter(*positions))
