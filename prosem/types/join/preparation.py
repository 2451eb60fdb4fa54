"""Orders of a join's rows that are made ready while events go on: no event waits until all rows are indexed.

Some rows are indexed between two batches, as they are then; events bring the rows forward that were indexed already, and put
in those that were not. It costs the memory of a second index of these tables, and of a copy of one at a time, until the join
is arranged, and it loses where few rows are to be indexed: then that is done at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import islice

from prosem.index.shared_indexes import SharedIndexes
from prosem.types.base import Rows
from prosem.types.join.decomposition import Decomposition
from prosem.types.join.shape import JoinShape
from prosem.types.join.table import Classes, JoinTable, itself
from prosem.values.model import Delta, Key, Row

SLICE_ROWS = 2_000  # between two batches: about 10 ms


def orders_of(shape: JoinShape, decomposition: Decomposition) -> list[set[Classes]]:
    """In which orders semijoins need the rows of each table."""
    orders: list[set[Classes]] = [set() for _ in shape.tables]
    for number, partner in enumerate(decomposition):
        classes = shape.shared(number, partner)
        assert classes, "partners share a join column"
        orders[number].add(classes)
        orders[partner].add(classes)
    return orders


class Preparation:
    """The orders of tables that a shape and its partners ask for, and that no join holds yet.

    Invariant: the orders hold the rows that were taken so far as of the last event, and no others.
    """

    def __init__(
        self, shape: JoinShape, decomposition: Decomposition, rows: Sequence[Rows], shared: SharedIndexes
    ) -> None:
        self._shape, self._shared, self._rows = shape, shared, rows
        self._tables: dict[int, JoinTable] = {}
        for number, wanted in enumerate(orders_of(shape, decomposition)):
            made = JoinTable(shape, number, {}, SharedIndexes())
            made.hold(wanted)
            if any(shared.get(name) is None for name, _ in made.orders()):
                self._tables[number] = made
        self.row_count = sum(len(rows[number]) for number in self._tables)
        self._keys = self._left()

    def _left(self) -> Iterator[tuple[JoinTable, Mapping[Key, Row], Key]]:
        for number, table in self._tables.items():
            rows = self._rows[number]
            for key in copy(rows):  # rows come and go meanwhile
                yield table, rows, key

    def go_on(self, count: int = SLICE_ROWS) -> bool:
        """Index so many rows more; whether all are."""
        taken = 0
        for table, rows, key in islice(self._keys, count):
            taken += 1
            row = rows.get(key)
            if row is not None:
                table.bring(None, row)
        return taken < count

    def take(self, deltas: Sequence[Delta]) -> None:
        """Events that the join takes."""
        for delta in deltas:
            table = self._tables.get(self._shape.index[delta.table.id])
            if table is not None:
                table.bring(delta.old, delta.new)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Have the orders where joins look for them; those that none holds afterwards go."""
        names = [one for table in self._tables.values() for one in table.orders()]
        for name, rows in names:
            self._shared.hold(name, partial(itself, rows))
        try:
            yield
        finally:
            for name, _ in names:
                self._shared.release(name)
