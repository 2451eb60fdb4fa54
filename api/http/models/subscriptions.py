"""Request models of subscriptions: one, many of a statement, and a change of one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from prosem.engine.subscribing import MAX_ID_LENGTH
from prosem.language.notify import NotifyObject, check_notify
from prosem.values.errors import InputError
from prosem.values.model import JsonObject
from prosem.values.request_model import Flag, RequestModel, expected, read

Sql = Annotated[str, expected("expected a query as text")]
Params = (
    Annotated[
        dict[str, Any],
        expected("expected an object with a value for each parameter", examples=[{"lo": 20, "hi": 40}]),
    ]
    | None
)
Id = Annotated[
    str,
    expected(
        f"expected a text of 1 to {MAX_ID_LENGTH} characters without NUL and slash",
        min_length=1,
        max_length=MAX_ID_LENGTH,
        pattern=r"^[^/\x00]*$",
    ),
]


Per = Annotated[
    Literal["event", "transaction"],
    expected('per is "event", or "transaction": notified at most once per request'),
]


class NewSubscription(RequestModel, frozen=True):
    """A subscription that is to be made."""

    example: ClassVar[JsonObject | None] = {
        "sql": "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi",
        "params": {"lo": 20, "hi": 40},
    }
    sql: Sql
    params: Params = None
    notify: NotifyObject | None = None
    id: Id | None = None
    durable: Flag = True
    per: Per = "event"

    def __post_init__(self) -> None:
        _check_id(self.id)
        check_notify(self.notify)


class BatchRow(RequestModel, frozen=True, forbid_unknown_fields=False):
    """One subscription of a batch."""

    expected = 'expected an object with "params"'
    id: Id | None = None
    params: Params = None

    def __post_init__(self) -> None:
        _check_id(self.id)


def read_row(row: Any) -> tuple[str | None, JsonObject]:
    """The id and the parameters of a row, as its model has them. Most rows fit plainly, and a batch has many: for these
    the tests below take a third of the time that the model takes.

    >>> read_row({"id": "one", "params": {"lo": 1}})
    ('one', {'lo': 1})
    """
    if type(row) is dict:
        id, params = row.get("id"), row.get("params")
        if type(params) is dict and (id is None or (type(id) is str and _is_plain(id))):
            return id, params
    given = read(BatchRow, row)
    return given.id, given.params or {}


def _is_plain(id: str) -> bool:
    return id.isascii() and 0 < len(id) <= MAX_ID_LENGTH and "/" not in id and "\0" not in id


class SubscriptionBatch(RequestModel, frozen=True):
    """Subscriptions of one statement. Rows are read one by one, since there may be many."""

    sql: Sql
    rows: Annotated[
        list[Any], expected("expected a list with at least one row", items=BatchRow, min_length=1)
    ]
    notify: NotifyObject | None = None
    durable: Flag = True
    per: Per = "event"

    def __post_init__(self) -> None:
        check_notify(self.notify)


class SubscriptionChange(RequestModel, frozen=True):
    """Moves a subscription to other parameters, suspends it or resumes it."""

    params: Params = None
    active: Flag | None = None

    def __post_init__(self) -> None:
        if self.params is None and self.active is None:
            raise InputError('expected "params" or "active"', "")


def _check_id(id: str | None) -> None:
    if id is not None and not id.isascii():
        try:
            id.encode()
        except UnicodeEncodeError:
            raise InputError("an id cannot hold half of a surrogate pair", "/id") from None
