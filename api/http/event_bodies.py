"""The events of a body or a frame: typed by the tables as they are now, unless it is large or anything is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.http.json_slices import SMALL_BYTES, decode_large
from api.server.running import RunningServer
from prosem.engine.typed_events import typed_events, typed_transaction
from prosem.values.access import Caller
from prosem.values.errors import InputError
from prosem.values.model import View


async def table_events(made: RunningServer, caller: Caller, name: str, text: bytes) -> Sequence[Any]:
    """Events of one table."""
    typed = typed_table_events(made, caller, name, text)
    return events_of(await decode_large(text)) if typed is None else typed


async def transaction_events(made: RunningServer, caller: Caller, text: bytes) -> Sequence[Any]:
    """Events that name their tables."""
    typed = typed_transaction_events(made, caller, text)
    return events_of(await decode_large(text)) if typed is None else typed


def typed_table_events(
    made: RunningServer, caller: Caller, name: str, text: bytes | str
) -> Sequence[Any] | None:
    table = made.view.tables(caller.tenant).get(name) if len(text) <= SMALL_BYTES else None
    return None if table is None or isinstance(table, View) else typed_events(table, text)


def typed_transaction_events(made: RunningServer, caller: Caller, text: bytes | str) -> Sequence[Any] | None:
    return typed_transaction(made.view.tables(caller.tenant), text) if len(text) <= SMALL_BYTES else None


def events_of(given: Any) -> list[Any]:
    """The events of decoded JSON, which are read one by one."""
    if not isinstance(given, dict) or "events" not in given:
        raise InputError('expected an object with "events"', "")
    events = given["events"]
    if not isinstance(events, list):
        raise InputError("expected a list of events", "/events")
    if not events:
        raise InputError("the list of events is empty; send at least one", "/events")
    return events
