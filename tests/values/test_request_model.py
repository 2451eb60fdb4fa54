"""Bodies as request models: what is wrong is found where it is, with the text of its field."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from prosem.values.errors import InputError
from prosem.values.request_model import Flag, RequestModel, expected, read


class Item(RequestModel, frozen=True, forbid_unknown_fields=False):
    expected = "expected an item"
    id: Annotated[str, expected("expected an id", min_length=1)] | None = None
    sizes: dict[str, Annotated[int, expected(lambda size: f"{size!r} is no size")]] | None = None


class Order(RequestModel, frozen=True):
    name: Annotated[str, expected("expected a name", min_length=1)]
    items: Annotated[list[Item], expected("expected a list of items", min_length=1)]
    first: Item | None = None
    is_open: Flag = True
    weight: float = 0.0


@pytest.mark.parametrize(
    ("body", "at", "text"),
    [
        (None, "", "expected a JSON object"),
        ([], "", "expected a JSON object"),
        ({}, "/name", "expected a name"),
        ({"name": "", "items": []}, "/name", "expected a name"),
        ({"name": "a"}, "/items", "expected a list of items"),
        ({"name": "a", "items": []}, "/items", "expected a list of items"),
        ({"name": "a", "items": [{}, 1]}, "/items/1", "expected an item"),
        ({"name": "a", "items": [{}, {"id": 1}]}, "/items/1/id", "expected an id"),
        ({"name": "a", "items": [{"sizes": {"x/y": "big"}}]}, "/items/0/sizes/x~1y", "'big' is no size"),
        ({"name": "a", "items": [{}], "first": 3}, "/first", "expected an item"),
        ({"name": "a", "items": [{}], "first": {"id": ""}}, "/first/id", "expected an id"),
        ({"name": "a", "items": [{}], "is_open": 1}, "/is_open", "expected true or false"),
        ({"name": "a", "items": [{}], "weight": "1"}, "/weight", "Expected `float`, got `str`"),
        (
            {"name": 1, "` - at `$.items": 2},
            "/` - at `$.items",
            "unknown member '` - at `$.items'; known are name, items, first, is_open, weight",
        ),
    ],
)
def test_a_fault_has_the_pointer_and_the_text_of_its_field(body: Any, at: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read(Order, body)
    assert (caught.value.at, caught.value.detail) == (at, text)
    with pytest.raises(InputError) as caught:
        read(Order, body, "/order")
    assert caught.value.at == "/order" + at


def test_a_body_that_fits_is_its_model() -> None:
    body = {"name": "a", "items": [{"id": None, "more": 1}], "first": {"sizes": {"x": 2}}, "weight": 3}
    assert read(Order, body) == Order("a", [Item()], Item(sizes={"x": 2}), weight=3.0)
