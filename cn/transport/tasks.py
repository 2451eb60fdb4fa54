"""Background tasks, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_S = 0.1  # a task that goes on although it was cancelled is cancelled again


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end.

    Once is not enough: `asyncio.wait_for` of Python 3.11 swallows a cancellation that comes at the moment at which what it
    waits for is done, and libraries wait by it in every request.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_S)
