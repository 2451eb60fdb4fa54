"""The two ways to find the rows of one side of a join by a join key.

`KeyIndex` keeps the identities by join key. `PrimaryKey` keeps nothing: where the join columns are the key of the table,
and are compared with values of the same type, the table itself is the index. Both hold identities alone; the rows stay in
their table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from prosem.values.columns import ColumnType, Value
from prosem.values.model import Column, Key, Table
from prosem.views.joined import Lookup

Identity = tuple[Any, ...]  # a row's key, or the keys of a joined row


class Side(Protocol):
    def find(self, key: Value, lookup: Lookup) -> Collection[Identity]:
        """The identities with this join key (not None); `lookup` finds rows in the side's table."""
        ...

    def has(self, key: Value) -> bool:
        """Whether an identity has this join key, after those that were removed and before those that will be added."""
        ...

    def add(self, key: Value, identity: Identity) -> None: ...

    def remove(self, key: Value, identity: Identity) -> None: ...

    def state(self) -> object:
        """What is kept, to be compared."""
        ...


class KeyIndex:
    """Identities by join key. Adding, removing and finding are O(1), plus the identities found.

    Nearly all join keys of many tables have one row: such a row's identity stands for itself, without a container.

    >>> index = KeyIndex()
    >>> index.add("a", (1,)), index.add("a", (2,)), index.remove("a", (1,))
    (None, None, None)
    >>> list(index.find("a", {}.get)), index.find("b", {}.get), index.has("a")
    ([(2,)], (), True)
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Value, Identity | dict[Identity, None]] = {}

    def find(self, key: Value, lookup: Lookup) -> Collection[Identity]:
        found = self._found.get(key)
        if found is None:
            return ()
        return (found,) if type(found) is tuple else found

    def has(self, key: Value) -> bool:
        return key in self._found

    def add(self, key: Value, identity: Identity) -> None:
        found = self._found.setdefault(key, identity)
        if found is identity:
            return
        if isinstance(found, dict):
            found[identity] = None
        else:
            self._found[key] = {found: None, identity: None}

    def remove(self, key: Value, identity: Identity) -> None:
        found = self._found[key]
        if not isinstance(found, dict):
            del self._found[key]
            return
        del found[identity]
        if len(found) == 1:
            self._found[key] = next(iter(found))

    def state(self) -> dict[Value, set[Identity]]:
        return {key: set(found) if isinstance(found, dict) else {found} for key, found in self._found.items()}


class PrimaryKey:
    """A side that is joined by the key of its table: at most one row per join key, found in the table.

    `order[i]` says which column of the join key is the i-th of the table's key. `wrap` makes the identity of a joined row
    with this table alone.
    """

    __slots__ = ("_key", "_wrap")

    def __init__(self, order: Sequence[int], wrap: bool) -> None:
        self._key = _key_in_order(order)
        self._wrap = wrap

    def find(self, key: Value, lookup: Lookup) -> Collection[Identity]:
        found = self._key(key)
        if lookup(found) is None:
            return ()
        return ((found,),) if self._wrap else (found,)

    def has(self, key: Value) -> bool:
        return False  # the row that is added or was removed is the only one of its join key

    def add(self, key: Value, identity: Identity) -> None:
        pass

    def remove(self, key: Value, identity: Identity) -> None:
        pass

    def state(self) -> None:
        return None


def _key_in_order(order: Sequence[int]) -> Callable[[Value], Key]:
    if len(order) == 1:
        return lambda value: (value,)
    return lambda values: tuple([values[at] for at in order])


def side_of(table: Table, columns: Sequence[int], others: Sequence[Column], wrap: bool) -> Side:
    """How a table is searched by these columns, which are compared with others.

    A table finds a key by values of its own types: it knows 4, and not Decimal("4.0").
    """
    if len(set(columns)) == len(columns) and set(columns) == set(table.key_positions):
        own = [table.columns[at].type for at in columns]
        if all(_is_alike(one, other.type) for one, other in zip(own, others, strict=True)):
            return PrimaryKey([list(columns).index(at) for at in table.key_positions], wrap)
    return KeyIndex()


def _is_alike(one: ColumnType, other: ColumnType) -> bool:
    """Whether equal values of two types are the same in Python: integers of any size are."""
    return one.name == other.name or one.encode is other.encode is int
