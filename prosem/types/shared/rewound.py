"""Rows as of each delta of a batch, for spaces whose messages carry rows they look up.

The tables hold the rows as of the end of a request before its spaces take it. A batch of one needs nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prosem.types.base import Choose, Outcome, Rows
from prosem.types.shared.point_space import PointSpace
from prosem.values.model import Delta, Key, Row
from prosem.values.narrow_rows import answer_rows


class RewoundRows(Mapping[Key, Row]):
    """The rows of a table before a batch, which then go forward delta by delta. O(1) each.

    >>> from typing import Any
    >>> table: Any = None
    >>> deltas = [Delta(1, table, (7,), None, (7, "a")), Delta(2, table, (7,), (7, "a"), (7, "b"))]
    >>> rows = RewoundRows({(7,): (7, "b"), (8,): (8, "c")}, deltas)
    >>> (7,) in rows, len(rows)
    (False, 1)
    >>> rows.put(deltas[0])
    >>> rows[(7,)], rows[(8,)]
    ((7, 'a'), (8, 'c'))
    """

    def __init__(self, rows: Rows, deltas: Sequence[Delta]) -> None:
        self._rows = rows
        self._changing: dict[Key, Row | None] = {}
        for delta in deltas:
            self._changing.setdefault(delta.key, delta.old)

    def put(self, delta: Delta) -> None:
        self._changing[delta.key] = delta.new

    def forward(self, every: Iterable[Delta], some: Iterable[Delta]) -> Iterator[Delta]:
        """Some of the deltas of a batch, each when it and those before it are put."""
        ahead = iter(every)
        for delta in some:
            for past in ahead:
                self.put(past)
                if past is delta:
                    break
            yield delta

    def __getitem__(self, key: Key) -> Row:
        if key not in self._changing:
            return self._rows[key]
        row = self._changing[key]
        if row is None:
            raise KeyError(key)
        return row

    def answer_rows(self, keys: Iterable[Key]) -> Rows:
        """Rows that the batch changes are whole."""
        whole = answer_rows(self._rows, [key for key in keys if key not in self._changing])
        if whole is self._rows:
            return self
        return {**whole, **{key: row for key, row in self._changing.items() if row is not None}}

    def __iter__(self) -> Iterator[Key]:
        yield from (key for key in self._rows if key not in self._changing)
        yield from (key for key, row in self._changing.items() if row is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class RowLookingSpace(PointSpace):
    """A space whose messages carry rows that it looks up in `_rows` by key."""

    _rows: Rows

    def take(self, deltas: Sequence[Delta], choose: Choose, among: Sequence[Delta] = ()) -> Iterator[Outcome]:
        every = among or deltas
        if len(every) == 1:
            return super().take(deltas, choose)
        return self._rewound(deltas, every, self.step_all(deltas), choose)

    def _rewound(
        self,
        deltas: Sequence[Delta],
        every: Sequence[Delta],
        described: Sequence[Any | None] | None,
        choose: Choose,
    ) -> Iterator[Outcome]:
        present = self._rows
        self._rows = rewound = RewoundRows(present, every)
        ahead = rewound.forward(every, deltas)
        try:
            if described is None:
                yield from self.outcomes(map(self.step, ahead), choose)
            else:
                yield from self.outcomes((one for _, one in zip(ahead, described, strict=True)), choose)
        finally:
            self._rows = present
