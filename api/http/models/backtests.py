"""The request model of a backtest."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from api.http.models.subscriptions import Params, Per, Sql
from prosem.language.notify import NotifyObject, check_notify
from prosem.values.errors import InputError
from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected

MOST_SUBSCRIPTIONS = 100_000
_Row = Annotated[dict[str, Any], expected("expected an object with the parameters of a subscription")]


class NewBacktest(RequestModel, frozen=True):
    """Subscriptions whose notifications in the past are to be counted."""

    example: ClassVar[JsonObject | None] = {
        "sql": "SELECT per FROM stocks WHERE symbol = :s",
        "params": {"s": "IBM"},
        "notify": {"percent": 2},
        "since": "30d",
    }
    sql: Sql
    params: Params = None
    subscriptions: (
        Annotated[
            list[_Row],
            expected(
                f"expected a list of 1 to {MOST_SUBSCRIPTIONS:,} objects",
                min_length=1,
                max_length=MOST_SUBSCRIPTIONS,
                description="one object of parameters per subscription, besides those in params (default: one subscription)",
            ),
        ]
        | None
    ) = None
    notify: NotifyObject | None = None
    per: Per = "event"
    since: Annotated[
        str,
        expected(
            "expected a moment like 2026-01-31T12:00:00Z or a span like 30d", description="from when on"
        ),
    ] = ""
    per_day: Annotated[
        float,
        expected(
            "expected a number greater than 0",
            gt=0,
            description="find the radius or threshold with about so many (default: none is searched for)",
        ),
    ] = 0.0
    tune: Annotated[
        str, expected("expected the name of a parameter", description="the parameter to be found")
    ] = ""

    def __post_init__(self) -> None:
        check_notify(self.notify)
        if self.tune and not self.per_day:
            raise InputError("tune needs per_day", "/tune")

    @property
    def population(self) -> list[JsonObject]:
        common = self.params or {}
        return [{**one, **common} for one in self.subscriptions or [{}]]
