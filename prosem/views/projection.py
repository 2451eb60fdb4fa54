"""The rows of a view without GROUP BY: WHERE and the select list, evaluated on joined rows. Keeps nothing.

Both are evaluated on the net changes alone, the select list only where WHERE is true. The row before a change is evaluated
again: it was evaluated when it came, so it cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prosem.values.columns import Value
from prosem.values.model import Key, Row, RowChange, View
from prosem.views.expressions import EvaluationError
from prosem.views.joined import JoinedChange, Keys, Rows, difference
from prosem.views.row_error import RowErrors


class Projection:
    """`where` is None for no condition; `select` makes the view's row of a joined row."""

    def __init__(
        self,
        view: View,
        errors: RowErrors,
        where: Callable[[Rows], Value] | None,
        select: Callable[[Rows], Row],
    ) -> None:
        self._key_of, self._errors = view.key_of, errors
        self._where, self._select = where, select
        self._differs = difference(view.columns)

    def apply(self, changes: Sequence[JoinedChange]) -> list[RowChange]:
        """The net changes of the view's rows. A row of one key may come from several joined rows, one after the other.

        So it is with LEFT JOIN … USING the whole key of both sides: the row without a partner and the row with one have
        one key.
        """
        before: dict[Key, Row] = {}
        after: dict[Key, Row] = {}
        for keys, old, new in changes:
            if old is not None and (row := self._row(keys, old)) is not None:
                before[self._key_of(row)] = row
            if new is not None and (row := self._row(keys, new)) is not None:
                after[self._key_of(row)] = row
        found = []
        for key, row in before.items():
            other = after.pop(key, None)
            if self._differs(row, other):
                found.append(RowChange(key, row, other))
        for key, row in after.items():
            found.append(RowChange(key, None, row))
        return found

    def build(self, joined: Iterable[tuple[Keys, Rows]]) -> Iterator[tuple[Key, Row]]:
        """The rows of the view, from all joined rows."""
        for keys, rows in joined:
            row = self._row(keys, rows)
            if row is not None:
                yield self._key_of(row), row

    def _row(self, keys: Keys, rows: Rows) -> Row | None:
        try:
            if self._where is not None and self._where(rows) is not True:
                return None
            return self._select(rows)
        except EvaluationError as error:
            raise self._errors.at(keys, error) from error

    def state(self) -> None:
        return None
