"""Supervision of background tasks: one that fails is started again with back-off, logged and counted.

A task that ends in silence is worse than one that fails: nothing reads its exception, and what it did is no longer done.
`Metrics.restarts` holds how often each was started again; `/metrics` and `/v1/status` show it.
"""

from __future__ import annotations

import asyncio
import logging
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
            if time.monotonic() - since >= SOUND_S:
                backoff.reset()
            log.exception("the task %s failed; it is started again", name)
        restarts[name] = restarts.get(name, 0) + 1
        await backoff.wait()


async def end(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for their end."""
    await end_tasks(task for task in tasks if task is not None)
