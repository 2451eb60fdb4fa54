"""The calls of single subscriptions: how they are made, found again, changed and removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from prosem_client.errors import ProsemError
from prosem_client.frames import Column, columns_of, described_columns
from prosem_client.query import Shape, outline, selection
from prosem_client.subscription import Opening
from prosem_client.transport import Transport
from prosem_client.values import JsonObject, Result, listing


def path(*parts: str) -> str:
    """A path of the contract; names and ids may hold any character.

    >>> path("subscriptions", "a/b", "result")
    '/v1/subscriptions/a%2Fb/result'
    """
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


class SubscriptionCalls:
    """Stateless but for the definitions of tables, by which answers are folded."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._definitions: dict[str, JsonObject] = {}
        self._rules: dict[str, JsonObject] = {}

    async def create(self, request: JsonObject, params: JsonObject) -> Opening:
        """Make a subscription. Not repeated after a lost connection: it may be there, under an unknown id."""
        body = {**request, "params": params} if params else request
        answer = await self._transport.call("POST", "/v1/subscriptions", body, repeatable=False)
        shape = await self._shape(answer, request["sql"], answer["result"])
        return Opening(
            answer["id"],
            answer["seq"],
            answer["result"],
            params,
            shape,
            answer.get("type", ""),
            request["sql"],
            answer.get("timeline"),
        )

    async def find(
        self, id: str, after: int | None, timeline: str | None, result: JsonObject | None, _: JsonObject
    ) -> Opening:
        """Find a subscription: with its present answer, or with the one given, as it was at `after`."""
        about = await self._transport.call("GET", path("subscriptions", id))
        if after is None:
            present = await self.result(id)
            after, timeline, result = present.seq, present.timeline, present.result
        shape = await self._shape(about, about.get("sql", ""), result)
        return Opening(
            id,
            after,
            result,
            dict(about.get("params") or {}),
            shape,
            about.get("type", ""),
            about.get("sql", ""),
            timeline,
        )

    async def result(self, id: str) -> Result:
        """The present answer."""
        return _result(id, await self._transport.call("GET", path("subscriptions", id, "result")))

    async def patch(self, id: str, body: JsonObject) -> Result:
        """A parametric update, or a change of activity. Twice is once."""
        return _result(id, await self._transport.call("PATCH", path("subscriptions", id), body))

    async def delete(self, id: str) -> None:
        await self._transport.call("DELETE", path("subscriptions", id))

    async def rules(self, type: str) -> JsonObject:
        """The update and transformation rules of a type, asked of the server once."""
        if type not in self._rules:
            types = listing(await self._transport.call("GET", "/v1/types"))
            self._rules = {one["name"]: one["rules"] for one in types if "rules" in one}
        if type not in self._rules:
            raise ProsemError(0, "raw", f"the server gives no rules for subscriptions of the type {type!r}")
        return self._rules[type]

    def forget_table(self, name: str) -> None:
        """The definition may have changed."""
        self._definitions.pop(name, None)

    async def _shape(self, about: JsonObject, sql: str, result: JsonObject | None) -> Shape:
        """By what the answer is folded: the server says it with the subscription.

        One that does not is asked for the definition of the table, once, and only for rows and values.
        """
        if "fold" in about:
            return Shape.of(about["fold"])
        if result is not None and not result.keys() & {"rows", "values"}:
            return Shape()
        seen = outline(sql)
        if seen.table is None:
            return Shape()
        try:
            return seen.shape(await self.definition(seen.table))
        except ProsemError as error:
            if error.status != 404:
                raise
            return Shape()

    async def columns(self, sql: str, shape: Shape, result: JsonObject) -> list[Column]:
        """An answer of this query, column by column."""
        if (found := described_columns(result, shape)) is not None:
            return found
        chosen = selection(sql)
        return columns_of(result, chosen, {name: await self.definition(name) for name in chosen.tables})

    async def definition(self, table: str) -> JsonObject:
        """The definition of a table or a view, asked of the server once."""
        if table not in self._definitions:
            try:
                found = await self._transport.call("GET", path("tables", table))
            except ProsemError as error:
                if error.status not in (404, 422):  # 422: it is a view
                    raise
                found = await self._transport.call("GET", path("views", table))
            self._definitions[table] = found
        return self._definitions[table]


def _result(id: str, answer: Mapping[str, Any]) -> Result:
    found = answer.get("result") or {}
    return Result(answer.get("id", id), answer.get("seq", -1), found, answer.get("timeline"))
