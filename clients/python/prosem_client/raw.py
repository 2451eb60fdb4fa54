"""A subscription in raw mode: the reformulated messages as they come, and the answer by rules on a local SQLite.

The server folds nothing for it: messages that concern the subscription are passed on, and the rules of `GET /v1/types`
do the rest here. A stream that is attached again begins with the message `state`, so nothing is replayed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

from prosem_client.feed import Feed, Frame
from prosem_client.rules import LocalState
from prosem_client.subscription import Opening, Subscription
from prosem_client.values import Change, JsonObject
from prosem_client.versions import resolved

Rules = Callable[[str], Awaitable[JsonObject]]  # of a type, by its name


class RawSubscription(Subscription):
    """As Subscription; `change.messages` are the messages, `database` is the SQLite connection with the state.

    Every item is a change of the answer; messages that leave it as it is are applied and not told. Where the state was lost
    with a connection the item is a `snapshot`.
    """

    def __init__(self, *arguments: Any, rules: Rules, path: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rules, self._path = rules, path
        self._local: LocalState | None = None

    @property
    def database(self) -> sqlite3.Connection:
        """The state: the tables of `schema` in the rules. Only read from it; it outlives `close()`."""
        self._opened()
        assert self._local is not None
        return self._local.database

    async def _begin(self) -> None:
        await super()._begin()
        if self._local is not None:
            return
        try:
            self._local = LocalState(await self._rules(self._opened().type), self._path)
        except BaseException:
            assert self._feed is not None
            self._stream.leave(self._feed)
            self._feed = None
            raise

    def _feed_of(self, began: Opening) -> Feed:
        return Feed(began.id, None, self._queue_limit, is_raw=True)

    def _consume(self, frame: Frame) -> Change | None:
        assert self._local is not None
        self._seq = frame.seq
        messages: list[JsonObject] = frame.payload
        self._local.apply(messages)
        result = self._local.result()
        is_sum = all(message["message"] == "delta" for message in messages)
        if _is_same(result, resolved(self._result), numeric=is_sum):
            return None
        self._result = result
        return Change(self.id, self._seq, None, result, frame.is_snapshot, tuple(messages))


def _is_same(one: JsonObject | None, other: JsonObject | None, *, numeric: bool = False) -> bool:
    """Whether two answers are the same, whatever the order of their rows and items; numbers also as 1.5 and 1.50."""
    if one == other or one is None or other is None:
        return one == other
    if numeric and isinstance(one["value"], str) and isinstance(other["value"], str):
        return Decimal(one["value"]) == Decimal(other["value"])
    return _sorted(one) == _sorted(other)


def _sorted(result: JsonObject) -> JsonObject:
    return {
        name: sorted(json.dumps(entry, sort_keys=True) for entry in part) if isinstance(part, list) else part
        for name, part in result.items()
        if name != "row"  # of a MIN or MAX: any row that attains it
    }
