"""Request models: the fixed shapes of JSON bodies as msgspec structs, from which the OpenAPI document is generated too.

`read` decodes strictly. A body that does not fit is then examined member by member, in the order of the struct, so that
the error has the JSON pointer of the first bad value and the text of its field (`expected`) instead of msgspec's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from prosem.values.errors import InputError, pointer
from prosem.values.model import JsonObject

REFERENCE = "#/components/schemas/{name}"
Text = str | Callable[[Any], str]  # of an error, or made from the value that is wrong


class RequestModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON object with these members and no others, unless a model says `forbid_unknown_fields=False`.

    `__post_init__` of a model checks what its types cannot say, and raises InputError itself.
    """

    expected: ClassVar[str] = "expected a JSON object"
    example: ClassVar[JsonObject | None] = None

    @classmethod
    def unknown(cls, name: str) -> str:
        """The text of the error for a member that the model does not have."""
        return f"unknown member {name!r}; known are {', '.join(cls.__struct_encode_fields__)}"


Model = TypeVar("Model", bound=RequestModel)


def expected(
    text: Text, *, of: type[RequestModel] | None = None, items: type[RequestModel] | None = None, **meta: Any
) -> Meta:
    """Constraints of a field, and the text of the error if a value does not meet them.

    `of` or `items` is the model that describes the value or its items in the OpenAPI document, if they are checked later.
    """
    shown: JsonObject | None = None if of is None else reference(of)
    return Meta(
        extra={"expected": text},
        extra_json_schema=shown if items is None else {"items": reference(items)},
        **meta,
    )


def reference(model: type[msgspec.Struct]) -> JsonObject:
    """A reference to the schema of a model in the OpenAPI document."""
    return {"$ref": REFERENCE.format(name=model.__name__)}


Flag = Annotated[bool, expected("expected true or false")]


def read(model: type[Model], given: Any, at: str = "") -> Model:
    """The body as its model; InputError points at what is wrong, below `at`.

    >>> class Window(RequestModel, frozen=True):
    ...     rows: Annotated[list[Annotated[int, expected("expected a number")]], expected("expected a list")]
    >>> read(Window, {"rows": [1, 2]}).rows
    [1, 2]
    >>> try: read(Window, {"rows": [1, "2"]})
    ... except InputError as error: print(error.at, error.detail)
    /rows/1 expected a number
    """
    try:
        return msgspec.convert(given, model)
    except msgspec.ValidationError as error:
        raise _in_object(model, given, at) or InputError(str(error), at) from None


def _in_object(model: type[RequestModel], given: Any, at: str) -> InputError | None:
    if not isinstance(given, dict):
        return InputError(model.expected, at)
    if model.__struct_config__.forbid_unknown_fields:
        for name in given:
            if name not in model.__struct_encode_fields__:
                return InputError(model.unknown(str(name)), at + pointer(name))
    for field in msgspec.structs.fields(model):
        place = at + pointer(field.encode_name)
        if field.encode_name in given:
            fault = _in_value(field.type, given[field.encode_name], place)
        else:
            fault = InputError(_text(field.type, None, "is missing"), place) if field.required else None
        if fault is not None:
            return fault
    return None


def _in_value(kind: Any, value: Any, at: str) -> InputError | None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = (_within(one, value, at) for one in _alternatives(kind))
        return next(filter(None, found), None) or InputError(_text(kind, value, str(error)), at)
    return None


def _within(kind: Any, value: Any, at: str) -> InputError | None:
    """The fault of a member or an item of the value; None: the value itself is not of this kind."""
    if isinstance(kind, type) and issubclass(kind, RequestModel):
        return _in_object(kind, value, at)
    items: Any = ()
    if get_origin(kind) is list and isinstance(value, list):
        items = enumerate(value)
    elif get_origin(kind) is dict and isinstance(value, dict):
        items = value.items()
    faults = (_in_value(get_args(kind)[-1], item, at + pointer(place)) for place, item in items)
    return next(filter(None, faults), None)


def _alternatives(kind: Any) -> Iterator[Any]:
    """The members of a union, without their annotations."""
    if get_origin(kind) is Annotated:
        yield from _alternatives(kind.__origin__)
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _alternatives(one)
    else:
        yield kind


def _text(kind: Any, value: Any, default: str) -> str:
    """The text of the outermost annotation that has one."""
    if get_origin(kind) is Annotated:
        for meta in reversed(kind.__metadata__):
            if isinstance(meta, Meta) and "expected" in (meta.extra or {}):
                text: Text = meta.extra["expected"]  # type: ignore[index]
                return text if isinstance(text, str) else text(value)
        return _text(kind.__origin__, value, default)
    if get_origin(kind) in (Union, UnionType):
        texts = (_text(one, value, "") for one in get_args(kind))
        return next(filter(None, texts), default)
    if isinstance(kind, type) and issubclass(kind, RequestModel):
        return kind.expected
    return default
