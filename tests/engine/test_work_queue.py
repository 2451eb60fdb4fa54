"""What follows a commit goes on, whatever became of the work before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from prosem.runtime.slices import WorkQueue


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), asyncio.CancelledError()], ids=["fault", "cancelled"]
)
async def test_work_that_fails_stops_nothing_behind_it(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def failing() -> Iterator[None]:
        yield
        raise error

    queue = WorkQueue(asyncio.get_running_loop(), 0.0)
    queue.post(failing)
    queue.post(lambda: done.append("behind it"))
    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(queue.drained(), 10)
    assert done == ["behind it"]
    assert "failed in a way it should not" in caplog.text
