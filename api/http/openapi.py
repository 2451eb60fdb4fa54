"""The OpenAPI document: FastAPI knows the routes, and the schemas of bodies are generated from the request models."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import FastAPI
from msgspec import UNSET, Meta, UnsetType

from api.server.key_requests import NewKey
from prosem.values.request_model import RequestModel

_REFERENCE = "#/components/schemas/{name}"
_TYPES = "boolean, integer, bigint, double precision, numeric(p,s), text, date, timestamptz, jsonb, bytea"


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


MODELS: tuple[Any, ...] = (Problem, NewKey)
TABLE = {
    "type": "object",
    "required": ["name", "columns"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "columns": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "type"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "type": {"type": "string", "description": _TYPES},
                    "nullable": {"type": "boolean", "default": True},
                },
            },
        },
        "primary_key": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "extends": {
            "type": "string",
            "description": "a table whose columns, key and subscriptions it shares",
        },
    },
    "example": {
        "name": "stocks",
        "columns": [
            {"name": "symbol", "type": "text"},
            {"name": "risk", "type": "integer"},
            {"name": "per", "type": "double precision"},
        ],
        "primary_key": ["symbol"],
    },
}
_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["op"],
    "properties": {
        "op": {"enum": ["insert", "upsert", "update", "delete"]},
        "row": {"type": "object"},
        "key": {"type": "object"},
        "set": {"type": "object"},
    },
}
JOIN = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9_-]+$"},
        "url": {"type": "string", "description": "where subscribers reach the broker"},
        "protocol": {
            "type": "integer",
            "minimum": 1,
            "description": "newest brokers' protocol that it speaks",
        },
        "oldest_protocol": {
            "type": "integer",
            "minimum": 1,
            "description": "the oldest one that it still speaks",
        },
        "version": {"type": "string", "description": "of its release, for messages"},
    },
    "example": {"name": "broker-1", "url": "http://127.0.0.1:8081", "protocol": 2, "version": "0.1.0"},
}


def _events(one: dict[str, Any], *examples: dict[str, Any]) -> dict[str, Any]:
    """A body with at least one event of this kind."""
    return {
        "type": "object",
        "required": ["events"],
        "properties": {"events": {"type": "array", "minItems": 1, "items": one}},
        "example": {"events": list(examples)},
    }


EVENTS = _events(_EVENT, {"op": "upsert", "row": {"symbol": "IBM", "risk": 30, "per": 11.5}})
TRANSACTION = _events(
    {
        "type": "object",
        "required": ["table", "op"],
        "properties": {
            "table": {"type": "string"},
            **_EVENT["properties"],
            "op": {"enum": ["insert", "upsert", "update", "delete", "truncate"]},
        },
    },
    {"table": "accounts", "op": "update", "key": {"id": 1}, "set": {"balance": 90}},
    {"table": "history", "op": "insert", "row": {"id": 7, "account": 1, "delta": -10}},
)
_PARAMS = {"type": "object", "example": {"lo": 20, "hi": 40}}
SUBSCRIPTION = {
    "type": "object",
    "required": ["sql"],
    "properties": {
        "sql": {"type": "string"},
        "params": _PARAMS,
        "notify": {"type": "object"},
        "id": {"type": "string"},
        "durable": {"type": "boolean", "default": True},
    },
    "example": {
        "sql": "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi",
        "params": {"lo": 20, "hi": 40},
    },
}
BATCH = {
    "type": "object",
    "required": ["sql", "rows"],
    "properties": {
        "sql": {"type": "string"},
        "notify": {"type": "object"},
        "rows": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "params": _PARAMS}},
        },
        "durable": {"type": "boolean", "default": True},
    },
}
DESCRIBE = {
    "type": "object",
    "required": ["sql"],
    "properties": {"sql": {"type": "string"}, "params": _PARAMS, "notify": {"type": "object"}},
}
GEOMETRY = {
    "type": "object",
    "required": ["group", "event"],
    "properties": {"group": {"type": "string"}, "event": _EVENT},
}
EXPLAIN = {
    "type": "object",
    "required": ["table", "event"],
    "properties": {
        "table": {"type": "string"},
        "event": _EVENT,
        "analyze": {"type": "boolean", "default": False, "description": "measure every plan in a dry run"},
    },
    "example": {
        "table": "stocks",
        "event": {"op": "upsert", "row": {"symbol": "IBM", "risk": 30, "per": 11.5}},
    },
}
WEIGHTS = {
    "type": "object",
    "properties": {
        name: {"type": "number", "minimum": 0}
        for name in ("server_time", "response_time", "server_stress", "bandwidth")
    },
    "example": {"server_time": 1, "response_time": 1, "server_stress": 1, "bandwidth": 1},
}
PATCH = {"type": "object", "properties": {"params": _PARAMS, "active": {"type": "boolean"}}}


WEBHOOK = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "maxLength": 2000, "description": "https://… that changes are posted to"},
        "subscriptions": {
            "type": "array",
            "minItems": 1,
            "maxItems": 10_000,
            "items": {"type": "string", "minLength": 1},
        },
        "id": {"type": "string", "minLength": 1, "description": "one subscription, instead of a list"},
        "secret": {
            "type": "string",
            "pattern": "^[!-~]{16,200}$",
            "description": "what deliveries are signed with (default: one that the answer shows, this once)",
        },
    },
    "example": {"url": "https://example.org/hook", "subscriptions": ["my-dashboard"]},
}
REDELIVERY = {
    "type": "object",
    "properties": {
        "deliveries": {
            "type": "array",
            "maxItems": 1_000,
            "items": {"type": "string", "format": "uuid"},
            "description": "which ones (default: all)",
        }
    },
}


def documented(summary: str, body: type[RequestModel] | dict[str, Any] | None = None) -> dict[str, Any]:
    """Arguments of a route: its summary, the model of its body, and the form of its errors."""
    extra: dict[str, Any] = {}
    if isinstance(body, dict):
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    elif body is not None:
        content: dict[str, Any] = {"schema": _reference(body)}
        if body.example is not None:
            content["example"] = body.example
        extra["requestBody"] = {"required": True, "content": {"application/json": content}}
    problem = {
        "description": "A problem document",
        "content": {"application/problem+json": {"schema": _reference(Problem)}},
    }
    return {"summary": summary, "openapi_extra": extra, "responses": {"4XX": problem, "503": problem}}


def _reference(model: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=model.__name__)}


def components() -> dict[str, Any]:
    """The schemas of all models by their names."""
    return msgspec.json.schema_components(MODELS, ref_template=_REFERENCE)[1]


def describe(app: FastAPI) -> None:
    """Put the schemas of the models into the application's OpenAPI document."""
    routes = app.openapi

    def document() -> dict[str, Any]:
        found = routes()
        found.setdefault("components", {}).setdefault("schemas", {}).update(components())
        return found

    app.openapi = document  # type: ignore[method-assign]
