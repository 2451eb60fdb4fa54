"""The request model of a view."""

from __future__ import annotations

from typing import Annotated, ClassVar

from api.http.models.subscriptions import Sql
from prosem.values.model import JsonObject
from prosem.values.request_model import RequestModel, expected


class NewView(RequestModel, frozen=True):
    """A view that is to be made."""

    example: ClassVar[JsonObject | None] = {
        "name": "sectors",
        "sql": "SELECT sector, COUNT(*) AS stocks, AVG(per) AS per FROM stocks GROUP BY sector",
    }
    name: Annotated[str, expected("expected a name", min_length=1)]
    sql: Sql
