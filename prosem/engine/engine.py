"""The engine: two threads that call the steps of the pipeline and of the committer, and a watchdog beside them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from prosem.engine.backlog import EngineLimits
from prosem.engine.committer import Step, Store
from prosem.engine.outlet import Outlet, Post
from prosem.engine.pipeline import Pipeline
from prosem.engine.state import EngineState
from prosem.engine.watchdog import Watchdog, WatchdogThread
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.runtime.metrics import Metrics
from prosem.runtime.trace import TraceSink
from prosem.values.errors import BusyError, CommitError, UnknownOutcomeError

log = logging.getLogger("prosem.engine")
CLOSE_S = 30.0  # that a shutdown waits for what has arrived, before it breaks the commit off


class Engine(Pipeline):
    """A pipeline that runs by itself between `start` and `close`."""

    def __init__(
        self,
        store: Store,
        recover: Callable[[int], EngineState],
        post: Post,
        outlet: Outlet,
        metrics: Metrics,
        *,
        limits: EngineLimits,
        idle: Callable[[int], None],
        trace: TraceSink | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            store, recover, post, outlet, metrics, limits=limits, idle=idle, trace=trace, clock=clock
        )
        self._watchdog = WatchdogThread(
            Watchdog(limits.commit_timeout_s, lambda: store.busy_since, self._break_off, clock),
            metrics.restarts,
        )
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for run, name in (
                (partial(self._run, self.next, self.wait_s, self._engine_died), "prosem-engine"),
                (
                    partial(self._run, self.committer.next, self.committer.wait_s, self._committer_died),
                    "prosem-committer",
                ),
            )
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._watchdog.start()

    def close(self) -> None:
        """Work off what has arrived, commit it and stop. A commit that does not end meanwhile is broken off."""
        self.end()
        for attempt in range(2):
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(CLOSE_S)
            if attempt == 0 and any(thread.is_alive() for thread in self._threads):
                self.committer.store.abort()
        self._watchdog.close()
        self._abandon(BusyError("the server has shut down; nothing was applied", retry_after_s=5))

    @property
    def is_alive(self) -> bool:
        """Whether both threads run, or have not been started yet."""
        return all(thread.ident is None or thread.is_alive() for thread in self._threads)

    def _run(
        self,
        next_step: Callable[[], Step | None],
        wait_s: Callable[[], float | None],
        died: Callable[[BaseException], None],
    ) -> None:
        """Call steps until all is done; wait while there is none."""
        try:
            while True:
                with self._change:
                    while (step := next_step()) is None and not self.is_over:
                        self._change.wait(wait_s())
                if step is None:
                    return
                step()
                del step  # it may refer to a batch
        except BaseException as error:
            log.critical("%s stopped: %s", threading.current_thread().name, error, exc_info=True)
            with self._change:
                self.problem = str(error)
                died(error)
            self._abandon(CommitError(f"the engine stopped: {error}"))

    def _engine_died(self, error: BaseException) -> None:
        self.is_over = True
        self._change.notify_all()

    def _committer_died(self, error: BaseException) -> None:
        self.committer.is_dead = True
        lost, self._handed = self._handed, []
        unknown = UnknownOutcomeError(f"the committer stopped ({error}): whether it was applied is not known")
        self._results.failed(lost, unknown)
        self._change.notify_all()

    def _break_off(self, for_s: float) -> None:
        """Called by the watchdog: a commit makes no progress."""
        with self._change:
            if self.committer.job is None:
                return
            self.ready = False
            self.problem = f"a transaction has made no progress for {for_s:.0f} s and is broken off"
        log.error("%s", self.problem)
        self.committer.store.abort()
