"""The committer: one thread that owns the connection that writes, and does one job after the other.

A job is a batch to commit, or a trial. While PostgreSQL cannot write (a full disk), publishing is held off and the batch
that was refused is tried again at growing intervals.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from prosem.engine.batch import Batch
from prosem.engine.hold import Hold
from prosem.runtime.metrics import Metrics
from prosem.runtime.trace import now
from prosem.store.log import WriteSet
from prosem.values.errors import RefusedError, ResourceError

log = logging.getLogger("prosem.engine")
Job = Callable[[], BaseException | None]


class Store(Protocol):
    """Where batches become durable."""

    busy_since: float | None
    """while something is written: when it made progress last (monotonic)"""

    def write(self, batch: WriteSet) -> None:
        """One transaction; an error other than UnknownOutcomeError means that nothing of it was committed."""

    def prove(self) -> None:
        """CommitError unless this server owns the database, so that what it answers from memory is true."""

    def probe(self, batch: WriteSet) -> None:
        """The same in a transaction that is rolled back."""

    def abort(self) -> None:
        """End a write that makes no progress; called from another thread."""


class Committer:
    """Shares the engine's lock. `idle` is called after each batch; `may_try` tells whether a held batch may be tried now."""

    def __init__(
        self,
        store: Store,
        change: threading.Condition,
        metrics: Metrics,
        idle: Callable[[int], None],
        may_try: Callable[[], bool],
    ) -> None:
        self.store, self._change, self._may_try = store, change, may_try
        self._metrics, self._idle = metrics, idle
        self.job: Job | None = None
        self.failure: BaseException | None = None
        """for which the engine must start over"""
        self.hold: Hold | None = None
        self.is_dead = False

    def run(self, is_done: Callable[[], bool]) -> None:
        while True:
            with self._change:
                while self.job is None:
                    if is_done():
                        return
                    self._change.wait(self._pause_s())
                    if self.job is None and self._is_due():
                        self.job = self._try_again
                job = self.job
            failure = job()
            with self._change:
                self.job = None
                self.failure = failure or self.failure
                self._change.notify_all()

    def check(self) -> None:
        if self.is_dead:
            raise RuntimeError("the committer has stopped")

    def call(self, work: Callable[[], None]) -> BaseException | None:
        """Do something on the committer's thread, from another one; what it raised. The committer must be free."""
        raised: list[BaseException | None] = []

        def job() -> None:
            try:
                work()
                raised.append(None)
            except Exception as error:
                raised.append(error)

        with self._change:
            self.job = job
            self._change.notify_all()
            self._change.wait_for(lambda: self.is_dead or self.job is not job)
            self.check()
        return raised[0]

    def take_failure(self) -> BaseException:
        """What to start over for, once nothing is being committed any more; under the lock."""
        self._change.wait_for(lambda: self.is_dead or self.job is None)
        failure, self.failure = self.failure, None
        assert failure is not None
        return failure

    def commit(self, batch: Batch) -> BaseException | None:
        """Write a batch; why it was not committed, None if it was."""
        if batch.writes.is_empty():
            return self._prove()
        start = time.perf_counter()
        for journey in batch.journeys:
            journey.commit = now()
        try:
            self.store.write(batch.writes)
        except ResourceError as error:
            return self.hold_off(error, batch.writes)
        except Exception as error:
            log.error("commit of %d events failed: %s", len(batch.writes.events), error)
            return error
        for journey in batch.journeys:
            journey.committed = now()
        self._metrics.commits += 1
        self._metrics.commit_seconds += time.perf_counter() - start
        try:
            self._idle(batch.writes.last_seq)
        except Exception as error:
            log.warning("what is no longer needed could not be dropped: %s", error)
        return None

    def _prove(self) -> BaseException | None:
        try:
            self.store.prove()
        except Exception as error:
            log.error("this server cannot answer: %s", error)
            return error
        return None

    # -- a database that cannot write ----------------------------------------------------------------------------
    def hold_off(self, failure: ResourceError, refused: WriteSet) -> ResourceError:
        """Writes are refused from here on, until a trial of this batch succeeds; how they are refused."""
        with self._change:
            self.hold = Hold(failure, refused)
            log.error("%s", self.hold.problem)
            return self.hold.error()

    def _is_due(self) -> bool:
        return self.hold is not None and self._may_try() and self.hold.wait_s() <= 0

    def _pause_s(self) -> float | None:
        return None if self.hold is None else 0.2

    def _try_again(self) -> BaseException | None:
        hold = self.hold
        assert hold is not None
        try:
            self.store.probe(hold.writes)
        except ResourceError as error:
            with self._change:
                hold.failed(error)
            return None
        except RefusedError:
            pass  # that data cannot be written, but the database takes writes again
        except Exception as error:
            return error  # the connection; after a recovery it is tried again
        log.info("the database can write again: publishing goes on")
        with self._change:
            self.hold = None
        return None
