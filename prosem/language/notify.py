"""When a change of a value is notified: the shape of `notify`.

`{"change": r}`, `{"percent": p}`, `{"factor": f}` or `{"may": r1, "must": r2}`. Each radius is a constant, or `":name"`: a
parameter that each subscription gives. Whether a radius fits its column (a duration for dates and timestamps, a number
otherwise) is the subscription type's question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, UnsetType

from prosem.language.predicates import RESERVED
from prosem.language.terms import MAX_DIGITS
from prosem.values.errors import InputError, pointer
from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected, read

_FORMS = ({"change"}, {"percent"}, {"factor"}, {"may", "must"})
_SUPPORTED = '{"change": r}, {"percent": p}, {"factor": f} or {"may": r1, "must": r2}'
_SIZE = 'expected a number, a numeric string, a duration or a parameter like ":r"'
_NAME = re.compile(r":([^\W\d]\w*)")
_DURATION = re.compile(
    r"P(?=[\dT])(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,6}))?S)?)?",
    re.ASCII,
)


class Notify(RequestModel, frozen=True):
    """`change`, `percent` or `factor` alone, or `may` and `must`."""

    expected = f"notify is an object: {_SUPPORTED}"
    change: Annotated[int | float | str, expected(f"change: {_SIZE}")] | UnsetType = UNSET
    percent: Annotated[int | float | str, expected(f"percent: {_SIZE}")] | UnsetType = UNSET
    factor: Annotated[int | float | str, expected(f"factor: {_SIZE}")] | UnsetType = UNSET
    may: Annotated[int | float | str, expected(f"may: {_SIZE}")] | UnsetType = UNSET
    must: Annotated[int | float | str, expected(f"must: {_SIZE}")] | UnsetType = UNSET

    @classmethod
    def unknown(cls, name: str) -> str:
        return f"unknown form of notify; use {_SUPPORTED}"


NotifyObject = Annotated[dict[str, Any], expected(Notify.expected, of=Notify)]


class Size(NamedTuple):
    """A radius, percentage or factor as it was given, and where in the request it stands."""

    value: Any
    at: str


def check_notify(notify: Any) -> JsonObject | None:
    """The same object, with exact numbers, if it is one of the four forms; InputError below /notify otherwise.

    >>> check_notify({"may": "PT1H", "must": ":most"})
    {'may': 'PT1H', 'must': ':most'}
    """
    if notify is None:
        return None
    read(Notify, notify, "/notify")
    if set(notify) not in _FORMS:
        raise InputError(f"notify takes exactly one form: {_SUPPORTED}", "/notify")
    for given in radius_names(notify):
        if given.startswith(RESERVED):
            raise InputError(f"parameters that begin with {RESERVED} are the server's", "/notify")
    _check({name: Size(value, pointer("notify", name)) for name, value in notify.items() if not _name(value)})
    found: JsonObject = notify
    return found


def radius_names(notify: Mapping[str, Any] | None) -> frozenset[str]:
    """The parameters that are radii.

    >>> sorted(radius_names({"may": ":r", "must": 5}))
    ['r']
    """
    return frozenset(name for value in (notify or {}).values() if (name := _name(value)))


def sizes_of(notify: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Size]:
    """The radii of one subscription; InputError at the parameter that is none.

    >>> sizes_of({"change": ":r"}, {"r": 3})
    {'change': Size(value=3, at='/params/r')}
    """
    found = {}
    for form, value in notify.items():
        name = _name(value)
        found[form] = Size(value, pointer("notify", form))
        if name is not None:
            found[form] = Size(params[name], pointer("params", name))
            if isinstance(params[name], bool) or not isinstance(params[name], int | float | Decimal | str):
                raise InputError(f"{form}: expected a number, a numeric string or a duration", found[form].at)
    _check(found)
    return found


def _check(sizes: Mapping[str, Size]) -> None:
    exact = {form: _size(form, *size) for form, size in sizes.items()}
    if {"may", "must"} <= exact.keys():
        may, must = exact["may"], exact["must"]
        at = min(
            (sizes["must"].at, sizes["may"].at), key=lambda at: at.startswith("/notify")
        )  # a parameter rather than a constant
        if isinstance(may, timedelta) is not isinstance(must, timedelta):
            raise InputError("may and must are both numbers or both durations", at)
        if must < may:
            raise InputError("must is at least as large as may", at)


def _name(value: Any) -> str | None:
    """The parameter that a radius is; None if it is a constant."""
    match = _NAME.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else match[1]


def duration(text: str) -> timedelta:
    """A duration of fixed length in ISO 8601 (weeks, days, hours, minutes, seconds); ValueError otherwise.

    >>> [str(duration(text)) for text in ("P1W", "PT1H30M", "P1DT0.5S")]
    ['7 days, 0:00:00', '1:30:00', '1 day, 0:00:00.500000']
    """
    match = _DURATION.fullmatch(text) if len(text) <= 100 else None
    if not match:
        if re.match(r"P\d+[YM]", text, re.ASCII):
            raise ValueError(
                "months and years have no fixed length; give weeks, days, hours, minutes or seconds"
            )
        raise ValueError("expected an ISO 8601 duration like P3D or PT1H")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:5])
    microseconds = int((match[6] or "").ljust(6, "0"))
    try:
        return timedelta(days, seconds, microseconds, 0, minutes, hours, weeks)
    except OverflowError:
        raise ValueError("the duration is too long") from None


def _size(name: str, value: Any, at: str) -> Any:
    """The radius, percentage or factor as a Fraction or a timedelta."""
    try:
        size: Any = (
            duration(value) if name not in ("percent", "factor") and _is_duration(value) else _number(value)
        )
    except ValueError as error:
        raise InputError(f"{name}: {error}", at) from None
    if isinstance(size, timedelta):
        if size <= timedelta(0):
            raise InputError(f"{name} is greater than zero", at)
    elif size <= (1 if name == "factor" else 0):
        raise InputError(f"{name} is greater than {'one' if name == 'factor' else 'zero'}", at)
    return size


def _is_duration(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("P")


def _number(value: Any) -> Fraction:
    if isinstance(value, str) and (
        len(value) > MAX_DIGITS or not re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", value, re.I | re.A)
    ):
        raise ValueError("expected a number, a numeric string or a duration like P3D")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError("expected a number") from None
    if not number.is_finite() or abs(number.adjusted()) > MAX_DIGITS:
        raise ValueError("expected a finite number")
    return Fraction(number)
