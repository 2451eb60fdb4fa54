"""One step of a left-deep join: the joined rows so far (left) with the rows of one more source (right).

Changes of both sides are taken as Δleft with the right side before, then Δright with the left side after, then netted by
identity: a pair that existed at neither end of the event is in no list. The state is the identities of each side by join
key. The partners that decide whether a LEFT JOIN has a row without one are those of the join key, so their number is that
of the right side's identities.

Cost: O(1) per changed row and partner. It loses where the join key has few values: each change then meets many partners,
as its result has many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from prosem.values.columns import Value
from prosem.values.model import Key, Row, RowChange
from prosem.views.joined import JoinedChange, Keys, Lookup, Rows, net
from prosem.views.sides import Side

_NO_PARTNER: tuple[None, ...] = (None,)


class Join:
    """`left_key` and `right_key` give join keys, None where a NULL among the columns lets the row join with none."""

    def __init__(
        self,
        is_left: bool,
        left_key: Callable[[Rows], Value],
        right_key: Callable[[Row], Value],
        left: Side,
        right: Side,
    ) -> None:
        self._is_left = is_left
        self._left_key, self._right_key = left_key, right_key
        self._left, self._right = left, right

    def apply(
        self,
        left: Sequence[JoinedChange],
        right: Sequence[RowChange],
        before: Lookup,
        first: Lookup,
        rows_of: Callable[[Keys], Rows],
    ) -> list[JoinedChange]:
        """The net changes of the joined rows.

        `before` has the right side's rows before the event; `first` those of the first source after it, and `rows_of` the
        joined rows of the left side after it.
        """
        out: list[JoinedChange] = []
        for change in left:
            self._take_left(change, before, out)
        for row in right:
            self._take_right(row, first, rows_of, out)
        if len(out) > 1 and (self._is_left or (left and right)):
            return net(out)
        return out

    def _take_left(self, change: JoinedChange, before: Lookup, out: list[JoinedChange]) -> None:
        keys, old, new = change
        old_key = None if old is None else self._left_key(old)
        new_key = None if new is None else self._left_key(new)
        if old is not None and new is not None and old_key == new_key:
            for partner in self._partners(old_key, before):
                row = None if partner is None else before(partner)
                out.append(((*keys, partner), (*old, row), (*new, row)))
            return
        if old is not None:
            for partner in self._partners(old_key, before):
                row = None if partner is None else before(partner)
                out.append(((*keys, partner), (*old, row), None))
            if old_key is not None:
                self._left.remove(old_key, keys)
        if new is not None:
            for partner in self._partners(new_key, before):
                row = None if partner is None else before(partner)
                out.append(((*keys, partner), None, (*new, row)))
            if new_key is not None:
                self._left.add(new_key, keys)

    def _partners(self, key: Value, lookup: Lookup) -> Collection[Key | None]:
        """The right side's rows with this join key; None alone if a LEFT JOIN finds none."""
        found = () if key is None else self._right.find(key, lookup)
        return _NO_PARTNER if self._is_left and not found else found

    def _take_right(
        self, change: RowChange, first: Lookup, rows_of: Callable[[Keys], Rows], out: list[JoinedChange]
    ) -> None:
        partner, old, new = change
        old_key = None if old is None else self._right_key(old)
        new_key = None if new is None else self._right_key(new)
        if old_key is not None and old_key == new_key:
            for keys in self._left.find(old_key, first):
                rows = rows_of(keys)
                out.append(((*keys, partner), (*rows, old), (*rows, new)))
            return
        if old_key is not None:
            self._right.remove(old_key, partner)
            is_last = self._is_left and not self._right.has(old_key)
            for keys in self._left.find(old_key, first):
                rows = rows_of(keys)
                out.append(((*keys, partner), (*rows, old), None))
                if is_last:
                    out.append(((*keys, None), None, (*rows, None)))
        if new_key is not None:
            is_first = self._is_left and not self._right.has(new_key)
            self._right.add(new_key, partner)
            for keys in self._left.find(new_key, first):
                rows = rows_of(keys)
                if is_first:
                    out.append(((*keys, None), (*rows, None), None))
                out.append(((*keys, partner), None, (*rows, new)))

    def revert(self, left: Sequence[JoinedChange], right: Sequence[RowChange]) -> None:
        """Undo what `apply` did to the state with these changes."""
        for keys, old, new in left:
            self._move_left(keys, new, old)
        for partner, old_row, new_row in right:
            self._move_right(partner, new_row, old_row)

    def _move_left(self, keys: Keys, old: Rows | None, new: Rows | None) -> None:
        old_key = None if old is None else self._left_key(old)
        new_key = None if new is None else self._left_key(new)
        if old_key == new_key:
            return
        if old_key is not None:
            self._left.remove(old_key, keys)
        if new_key is not None:
            self._left.add(new_key, keys)

    def _move_right(self, partner: Key, old: Row | None, new: Row | None) -> None:
        old_key = None if old is None else self._right_key(old)
        new_key = None if new is None else self._right_key(new)
        if old_key == new_key:
            return
        if old_key is not None:
            self._right.remove(old_key, partner)
        if new_key is not None:
            self._right.add(new_key, partner)

    def fill(self, rows: Iterable[tuple[Key, Row]]) -> None:
        """Take the right side's rows, all of which are new."""
        for partner, row in rows:
            key = self._right_key(row)
            if key is not None:
                self._right.add(key, partner)

    def probe(self, left: Iterable[tuple[Keys, Rows]], lookup: Lookup) -> Iterator[tuple[Keys, Rows]]:
        """Take the left side's rows, all of which are new, and give the joined rows."""
        for keys, rows in left:
            key = self._left_key(rows)
            if key is not None:
                self._left.add(key, keys)
            for partner in self._partners(key, lookup):
                yield (*keys, partner), (*rows, None if partner is None else lookup(partner))

    def state(self) -> tuple[object, object]:
        """What each side keeps, to be compared."""
        return self._left.state(), self._right.state()
