"""The machine of the simulation: one event loop on a virtual clock, processes on it that can be killed and stopped, and
threads as greenlets.

Everything that a process does is a callback of the loop: tasks, timers, what a blocking call does between two waits. A
callback belongs to the process in whose context it was scheduled. That of a dead process never runs, so `kill` is a
`kill -9` between any two steps; that of a stopped one runs when it goes on. Nothing here waits in real time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import selectors
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any
from unittest import mock

from greenlet import greenlet

CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
EPOCH_S = 1_700_000_000.0  # of the virtual wall clock
LOCK_LOOK_S = 0.001


class StuckError(AssertionError):
    """Nothing is scheduled, and something is waited for."""


class Process:
    """One run of a program. `countdown`: so many callbacks are carried out, then it is killed."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self._loop, self.name = loop, name
        self.is_alive = True
        self.stopped_until = 0.0
        self.countdown: int | None = None
        self._deferred: list[tuple[Callable[[], None], Context | None]] = []
        self.on_death: list[Callable[[], None]] = []
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return self.name

    def call(self, work: Callable[..., Any], *args: Any) -> None:
        """Carry out in this process, soon."""
        if self.is_alive:
            self._loop.call_soon(work, *args, context=self.context)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._loop.create_task(work, context=self.context)

    def kill(self) -> None:
        if self.is_alive:
            self.is_alive = False
            for report in self.on_death:
                report()

    def stop(self, for_s: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        self.stopped_until = max(self.stopped_until, self._loop.time() + for_s)

    def defer(self, work: Callable[[], None], context: Context | None) -> None:
        """What comes while it is stopped is done when it goes on, in order."""
        if not self._deferred:
            self._loop.call_at(self.stopped_until, self._go_on, context=Context())
        self._deferred.append((work, context))

    def _go_on(self) -> None:
        if self.stopped_until > self._loop.now:
            self._loop.call_at(self.stopped_until, self._go_on, context=Context())
            return
        deferred, self._deferred = self._deferred, []
        for work, context in deferred:
            self._loop.call_soon(work, context=self.context if context is None else context)


class _NoSockets(selectors.SelectSelector):
    """Nothing is ever ready; the time that would be waited passes at once."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StuckError("nothing is scheduled, and something is waited for")
        self.loop.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _NoSockets()
        super().__init__(selector)
        selector.loop, self.now = self, 1000.0
        self._clock_resolution = 1e-6
        self.steps = 0
        self.is_over = False  # nothing is scheduled any more
        self._all_tasks: list[asyncio.Task[Any]] = []
        self.unhandled: list[str] = []
        self.set_exception_handler(lambda loop, what: self.unhandled.append(_described(what)))
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now

    def _write_to_self(self) -> None: ...

    def _make_task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        made: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        made._log_destroy_pending = False  # type: ignore[attr-defined]
        self._all_tasks.append(made)  # kept: one that is collected runs its `finally` clauses
        return made

    def end(self) -> None:
        """Nothing happens any more; what is left of tasks is closed in the order in which they were made."""
        self.is_over = True
        for task in self._all_tasks:
            if not task.done():
                with contextlib.suppress(Exception):
                    task.get_coro().close()  # type: ignore[union-attr]
        self._all_tasks.clear()
        self.close()

    def _guarded(
        self, work: Callable[..., Any], context: Context | None
    ) -> tuple[Callable[..., Any], list[asyncio.Handle]]:
        process = CURRENT.get() if context is None else context.get(CURRENT)
        handle: list[asyncio.Handle] = []
        if process is None:
            return work, handle

        def run(*args: Any) -> None:
            if not process.is_alive or handle[0].cancelled():
                return
            if process.stopped_until > self.now:
                process.defer(lambda: run(*args), context)
                return
            self.steps += 1
            if process.countdown is not None:
                process.countdown -= 1
                if process.countdown < 0:
                    process.kill()
                    return
            work(*args)

        return run, handle

    def _check_closed(self) -> None: ...

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        if self.is_over:
            return asyncio.Handle(callback, args, self, context)
        run, handle = self._guarded(callback, context)
        handle.append(super().call_soon(run, *args, context=context))
        return handle[0]

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_over:
            return asyncio.TimerHandle(when, callback, args, self, context)
        run, handle = self._guarded(callback, context)
        made = super().call_at(when, run, *args, context=context)
        handle.append(made)
        return made

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """A worker thread that is done when the next step begins."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def _described(what: dict[str, Any]) -> str:
    error = what.get("exception")
    trace = "" if error is None else "".join(traceback.format_tb(error.__traceback__)[-3:])
    return f"{what.get('message')}: {error!r}\n{trace}"


# -- blocking code -------------------------------------------------------------------------------------------------
class _Thread(greenlet):
    pass


_sleep = time.sleep
_simulating: set[int] = set()  # threads


def pause(seconds: float) -> None:
    """Wait in blocking code: everything else goes on meanwhile. Threads that are not simulated (of libraries) do wait."""
    current = greenlet.getcurrent()
    if isinstance(current, _Thread):
        assert current.parent is not None
        current.parent.switch(seconds)
    else:
        assert threading.get_ident() not in _simulating, "only blocking code may wait"
        _sleep(seconds)


async def blocking(work: Callable[..., Any], *args: Any) -> Any:
    """Carry out code that waits by `time.sleep`, or for PostgreSQL, as in a thread of its own."""
    thread = _Thread(work)
    thread.gr_context = copy_context()  # else it would be of no process
    waits = thread.switch(*args)
    while not thread.dead:
        thread.parent = greenlet.getcurrent()
        await asyncio.sleep(waits)
        waits = thread.switch()
    return waits


class Lock:
    """threading.RLock among greenlets."""

    def __init__(self) -> None:
        self._owner: greenlet | None = None
        self._count = 0

    def acquire(self, blocking: bool = True) -> bool:
        while self._owner not in (None, greenlet.getcurrent()):
            if not blocking:
                return False
            pause(LOCK_LOOK_S)
        self._owner = greenlet.getcurrent()
        self._count += 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualClock:
    """The clock that engine and committer are given."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now

    def wall_ns(self) -> int:
        return round(self._loop.now * 1e9)

    elapsed_ns = cpu_ns = wall_ns


@contextlib.contextmanager
def virtual_time(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """The clocks, waits and random numbers of the whole interpreter are those of the simulation."""
    chance = random.Random(seed)
    before = random.getstate()

    def wall_s() -> float:
        return EPOCH_S + loop.now

    def wall_ns() -> int:
        return round(wall_s() * 1e9)

    def since_boot_s(clock: int) -> float:
        return loop.now

    def made_id() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128), version=4)

    random.seed(seed)
    _simulating.add(threading.get_ident())
    try:
        with (
            mock.patch.object(time, "monotonic", loop.time),
            mock.patch.object(time, "time", wall_s),
            mock.patch.object(time, "time_ns", wall_ns),
            mock.patch.object(time, "clock_gettime", since_boot_s),
            mock.patch.object(time, "sleep", pause),
            mock.patch.object(secrets, "token_hex", lambda size=8: chance.randbytes(size).hex()),
            mock.patch.object(uuid, "uuid4", made_id),
        ):
            yield
    finally:
        _simulating.discard(threading.get_ident())
        random.setstate(before)
