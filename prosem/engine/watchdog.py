"""Ends commits that make no progress: a hang of the database must not look like a server that serves."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prosem.runtime.clock import SYSTEM_CLOCK, Clock


class Watchdog:
    """`busy_since`: when what runs made progress last (None: nothing runs). Calls `stuck` when that is too long ago.

    It is called again after as long a time, if that did not help.

    >>> from prosem.runtime.clock import ManualClock
    >>> clock = ManualClock()
    >>> watchdog = Watchdog(60.0, lambda: 0.0, lambda for_s: print("stuck for", for_s), clock)
    >>> clock.advance(61); watchdog.check(); watchdog.check()
    stuck for 61.0
    """

    def __init__(
        self,
        limit_s: float,
        busy_since: Callable[[], float | None],
        stuck: Callable[[float], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._limit_s, self._busy_since, self._stuck, self._clock = limit_s, busy_since, stuck, clock
        self._called = 0.0

    def check(self) -> None:
        since, now = self._busy_since(), self._clock.monotonic()
        if since is not None and now - max(since, self._called) > self._limit_s:
            self._called = now
            self._stuck(now - since)

    @property
    def interval_s(self) -> float:
        """How often to check."""
        return min(1.0, self._limit_s / 4)


class WatchdogThread(threading.Thread):
    def __init__(self, watchdog: Watchdog) -> None:
        super().__init__(name="prosem-watchdog", daemon=True)
        self._watchdog, self._stop_event = watchdog, threading.Event()

    def run(self) -> None:
        while not self._stop_event.wait(self._watchdog.interval_s):
            self._watchdog.check()

    def close(self) -> None:
        self._stop_event.set()
