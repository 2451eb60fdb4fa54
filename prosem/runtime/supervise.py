"""Supervision of background tasks and threads: one that fails is started again with back-off, logged and counted.

A task that ends in silence is worse than one that fails: nothing reads its exception, and what it did is no longer done.
`Metrics.restarts` holds how often each was started again; `/metrics` and `/v1/status` show it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping

from cn.transport.tasks import end_tasks
from prosem.runtime.backoff import Backoff

log = logging.getLogger("prosem.supervise")
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 30.0
SOUND_S = 60.0  # work that ran this long before it failed is tried again at once


def supervise(
    name: str,
    work: Callable[[], Awaitable[None]],
    restarts: MutableMapping[str, int],
    first_wait_s: float = FIRST_WAIT_S,
) -> asyncio.Task[None]:
    """A task that runs `work` until it returns or the task is cancelled; an exception starts it again.

    `restarts[name]` counts the restarts. The wait doubles from failure to failure.
    """
    restarts.setdefault(name, 0)
    return asyncio.get_running_loop().create_task(_keep(name, work, restarts, first_wait_s), name=name)


async def _keep(
    name: str, work: Callable[[], Awaitable[None]], restarts: MutableMapping[str, int], first_wait_s: float
) -> None:
    backoff = Backoff(first_wait_s, LONGEST_WAIT_S)
    while True:
        since = time.monotonic()
        try:
            return await work()
        except Exception:
            _failed(name, restarts, since, backoff)
        await backoff.wait()


def supervise_thread(
    name: str,
    work: Callable[[], None],
    restarts: MutableMapping[str, int],
    closing: threading.Event,
    longest_wait_s: float = LONGEST_WAIT_S,
) -> threading.Thread:
    """The same for a thread, which is yet to be started: it is not started again once `closing` is set."""
    restarts.setdefault(name, 0)
    backoff = Backoff(min(FIRST_WAIT_S, longest_wait_s), longest_wait_s)

    def keep() -> None:
        while not closing.is_set():
            since = time.monotonic()
            try:
                return work()
            except Exception:
                _failed(name, restarts, since, backoff)
            closing.wait(backoff.next_s())

    return threading.Thread(target=keep, name=f"prosem-{name}", daemon=True)


def _failed(name: str, restarts: MutableMapping[str, int], since: float, backoff: Backoff) -> None:
    """Called where an exception is handled."""
    if time.monotonic() - since >= SOUND_S:
        backoff.reset()
    log.exception("the task %s failed; it is started again", name)
    restarts[name] = restarts.get(name, 0) + 1


async def end(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for their end."""
    await end_tasks(task for task in tasks if task is not None)
