"""Rows as of each delta of a batch, for spaces whose messages carry rows they look up.

The tables hold the rows as of the end of a request before its spaces take it. A batch of one needs nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from prosem.types.base import UNAFFECTED, Choose, Outcome, Rows
from prosem.types.shared.point_space import PointSpace
from prosem.values.model import Delta, Key, Row
from prosem.values.narrow_rows import answer_rows, are_whole


class RewoundRows(Mapping[Key, Row]):
    """The rows of a table as of some place in a batch, which only goes forward: see `advance`.

    O(1) for a row, after one pass over all deltas.

    >>> from typing import Any
    >>> table: Any = None
    >>> deltas = [Delta(1, table, (7,), None, (7, "a")), Delta(2, table, (7,), (7, "a"), (7, "b"))]
    >>> rows = RewoundRows({(7,): (7, "b"), (8,): (8, "c")}, deltas)
    >>> (7,) in rows, len(rows)
    (False, 1)
    >>> rows.advance(1)
    >>> rows[(7,)], rows[(8,)]
    ((7, 'a'), (8, 'c'))
    """

    def __init__(self, rows: Rows, deltas: Sequence[Delta]) -> None:
        self._rows, self._deltas = rows, deltas
        self._changed = {delta.key: delta.old for delta in reversed(deltas)}  # all that the batch changes
        self._passed = 0
        self.is_whole = are_whole(rows)

    def advance(self, passed: int) -> None:
        """From now on as of when so many deltas have been taken."""
        changed = self._changed
        for delta in self._deltas[self._passed : passed]:
            changed[delta.key] = delta.new
        self._passed = passed

    def __getitem__(self, key: Key) -> Row:
        row = self._changed[key] if key in self._changed else self._rows[key]
        if row is None:
            raise KeyError(key)
        return row

    def answer_rows(self, keys: Iterable[Key]) -> Rows:
        """Rows that the batch changes are whole."""
        if self.is_whole:
            return self
        asked = [*keys]
        whole = answer_rows(self._rows, [key for key in asked if key not in self._changed])
        changed = ((key, self._changed[key]) for key in asked if key in self._changed)
        return {**whole, **{key: row for key, row in changed if row is not None}}

    def __iter__(self) -> Iterator[Key]:
        yield from (key for key in self._rows if key not in self._changed)
        yield from (key for key, row in self._changed.items() if row is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def passed_with(every: Sequence[Delta], some: Sequence[Delta]) -> Iterable[int]:
    """How many deltas of a batch are taken with each of some of them."""
    if every is some:
        return range(1, len(some) + 1)
    places = enumerate(every, 1)
    return (next(at for at, one in places if one is delta) for delta in some)


class RowLookingSpace(PointSpace):
    """A space whose messages carry rows that it looks up in `_rows` by key."""

    _rows: Rows

    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        every = among or deltas
        if len(every) == 1:
            return super().take(deltas, choose)
        described = self.step_all(deltas)
        if described is not None and not any(described):
            return repeat(UNAFFECTED, len(deltas))
        return self._rewound(deltas, every, described, choose)

    def _rewound(
        self,
        deltas: Sequence[Delta],
        every: Sequence[Delta],
        described: Sequence[Any | None] | None,
        choose: Choose,
    ) -> Iterator[Outcome]:
        present = self._rows
        self._rows = rewound = RewoundRows(present, every)
        in_turn = self._in_turn(rewound, deltas, passed_with(every, deltas), described)
        try:
            yield from self.outcomes(in_turn, choose)
        finally:
            self._rows = present

    def _in_turn(
        self,
        rewound: RewoundRows,
        deltas: Sequence[Delta],
        places: Iterable[int],
        described: Sequence[Any | None] | None,
    ) -> Iterator[Any | None]:
        """The description of each delta, with the rows as of then."""
        if described is None:
            for delta, place in zip(deltas, places, strict=True):
                rewound.advance(place)
                yield self.step(delta)
            return
        for description, place in zip(described, places, strict=True):
            if description is not None:
                rewound.advance(place)
            yield description
