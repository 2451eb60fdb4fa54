"""What the routes respond with that only look (a query, the picture and the costs of an event), and those of the network.

As those of applications (`responses`), they are schemas alone. What differs from type to type is an object of its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from api.http.models.operation_responses import MessageDescription, MetricWeights, PlanFigures
from api.http.models.responses import ResponseModel


# -- a query -------------------------------------------------------------------------------------------------
class QueryDescription(ResponseModel):
    """What a query becomes as a subscription."""

    type: str
    group: str
    subscriptions: Annotated[int, Meta(description="that the group has now")]
    template: str
    per: str
    tables: list[str]
    parameters: list[str]
    missing: Annotated[list[str], Meta(description="parameters that were not given")]
    plans: list[str]
    dimensions: int
    place: Annotated[
        dict[str, Any] | None,
        Meta(description="where it stands among the others; null while parameters are missing"),
    ]
    messages: list[MessageDescription]
    update: str
    transform: str
    fold: Annotated[dict[str, Any], Meta(description="what a client needs to fold the answers")]


# -- an event ------------------------------------------------------------------------------------------------
class Axis(ResponseModel):
    name: str
    type: str


class Side(ResponseModel):
    """An interval of a box; null is unbounded."""

    low: Any = field(name="from")
    high: Any = field(name="to")
    from_open: bool
    to_open: bool


class Box(ResponseModel):
    lo: Side
    hi: Side


class Piece(ResponseModel):
    value: Annotated[Any, Meta(description="the new extreme of all subscriptions in its boxes")]
    row: str | None
    boxes: list[Box]
    affected: int


class Panel(ResponseModel):
    """One combination of equality values that the event concerns."""

    equal: dict[str, Any]
    before: Annotated[list[Any] | None, Meta(description="x and y of the row")]
    after: list[Any] | None
    mar_before: Annotated[list[Any] | None, Meta(description="the maximum affected range")]
    mar_after: list[Any] | None
    rows: Annotated[list[Any], Meta(description="some rows: x, y, key")]
    rows_in_all: int
    pieces: list[Piece]
    points: Annotated[
        list[Any], Meta(description="some subscriptions: lo, hi, id, the number of their piece or null")
    ]
    points_in_all: int


class EventPicture(ResponseModel):
    """An event in a group of minima or maxima in one range."""

    group: str
    type: str
    table: str
    x: Axis
    y: Axis
    key: dict[str, Any]
    panels: list[Panel]


class ExplainedWay(PlanFigures):
    """A plan by one way of the network."""

    way: Annotated[
        Literal["tree", "straight"], Meta(description="down the tree, or to each broker concerned")
    ]
    chosen: Annotated[bool, Meta(description="the cheaper one, by which the plan is priced")]


class ExplainedPlan(PlanFigures):
    plan: str
    chosen: bool
    source: Annotated[Literal["measured", "histogram", "counts"], Meta(description="of the estimate")]
    statistic: Annotated[str, Meta(description="what the estimate comes from, in words")]
    measured: Annotated[PlanFigures, Meta(description="in a dry run, if it was asked for")] | UnsetType = (
        UNSET
    )
    straight: (
        Annotated[float, Meta(description="share of such messages that goes straight to brokers")] | UnsetType
    ) = UNSET
    ways: Annotated[list[ExplainedWay], Meta(description="where the network has two")] | UnsetType = UNSET


class EvaluationOrder(ResponseModel):
    server_cost: Annotated[float, Meta(description="µs of the server per affected subscription")]
    statistic: Annotated[str, Meta(description="what it comes from, in words")]


class ExplainedGroup(ResponseModel):
    group: str
    type: str
    space: int
    chosen: str
    plans: list[ExplainedPlan]
    order: Annotated[
        EvaluationOrder, Meta(description="groups are evaluated in increasing server cost, and listed so")
    ]
    arrangement: (
        Annotated[
            dict[str, Any],
            Meta(description="of a join: its routing columns and partners, and what chose them"),
        ]
        | UnsetType
    ) = UNSET
    rows: Annotated[int, Meta(description="of a view that the event changes")] | UnsetType = UNSET


class ExplainedEvent(ResponseModel):
    table: str
    seq: int
    weights: MetricWeights
    groups: list[ExplainedGroup]


# -- the network ---------------------------------------------------------------------------------------------
class LinkDescription(ResponseModel):
    sender: str = field(name="from")
    to: str
    messages: int
    bytes: int
    frames: int | UnsetType = UNSET
    last_seq: int | UnsetType | None = UNSET
    injected: (
        Annotated[int, Meta(description="messages that it was given, also those for no subscription there")]
        | UnsetType
    ) = UNSET
    hosted: int | UnsetType = UNSET
    latency_us: float | UnsetType | None = UNSET


class BrokerDescription(ResponseModel):
    name: str
    url: str
    advertised: Annotated[str, Meta(description="where clients may be redirected to")]
    parent: str
    hosted: int
    sockets: int
    backlog_bytes: int
    behind: Annotated[int, Meta(description="messages that it has not applied yet")]
    latency_us: Annotated[
        dict[str, float], Meta(description="until a message is there, by way: tree, straight")
    ]
    contents: dict[str, int] | UnsetType = UNSET
    stage: int | UnsetType = UNSET


class NetworkDescription(ResponseModel):
    network: str
    brokers: list[BrokerDescription]
    links: list[LinkDescription]
    ways: dict[str, int]
    redirected: int
    contents: dict[str, int] | UnsetType = UNSET
    stage: int | UnsetType = UNSET
    stage_order: Any = UNSET


class JoinedBroker(ResponseModel):
    node: str
    parent: str
    since: int
    network: str
    options: dict[str, Any]
    stream: str
    subjects: str
    lease_s: float
    nats: str
    protocol: int
    version: str
    open: bool
    timeline: str


class RenewedLease(ResponseModel):
    position: int
    seq: int
    requests: int
    open: bool


class LeftBroker(ResponseModel):
    name: str


PREVIEW_RESPONSES: tuple[type[ResponseModel], ...] = (
    QueryDescription,
    EventPicture,
    ExplainedEvent,
    NetworkDescription,
    JoinedBroker,
    RenewedLease,
    LeftBroker,
)
