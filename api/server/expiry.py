"""Ends ephemeral subscriptions: those whose last stream has ended, and those that no stream was attached to in time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from prosem.engine import commands as c
from prosem.engine.pipeline import Submit
from prosem.runtime.supervise import end
from prosem.values.errors import ProsemError

log = logging.getLogger("prosem")
LONGEST_PAUSE_S = 15.0
SHORTEST_PAUSE_S = 0.05


class Orphans:
    """Subscriptions whose last stream has ended, at the server or at a broker. On the loop's thread."""

    def __init__(self) -> None:
        self._sids: set[int] = set()
        self._arrived = asyncio.Event()

    def add(self, sid: int) -> None:
        self._sids.add(sid)
        self._arrived.set()

    def take(self) -> set[int]:
        """All there are."""
        self._arrived.clear()
        sids, self._sids = self._sids, set()
        return sids

    def put_back(self, sid: int) -> None:
        """One that is to be taken again later."""
        self._sids.add(sid)

    async def wait(self, longest_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._arrived.wait()


class Expiry:
    """On the loop's thread. `is_hosted`: whether a subscription has a stream; `unstreamed` counts those that never had."""

    def __init__(
        self,
        orphans: Orphans,
        is_hosted: Callable[[int], bool],
        unstreamed: Callable[[], int],
        submit: Submit,
        call: Callable[[c.Command], Awaitable[Any]],
        lifetime_s: float,
    ) -> None:
        self._pause_s = max(SHORTEST_PAUSE_S, min(lifetime_s / 4, LONGEST_PAUSE_S))
        self._orphans, self._is_hosted, self._unstreamed = orphans, is_hosted, unstreamed
        self._submit, self._call = submit, call
        self._tasks = [
            asyncio.create_task(self._end_orphans(), name="orphans"),
            asyncio.create_task(self._expire(), name="expiry"),
        ]

    async def close(self) -> None:
        await end(*self._tasks)

    async def _end_orphans(self) -> None:
        while True:
            await self._orphans.wait(self._pause_s)
            for sid in self._orphans.take():
                if not self._is_hosted(sid):
                    self._forget(sid)

    def _forget(self, sid: int) -> None:
        try:
            self._submit(c.Forget(sid)).add_done_callback(lambda done: done.exception())
        except ProsemError as error:
            log.info("the ephemeral subscription %d is ended later: %s", sid, error.detail)
            self._orphans.put_back(sid)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s)
            try:
                while self._unstreamed() and await self._call(c.Expire()):
                    pass
            except ProsemError as error:
                log.info("ephemeral subscriptions stay a little longer: %s", error.detail)
            except Exception:
                log.exception("ephemeral subscriptions could not be ended; trying again")
