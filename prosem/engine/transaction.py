"""Events of several tables as one request: validated as a whole, applied in their order.

What a single table's request cannot say, a database's transaction can: an update may change the key (it becomes a
deletion and an insertion of the merged row), and `truncate` deletes every row that the table has at that place.
Cost: O(events), and O(rows) for a truncate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from prosem.engine.effect import Effect
from prosem.engine.table_structs import Overlay
from prosem.engine.tables import Tables
from prosem.engine.typed_events import TypedTransaction
from prosem.engine.validate import effect, known_table, sized
from prosem.values.errors import ConflictError, InputError, NotFoundError, pointer
from prosem.values.model import Table


class Run(NamedTuple):
    """Effects of one table after each other; `at` gives the pointer to the event that an effect comes from."""

    table: Table
    effects: list[Effect]
    at: Callable[[int], str]


def transaction(store: Tables, tables: Mapping[str, Table], events: Sequence[Any]) -> list[Run]:
    """What the events do one after the other, in runs of one table; raises at the first that is wrong."""
    if isinstance(events, TypedTransaction):
        try:
            typed = _typed(store, tables, events)
        except ValueError:
            typed = None
        if typed is not None:
            return typed
    return _one_by_one(store, tables, events)


def _typed(store: Tables, tables: Mapping[str, Table], events: TypedTransaction) -> list[Run] | None:
    """The same by the structs of the tables.

    None, or a ValueError, if an event is wrong, or its table is one of a family or another than when it was decoded.
    """
    runs: list[Run] = []
    overlays: dict[str, Overlay] = {}
    first = 0
    for structs, decoded in events.runs:
        table = structs.table
        moves: list[int] = []
        if tables.get(table.name) is not table or store.family(table) is not None:
            return None
        overlay = overlays.setdefault(table.name, {})
        found = structs.effects(decoded, store.whole(table), overlay, moves)
        if found is None:
            return None
        runs.append(Run(table, found, partial(_place, first, moves)))
        first += len(decoded)
    return runs


def _place(first: int, moves: Sequence[int], number: int) -> str:
    """The pointer to the event of an effect in a run that begins with the event `first`."""
    return f"/events/{first + number - bisect_right(moves, number)}"


def _one_by_one(store: Tables, tables: Mapping[str, Table], events: Sequence[Any]) -> list[Run]:
    runs: list[Run] = []
    overlays: dict[Table, Overlay] = {}
    roots: dict[Table, Table] = {}
    for number, given in enumerate(events):
        at = f"/events/{number}"
        table, event = _addressed(tables, given, at)
        overlay = overlays.setdefault(table, {})
        if roots.setdefault(table.root, table) is not table:
            raise InputError(
                f"{roots[table.root].name!r} and {table.name!r} extend one another: send their events in "
                "requests of their own",
                at + "/table",
            )
        found = _effects(store, table, overlay, event, at)
        for one in found:
            overlay[one.key] = one.new
        if not runs or runs[-1].table is not table:
            places: list[str] = []
            runs.append(Run(table, [], places.__getitem__))
        runs[-1].effects.extend(found)
        places.extend([at] * len(found))
    return runs


def _addressed(tables: Mapping[str, Table], given: Any, at: str) -> tuple[Table, dict[str, Any]]:
    if not isinstance(given, dict):
        raise InputError('expected an event like {"table": "t", "op": "insert", "row": {…}}', at)
    name = given.get("table")
    if not isinstance(name, str):
        raise InputError("expected the name of the event's table", at + "/table")
    try:
        table = known_table(tables, name)
    except (NotFoundError, InputError) as error:
        raise error.moved(at + "/table") from None
    event = given.copy()
    del event["table"]
    return table, event


def _effects(store: Tables, table: Table, overlay: Overlay, event: dict[str, Any], at: str) -> list[Effect]:
    rows = store.whole(table)
    if event.get("op") == "truncate":
        if len(event) > 1:
            raise InputError("an event of the op truncate has nothing but its table", at)
        present = {**rows, **overlay}
        return [Effect("delete", key, row, None) for key, row in present.items() if row is not None]
    moved = _moved_key(table, event)
    if moved:
        event = event | {"set": {name: event["set"][name] for name in event["set"] if name not in moved}}
    found = effect(table, rows, event, at, store.family(table), overlay)
    if not moved:
        return [found]
    return _move(store, table, overlay, found, moved, at)


def _moved_key(table: Table, event: dict[str, Any]) -> dict[str, Any]:
    """The columns of the key that an update sets."""
    cells = event.get("set")
    if event.get("op") != "update" or not isinstance(cells, dict):
        return {}
    return {name: cells[name] for name in table.primary_key if name in cells}


def _move(
    store: Tables, table: Table, overlay: Overlay, found: Effect, moved: dict[str, Any], at: str
) -> list[Effect]:
    """An update with another key: the merged row goes from one key to the other."""
    assert found.new is not None
    values = list(found.new)
    for name, value in moved.items():
        column = table.columns[table.position[name]]
        try:
            if value is None:
                raise ValueError("a key cannot be NULL")
            values[table.position[name]] = column.type.read(value)
        except ValueError as error:
            raise InputError(str(error), at + pointer("set", name)) from None
    new = tuple(values)
    key = table.key_of(new)
    if key == found.key:
        return [found._replace(new=new)]
    sized(table, key, new, at + "/set")
    family = store.family(table)
    present = overlay[key] if key in overlay else store.rows[table.id].get(key)
    if present is not None or (family is not None and key in family and key not in store.rows[table.id]):
        raise ConflictError("a row with the new key exists", at + "/set")
    return [Effect("delete", found.key, found.old, None), Effect("insert", key, None, new)]
