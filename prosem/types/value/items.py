"""The items of a table whose values are notified: how they are named, measured and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prosem.index.radii.b2_tree import B2Tree
from prosem.index.radii.ba_tree_ends import Ends, Radius
from prosem.index.radii.bw_tree import Arcs, Class
from prosem.index.radii.epochs import Epochs, ItemEpochs, epochs_of
from prosem.index.radii.labels import ORIGIN, Label
from prosem.language.syntax import Query
from prosem.types.base import described_columns
from prosem.types.shared.ranges import topic_of
from prosem.types.value.measure import FINE, Measure, Radii, fine_radius
from prosem.values.codes import value_of
from prosem.values.errors import InputError
from prosem.values.model import JsonObject, Key, Row, Table
from prosem.values.undo import UndoLog
from prosem.values.wire import decode, is_same

MOST_COPIED = 5_000
INTEGERS = ("integer", "bigint")  # whose values are their own codes
Fired = tuple[Radius, Radius, Arcs | None]  # a range of radii, and which of their labels (None: all)


@contextmanager
def on_a_copy(items: dict[bytes, Any], topic: bytes) -> Iterator[None]:
    """What happens to an item meanwhile happens to a copy of it: an event back would notify others."""
    item = items.get(topic)
    if isinstance(item, Sized) and len(item) > MOST_COPIED:
        raise InputError(
            f"the item has {len(item)} subscriptions, and an event of one is explained up to {MOST_COPIED}: a copy of"
            " its tree would hold everything else up",
            "/event",
        )
    if item is not None:
        items[topic] = deepcopy(item)
    try:
        yield
    finally:
        items.pop(topic, None)
        if item is not None:
            items[topic] = item


class Plain:
    """An item whose values have no distances: every change is sent to all, so all were notified of the current value."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, radius: Radius) -> tuple[Label, list[Any]]:
        self._count += 1
        return ORIGIN, []

    def remove(self, radius: Radius, label: Label) -> None:
        self._count -= 1

    def put_back(self, radius: Radius, label: Label, value: Any) -> None:
        self._count += 1

    def last_notified(self, radius: Radius, label: Label) -> Any:
        return self.value

    def event(self, value: Any) -> list[Fired]:
        before, self.value = self.value, value
        return [] if is_same(before, value) else [(0, 0, None)]


@dataclass(frozen=True)
class Items:
    """The column `y` of a table, its rows by key, and how its values are compared."""

    table: Table
    y: int
    form: str
    measure: Measure | None

    def topic(self, key: Key) -> bytes:
        """The codes of a key; those of a view may hold NULLs, which no condition selects by name."""
        codes = self._codes
        if codes is None:
            return topic_of(key)
        return topic_of([None if v is None else code(v) for code, v in zip(codes, key, strict=True)])

    @cached_property
    def _codes(self) -> list[Callable[[Any], Any]] | None:
        """Of each column of the key; None if all are integers, which are their own codes."""
        types = [self.table.columns[at].type for at in self.table.key_positions]
        return None if all(one.name in INTEGERS for one in types) else [one.code for one in types]

    def key(self, topic: bytes) -> Key:
        columns = self.table.columns
        return tuple(
            None if code is None else value_of(columns[at].type, code)
            for at, code in zip(self.table.key_positions, decode(topic), strict=True)
        )

    def number(self, row: Row | None) -> Any:
        """The row's value as the trees take it; None if it is NULL or there is no row."""
        if row is None:
            return None
        return row[self.y] if self._is_identity else self.number_of(row[self.y])

    def number_of(self, value: Any) -> Any:
        return value if value is None or self.measure is None else self.measure.number(value)

    def value(self, number: Any) -> Any:
        if number is None or self._is_identity or self.measure is None:
            return number
        return self.measure.value(number)

    @cached_property
    def _is_identity(self) -> bool:
        """Whether every value is its own number."""
        return self.measure is None or self.measure.is_identity

    def read(self, value: bytes) -> Any:
        """A notified value, from JSON, as a number."""
        plain = decode(value)
        if plain is None or self.measure is None:
            return plain
        return self.measure.number(self.table.columns[self.y].type.read(plain))

    @property
    def int64(self) -> bool:
        """Whether radii are 64-bit integers as coordinates; else they are texts."""
        if self.measure is None:
            return True
        return self.measure.int64 and self.form != "may" and not self.form.startswith(FINE)

    @cached_property
    def radius(self) -> Callable[[Any], Radius]:
        """The radius that a coordinate stands for."""
        if self.measure is None:
            return int
        if self.form == "may":
            return self.measure.pair_of
        return fine_radius if self.form.startswith(FINE) else self.measure.radius_of

    @cached_property
    def code(self) -> Callable[[Radius], Any]:
        """A radius as a coordinate; asked for every range that is sent."""
        if self.measure is None or (self.int64 and not self.measure.is_double):
            return int
        if self.form == "may":
            return self.measure.pair_code
        return self.measure.fine_code if self.form.startswith(FINE) else self.measure.code

    @cached_property
    def ends(self) -> Ends:
        assert self.measure is not None
        return self.measure.ends(self.form)

    def is_told(self, radius: Radius, before: Any, now: Any) -> bool:
        """The condition: whether one that was last notified of a number is notified of another."""
        if before is None or now is None or self.measure is None:
            return bool(before != now)
        return bool(now >= self.ends.right(before, radius) or now <= self.ends.left(before, radius))

    def tree(self, number: Any, radii: list[tuple[Radius, list[Class]]], undo: UndoLog) -> B2Tree | Plain:
        if self.measure is None:
            return Plain(number)
        return B2Tree.from_state(self.ends, (number, radii), undo)

    def epochs(self, number: Any) -> ItemEpochs:
        """The last notified values of one of many items. Fine radii are no integers."""
        return Epochs(self.ends, number) if self.form.startswith(FINE) else epochs_of(self.ends, number)


@dataclass(frozen=True)
class ItemForm:
    """The head of both forms. `items.form` is how distances are taken."""

    query: Query
    items: Items
    radii: Radii
    type: str = "value"

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.items.table,)

    @property
    def columns_read(self) -> frozenset[int]:
        return frozenset((*self.items.table.key_positions, self.items.y))

    @property
    def folding(self) -> JsonObject:
        """Of many items also the columns of their keys."""
        columns = self.items.table.columns
        keys = [columns[at] for at in self.items.table.key_positions]
        return {
            "type": columns[self.items.y].type.name,
            "columns": described_columns((one.name, one.type) for one in keys),
        }

    @property
    def _column(self) -> str:
        return repr(self.items.table.names[self.items.y])

    @property
    def _source(self) -> str:
        table = self.items.table
        return f" FROM {table.tenant}.{table.name!r}#{table.id}"
