"""Where commands enter the engine's order."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from prosem.engine import commands as c
from prosem.engine.engine import Engine
from prosem.store.session import Session
from prosem.values.errors import RecoveringError

LOST = "the session that owns the database is lost and being opened again"


def awaited(answer: Future[Any]) -> asyncio.Future[Any]:
    """An answer for a coroutine of the loop that answers are given on.

    As asyncio.wrap_future, without a wake-up of the loop for each: answers are set in its own thread.
    """
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def settle(done: Future[Any]) -> None:
        if waiter.done():
            return  # nothing waits for it any more
        error = done.exception()
        if error is None:
            waiter.set_result(done.result())
        else:
            waiter.set_exception(error)

    answer.add_done_callback(settle)
    return waiter


class CommandPort:
    """Made before the engine, since the parts that the engine delivers to submit commands themselves.

    RecoveringError until it is connected, and while this server cannot know that its memory is what the database holds.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._engine: Engine | None = None

    def connect(self, engine: Engine) -> None:
        self._engine = engine

    def submit(self, command: c.Command, parent: str = "") -> Future[Any]:
        """Put a command into the order; `parent` is the trace it belongs to."""
        self.check_owner()
        return self._connected.submit(command, parent)

    async def call(self, command: c.Command, parent: str = "") -> Any:
        """Carry a command out; returns after its commit."""
        return await awaited(self.submit(command, parent))

    def check_owner(self) -> None:
        if self._connected.ready and not self._session.is_proven:
            raise RecoveringError(f"the server does not serve at the moment: {LOST}")

    @property
    def _connected(self) -> Engine:
        if self._engine is None:
            raise RecoveringError("the server does not serve yet: the database is being started")
        return self._engine
