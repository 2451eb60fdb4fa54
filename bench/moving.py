"""Subscribers to a range that moves, and the three ways in which their updates reach the server."""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import Any

from prosem_client import AsyncClient, MonitoredSubscription, ProsemError, Subscription, UpdateMonitor

from bench.common import fail

SQL = "SELECT * FROM cars WHERE x BETWEEN :lo AND :hi"
DOMAIN = 10_000
REACH = 250


class Subscriber:
    """A range that moves, the way its updates reach the server, and what it has seen."""

    def __init__(self, client: AsyncClient, number: int) -> None:
        self._client = client
        self._middle = DOMAIN * (number + 0.5) / 10 % DOMAIN
        self._consuming: asyncio.Task[None] | None = None
        self._wanted: list[tuple[float, int, int]] = []
        self.subscription: Subscription
        self.seen: set[int] = set()
        self.stale = self.updates = self.requests = 0

    @classmethod
    async def open(cls, client: AsyncClient, mode: str, number: int) -> Subscriber:
        made = MODES[mode](client, number)
        made._want(0.0)
        await made._open()
        return made

    # -- where it wants to be --------------------------------------------------------------------------------
    def _want(self, elapsed_s: float) -> tuple[int, int]:
        """Half a turn a second around a place that drifts."""
        middle = round(self._middle + 60 * elapsed_s + 300 * math.sin(math.pi * elapsed_s))
        self._wanted.append((time.perf_counter(), middle - REACH, middle + REACH))
        return middle - REACH, middle + REACH

    def wants(self, x: int, since: float, until: float) -> bool:
        """Whether x was in the range all the time."""
        first = bisect_right(self._wanted, since, key=lambda entry: entry[0]) - 1
        last = bisect_right(self._wanted, until, key=lambda entry: entry[0])
        return all(low <= x <= high for _, low, high in self._wanted[max(0, first) : last])

    async def move(self, rate: int, stop: float) -> None:
        """Assign at the rate, in time with the clock: what cannot be kept up with is left out."""
        started = time.perf_counter()
        turn = 0
        while rate:
            turn = max(turn + 1, int((time.perf_counter() - started) * rate))
            await asyncio.sleep(max(0.0, started + turn / rate - time.perf_counter()))
            if (now := time.perf_counter()) >= stop:
                break
            self._assign(*self._want(now - started))

    # -- what it sees ----------------------------------------------------------------------------------------
    async def _open(self) -> None:
        low, high = self._wanted[-1][1:]
        self.subscription = await self._client.subscribe(
            SQL, {"lo": low, "hi": high}, monitor=self._monitor()
        )
        self._look((self.subscription.result or {})["rows"])
        self._consuming = asyncio.create_task(self._consume())

    def _monitor(self) -> UpdateMonitor | None:
        return None

    async def _consume(self) -> None:
        try:
            async for item in self.subscription:
                self._look([*(item.change or {}).get("add", ()), *(item.change or {}).get("update", ())])
        except ProsemError as error:
            if error.status != 404:  # it was deleted
                raise

    def _look(self, rows: list[dict[str, Any]]) -> None:
        _, low, high = self._wanted[-1]
        for row in rows:
            if row["number"] >= 0 and row["number"] not in self.seen:
                self.seen.add(row["number"])
                self.stale += not low <= row["x"] <= high

    async def come_to_rest(self, client: AsyncClient) -> None:
        """Everything assigned is in force, and what was told leads to the exact answer."""
        _, low, high = self._wanted[-1]
        await self._settle(low, high)
        exact = await client.subscribe(SQL, {"lo": low, "hi": high}, durable=False)
        expected = sorted(row["k"] for row in (exact.result or {})["rows"])
        await exact.delete()
        deadline = time.perf_counter() + 10
        while sorted(row["k"] for row in (self.subscription.result or {})["rows"]) != expected:
            if time.perf_counter() > deadline or self._consuming is None or self._consuming.done():
                fail(f"{type(self).__name__} did not come to the exact answer of {low} to {high}")
            await asyncio.sleep(0.01)

    async def _settle(self, low: int, high: int) -> None:
        await self.subscription.flush()

    async def close(self) -> None:
        await self.subscription.delete()
        if self._consuming is not None:
            await self._consuming

    def _assign(self, low: int, high: int) -> None:
        """Ask for a range; what it wants moves on with the clock, however long that takes."""
        raise NotImplementedError


class Patched(Subscriber):
    """Assignment to parameters: one PATCH at a time, with the last values."""

    async def _open(self) -> None:
        await super()._open()
        patch: Callable[..., Awaitable[Any]] = self.subscription._patch

        async def counted(body: dict[str, Any]) -> Any:
            self.requests += 1
            answer = await patch(body)
            self.updates += 1
            return answer

        self.subscription._patch = counted  # type: ignore[method-assign]

    def _assign(self, low: int, high: int) -> None:
        self.subscription.params.lo = low
        self.subscription.params.hi = high


class Monitored(Subscriber):
    """The same under the update monitor, as it comes."""

    def _monitor(self) -> UpdateMonitor | None:
        return UpdateMonitor()

    def _assign(self, low: int, high: int) -> None:
        self.subscription.params.lo = low
        self.subscription.params.hi = high

    async def _settle(self, low: int, high: int) -> None:
        await super()._settle(low, high)
        assert isinstance(self.subscription, MonitoredSubscription)
        self.updates, self.requests = self.subscription.updates, self.subscription.patches


class Recreated(Subscriber):
    """Without parametric updates: the old subscription is deleted and a new one made, one at a time, the last range."""

    _working: asyncio.Task[None] | None = None
    _is_behind = False

    def _assign(self, low: int, high: int) -> None:
        self._is_behind = True
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._is_behind:
            self._is_behind = False
            await self.close()
            await self._open()
            self.updates += 1
            self.requests += 2

    async def _settle(self, low: int, high: int) -> None:
        if self._working is not None:
            await self._working


MODES: dict[str, type[Subscriber]] = {"recreate": Recreated, "patch": Patched, "monitor": Monitored}
