"""How late the event loop runs what is due: counted in buckets, for percentiles over any time.

A timer every 20 ms costs 50 wake-ups per second, and sees pauses of any cause: long callbacks, garbage collections, and
other threads that hold the interpreter's lock.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left

PERIOD_S = 0.02
BOUNDS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1_000, 5_000)


class LoopLateness:
    """`counts` has the timers up to each bound, and those later than all, not added up.

    >>> async def work() -> LoopLateness:
    ...     lateness = LoopLateness()
    ...     lateness.start()
    ...     while not sum(lateness.counts):
    ...         await asyncio.sleep(0.01)
    ...     lateness.close()
    ...     return lateness
    >>> sum(asyncio.run(work()).counts)
    1
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_s = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure the running loop."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + PERIOD_S
        self._timer = loop.call_at(self._due, self._tick, loop)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        late_s = max(0.0, loop.time() - self._due)
        self.total_s += late_s
        self.counts[bisect_left(BOUNDS_MS, late_s * 1000)] += 1
        self._due = loop.time() + PERIOD_S
        self._timer = loop.call_at(self._due, self._tick, loop)
