"""A live answer: opened when it is first used, told changes in order, folded as they are consumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from prosem_client.errors import Closed, ProsemError
from prosem_client.feed import Feed, Frame
from prosem_client.folding import whole_result
from prosem_client.frames import Column, to_arrow, to_pandas
from prosem_client.parameters import Parameters, Updates
from prosem_client.pinned import PinnedVariable, Pins
from prosem_client.query import Shape
from prosem_client.stream import Stream
from prosem_client.values import Change, JsonObject, Result
from prosem_client.versions import Version, Versions, resolved


class Opening(NamedTuple):
    """How a subscription begins: where, with which answer (None: unknown), and how that is folded."""

    id: str
    seq: int
    result: JsonObject | None
    params: JsonObject
    shape: Shape
    type: str = ""
    sql: str = ""
    timeline: str | None = None  # that `seq` is of


class Calls(Protocol):
    """What a subscription asks of its server besides its stream."""

    async def patch(self, id: str, body: JsonObject) -> Result: ...

    async def delete(self, id: str) -> None: ...

    async def columns(self, sql: str, shape: Shape, result: JsonObject) -> list[Column]: ...


class Subscription:
    """Awaitable (opens it) and asynchronously iterable (its changes); a context manager that closes it.

    Invariant: `result` is the answer at `seq`, the seq of the last change consumed. The stream survives lost
    connections and restarts of the server: nothing is lost, nothing comes twice; where the server no longer
    retains what was missed, one item is a `snapshot`. A subscription that is not durable ends with its
    connection and is then made anew (its `id` may change), which is told as a snapshot too.
    """

    def __init__(
        self,
        open: Callable[[JsonObject], Awaitable[Opening]],
        calls: Calls,
        stream: Stream,
        *,
        params: JsonObject,
        queue_limit: int,
        snapshot: bool,
        renewable: bool,
    ) -> None:
        self._open = open
        self._calls = calls
        self._stream = stream
        self._queue_limit = queue_limit
        self._starts_with_snapshot = snapshot
        self._is_renewable = renewable
        self._is_active = True
        self._is_closed = self._is_deleted = False
        self._opening = asyncio.Lock()
        self._feed: Feed | None = None
        self._began: Opening | None = None
        self._seq = -1
        self._timeline: str | None = None
        self._result: Version | JsonObject | None = None
        self._versions: Versions | None = None
        self._pins = Pins(self)
        values = {name: self._pins.bind(name, value) for name, value in params.items()}
        self._updates = Updates(values, self._register, self._interrupt)
        self.params = Parameters(lambda: self._updates.values, self._assign)

    # -- the present answer ----------------------------------------------------------------------------------
    @property
    def id(self) -> str:
        return self._opened().id

    @property
    def seq(self) -> int:
        """The last seq consumed: give it, with `timeline`, to `attach(id, after=…)` to go on from here later."""
        self._opened()
        return self._seq

    @property
    def timeline(self) -> str | None:
        """The timeline that `seq` is of: after a restore of the server's database there is another one."""
        self._opened()
        return self._timeline

    @property
    def result(self) -> JsonObject | None:
        """The answer as of `seq`; None while it is unknown, after an `attach` with `after` alone."""
        self._opened()
        return resolved(self._result)

    @property
    def rows(self) -> list[JsonObject]:
        """The rows of the answer; those of a top-k in their order."""
        found: list[JsonObject] = self._part("rows")
        return found

    @property
    def groups(self) -> dict[Any, JsonObject]:
        """The groups of the answer by their key: the value of the one grouping column, or a tuple of several."""
        key = self._opened().shape.key
        return {
            group[key[0]] if len(key) == 1 else tuple([group[name] for name in key]): group
            for group in self._part("groups")
        }

    @property
    def columns(self) -> JsonObject:
        """The aggregates of the answer by their name."""
        found: JsonObject = self._part("columns")
        return found

    def _part(self, name: str) -> Any:
        result = self.result
        if result is None or name not in result:
            known = "not known yet" if result is None else f"has {', '.join(result)}"
            raise ValueError(f"the answer has no {name}: it {known}")
        return result[name]

    async def to_pandas(self) -> Any:
        """The answer as of `seq` as a pandas.DataFrame."""
        return to_pandas(await self._columns())

    async def to_arrow(self) -> Any:
        """The answer as of `seq` as a pyarrow.Table, with the types of the columns."""
        return to_arrow(await self._columns())

    # -- the stream ------------------------------------------------------------------------------------------
    def __await__(self) -> Generator[Any, None, Self]:
        return self._ready().__await__()

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        try:
            return await self.next()
        except Closed:
            raise StopAsyncIteration from None

    async def next(self, timeout_s: float | None = None) -> Change:
        """The next change; TimeoutError if none comes in time, and then none is lost."""
        await self._ready()
        async with asyncio.timeout(timeout_s):
            if self._starts_with_snapshot and self._result is not None:
                self._starts_with_snapshot = False
                return self._item(None, snapshot=True)
            try:
                while (item := await self._step()) is None:
                    pass
                return item
            except ProsemError as error:
                if error.status != 404 or not self._is_renewable:
                    raise
            return await self._renew()

    async def close(self) -> None:
        """Stop listening. A durable subscription stays at the server."""
        self._is_closed = True
        self._pins.clear()
        if self._feed is not None:
            self._feed.end(Closed(), at_once=True)
            self._stream.leave(self._feed)
        await self._updates.close()

    async def __aenter__(self) -> Self:
        return await self._ready()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- changing it -----------------------------------------------------------------------------------------
    async def patch(self, **params: Any) -> Result:
        """Set parameters; the new answer. If it differs, the change comes in the stream as well."""
        if not params:
            raise ValueError("patch needs a parameter: patch(lo=3)")
        await self._ready()
        for name, value in params.items():
            self._assign(name, value)
        answer = await self._updates.flush()
        assert answer is not None
        return answer

    async def flush(self) -> None:
        """Wait until every assignment to `params` is applied, or raise the error of the refusal."""
        await self._ready()
        await self._updates.flush()

    async def suspend(self) -> None:
        """Be told nothing until `resume()`."""
        await self._set_active(False)

    async def resume(self) -> None:
        """Be told again; a change takes the answer to the present one, if it differs."""
        await self._set_active(True)

    async def delete(self) -> None:
        """Remove it from the server, and close."""
        await self._ready()
        await self._calls.delete(self.id)
        self._is_deleted = True
        await self.close()

    # -- inside ----------------------------------------------------------------------------------------------
    async def _columns(self) -> list[Column]:
        began = (await self._ready())._opened()
        result = self.result
        if result is None:
            raise ValueError("the answer is not known: attach without `after`, or give its `result`")
        return await self._calls.columns(began.sql, began.shape, result)

    def _opened(self) -> Opening:
        if self._began is None:
            raise RuntimeError("the subscription is not open yet: await it, or iterate over it, first")
        return self._began

    async def _ready(self) -> Self:
        async with self._opening:
            if self._is_closed and self._feed is None:
                raise Closed()
            if self._feed is None:
                await self._begin()
        return self

    async def _begin(self) -> None:
        began = await self._open(self._updates.begin())
        if self._feed is not None:
            self._stream.leave(self._feed)
        self._adopt(began)
        self._updates.opened(began.params)
        self._feed = self._feed_of(began)
        self._stream.listen(self._feed)

    def _feed_of(self, began: Opening) -> Feed:
        return Feed(began.id, began.seq, self._queue_limit, timeline=began.timeline)

    def _adopt(self, began: Opening) -> None:
        self._began = began
        self._seq, self._timeline = began.seq, began.timeline
        self._set_result(began.result)

    async def _renew(self) -> Change:
        """The server has forgotten a subscription that was not durable: make it again."""
        async with self._opening:
            await self._begin()
        if not self._is_active:
            await self._set_active(False)
        return self._item(None, snapshot=True)

    async def _step(self) -> Change | None:
        """Deal with the next frame: what it means to the user, None if nothing."""
        return self._consume(await self._frame())

    async def _frame(self) -> Frame:
        while True:
            assert self._feed is not None
            frame = self._feed.pop()
            if frame is not None:
                return frame
            if not self._feed.is_wanted:  # all that was kept of an overflow is consumed
                self._stream.listen(self._feed)
            await self._feed.news()

    def _consume(self, frame: Frame) -> Change | None:
        self._seq, self._timeline = frame.seq, frame.timeline
        if frame.is_snapshot:
            self._set_result(frame.payload)
            return self._item(None, snapshot=True)
        try:
            self._fold(frame.payload)
        except ProsemError as error:
            assert self._feed is not None
            self._feed.end(error, at_once=True)
            self._stream.leave(self._feed)
            raise
        return self._item(frame.payload, snapshot=False)

    def _fold(self, change: JsonObject) -> None:
        if self._versions is None:
            self._set_result(whole_result(change))
        else:
            self._result = self._versions.fold(change)

    def _set_result(self, result: JsonObject | None) -> None:
        self._result = result
        self._versions = None if result is None else Versions(result, self._opened().shape)

    def _item(self, change: JsonObject | None, *, snapshot: bool) -> Change:
        return Change(self.id, self._seq, change, self._result, snapshot, timeline=self._timeline)

    def _interrupt(self, error: ProsemError) -> None:
        if self._feed is not None:
            self._feed.interrupt(error)

    async def _set_active(self, active: bool) -> None:
        await self._ready()
        await self._patch({"active": active})
        self._is_active = active

    def _assign(self, name: str, value: Any) -> None:
        self._set(name, self._pins.bind(name, value))

    def follow(self, variable: PinnedVariable) -> None:
        """A variable was released: move every parameter that follows it."""
        for name in self._pins.names(variable):
            self._set(name, variable.last)

    def _set(self, name: str, value: Any) -> None:
        self._updates.mark(name, value)

    async def _register(self, values: JsonObject) -> Result | None:
        """Bring assigned parameters into force."""
        return await self._patch({"params": values})

    async def _patch(self, body: JsonObject) -> Result:
        return await self._calls.patch(self.id, body)
