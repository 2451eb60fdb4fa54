"""The events of a request decoded into typed values in one go: into the structs of one table, or of the table of each event.

Whatever is wrong with a request, and whatever is rare (a key column in `set` of a request to one table, a truncate, a table
that extends another), makes the structs give up: then `validate` and `transaction` read the events one by one, and say what
is wrong. So both ways give the same effects, and only one of them has errors to word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from prosem.engine.effect import Effect
from prosem.engine.table_structs import TableStructs, structs_of
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
    _plain: list[Any] | None

    def __init__(self, text: bytes | str, count: int) -> None:
        self.text, self._count, self._plain = text, count, None

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

    __slots__ = ("_decoded", "_structs", "table")

    def __init__(self, text: bytes | str, structs: TableStructs, decoded: Sequence[Any]) -> None:
        super().__init__(text, len(decoded))
        self.table, self._structs, self._decoded = structs.table, structs, decoded

    def effects(self, rows: Mapping[Key, Row]) -> list[Effect] | None:
        """What they do to the rows one after the other; None if one is wrong."""
        try:
            return self._structs.effects(self._decoded, rows, {}, [])
        except ValueError:
            return None


class TypedRun(NamedTuple):
    """Events of one table after each other."""

    structs: TableStructs
    decoded: Sequence[Any]


class TypedTransaction(DecodedEvents):
    """The events of one request to any tables, in runs of one table."""

    __slots__ = ("runs",)

    def __init__(self, text: bytes | str, count: int, runs: Sequence[TypedRun]) -> None:
        super().__init__(text, count)
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
        structs = structs_of(table)  # there are none for columns with odd names
        decoded = structs.events(text)
    except _WRONG:
        return None
    return TypedEvents(text, structs, decoded) if decoded else None


def typed_transaction(tables: Mapping[str, Table], text: bytes | str) -> TypedTransaction | None:
    """The events of the body of a request to any of these tables; None if they must be read one by one.

    The tables of all events are read first. Cost: one decode of the body if it has one table, else a scan that splits it and
    a decode per event.
    """
    try:
        return _typed_transaction(tables, text)
    except _WRONG:
        return None


def _typed_transaction(tables: Mapping[str, Table], text: bytes | str) -> TypedTransaction | None:
    names = [event.table for event in _tables(text).events]
    structs: dict[str, TableStructs] = {}
    for name in names:
        if name not in structs:
            table = tables.get(name)
            if table is None or isinstance(table, View):
                return None
            structs[name] = structs_of(table, is_addressed=True)
    if not names:
        return None
    if len(structs) == 1:
        one = structs[names[0]]
        return TypedTransaction(text, len(names), [TypedRun(one, one.events(text))])
    runs: list[TypedRun] = []
    before, decoded = "", list[Any]()
    for name, part in zip(names, _parts(text).events, strict=True):
        if name != before or not runs:
            before, decoded = name, []
            runs.append(TypedRun(structs[name], decoded))
        decoded.append(structs[name].event(part))
    return TypedTransaction(text, len(names), runs)
