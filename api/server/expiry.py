"""Ends ephemeral subscriptions: those whose last stream has ended, and those that no stream was attached to in time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prosem.engine import commands as c
from prosem.engine.pipeline import Submit
from prosem.runtime.supervise import end, supervise
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

    def take(self) -> list[int]:
        """All there are; each stays until it is `settled`."""
        self._arrived.clear()
        return [*self._sids]

    def settled(self, sid: int) -> None:
        """It is about to end, or has a stream again."""
        self._sids.discard(sid)

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
        restarts: MutableMapping[str, int],
    ) -> None:
        self._pause_s = max(SHORTEST_PAUSE_S, min(lifetime_s / 4, LONGEST_PAUSE_S))
        self._orphans, self._is_hosted, self._unstreamed = orphans, is_hosted, unstreamed
        self._submit, self._call = submit, call
        self._tasks = [
            supervise("orphans", self._end_orphans, restarts),
            supervise("expiry", self._expire, restarts),
        ]

    async def close(self) -> None:
        await end(*self._tasks)

    async def _end_orphans(self) -> None:
        while True:
            await self._orphans.wait(self._pause_s)
            for sid in self._orphans.take():
                if not self._end(sid):
                    await asyncio.sleep(self._pause_s)
                    break

    def _end(self, sid: int) -> bool:
        """False if the engine takes no commands at the moment.

        A commit that fails needs no second attempt: the memory is built again, and all without a stream expire then.
        """
        try:
            if not self._is_hosted(sid):
                self._submit(c.Forget(sid)).add_done_callback(lambda done: done.exception())
        except ProsemError as error:
            log.info("the ephemeral subscription %d is ended later: %s", sid, error.detail)
            return False
        self._orphans.settled(sid)
        return True

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s)
            try:
                while self._unstreamed() and await self._call(c.Expire()):
                    pass
            except ProsemError as error:
                log.info("ephemeral subscriptions stay a little longer: %s", error.detail)
