"""The values that travel through the core. All frozen: a stage takes some and returns others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from prosem.values.columns import ColumnType, Value

Row = tuple[Value, ...]  # one value per column, in the table's order
Key = tuple[Value, ...]  # the values of the primary key, in its order
JsonObject = dict[str, Any]
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A table of a tenant. `id` is never used again, also not after a table of that name was dropped.

    A table that extends a parent has the parent's columns first and then its own, and the parent's key: its rows, cut to
    the parent's columns, are rows of the parent too. Keys are unique in the whole family.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    tenant: str = DEFAULT_TENANT
    parent: Table | None = None

    def __hash__(self) -> int:
        return self.id

    @property
    def ancestors(self) -> Iterator[Table]:
        """The parent, its parent, and so on."""
        table = self.parent
        while table is not None:
            yield table
            table = table.parent

    @cached_property
    def root(self) -> Table:
        return next(reversed([self, *self.ancestors]))

    @cached_property
    def position(self) -> dict[str, int]:
        return {column.name: at for at, column in enumerate(self.columns)}

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.position[name] for name in self.primary_key)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def read(self, values: Sequence[Any]) -> Row:
        """A row that was written as JSON; that of a table which extends this one has more columns."""
        return tuple(
            None if value is None else column.type.read(value)
            for value, column in zip(values, self.columns, strict=False)
        )

    def key_of(self, row: Row) -> Key:
        return tuple([row[at] for at in self.key_positions])

    @cached_property
    def record(self) -> Callable[..., Any]:
        """Makes an object of a row's values that is written as JSON with the columns' names.

        A third of the time of a dictionary. Decimal becomes text, dates ISO 8601, bytes base64.
        """
        fields = [f"f{at}" for at in range(len(self.columns))]
        return msgspec.defstruct(
            "Record", [(field, Any) for field in fields], rename=dict(zip(fields, self.names, strict=True))
        )

    def key_object(self, key: Key) -> JsonObject:
        return dict(zip(self.primary_key, key, strict=True))

    def definition(self) -> JsonObject:
        extends = {} if self.parent is None else {"extends": self.parent.name}
        return {
            "name": self.name,
            **extends,
            "columns": [{"name": c.name, "type": c.type.name, "nullable": c.nullable} for c in self.columns],
            "primary_key": list(self.primary_key),
        }


@dataclass(frozen=True)
class View(Table):
    """A derived table, kept up to date by the server; nothing is published to it.

    `inputs`: the tables and views in its FROM, each once. Columns of its key may be NULL. One that `is_unnamed` is the join
    of a subscription's FROM, shared by all subscriptions of the template. `query` is the parsed text.
    """

    sql: str = field(default="", compare=False)  # of an unnamed view that of one of its subscriptions
    inputs: tuple[Table, ...] = ()
    is_unnamed: bool = False
    query: Any = field(default=None, compare=False)

    __hash__ = Table.__hash__

    def definition(self) -> JsonObject:
        return {"sql": self.sql, **super().definition()}

    @property
    def bases(self) -> tuple[Table, ...]:
        """The tables that it is made of, at any depth, each once."""
        found: dict[int, Table] = {}
        for one in self.inputs:
            found |= {table.id: table for table in (one.bases if isinstance(one, View) else (one,))}
        return tuple(found.values())


class RowChange(NamedTuple):
    """A row of a table or view before and after (None: there was or is none)."""

    key: Key
    old: Row | None
    new: Row | None


class Delta(NamedTuple):
    """One event after validation: the row before and after it (None: there was or is none)."""

    seq: int
    table: Table
    key: Key
    old: Row | None
    new: Row | None


class PlaceMark(msgspec.Struct, frozen=True, array_like=True):
    """Where a subscription was put, and its last notified value at that moment, as JSON.

    For types whose places the server gives (labels): the constants alone do not say where old messages found it.
    """

    topic: bytes
    place: tuple[int | str, ...] | None
    last_notified: msgspec.Raw = msgspec.Raw(b"null")
    is_birth: bool = False  # the place says when it came; what was notified since is kept with the items


@dataclass(frozen=True, slots=True)
class Group:
    """All subscriptions of one template: the same tables, columns and shape, other constants.

    `label` is the template in words (unique), `name` the short public id made from it; `space` is the id under
    which its messages stand in the outbox (all filters of one table share one).
    """

    id: int
    name: str
    type: str
    label: str
    space: int
    tables: tuple[str, ...]
    sample_sql: str
    sample_notify: JsonObject | None = field(default=None, hash=False)
    tenant: str = DEFAULT_TENANT
    per: str = "event"


@dataclass(frozen=True, slots=True)
class Statement:
    """What a user registered, without the parameters: shared by all subscriptions of one text, `per` and tenant."""

    id: int
    sql: str
    notify: JsonObject | None = field(default=None, hash=False)
    tenant: str = DEFAULT_TENANT
    per: str = "event"
