"""Ends commits that make no progress: a hang of the database must not look like a server that serves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Watchdog(threading.Thread):
    """`busy_since`: when what runs made progress last (None: nothing runs). Calls `stuck` when that is too long ago.

    It is called again after as long a time, if that did not help.
    """

    def __init__(
        self, limit_s: float, busy_since: Callable[[], float | None], stuck: Callable[[float], None]
    ) -> None:
        super().__init__(name="prosem-watchdog", daemon=True)
        self._limit_s, self._busy_since, self._stuck = limit_s, busy_since, stuck
        self._stop = threading.Event()

    def run(self) -> None:
        told = 0.0
        while not self._stop.wait(min(1.0, self._limit_s / 4)):
            since, now = self._busy_since(), time.monotonic()
            if since is not None and now - max(since, told) > self._limit_s:
                told = now
                self._stuck(now - since)

    def close(self) -> None:
        self._stop.set()
