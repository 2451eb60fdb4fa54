"""A server from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from api.server.composition import compose
from api.server.keyring import Keyring
from api.server.running import RunningServer
from api.server.settings import Settings
from prosem.delivery.subscriber import Subscriber
from prosem.runtime.metrics import Metrics
from prosem.values.access import WHOLE, Scope
from prosem.values.errors import ProsemError, RecoveringError

log = logging.getLogger("prosem")


class ServerLifetime:
    """What there is before the parts are: settings, metrics, keys that are still to be loaded, and why it does not serve.

    Made and closed on the loop's thread. Requests are answered 503 until `running` is there. `on_failure` is called when
    the server cannot start, or must end.
    """

    def __init__(self, settings: Settings, worker_key: str = "") -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.keys = Keyring(worker_key)
        self.started = time.time()
        self.failure: str | None = None
        self.is_superseded = False
        self.on_failure: Callable[[], None] = lambda: None
        self._running: RunningServer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self) -> None:
        """Begin to start; `is_ready` says when it is done."""
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        superseded = partial(loop.call_soon_threadsafe, self._supersede)
        try:
            self._running = await compose(
                self.settings, self.metrics, self.keys, superseded, lambda: self._is_closing
            )
        except ProsemError as error:
            self._fail(error.detail)
            log.error("cannot start: %s", error.detail)
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
            log.exception("cannot start")

    def _fail(self, why: str) -> None:
        self.failure = why
        self.on_failure()

    def _supersede(self) -> None:
        """Another server owns the database: this one ends, and `serve` starts over with nothing in memory."""
        if not self._is_closing and not self.is_superseded:
            self.is_superseded = True
            self._fail("another server has taken the database over")

    async def close(self) -> None:
        self._is_closing = True
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._running is not None:
            await self._running.close()

    # -- use -----------------------------------------------------------------------------------------------------
    @property
    def running(self) -> RunningServer:
        """The server, once its parts are there."""
        if self._running is None:
            raise RecoveringError(f"the server does not serve yet: {self.problem}")
        return self._running

    @property
    def is_ready(self) -> bool:
        return self._running is not None and self._running.is_ready

    @property
    def is_alive(self) -> bool:
        """False once a thread of the engine has died: nothing but a restart of the process helps."""
        return self._is_closing or self._running is None or self._running.engine.is_alive

    @property
    def problem(self) -> str:
        """Why the server does not serve (yet)."""
        if self.failure:
            return self.failure
        if self._running is not None:
            return self._running.problem
        if self.settings.standby:
            return "this standby waits until no other server owns the database, then starts"
        return "the database is being started"

    def subscriber(self, scope: Scope = WHOLE) -> Subscriber:
        return self.running.subscriber(scope)
