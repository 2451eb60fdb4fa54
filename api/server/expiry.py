"""Ends ephemeral subscriptions: those that no stream was attached to in time, and those whose end the engine refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from prosem.engine import commands as c
from prosem.values.errors import ProsemError

log = logging.getLogger("prosem")
LONGEST_PAUSE_S = 15.0
SHORTEST_PAUSE_S = 0.05


class Expiry:
    """On the loop's thread. `unstreamed` counts the subscriptions without a stream, `retry` ends an orphan again."""

    def __init__(
        self,
        lifetime_s: float,
        unstreamed: Callable[[], int],
        call: Callable[[c.Command], Awaitable[Any]],
        retry: Callable[[int], None],
    ) -> None:
        self._pause_s = max(SHORTEST_PAUSE_S, min(lifetime_s / 4, LONGEST_PAUSE_S))
        self._unstreamed, self._call, self._retry = unstreamed, call, retry
        self._refused: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="expiry")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def refused(self, sid: int) -> None:
        """The engine was too busy to end this one: it is tried again."""
        self._refused.add(sid)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s)
            try:
                await self._step()
            except ProsemError as error:
                log.info("ephemeral subscriptions stay a little longer: %s", error.detail)
            except Exception:
                log.exception("ephemeral subscriptions could not be ended; trying again")

    async def _step(self) -> None:
        again, self._refused = self._refused, set()
        for sid in again:
            self._retry(sid)
        while self._unstreamed() and await self._call(c.Expire()):
            pass
