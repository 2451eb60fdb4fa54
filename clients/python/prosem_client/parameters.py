"""Parameters of a live subscription: assign, and the server is told.

    subscription.params.lo = 3

Assignments of one tick of the loop become one PATCH, and those made while it travels become the next one with
their last values: a slider that is dragged sends as fast as the server answers, and ends where it was let go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from prosem_client.errors import ProsemError
from prosem_client.values import JsonObject, Result


class Parameters:
    """The parameters by name, as attributes or items. It has no methods, so that any name may be one."""

    __slots__ = ("_mark", "_read")

    def __init__(self, read: Callable[[], Mapping[str, Any]], mark: Callable[[str, Any], None]) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_mark", mark)

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._mark(name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._read()[name]
        except KeyError:
            raise AttributeError(
                f"there is no parameter {name!r}; there are {', '.join(self) or 'none'}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._mark(name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __repr__(self) -> str:
        return f"Parameters({dict(self._read())!r})"


class Updates:
    """Assigned and not yet sent values. All parameters travel each time; at most one PATCH is under way.

    A refused PATCH applies nothing: its values are forgotten, and its error is raised by `flush`, else given to
    `report`. `send` is None where no answer was needed.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        send: Callable[[JsonObject], Awaitable[Result | None]],
        report: Callable[[ProsemError], None],
    ) -> None:
        self._send = send
        self._report = report
        self._is_open = False
        self._applied: JsonObject = dict(values)
        self._travelling: JsonObject = {}
        self._marked: JsonObject = {}
        self._task: asyncio.Task[None] | None = None
        self._flushes = 0
        self._failure: ProsemError | None = None
        self._answer: Result | None = None

    @property
    def values(self) -> JsonObject:
        """The parameters as last assigned."""
        return {**self._applied, **self._travelling, **self._marked}

    def begin(self) -> JsonObject:
        """The values to open the subscription with; what is assigned from now on is sent after it is open."""
        self._travelling, self._marked = {**self._travelling, **self._marked}, {}
        return self.values

    def opened(self, values: Mapping[str, Any]) -> None:
        """The subscription is open with these values."""
        self._is_open = True
        self._applied, self._travelling = dict(values), {}
        self._start()

    def mark(self, name: str, value: Any) -> None:
        """Assign; the PATCH leaves with the next tick of the loop, or when the one under way is answered."""
        self._marked[name] = value
        self._start()

    def _start(self) -> None:
        if self._is_open and self._marked and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def flush(self) -> Result | None:
        """Until everything assigned is applied; the last answer, or the error of a refusal."""
        self._flushes += 1
        try:
            while self._task is not None:
                await asyncio.wait([self._task])
        finally:
            self._flushes -= 1
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._answer

    async def close(self) -> None:
        """Give up what was not sent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._marked:
                self._travelling, self._marked = self._marked, {}
                values = {**self._applied, **self._travelling}
                try:
                    self._answer = await self._send(values) or self._answer
                    self._applied = values
                except ProsemError as error:
                    self._fail(error)
                finally:
                    self._travelling = {}
        finally:
            self._task = None

    def _fail(self, error: ProsemError) -> None:
        if self._flushes:
            self._failure = error
        else:
            self._report(error)
