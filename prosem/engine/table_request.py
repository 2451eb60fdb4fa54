"""The request model of a table: the body of POST /v1/tables. Members that it does not have are ignored."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import UNSET, UnsetType

from prosem.values.model import JsonObject
from prosem.values.request_model import Flag, RequestModel, expected

_TYPES = "boolean, integer, bigint, double precision, numeric(p,s), text, date, timestamptz, jsonb, bytea"
KEY_EXPECTED = "expected a list with at least one column name"
COLUMNS_EXPECTED = "expected a list with at least one column"
Name = Annotated[str, expected("expected a name", min_length=1)]


def no_column(name: object) -> str:
    return f"{name!r} is no column of this table"


def no_parent(name: object) -> str:
    return f"there is no table {name!r} to extend; create it first"


class NewColumn(RequestModel, frozen=True, forbid_unknown_fields=False):
    """A column of a table."""

    expected = 'expected an object with "name" and "type"'
    name: Name
    type: Annotated[str, expected("expected the name of a type", description=_TYPES)]
    nullable: Flag = True


class NewTable(RequestModel, frozen=True, forbid_unknown_fields=False):
    """A table that is to be made."""

    expected = 'expected an object with "name", "columns" and "primary_key"'
    example: ClassVar[JsonObject | None] = {
        "name": "stocks",
        "columns": [
            {"name": "symbol", "type": "text"},
            {"name": "risk", "type": "integer"},
            {"name": "per", "type": "double precision"},
        ],
        "primary_key": ["symbol"],
    }
    name: Name
    columns: Annotated[list[NewColumn], expected(COLUMNS_EXPECTED)]
    primary_key: (
        Annotated[list[Annotated[str, expected(no_column)]], expected(KEY_EXPECTED, min_length=1)] | UnsetType
    ) = UNSET
    extends: (
        Annotated[
            str, expected(no_parent, description="a table whose columns, key and subscriptions it shares")
        ]
        | None
    ) = None
