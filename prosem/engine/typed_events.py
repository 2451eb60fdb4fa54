"""The events of a request decoded into typed values in one go: into the structs of one table, or of the table of each event.

Whatever is wrong with a request, and whatever is rare (a key column in `set` of a request to one table, a truncate, a table
that extends another), makes the structs give up: then `validate` and `transaction` read the events one by one, and say what
is wrong. So both ways give the same effects, and only one of them has errors to word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from prosem.engine.effect import Effect
from prosem.engine.table_structs import Overlay, structs_of
from prosem.values.model import Key, Row, Table, View
from prosem.values.wire import decode_exact

_WRONG = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)


class _Addressed(msgspec.Struct, gc=False):
    """An event of which nothing but its table is read."""

    table: str


class _Tables(msgspec.Struct, forbid_unknown_fields=True):
    events: list[_Addressed]
    tag: Any = None  # of a frame


class _Parts(msgspec.Struct):
    events: list[msgspec.Raw]


_tables = msgspec.json.Decoder(_Tables).decode
_parts = msgspec.json.Decoder(_Parts).decode


class DecodedEvents(Sequence[Any]):
    """Some events of one request. As a sequence they are what the JSON says, decoded again when asked for."""

    __slots__ = ("_count", "_plain", "text")

    def __init__(self, text: bytes | str, count: int) -> None:
        self.text, self._count = text, count
        self._plain: list[Any] | None = None

    @property
    def plain(self) -> list[Any]:
        if self._plain is None:
            self._plain = decode_exact(self.text)["events"]
        return self._plain

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return self.plain[at]

    def __repr__(self) -> str:
        return repr(self.plain)


class TypedEvents(DecodedEvents):
    """The events of one request to `table`."""

    __slots__ = ("decoded", "table")

    def __init__(self, table: Table, text: bytes | str, decoded: Sequence[Any]) -> None:
        super().__init__(text, len(decoded))
        self.table, self.decoded = table, decoded

    def effects(self, rows: Mapping[Key, Row]) -> list[Effect] | None:
        """What they do to the rows one after the other; None if one is wrong."""
        return structs_of(self.table).effects(self.decoded, rows, {}, [])


class TypedRun(NamedTuple):
    """Events of one table after each other."""

    table: Table
    decoded: Sequence[Any]

    def effects(self, rows: Mapping[Key, Row], overlay: Overlay, moves: list[int]) -> list[Effect] | None:
        return structs_of(self.table, is_addressed=True).effects(self.decoded, rows, overlay, moves)


class TypedTransaction(DecodedEvents):
    """The events of one request to any tables, in runs of one table."""

    __slots__ = ("runs",)

    def __init__(self, text: bytes | str, runs: Sequence[TypedRun]) -> None:
        super().__init__(text, sum(len(run.decoded) for run in runs))
        self.runs = runs


def typed_events(table: Table, text: bytes | str) -> TypedEvents | None:
    """The events of the body of a request to the table; None if they must be read one by one.

    >>> from prosem.values.columns import column_type
    >>> from prosem.values.model import Column
    >>> kinds = {"k": "integer", "y": "numeric(6,2)"}
    >>> table = Table(1, "t", tuple(Column(name, column_type(kind), name == "y") for name, kind in kinds.items()), ("k",))
    >>> made = typed_events(table, b'{"events": [{"op": "update", "key": {"k": 7}, "set": {"y": 1.5}}]}')
    >>> made.effects({(7,): (7, None)})
    [Effect(op='update', key=(7,), old=(7, None), new=(7, Decimal('1.50')))]
    """
    try:
        decoded = structs_of(table).events(text)
    except _WRONG:
        return None
    return TypedEvents(table, text, decoded) if decoded else None


def typed_transaction(tables: Mapping[str, Table], text: bytes | str) -> TypedTransaction | None:
    """The events of the body of a request to any of these tables; None if they must be read one by one.

    The tables of all events are read first. Cost: one decode of the body if it has one table, else a scan that splits it and
    a decode per event.
    """
    try:
        names = [event.table for event in _tables(text).events]
        decoded = _decoded(tables, names, text)
    except _WRONG:
        return None
    return None if decoded is None else TypedTransaction(text, decoded)


def _decoded(tables: Mapping[str, Table], names: Sequence[str], text: bytes | str) -> list[TypedRun] | None:
    known = {name: tables.get(name) for name in set(names)}
    structs = {
        name: structs_of(table, is_addressed=True)
        for name, table in known.items()
        if table is not None and not isinstance(table, View)
    }
    if not names or len(structs) < len(known):
        return None
    if len(structs) == 1:
        return [TypedRun(tables[names[0]], structs[names[0]].events(text))]
    parts = zip(names, _parts(text).events, strict=True)
    return [
        TypedRun(tables[name], [structs[name].event(part) for _, part in some])
        for name, some in groupby(parts, itemgetter(0))
    ]
