"""Cooperative scheduling: splits long work on the event loop into slices of bounded length."""

from __future__ import annotations

import asyncio
import time

SLICE_S = 0.02


class TimeSlice:
    """Call `over` between two small steps; it yields to the loop when the slice is used up.

    >>> async def work() -> list[str]:
    ...     done: list[str] = []
    ...     asyncio.get_running_loop().call_soon(done.append, "another")
    ...     current = TimeSlice(0.0)
    ...     for step in "12":
    ...         done.append(step)
    ...         await current.over()
    ...     return done
    >>> asyncio.run(work())
    ['1', 'another', '2']
    """

    def __init__(self, seconds: float = SLICE_S) -> None:
        self._seconds, self._since = seconds, time.monotonic()

    async def over(self) -> None:
        if time.monotonic() - self._since >= self._seconds:
            await asyncio.sleep(0)
            self._since = time.monotonic()
