"""Long work on the loop, in turns: sockets, leases and commits wait no longer than one of them."""

from __future__ import annotations

import asyncio
import time

TURN_S = 0.02


class TimeSlice:
    """Call `over` between two small steps; others have theirs when this one has lasted long enough.

    >>> async def work() -> list[str]:
    ...     done: list[str] = []
    ...     asyncio.get_running_loop().call_soon(done.append, "another")
    ...     turn = TimeSlice(0.0)
    ...     for step in "12":
    ...         done.append(step)
    ...         await turn.over()
    ...     return done
    >>> asyncio.run(work())
    ['1', 'another', '2']
    """

    def __init__(self, seconds: float = TURN_S) -> None:
        self._seconds, self._since = seconds, time.monotonic()

    async def over(self) -> None:
        if time.monotonic() - self._since >= self._seconds:
            await asyncio.sleep(0)
            self._since = time.monotonic()
