"""Events as the OpenAPI document describes them. They are read by the validation of their table, not by these models."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected

_Object = dict[str, Any] | UnsetType
_LIST = "expected a list of events"


class Event(RequestModel, frozen=True):
    """A change of one row."""

    op: Literal["insert", "upsert", "update", "delete"]
    row: _Object = UNSET
    key: _Object = UNSET
    set: _Object = UNSET


class TableEvent(RequestModel, frozen=True):
    """A change of one row, or of all rows, with the table that it is of."""

    table: str
    op: Literal["insert", "upsert", "update", "delete", "truncate"]
    row: _Object = UNSET
    key: _Object = UNSET
    set: _Object = UNSET


class Events(RequestModel, frozen=True, forbid_unknown_fields=False):
    """Events of one table: one transaction."""

    events: Annotated[list[Any], expected(_LIST, items=Event, min_length=1)]
    example: ClassVar[JsonObject | None] = {
        "events": [{"op": "upsert", "row": {"symbol": "IBM", "risk": 30, "per": 11.5}}]
    }


class Transaction(RequestModel, frozen=True, forbid_unknown_fields=False):
    """Events of any tables: one transaction."""

    events: Annotated[list[Any], expected(_LIST, items=TableEvent, min_length=1)]
    example: ClassVar[JsonObject | None] = {
        "events": [
            {"table": "accounts", "op": "update", "key": {"id": 1}, "set": {"balance": 90}},
            {"table": "history", "op": "insert", "row": {"id": 7, "account": 1, "delta": -10}},
        ]
    }
