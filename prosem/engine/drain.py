"""How long a backlog takes to drain, from the rate at which it was worked off lately: what `Retry-After` says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

LONGEST_S = 60
WINDOW_S = 0.5
_RECENT = 0.3  # weight of the last window in the rate


class Drain:
    """Counts while something waits: an idle second says nothing of how quick the server is.

    >>> moments = iter((0.0, 1.0, 50.0, 51.0))
    >>> drain = Drain(lambda: next(moments))
    >>> drain.wait_s(50_000)
    1
    >>> drain.taken(2_000, is_last=False); drain.taken(2_000, is_last=True); drain.wait_s(50_000)
    25
    >>> drain.taken(2_000, is_last=False); drain.taken(1_000, is_last=False); drain.wait_s(50_000)
    30
    >>> drain.wait_s(0), drain.wait_s(10_000_000)
    (1, 60)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._rate = 0.0  # events per second; 0: not measured yet
        self._since: float | None = None  # when the window began
        self._events = 0  # within it

    def taken(self, events: int, is_last: bool) -> None:
        """So many events have left the backlog; `is_last`: nothing waits any more."""
        now = self._now()
        if self._since is None:
            self._since = now  # the time before it was not measured
        else:
            self._events += events
        if (seconds := now - self._since) >= WINDOW_S:
            rate = self._events / seconds
            self._rate = rate if not self._rate else self._rate + _RECENT * (rate - self._rate)
            self._since, self._events = now, 0
        if is_last:
            self._since, self._events = None, 0

    def wait_s(self, events: int) -> int:
        """Seconds until so many events have left, from 1 to 60."""
        if not self._rate:
            return 1
        return max(1, min(LONGEST_S, math.ceil(events / self._rate)))
