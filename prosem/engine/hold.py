"""Publishing is held off while PostgreSQL cannot write: what was refused is tried again, at growing intervals."""

from __future__ import annotations

import time
from collections.abc import Callable

from prosem.store.log import WriteSet
from prosem.values.errors import ResourceError

FIRST_S, LONGEST_S = 1.0, 30.0


class Hold:
    """Used under the engine's lock. `writes` is the batch that was refused: a trial of it shows when writing works."""

    def __init__(
        self, cause: ResourceError, writes: WriteSet, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.writes, self._clock, self._wait_s = writes, clock, FIRST_S
        self.cause = cause.detail
        self._due = clock() + self._wait_s

    @property
    def problem(self) -> str:
        return f"publishing is held off until the database can write again; reads go on ({self.cause})"

    def wait_s(self) -> float:
        """Until the next trial."""
        return max(0.0, self._due - self._clock())

    def failed(self, cause: ResourceError) -> None:
        """A trial was refused too."""
        self.cause = cause.detail
        self._wait_s = min(LONGEST_S, 2 * self._wait_s)
        self._due = self._clock() + self._wait_s

    def error(self) -> ResourceError:
        return ResourceError(f"nothing was applied: {self.problem}", retry_after_s=1 + int(self.wait_s()))
