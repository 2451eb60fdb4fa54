"""Subscriptions with `"durable": false` that no stream is attached to yet: they end after a while.

One that was streamed ends with its last stream, which the edge reports. One that never is would stay until the server
restarts, so it has a deadline, which reading its result or moving it renews.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

LIFETIME_S = 60.0


class Unstreamed:
    """sid → deadline, in the order of the deadlines. Owned by the engine thread; its length may be read by others."""

    def __init__(self, lifetime_s: float = LIFETIME_S, now: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s, self._now = lifetime_s, now
        self._until: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[int]:
        return iter(self._until)

    def add(self, sids: Iterable[int]) -> None:
        until = self._now() + self._lifetime_s
        self._until.update(dict.fromkeys(sids, until))

    def renew(self, sid: int) -> None:
        """It was used; nothing happens to one that is durable or has a stream."""
        if self._until.pop(sid, None) is not None:
            self.add([sid])

    def discard(self, sid: int) -> bool:
        """A stream is attached to it, or it is deleted; whether it was here."""
        return self._until.pop(sid, None) is not None

    def due(self, most: int) -> list[int]:
        """Those whose time is over, at most so many.

        >>> moment = 0.0
        >>> held = Unstreamed(10.0, lambda: moment)
        >>> held.add([1, 2, 3]); moment = 5.0; held.renew(1); moment = 12.0
        >>> held.due(1), held.due(9), list(held)
        ([2], [2, 3], [2, 3, 1])
        """
        now = self._now()
        found: list[int] = []
        for sid, until in self._until.items():
            if until > now or len(found) == most:
                break
            found.append(sid)
        return found
