"""Waiting in tests: the condition itself is waited for, and no test sleeps in the hope that it holds."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
WAIT_S = 60.0
HANGS_S = 600.0
POLL_S = 0.02


def until(condition: Callable[[], T], wait_s: float = WAIT_S, what: str | Callable[[], str] = "") -> T:
    """The first true value of the condition; fails after the deadline, with `what` in the message."""
    deadline = time.monotonic() + wait_s
    while not (found := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_missing(wait_s, what))
        time.sleep(POLL_S)
    return found


async def until_async(
    condition: Callable[[], T | Awaitable[T]], wait_s: float = WAIT_S, what: str | Callable[[], str] = ""
) -> T:
    """`until` on an event loop; the condition may be a coroutine function."""
    deadline = time.monotonic() + wait_s
    while True:
        found = condition()
        value: T = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(_missing(wait_s, what))
        await asyncio.sleep(POLL_S)


def bounded(test: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """The asynchronous test, ended by a TimeoutError if it hangs."""

    @functools.wraps(test)
    async def run(*arguments: P.args, **named: P.kwargs) -> None:
        async with asyncio.timeout(HANGS_S):
            await test(*arguments, **named)

    return run


def _missing(wait_s: float, what: str | Callable[[], str]) -> str:
    detail = what() if callable(what) else what
    return f"the condition did not hold within {wait_s:g} s" + (f": {detail}" if detail else "")
