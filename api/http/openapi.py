"""The OpenAPI document: FastAPI knows the routes, and the schemas of bodies are generated from the request models."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute
from msgspec import UNSET, Meta, UnsetType

from api.http.models.backtests import NewBacktest
from api.http.models.events import Event, Events, TableEvent, Transaction
from api.http.models.operation_responses import OPERATION_RESPONSES
from api.http.models.preview import Describe, Explain, Geometry, WeightChange
from api.http.models.preview_responses import PREVIEW_RESPONSES
from api.http.models.responses import RESPONSES, ResponseModel
from api.http.models.subscriptions import BatchRow, NewSubscription, SubscriptionBatch, SubscriptionChange
from api.http.models.views import NewView
from api.server.key_requests import NewKey
from api.webhooks.requests import NewWebhook, Redelivery
from prosem.brokers.requests import JoinBroker, LeaseRenewal
from prosem.engine.table_request import NewTable
from prosem.language.notify import Notify
from prosem.values.request_model import REFERENCE, RequestModel, reference


class ProblemPart(msgspec.Struct):
    at: Annotated[str, Meta(description="a JSON pointer into the request")]
    detail: str


class Problem(msgspec.Struct):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="what was wrong, and what to do")]
    errors: list[ProblemPart] | UnsetType = UNSET


BODIES: tuple[type[RequestModel], ...] = (
    NewTable,
    NewView,
    Events,
    Transaction,
    NewSubscription,
    SubscriptionBatch,
    SubscriptionChange,
    NewBacktest,
    Describe,
    Geometry,
    Explain,
    WeightChange,
    NewKey,
    NewWebhook,
    Redelivery,
    JoinBroker,
    LeaseRenewal,
)
PARTS: tuple[type[msgspec.Struct], ...] = (Problem, Event, TableEvent, Notify, BatchRow)  # of bodies
_SCHEMAS = msgspec.json.schema_components(
    (*BODIES, *PARTS, *RESPONSES, *OPERATION_RESPONSES, *PREVIEW_RESPONSES), ref_template=REFERENCE
)[1]


def documented(
    summary: str,
    body: type[RequestModel] | None = None,
    *statuses: int,
    returns: type[ResponseModel] | None = None,
    **query: str,
) -> dict[str, Any]:
    """Arguments of a route: its summary, the model of its body, that of its response with these statuses (200), what its
    query parameters mean, the form of its errors."""
    extra: dict[str, Any] = {}
    if query:
        extra["parameters"] = [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
            for name, text in query.items()
        ]
    if body is not None:
        example = {} if body.example is None else {"example": body.example}
        content = {"application/json": {"schema": _SCHEMAS[body.__name__] | example}}
        extra["requestBody"] = {"required": True, "content": content}
    problem = {
        "description": "A problem document",
        "content": {"application/problem+json": {"schema": reference(Problem)}},
    }
    responses: dict[int | str, Any] = {"4XX": problem, "503": problem}
    if returns is not None:
        content = {"application/json": {"schema": reference(returns)}}
        responses |= {status: {"description": "Done", "content": content} for status in statuses or (200,)}
    return {"summary": summary, "openapi_extra": extra, "responses": responses}


def operation_id(route: APIRoute) -> str:
    """The name of a generated client's function, such as `subscriptions_subscribe`."""
    return f"{route.tags[0]}_{route.name}" if route.tags else route.name


def components() -> dict[str, Any]:
    """The schemas that bodies and responses refer to, by their names."""
    bodies = {body.__name__ for body in BODIES}
    return {name: schema for name, schema in _SCHEMAS.items() if name not in bodies}


def describe(app: FastAPI) -> None:
    """Put the schemas of the models into the application's OpenAPI document."""
    routes = app.openapi

    def document() -> dict[str, Any]:
        found = routes()
        found.setdefault("components", {}).setdefault("schemas", {}).update(components())
        _complete(found)
        return found

    app.openapi = document  # type: ignore[method-assign]


def _complete(node: Any) -> None:
    """Lists and objects of anything say so: generators of clients take one that does not for an empty one."""
    if isinstance(node, dict):
        if node.get("type") == "array":
            node.setdefault("items", {})
        elif node.get("type") == "object" and "properties" not in node:
            node.setdefault("additionalProperties", True)
        for inner in node.values():
            _complete(inner)
    elif isinstance(node, list):
        for inner in node:
            _complete(inner)
