"""What OpenAPI says about each route. Bodies are read by msgspec, so their schemas stand here."""

from __future__ import annotations

from typing import Any

_TYPES = "boolean, integer, bigint, double precision, numeric(p,s), text, date, timestamptz, jsonb, bytea"
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}
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


KEY = {
    "type": "object",
    "required": ["name", "roles"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "what it is for"},
        "tenant": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,39}$"},
        "roles": {
            "type": "array",
            "minItems": 1,
            "items": {"enum": ["admin", "publisher", "subscriber", "metrics", "broker"]},
        },
        "rows": {"type": "object", "description": "a condition for each table whose rows it may see in part"},
        "limits": {
            "type": "object",
            "properties": {
                name: {"type": "integer", "minimum": 0}
                for name in (
                    "subscriptions",
                    "events_per_second",
                    "sockets",
                    "frame_bytes",
                    "comparisons",
                    "webhooks",
                )
            },
        },
    },
    "example": {"name": "the tech desk", "roles": ["subscriber"], "rows": {"stocks": "sector = 'tech'"}},
}


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


def documented(summary: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Arguments of a route: its summary, the schema of its body, and the form of its errors."""
    extra: dict[str, Any] = {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    problem = {
        "description": "A problem document",
        "content": {"application/problem+json": {"schema": _PROBLEM}},
    }
    return {"summary": summary, "openapi_extra": extra, "responses": {"4XX": problem, "503": problem}}
