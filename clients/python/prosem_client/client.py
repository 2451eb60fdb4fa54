"""The client: every call of the contract, and one shared stream for all its subscriptions."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import httpx

from prosem_client.calls import SubscriptionCalls, path
from prosem_client.conditions import condition
from prosem_client.errors import NotMonitorable
from prosem_client.monitor import UpdateMonitor
from prosem_client.monitored import MonitoredSubscription
from prosem_client.pinned import PinnedVariable
from prosem_client.publisher import Publisher
from prosem_client.raw import RawSubscription
from prosem_client.redirects import Redirects
from prosem_client.stream import Stream
from prosem_client.subscription import Opening, Subscription
from prosem_client.transport import Transport
from prosem_client.upload import Line, Progress, Upload, async_batches
from prosem_client.values import Batch, Event, JsonObject, Published, Result, listing

DEFAULT_URL = "http://127.0.0.1:8080"
BUILD_S = 600.0  # a view over a million rows takes about half a minute
Columns = Mapping[str, str] | Sequence[Mapping[str, Any]]


class AsyncClient:
    """A server's client for asyncio; a context manager that closes everything it has opened.

    Calls that may be repeated are, for up to `reconnect_s` after a lost connection; a server that answers 503 or 429
    with `Retry-After` (it recovers, or its backlog is full: nothing was applied) is asked again for up to `busy_s` in
    all. A stream reconnects for as long as the client is open; a connection that is silent for twice `alive_s` is given up.
    `url` may be several addresses, separated by commas: of a server and its standby, or of brokers. `queue_limit` bounds
    the changes kept for a consumer that is slow. No proxy is used unless one is named. With `follow_redirects` a
    subscription is attached at the broker that the server names for it, if there is one that can be reached.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        reconnect_s: float = 10.0,
        busy_s: float = 120.0,
        alive_s: float = 15.0,
        queue_limit: int = 1024,
        proxy: str | None = None,
        follow_redirects: bool = True,
        http_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport = Transport(
            url,
            api_key=api_key,
            headers=headers,
            timeout_s=timeout_s,
            reconnect_s=reconnect_s,
            busy_s=busy_s,
            alive_s=alive_s,
            proxy=proxy,
            http_transport=http_transport,
        )
        self._queue_limit = queue_limit
        open_socket = partial(self._transport.open_socket, "/v1/stream")
        redirects = Redirects(open_socket, lambda: self.url)
        self._stream = Stream(open_socket, self._transport.backoff(), redirects if follow_redirects else None)
        self._calls = SubscriptionCalls(self._transport)
        self._subscriptions: WeakSet[Subscription] = WeakSet()

    @property
    def url(self) -> str:
        return self._transport.url

    # -- tables ----------------------------------------------------------------------------------------------
    async def create_table(self, name: str, columns: Columns, primary_key: Sequence[str]) -> JsonObject:
        """Make a table, or find an identical one. Columns as `{"name": "type"}`, or in full."""
        if isinstance(columns, Mapping):
            columns = [{"name": column, "type": type} for column, type in columns.items()]
        self._calls.forget_table(name)
        body = {"name": name, "columns": list(columns), "primary_key": list(primary_key)}
        definition: JsonObject = await self._transport.call("POST", "/v1/tables", body)
        return definition

    async def tables(self) -> list[JsonObject]:
        """The definitions of all tables."""
        return listing(await self._transport.call("GET", "/v1/tables"))

    async def table(self, name: str) -> JsonObject:
        """The definition of one table."""
        definition: JsonObject = await self._transport.call("GET", path("tables", name))
        return definition

    async def drop_table(self, name: str) -> None:
        """Drop a table that no subscription uses."""
        self._calls.forget_table(name)
        await self._transport.call("DELETE", path("tables", name))

    # -- views -----------------------------------------------------------------------------------------------
    async def create_view(self, name: str, sql: str, *, timeout_s: float = BUILD_S) -> JsonObject:
        """Make a view, or find an identical one; done when its rows are built, while the server goes on.

        Not repeated after a lost connection: it may still be being built.
        """
        self._calls.forget_table(name)
        body = {"name": name, "sql": sql}
        definition: JsonObject = await self._transport.call(
            "POST", "/v1/views", body, repeatable=False, timeout_s=timeout_s
        )
        return definition

    async def views(self) -> list[JsonObject]:
        """All views, with what they use and what uses them."""
        return listing(await self._transport.call("GET", "/v1/views"))

    async def view(self, name: str) -> JsonObject:
        """One view."""
        found: JsonObject = await self._transport.call("GET", path("views", name))
        return found

    async def drop_view(self, name: str) -> None:
        """Drop a view that no subscription and no other view uses."""
        self._calls.forget_table(name)
        await self._transport.call("DELETE", path("views", name))

    # -- events ----------------------------------------------------------------------------------------------
    async def publish(
        self, table: str, events: Sequence[Event], idempotency_key: str | None = None
    ) -> Published:
        """Commit events as one transaction, all or none, and once even if the connection breaks."""
        return await self._publish(path("tables", table, "events"), events, idempotency_key)

    async def transact(self, events: Sequence[Event], idempotency_key: str | None = None) -> Published:
        """Commit events of several tables as one transaction; each also names its `table`.

        Here an update may set the key, and `{"table": …, "op": "truncate"}` deletes all rows.
        """
        return await self._publish("/v1/events", events, idempotency_key)

    async def _publish(self, where: str, events: Sequence[Event], key: str | None) -> Published:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = await self._transport.call("POST", where, {"events": list(events)}, headers=headers)
        return Published(answer["first_seq"], answer["last_seq"], answer["count"])

    async def publish_ndjson(
        self,
        table: str,
        lines: Iterable[Line] | AsyncIterable[Line],
        progress: Progress | None = None,
        *,
        lines_per_request: int = 1000,
    ) -> Published:
        """Commit any number of events or NDJSON lines; PartlyPublished at the first bad one.

        `progress` is called with the number of lines committed so far. An iterable is read on the loop: where
        reading waits, give an asynchronous one.
        """
        upload = self.upload(table, progress)
        async for batch in async_batches(lines, lines_per_request):
            await upload.send(batch)
        return upload.published

    def upload(self, table: str, progress: Progress | None = None) -> Upload:
        """The same, step by step."""
        return Upload(self._transport, path("tables", table, "events"), progress)

    def publisher(self, in_flight: int = 256) -> Publisher:
        """A publisher's stream with up to `in_flight` requests on their way."""
        return Publisher(partial(self._transport.open_socket, "/v1/publish"), in_flight)

    # -- subscriptions ---------------------------------------------------------------------------------------
    def subscribe(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        notify: Mapping[str, Any] | None = None,
        id: str | None = None,
        durable: bool = True,
        per: str = "event",
        snapshot: bool = False,
        monitor: UpdateMonitor | None = None,
        raw: bool | str = False,
    ) -> Subscription:
        """A new subscription: await it for its first answer, iterate over it for its changes.

        With `per="transaction"` it is notified at most once per request of a publisher.
        With `snapshot` the first item of the iteration is the first answer. A parameter may be given as a
        variable of `pin()`. With a `monitor`, parameters that move often cost few requests. With `raw` the
        answer is kept by the server's rules in a local SQLite, in memory or in the file named.
        """
        request = {"sql": sql, "notify": notify, "id": id, "durable": durable}
        request |= {} if per == "event" else {"per": per}
        body = {name: value for name, value in request.items() if value is not None}
        kind = self._kind(raw)
        open: Callable[..., Awaitable[Opening]] = partial(self._calls.create, body)
        if monitor is not None:
            if raw:
                raise NotMonitorable("the update monitor folds rows itself; it has no raw mode")
            if notify is not None:
                raise NotMonitorable("the update monitor needs rows, not a value notification")
            kind = partial(
                MonitoredSubscription,
                monitor=monitor,
                condition=condition(sql),
                define=self._calls.definition,
            )
            open = partial(self._create_registered, body)
        return self._subscription(open, params or {}, kind, snapshot=snapshot, renewable=not durable)

    def pin(self, value: Any) -> PinnedVariable:
        """A variable that parameters of several subscriptions follow whenever it is released."""
        return PinnedVariable(value, lambda tell: tell())

    def attach(
        self,
        id: str,
        after: int | None = None,
        *,
        timeline: str | None = None,
        result: JsonObject | None = None,
        snapshot: bool = False,
        raw: bool | str = False,
    ) -> Subscription:
        """A subscription that is there: from its present answer on, or with everything after the seq `after`.

        Give the `timeline` that `after` is of: if the server's database was restored since, a snapshot comes first
        where changes were undone. To have a resumed answer folded, give the `result` it had at `after`. One that is
        `raw` begins with its present state.
        """
        if raw and after is not None:
            raise ValueError("a raw subscription begins with its present state: leave `after` out")
        found = partial(self._calls.find, id, after, timeline, result)
        return self._subscription(found, {}, self._kind(raw), snapshot=snapshot, renewable=False)

    def _kind(self, raw: bool | str) -> Callable[..., Subscription]:
        if not raw:
            return Subscription
        return partial(
            RawSubscription, rules=self._calls.rules, path=raw if isinstance(raw, str) else ":memory:"
        )

    async def subscribe_many(
        self,
        sql: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        notify: Mapping[str, Any] | None = None,
        per: str = "event",
    ) -> Batch:
        """Many subscriptions of one template, a row `{"params": {…}, "id"?: text}` each; then `attach`."""
        body: JsonObject = {"sql": sql, "rows": list(rows)} | ({} if notify is None else {"notify": notify})
        body |= {} if per == "event" else {"per": per}
        answer = await self._transport.call("POST", "/v1/subscriptions/batch", body, repeatable=False)
        return Batch(answer["group"], answer["type"], answer["seq"], tuple(answer["ids"]))

    async def result(self, id: str) -> Result:
        """The present answer of a subscription."""
        return await self._calls.result(id)

    # -- the server ------------------------------------------------------------------------------------------
    async def status(self) -> JsonObject:
        """Version, seq, counts, backlog."""
        status: JsonObject = await self._transport.call("GET", "/v1/status")
        return status

    async def types(self) -> list[JsonObject]:
        """The supported types of subscriptions."""
        return listing(await self._transport.call("GET", "/v1/types"))

    async def close(self) -> None:
        """Close every subscription, the stream and the connections."""
        for subscription in list(self._subscriptions):
            await subscription.close()
        await self._stream.close()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _create_registered(self, body: JsonObject, sql: str, params: JsonObject) -> Opening:
        return await self._calls.create({**body, "sql": sql}, params)

    def _subscription(
        self,
        open: Callable[..., Awaitable[Opening]],
        params: Mapping[str, Any],
        kind: Callable[..., Subscription],
        *,
        snapshot: bool,
        renewable: bool,
    ) -> Subscription:
        subscription = kind(
            open,
            self._calls,
            self._stream,
            params=dict(params),
            queue_limit=self._queue_limit,
            snapshot=snapshot,
            renewable=renewable,
        )
        self._subscriptions.add(subscription)
        return subscription
