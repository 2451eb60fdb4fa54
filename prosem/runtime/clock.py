"""Time as a parameter: what reads a clock is given one, so that a test or a simulator decides what time it is.

Steps of the engine never sleep. They say how long nothing will happen by itself, and the thread that calls them waits; a
simulator sets its clock forward by as much.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch."""

    def elapsed_ns(self) -> int:
        """Nanoseconds since some moment, for measuring short times."""

    def cpu_ns(self) -> int:
        """Nanoseconds of processor time that this thread has used."""


class SystemClock:
    """The clocks of the machine."""

    monotonic = staticmethod(time.monotonic)
    wall_ns = staticmethod(time.time_ns)
    elapsed_ns = staticmethod(time.perf_counter_ns)
    cpu_ns = staticmethod(time.thread_time_ns)


class ManualClock:
    """A clock that stands still until it is set forward.

    >>> clock = ManualClock()
    >>> clock.advance(1.5); clock.monotonic(), clock.wall_ns(), clock.elapsed_ns()
    (1.5, 1500000000, 1500000000)
    """

    def __init__(self) -> None:
        self._ns = 0

    def advance(self, seconds: float) -> None:
        self._ns += round(seconds * 1e9)

    def monotonic(self) -> float:
        return self._ns / 1e9

    def wall_ns(self) -> int:
        return self._ns

    elapsed_ns = cpu_ns = wall_ns


SYSTEM_CLOCK = SystemClock()
