"""Cooperative scheduling: splits long work on the event loop into slices of bounded length."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

One = TypeVar("One")
log = logging.getLogger("prosem.slices")
SLICE_S = 0.003  # several tasks may take one each between two looks at the sockets
AT_ONCE = 256  # small things that are done in one turn: some milliseconds
Work = Callable[[], Iterator[None] | None]


class TimeSlice:
    """Call `over` between two small steps; it yields to the loop when the slice is used up.

    >>> async def work() -> list[str]:
    ...     done: list[str] = []
    ...     asyncio.get_running_loop().call_soon(done.append, "another")
    ...     current = TimeSlice(0.0)
    ...     for step in "12":
    ...         done.append(step)
    ...         await current.over()
    ...     return done
    >>> asyncio.run(work())
    ['1', 'another', '2']
    """

    def __init__(self, seconds: float = SLICE_S) -> None:
        self._seconds, self._since = seconds, time.monotonic()

    async def over(self) -> None:
        if time.monotonic() - self._since >= self._seconds:
            await asyncio.sleep(0)
            self._since = time.monotonic()


class WorkQueue:
    """Runs work on a loop's thread in the order in which it was posted, from any thread.

    Work that returns an iterator is done step by step: when a slice is used up, what else the loop has to do comes in
    between two steps, and what was posted later still waits for all of them.

    >>> async def work() -> list[str]:
    ...     done: list[str] = []
    ...     queue = WorkQueue(asyncio.get_running_loop(), 0.0)
    ...     queue.post(lambda: (done.append(step) for step in "12"))
    ...     queue.post(lambda: done.append("3"))
    ...     await asyncio.sleep(0)
    ...     done.append("another")
    ...     await queue.drained()
    ...     return done
    >>> asyncio.run(work())
    ['1', 'another', '2', '3']
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float = SLICE_S) -> None:
        self._loop, self._seconds = loop, seconds
        self._waiting: deque[Work] = deque()
        self._steps: Iterator[None] | None = None
        self._is_scheduled = False

    def post(self, work: Work) -> None:
        self._loop.call_soon_threadsafe(self._add, work)

    async def drained(self) -> None:
        """Wait until everything that was posted so far is done."""
        done = self._loop.create_future()
        self.post(lambda: done.set_result(None))
        await done

    def _add(self, work: Work) -> None:
        self._waiting.append(work)
        if not self._is_scheduled:
            self._run()

    def _run(self) -> None:
        until = self._loop.time() + self._seconds
        while self._steps is not None or self._waiting:
            self._step()
            if self._loop.time() >= until:
                break
        self._is_scheduled = self._steps is not None or bool(self._waiting)
        if self._is_scheduled:
            self._loop.call_soon(self._run)

    def _step(self) -> None:
        try:
            if self._steps is None:
                self._steps = self._waiting.popleft()()
            if self._steps is not None:
                next(self._steps)
        except StopIteration:
            self._steps = None
        except (Exception, asyncio.CancelledError):  # whatever waits behind it goes on
            log.exception("work after a commit failed in a way it should not")
            self._steps = None


def complete(steps: Iterator[None] | None) -> None:
    """All steps of some work at once."""
    for _ in steps or ():
        pass


def by_turns(all_of_them: Iterable[One], work: Callable[[One], None]) -> None:
    """Do some work for each, the first of them now and the rest some at a time: the loop serves others in between.

    Without a loop all are done now.

    >>> by_turns([1, 2], print)
    1
    2
    """
    left = iter(all_of_them)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None

    def some() -> None:
        done = AT_ONCE
        while done == AT_ONCE:
            done = 0
            for done, one in enumerate(islice(left, AT_ONCE), 1):  # noqa: B007 - the last number is kept
                work(one)
            if done == AT_ONCE and loop is not None:
                loop.call_soon(some)
                return

    some()
