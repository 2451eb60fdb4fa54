"""The same client without asyncio: a thread with a loop of its own carries every call out."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from prosem_client.client import BUILD_S, DEFAULT_URL, AsyncClient, Columns
from prosem_client.dataframe import LiveFrame
from prosem_client.errors import Closed
from prosem_client.monitor import UpdateMonitor
from prosem_client.parameters import Parameters
from prosem_client.pinned import PinnedVariable
from prosem_client.publisher import Publisher
from prosem_client.raw import RawSubscription
from prosem_client.subscription import Subscription
from prosem_client.upload import Line, Progress, batches
from prosem_client.values import Batch, Change, Event, JsonObject, Published, Result

T = TypeVar("T")


class Portal:
    """A loop in a thread, and the way in. Calls may come from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="prosem-client", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin some work; its future."""
        if self.is_closed:
            work.close()
            raise Closed("the client was closed by its user")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work and wait for it. An interrupted wait (Ctrl-C) cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a plain function on the loop's thread."""

        async def work() -> T:
            return function(*arguments)

        return self.call(work())

    def close(self) -> None:
        if not self.is_closed:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class SyncSubscription:
    """An open subscription: iterate over it for its changes. A context manager that closes it."""

    def __init__(self, portal: Portal, subscription: Subscription) -> None:
        self._portal = portal
        self._subscription = subscription
        params = subscription.params
        self.params = Parameters(
            lambda: portal.run(lambda: {name: params[name] for name in params}),
            lambda name, value: portal.run(params.__setitem__, name, value),
        )

    @property
    def inner(self) -> Subscription:
        """The subscription of the loop's thread."""
        return self._subscription

    @property
    def id(self) -> str:
        return self._subscription.id

    @property
    def seq(self) -> int:
        return self._subscription.seq

    @property
    def timeline(self) -> str | None:
        return self._subscription.timeline

    @property
    def result(self) -> JsonObject | None:
        return self._subscription.result

    @property
    def rows(self) -> list[JsonObject]:
        return self._subscription.rows

    @property
    def groups(self) -> dict[Any, JsonObject]:
        return self._subscription.groups

    @property
    def columns(self) -> JsonObject:
        return self._subscription.columns

    @property
    def database(self) -> sqlite3.Connection:
        """The local state of a raw subscription."""
        if not isinstance(self._subscription, RawSubscription):
            raise ValueError("only a raw subscription has a database: subscribe(..., raw=True)")
        return self._subscription.database

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        try:
            return self.next()
        except Closed:
            raise StopIteration from None

    def next(self, timeout_s: float | None = None) -> Change:
        return self._portal.call(self._subscription.next(timeout_s))

    def to_pandas(self) -> Any:
        return self._portal.call(self._subscription.to_pandas())

    def to_arrow(self) -> Any:
        return self._portal.call(self._subscription.to_arrow())

    def patch(self, **params: Any) -> Result:
        return self._portal.call(self._subscription.patch(**params))

    def flush(self) -> None:
        self._portal.call(self._subscription.flush())

    def suspend(self) -> None:
        self._portal.call(self._subscription.suspend())

    def resume(self) -> None:
        self._portal.call(self._subscription.resume())

    def delete(self) -> None:
        self._portal.call(self._subscription.delete())

    def close(self) -> None:
        self._portal.call(self._subscription.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncPublisher:
    """A publisher's stream: `send` returns a future of the answer. A context manager that drains."""

    def __init__(self, portal: Portal, publisher: Publisher) -> None:
        self._portal = portal
        self._publisher = publisher

    def send(self, table: str, events: Sequence[Event]) -> concurrent.futures.Future[Published]:
        answer = self._portal.call(self._publisher.send(table, events))

        async def wait() -> Published:
            return await answer

        return self._portal.start(wait())

    def publish(self, table: str, events: Sequence[Event]) -> Published:
        return self._portal.call(self._publisher.publish(table, events))

    def drain(self) -> None:
        self._portal.call(self._publisher.drain())

    def close(self) -> None:
        self._portal.call(self._publisher.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._publisher.__aexit__(kind, error, trace))


class Client:
    """AsyncClient for threads: the same calls, which wait. `options` are those of AsyncClient."""

    def __init__(self, url: str = DEFAULT_URL, **options: Any) -> None:
        self._client = AsyncClient(url, **options)
        self._portal = Portal()

    @property
    def url(self) -> str:
        return self._client.url

    def create_table(self, name: str, columns: Columns, primary_key: Sequence[str]) -> JsonObject:
        return self._portal.call(self._client.create_table(name, columns, primary_key))

    def tables(self) -> list[JsonObject]:
        return self._portal.call(self._client.tables())

    def table(self, name: str) -> JsonObject:
        return self._portal.call(self._client.table(name))

    def drop_table(self, name: str) -> None:
        self._portal.call(self._client.drop_table(name))

    def create_view(self, name: str, sql: str, *, timeout_s: float = BUILD_S) -> JsonObject:
        return self._portal.call(self._client.create_view(name, sql, timeout_s=timeout_s))

    def views(self) -> list[JsonObject]:
        return self._portal.call(self._client.views())

    def view(self, name: str) -> JsonObject:
        return self._portal.call(self._client.view(name))

    def drop_view(self, name: str) -> None:
        self._portal.call(self._client.drop_view(name))

    def publish(self, table: str, events: Sequence[Event], idempotency_key: str | None = None) -> Published:
        return self._portal.call(self._client.publish(table, events, idempotency_key))

    def transact(self, events: Sequence[Event], idempotency_key: str | None = None) -> Published:
        return self._portal.call(self._client.transact(events, idempotency_key))

    def publish_ndjson(
        self,
        table: str,
        lines: Iterable[Line],
        progress: Progress | None = None,
        *,
        lines_per_request: int = 1000,
    ) -> Published:
        """As AsyncClient's; the lines are read, and `progress` is called, in the caller's thread."""
        upload = self._client.upload(table)
        for batch in batches(lines, lines_per_request):
            self._portal.call(upload.send(batch))
            if progress is not None:
                progress(upload.published.count)
        return upload.published

    def publisher(self, in_flight: int = 256) -> SyncPublisher:
        return SyncPublisher(self._portal, self._client.publisher(in_flight))

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
    ) -> SyncSubscription:
        return self._portal.call(
            self._opened(
                lambda: self._client.subscribe(
                    sql,
                    params,
                    notify=notify,
                    id=id,
                    durable=durable,
                    per=per,
                    snapshot=snapshot,
                    monitor=monitor,
                    raw=raw,
                )
            )
        )

    @overload
    def dataframe(
        self, sql: str, params: Mapping[str, Any] | None = None, *, live: Literal[True], per: str = "event"
    ) -> LiveFrame: ...

    @overload
    def dataframe(self, sql: str, params: Mapping[str, Any] | None = None, *, live: bool = False) -> Any: ...

    def dataframe(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        live: bool = False,
        per: str = "event",
    ) -> Any:
        """The answer of a query as a pandas.DataFrame; with `live` as a LiveFrame, whose `frame` stays current."""
        subscription = self.subscribe(sql, params, durable=False, per=per)
        if live:
            return LiveFrame(self._portal, subscription)
        with subscription:
            return subscription.to_pandas()

    def pin(self, value: Any) -> PinnedVariable:
        """As AsyncClient's; it may be set and released from any thread."""
        return PinnedVariable(value, self._portal.run)

    def attach(
        self,
        id: str,
        after: int | None = None,
        *,
        timeline: str | None = None,
        result: JsonObject | None = None,
        snapshot: bool = False,
        raw: bool | str = False,
    ) -> SyncSubscription:
        return self._portal.call(
            self._opened(
                lambda: self._client.attach(
                    id, after, timeline=timeline, result=result, snapshot=snapshot, raw=raw
                )
            )
        )

    def subscribe_many(
        self,
        sql: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        notify: Mapping[str, Any] | None = None,
        per: str = "event",
    ) -> Batch:
        return self._portal.call(self._client.subscribe_many(sql, rows, notify=notify, per=per))

    def result(self, id: str) -> Result:
        return self._portal.call(self._client.result(id))

    def status(self) -> JsonObject:
        return self._portal.call(self._client.status())

    def types(self) -> list[JsonObject]:
        return self._portal.call(self._client.types())

    def close(self) -> None:
        """Close everything; the loop's thread ends."""
        if not self._portal.is_closed:
            self._portal.call(self._client.close())
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _opened(self, make: Callable[[], Subscription]) -> SyncSubscription:
        return SyncSubscription(self._portal, await make())
