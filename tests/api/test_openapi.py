"""The OpenAPI document: generated from the models that read the bodies, complete, with examples that are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import msgspec

from api.http.app import make_app
from api.http.openapi import MODELS
from api.server.composition import Server
from api.server.key_requests import KeyLimits
from api.server.settings import Settings
from prosem.values.access import Limits
from prosem.values.request_model import RequestModel, read

DOCUMENT = make_app(Server(Settings())).openapi()


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


def test_every_example_is_accepted_by_its_model() -> None:
    models = [model for model in MODELS if issubclass(model, RequestModel) and model.example is not None]
    assert models
    for model in models:
        read(model, model.example)


def test_a_key_can_be_given_every_limit() -> None:
    assert [field.name for field in msgspec.structs.fields(KeyLimits)] == [
        field.name for field in fields(Limits)
    ]
