"""The OpenAPI document: generated from the models that read the bodies, complete, with examples that are accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import msgspec
import pytest

from api.http.app import make_app
from api.http.models.subscriptions import BatchRow, read_row
from api.http.openapi import BODIES
from api.server.key_requests import KeyLimits
from api.server.lifetime import ServerLifetime
from api.server.settings import Settings
from prosem.values.access import Limits
from prosem.values.errors import InputError
from prosem.values.request_model import read

DOCUMENT = make_app(ServerLifetime(Settings())).openapi()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (value[name] for name in value if name == "$ref")
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from references(inner)


def test_every_reference_leads_to_a_schema() -> None:
    found = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert found - {"HTTPValidationError", "ValidationError"} == DOCUMENT["components"]["schemas"].keys() - {
        "HTTPValidationError",
        "ValidationError",
    }


def test_every_response_that_an_application_may_read_has_a_schema() -> None:
    """Not those of streams and texts."""
    others = ("/healthz", "/readyz", "/metrics")
    missing = [
        (method, path)
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        if not path.startswith(others) and not path.endswith("/stream")
        if not any(
            "$ref" in answer.get("content", {}).get("application/json", {}).get("schema", {})
            for status, answer in operation["responses"].items()
            if status.startswith("2")
        )
    ]
    assert missing == []


def test_every_example_is_accepted_by_its_model() -> None:
    examples = [(body, body.example) for body in BODIES if body.example is not None]
    assert examples
    for body, example in examples:
        read(body, example)


def test_a_key_can_be_given_every_limit() -> None:
    assert [field.name for field in msgspec.structs.fields(KeyLimits)] == [
        field.name for field in fields(Limits)
    ]


@pytest.mark.parametrize(
    "id", ["a", "é", None, "", "x" * 200, "x" * 201, "a/b", "a\0", "a\n", "\ud800", 7, []]
)
@pytest.mark.parametrize("params", [{}, {"lo": 1}, None, 7, []])
def test_a_row_of_a_batch_is_read_as_its_model_says(id: Any, params: Any) -> None:
    def outcome(reader: Callable[[Any], Any]) -> Any:
        try:
            return reader({"id": id, "params": params, "more": 1})
        except InputError as error:
            return error.at, error.detail

    def by_model(row: Any) -> Any:
        given = read(BatchRow, row)
        return given.id, given.params or {}

    assert outcome(read_row) == outcome(by_model)


def test_the_timeline_of_a_stream_is_documented() -> None:
    stream = DOCUMENT["paths"]["/v1/subscriptions/{id}/stream"]["get"]
    assert {(each["in"], each["name"]) for each in stream["parameters"]} == {
        ("path", "id"),
        ("query", "timeline"),
    }
