"""Waits between attempts of every loop that reconnects."""

from __future__ import annotations

import asyncio
import random


class Backoff:
    """Waits that double from `first_s` to `longest_s`, each shortened by up to half at random.

    The jitter keeps many processes from reconnecting to a restarted server in the same instant.

    >>> backoff = Backoff(0.2, 0.5)
    >>> 0.1 <= backoff.next_s() <= 0.2, 0.2 <= backoff.next_s() <= 0.4, 0.25 <= backoff.next_s() <= 0.5
    (True, True, True)
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._following_s = first_s

    def next_s(self) -> float:
        """The wait before the next attempt."""
        wait_s, self._following_s = self._following_s, min(self._following_s * 2, self._longest_s)
        return wait_s * random.uniform(0.5, 1.0)

    async def wait(self) -> None:
        """Wait before the next attempt; ends when the task is cancelled."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Start over with the first wait, after an attempt that succeeded."""
        self._following_s = self._first_s
