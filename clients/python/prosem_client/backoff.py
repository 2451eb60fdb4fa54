"""How long to wait before the next attempt."""

from __future__ import annotations

import random


class Backoff:
    """Waits that double from `first_s` to `longest_s`, each shortened by up to half at random.

    The jitter keeps a thousand clients of a restarted server from coming back in the same instant.
    """

    def __init__(self, first_s: float = 0.1, longest_s: float = 5.0) -> None:
        self.first_s = first_s
        self.longest_s = longest_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The wait before the next attempt."""
        wait_s, self._next_s = self._next_s, min(self._next_s * 2, self.longest_s)
        return wait_s * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """An attempt succeeded: the next wait is a short one again."""
        self._next_s = self.first_s
