"""The values a user meets, and how Python values travel as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, Protocol

JsonObject = dict[str, Any]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Published:
    """What was committed: `count` events, with seqs from `first_seq` to `last_seq` (0 if there is none)."""

    first_seq: int
    last_seq: int
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of a subscription as of `seq`."""

    id: str
    seq: int
    result: JsonObject
    timeline: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Many subscriptions of one template, in the order of the rows; `seq` is where their streams begin."""

    group: str
    type: str
    seq: int
    ids: tuple[str, ...]


class Made(Protocol):
    """An answer that is made when it is asked for."""

    def result(self) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class Change:
    """One item of a stream: `change` took the answer to `result` at `seq`.

    A `snapshot` stands for everything up to its `seq`: then `change` is None and `result` replaces what was
    known. `result` is None only while the answer is unknown: attached with `after` and without a result to
    fold into. It is made when it is first asked for: a reader of changes alone pays for these alone. In raw mode
    `messages` are what the server sent, and `change` is None.
    """

    id: str
    seq: int
    change: JsonObject | None
    _answer: JsonObject | Made | None = field(repr=False)
    snapshot: bool = False
    messages: tuple[JsonObject, ...] = ()
    timeline: str | None = None

    @property
    def result(self) -> JsonObject | None:
        answer = self._answer
        return answer if answer is None or isinstance(answer, dict) else answer.result()


def encode(value: Any) -> str:
    """JSON text: numerics go as strings, dates in ISO 8601, bytes in base64; NaN is refused here.

    >>> encode({"price": Decimal("1.50"), "day": date(2024, 12, 31), "raw": b"hi"})
    '{"price":"1.50","day":"2024-12-31","raw":"aGk="}'
    """
    return json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date):  # also every datetime
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON: {value!r}")


def listing(answer: Any) -> list[JsonObject]:
    """The list of an answer that is one, or an object that holds one."""
    if isinstance(answer, dict):
        return next((value for value in answer.values() if isinstance(value, list)), [])
    return list(answer)
