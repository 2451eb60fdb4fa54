"""What the routes of applications respond with: the schemas from which clients are generated.

A response is encoded from the values at hand and never passes through these models; a test decodes the responses of a
running server with them, strictly.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from prosem.values.model import JsonObject


class ResponseModel(Struct, forbid_unknown_fields=True):
    pass


class ColumnDefinition(ResponseModel):
    name: str
    type: str
    nullable: bool


class TableDefinition(ResponseModel):
    name: str
    columns: list[ColumnDefinition]
    primary_key: list[str]
    extends: str | UnsetType = UNSET


class TableList(ResponseModel):
    tables: list[TableDefinition]


class ViewDefinition(ResponseModel):
    name: str
    sql: str
    columns: list[ColumnDefinition]
    primary_key: list[str]


class Published(ResponseModel):
    """The committed events."""

    first_seq: int | None
    last_seq: int | None
    count: int
    errors: (
        Annotated[list[JsonObject], Meta(description="of an NDJSON body: the first bad line")] | UnsetType
    ) = UNSET
    batches: (
        Annotated[list[int], Meta(description="of an NDJSON body: the last seq of each transaction")]
        | UnsetType
    ) = UNSET


class FoldColumn(ResponseModel):
    name: str
    type: str


class FoldOrder(ResponseModel):
    column: str
    descending: bool
    nulls_first: bool
    type: str


class Fold(ResponseModel):
    """How changes are applied to the result."""

    key: list[str] | UnsetType = UNSET
    order: list[FoldOrder] | UnsetType = UNSET
    type: str | UnsetType = UNSET
    columns: list[FoldColumn] | UnsetType = UNSET
    row: list[FoldColumn] | UnsetType = UNSET


class SubscriptionResult(ResponseModel):
    """The answer of a subscription as of `seq`; the members of `result` depend on the query."""

    id: str
    seq: int
    timeline: str
    result: JsonObject


class NewSubscriptionResult(ResponseModel):
    id: str
    type: str
    group: str
    seq: int
    timeline: str
    result: JsonObject
    fold: Fold


class BatchResult(ResponseModel):
    group: str
    type: str
    seq: int
    timeline: str
    ids: list[str]


class MovedSubscription(ResponseModel):
    id: str
    seq: int
    timeline: str
    result: JsonObject
    active: bool


class SubscriptionDescription(ResponseModel):
    id: str
    type: str
    group: str
    sql: str
    params: dict[str, Any]
    notify: JsonObject | None
    active: bool
    durable: bool
    per: Literal["event", "transaction"]
    created_seq: int
    fold: Annotated[Fold, Meta(description="of one subscription; lists have none")] | UnsetType = UNSET


class SubscriptionList(ResponseModel):
    subscriptions: list[SubscriptionDescription]


RESPONSES: tuple[type[ResponseModel], ...] = (
    TableDefinition,
    TableList,
    ViewDefinition,
    Published,
    SubscriptionResult,
    NewSubscriptionResult,
    BatchResult,
    MovedSubscription,
    SubscriptionDescription,
    SubscriptionList,
)
