"""What the routes for looking at a server and running it respond with: status, types, views, keys, webhooks, optimizer.

As those of applications (`responses`), they are schemas alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from api.http.models.responses import ResponseModel, ViewDefinition


# -- status, groups, types -----------------------------------------------------------------------------------
class SubscriptionCounts(ResponseModel):
    total: int
    by_type: dict[str, int]
    attached: Annotated[int | None, Meta(description="shown to the operator alone")]


class ServerStatus(ResponseModel):
    version: str
    ready: bool
    problem: str | None
    seq: int
    timeline: str
    tables: Annotated[dict[str, int | None], Meta(description="rows; null for a key with row conditions")]
    views: dict[str, int | None]
    columns_in_memory: Annotated[
        dict[str, list[str]] | None,
        Meta(description="by table, with --columns-in-memory used; null: all are"),
    ]
    subscriptions: SubscriptionCounts
    groups: int
    network: str
    kernels: str
    uptime_s: float
    backlog: int
    restarts: Annotated[
        dict[str, int] | None, Meta(description="by background task; shown to the operator alone")
    ]


class GroupDescription(ResponseModel):
    group: str
    type: str
    template: str
    example: Annotated[str | None, Meta(description="null for a key with row conditions")]
    subscriptions: int


class GroupList(ResponseModel):
    groups: list[GroupDescription]


class MessageDescription(ResponseModel):
    name: str
    region: str
    payload: str


class ClientRules(ResponseModel):
    """SQL with which a SQLite database keeps the answer."""

    schema: list[str]
    update: dict[str, list[str]]
    transform: str


class TypeDescription(ResponseModel):
    name: str
    sql: str
    notify: list[str]
    messages: list[MessageDescription]
    update: str
    transform: str
    rules: ClientRules | UnsetType = UNSET


class TypeList(ResponseModel):
    types: list[TypeDescription]


class Dropped(ResponseModel):
    """A table or a view."""

    name: str
    dropped: bool


class DeletedSubscription(ResponseModel):
    id: str
    seq: int


# -- views ---------------------------------------------------------------------------------------------------
class ViewReaders(ResponseModel):
    views: list[str]
    groups: list[str]
    subscriptions: int


class ViewDescription(ViewDefinition):
    rows: Annotated[int | None, Meta(description="null for a key with row conditions")]
    uses: list[str]
    used_by: ViewReaders


class ViewList(ResponseModel):
    views: list[ViewDescription]


# -- keys ----------------------------------------------------------------------------------------------------
class CallerDescription(ResponseModel):
    key: int
    name: str
    tenant: str
    roles: list[str]
    rows: Annotated[
        dict[str, dict[str, list[Any]]], Meta(description="by table: the values that its columns may have")
    ]
    limits: dict[str, int]


class Whoami(CallerDescription):
    operator: bool
    open: Annotated[bool, Meta(description="there are no keys, and every caller is the operator")]


class KeyDescription(CallerDescription):
    created: datetime
    revoked: datetime | None


class NewKeyResult(KeyDescription):
    secret: Annotated[str, Meta(description="the key itself, shown this once")]


class KeyList(ResponseModel):
    keys: list[KeyDescription]


# -- webhooks ------------------------------------------------------------------------------------------------
class WebhookDescription(ResponseModel):
    id: str
    url: str
    key: int
    created: datetime
    active: bool
    problem: str | None


class WebhookList(ResponseModel):
    webhooks: list[WebhookDescription]


class WebhookPosition(ResponseModel):
    id: str
    seq: Annotated[int | None, Meta(description="null: nothing was delivered yet")]


class DeliveryDescription(ResponseModel):
    delivery: str
    frames: int
    first_seq: int
    last_seq: int
    attempts: int
    error: str | None
    created: datetime
    dead: Annotated[datetime | None, Meta(description="when it was given up")]


class WebhookDetails(WebhookDescription):
    subscriptions: list[WebhookPosition]
    pending: list[DeliveryDescription]
    dead_letters: int
    secret: (
        Annotated[str, Meta(description="of a new webhook, if the server made it; shown this once")]
        | UnsetType
    ) = UNSET


class DeadLetterList(ResponseModel):
    dead_letters: list[DeliveryDescription]


class DeadLetter(DeliveryDescription):
    body: Any


class DeletedWebhook(ResponseModel):
    id: str
    deleted: bool


class Redelivered(ResponseModel):
    count: int


class DiscardedDelivery(ResponseModel):
    delivery: str
    discarded: bool


# -- backtests -----------------------------------------------------------------------------------------------
class TaskProgress(ResponseModel):
    """Tasks of Spark."""

    done: int
    total: int


class BacktestDescription(ResponseModel):
    id: str
    created: datetime
    state: str
    sql: str
    subscriptions: int
    steps: list[str]
    progress: Annotated[TaskProgress | None, Meta(description="of the last step, where Spark carries it out")]
    error: str | None
    result: Annotated[Any, Meta(description="of one backtest; lists have none")] = UNSET


class BacktestList(ResponseModel):
    backtests: list[BacktestDescription]


class BacktestedSubscription(ResponseModel):
    subscription: Annotated[int, Meta(description="its place in the request")]
    params: dict[str, Any]
    notifications: int
    per_day: float
    by_day: Annotated[list[int], Meta(description="notifications on each of the days")]
    by_hour: Annotated[list[int], Meta(description="notifications in each hour of the day, in UTC")]
    suggested: (
        Annotated[Any, Meta(description="the value of the parameter that was to be found")] | UnsetType
    ) = UNSET


class BacktestedSubscriptions(ResponseModel):
    """A page of the subscriptions of a backtest."""

    days: Annotated[list[str], Meta(description="the days of by_day, in UTC")]
    subscriptions: list[BacktestedSubscription]
    next: Annotated[int | None, Meta(description="after which the next page begins; null after the last")]


# -- the optimizer -------------------------------------------------------------------------------------------
class MetricWeights(ResponseModel):
    server_time: float
    response_time: float
    server_stress: float
    bandwidth: float


class PlanFigures(ResponseModel):
    """Microseconds, microseconds, bytes, bytes, subscriptions; null is unknown."""

    server_time: float | None
    response_time: float | None
    server_stress: float | None
    bandwidth: float | None
    affected: float | None
    cost: float


class MeasuredFigures(ResponseModel):
    messages: int
    server_time: float | None
    server_stress: float | None
    response_time: float | UnsetType | None = UNSET
    bandwidth: float | UnsetType | None = UNSET
    affected: float | UnsetType | None = UNSET


class DecisionDescription(ResponseModel):
    seq: int
    space: int
    group: str | None
    groups: list[str]
    plan: str
    source: Annotated[str | None, Meta(description="of the estimate of the plan that was taken")]
    estimates: Annotated[dict[str, PlanFigures] | None, Meta(description="by plan")]
    actual: MeasuredFigures


class DecisionList(ResponseModel):
    decisions: list[DecisionDescription]


# -- statistics ----------------------------------------------------------------------------------------------
class RoutingColumns(ResponseModel):
    columns: Annotated[
        dict[str, str], Meta(description="by table: the column by which its rows find subscriptions")
    ]
    statistic: Annotated[str, Meta(description="what chose them")]


class JoinPartners(ResponseModel):
    tables: Annotated[dict[str, str], Meta(description="by table: the one by which its rows are reduced")]
    statistic: Annotated[str, Meta(description="what chose them")]


class UnarrangedJoin(ResponseModel):
    routing: Annotated[dict[str, str], Meta(description="by position")]
    partners: Annotated[dict[str, str], Meta(description="by rows per key")]


class JoinArrangement(ResponseModel):
    group: str
    routing: RoutingColumns
    partners: JoinPartners
    without_run: Annotated[
        UnarrangedJoin | None, Meta(description="how it would be without the run; null if there is none")
    ]


class StatisticsRun(ResponseModel):
    """The run in force; its members are null if there is none."""

    run: int | None
    created: datetime | None
    job: str | None
    state: str | None
    since: datetime | None
    rows: dict[str, Any] | None
    entries: Annotated[dict[str, dict[str, int]], Meta(description="measurements by group and plan")]
    stale: list[str]
    arrangements: Annotated[list[JoinArrangement], Meta(description="of each group of joins")]
    estimate_errors: dict[str, float]


class FrequentValue(ResponseModel):
    value: Any
    share: float


class ColumnFigures(ResponseModel):
    name: str
    type: str
    events: int
    nulls: int
    distinct_values: float
    changes: int
    update_rate: float
    hot_keys: list[FrequentValue]


class ColumnHistogram(ColumnFigures):
    histogram: list[Any] | None
    rank_error: float


class TableFigures(ResponseModel):
    name: str
    events: int
    columns: list[ColumnFigures]


class TableFiguresList(ResponseModel):
    tables: list[TableFigures]


class JoinSide(ResponseModel):
    table: str
    columns: list[str]
    event_share: float
    rows_per_key: float
    keys: int
    skew: float


class JoinFigures(ResponseModel):
    r: JoinSide
    s: JoinSide


class JoinFiguresList(ResponseModel):
    joins: list[JoinFigures]


class DimensionFigures(ResponseModel):
    dimension: str
    subscriptions: int
    distinct_values: float
    histogram: list[Any] | None
    rank_error: float
    hot_keys: list[FrequentValue]


class GroupFigures(ResponseModel):
    name: str
    type: str
    sample_sql: str
    is_stale: bool
    dimensions: list[DimensionFigures]


class GroupFiguresList(ResponseModel):
    groups: list[GroupFigures]


OPERATION_RESPONSES: tuple[type[ResponseModel], ...] = (
    ServerStatus,
    GroupList,
    TypeList,
    Dropped,
    DeletedSubscription,
    ViewDescription,
    ViewList,
    Whoami,
    KeyDescription,
    NewKeyResult,
    KeyList,
    WebhookList,
    WebhookDetails,
    DeadLetterList,
    DeadLetter,
    DeletedWebhook,
    Redelivered,
    DiscardedDelivery,
    BacktestDescription,
    BacktestList,
    BacktestedSubscriptions,
    MetricWeights,
    DecisionList,
    StatisticsRun,
    TableFigures,
    TableFiguresList,
    ColumnHistogram,
    JoinFiguresList,
    GroupFigures,
    GroupFiguresList,
)
