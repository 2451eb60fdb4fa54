"""The last decisions, with what was expected and what came of it."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Any, NamedTuple

from optimizer.plan import Choice, Estimate

KEPT = 1_000
COMPARED = 200  # estimates with what was measured then


class Decision(NamedTuple):
    """`choice` is None where there was nothing to choose. `server_ns` is wall-clock time, also without measurements."""

    seq: int
    space: int
    plan: str
    choice: Choice | None
    messages: int
    size_bytes: int
    server_ns: int
    measured: Estimate | None = None


class Decisions:
    """A ring of the last `KEPT` decisions. Written by the engine, read from any thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self._ring: deque[tuple[Any, ...]] = deque(maxlen=kept)
        self._compared: deque[tuple[Estimate, Estimate]] = deque(maxlen=COMPARED)
        self.add = (
            self._ring.append
        )  # the fields of a decision: every event adds some, and few are ever looked at

    def last(self, count: int) -> list[Decision]:
        """Newest first. Copying the ring is one step to other threads."""
        ring = list(self._ring)
        return [Decision(*fields) for fields in ring[: -count - 1 : -1]]

    def measured(self, estimate: Estimate) -> None:
        """The last one was measured as well."""
        self._ring[-1] += (estimate,)
        choice, plan = self._ring[-1][3], self._ring[-1][2]
        if choice is not None and plan in choice.estimates:
            self._compared.append((choice.estimates[plan], estimate))

    def errors(self) -> dict[str, float]:
        """By which factor estimates of the executed plan were wrong: the median of those compared last; 1 is exact.

        A metric that was never both expected and measured to be more than nothing has none.
        """
        found: dict[str, float] = {}
        for at, name in enumerate(Estimate._fields):
            factors = [
                max(one[at] / other[at], other[at] / one[at])
                for one, other in self._compared
                if one[at] > 0 and other[at] > 0
            ]
            if factors:
                found[name] = median(factors)
        return found
