"""Request models of what is only looked at: a query, the regions of an event, the costs of an event; and the weights."""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, UnsetType

from api.http.models.events import Event
from api.http.models.subscriptions import Params, Sql
from optimizer.plan import METRICS
from prosem.language.notify import NotifyObject, check_notify
from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected

_EVENT = {"op": "upsert", "row": {"symbol": "IBM", "risk": 30, "per": 11.5}}
Weight = Annotated[float, expected("expected a number from 0 on", ge=0, le=sys.float_info.max)] | UnsetType


class Describe(RequestModel, frozen=True, forbid_unknown_fields=False):
    """A query that is described as a subscription."""

    sql: Sql
    params: Params = None
    notify: NotifyObject | None = None

    def __post_init__(self) -> None:
        check_notify(self.notify)


class Geometry(RequestModel, frozen=True, forbid_unknown_fields=False):
    """An event whose regions in a group are shown."""

    group: Annotated[str, expected("expected the name of a group; GET /v1/groups lists them")]
    event: Annotated[Any, expected('expected an event like {"op": "insert", "row": {…}}', of=Event)]


class Explain(RequestModel, frozen=True):
    """An event whose costs under each plan are shown."""

    example: ClassVar[JsonObject | None] = {"table": "stocks", "event": _EVENT}
    table: Annotated[str, expected("expected the name of a table")]
    event: Annotated[Any, expected('expected an event like {"op": "upsert", "row": {…}}', of=Event)]
    analyze: Annotated[
        bool, expected("expected true or false", description="measure every plan in a dry run")
    ] = False

    @classmethod
    def unknown(cls, name: str) -> str:
        return f"unknown member {name!r}; there are table, event and analyze"


class WeightChange(RequestModel, frozen=True):
    """How much each metric of the cost model matters; those left out stay as they are."""

    example: ClassVar[JsonObject | None] = dict.fromkeys(METRICS, 1)
    server_time: Weight = UNSET
    response_time: Weight = UNSET
    server_stress: Weight = UNSET
    bandwidth: Weight = UNSET

    @classmethod
    def unknown(cls, name: str) -> str:
        return f"there is no metric {name!r}; there are {', '.join(METRICS)}"
