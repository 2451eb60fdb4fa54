"""Ends commits that make no progress: a hang of the database must not look like a server that serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping

from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.runtime.supervise import supervise_thread


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


class WatchdogThread:
    def __init__(self, watchdog: Watchdog, restarts: MutableMapping[str, int]) -> None:
        self._watchdog, self._closing = watchdog, threading.Event()
        self._thread = supervise_thread(
            "commit-watchdog", self._check_often, restarts, self._closing, watchdog.interval_s
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    def _check_often(self) -> None:
        while not self._closing.wait(self._watchdog.interval_s):
            self._watchdog.check()
