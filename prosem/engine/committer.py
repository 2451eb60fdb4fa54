"""The committer: owns the connection that writes, and does one job after the other.

A job is a batch to commit, or a trial. While PostgreSQL cannot write (a full disk), publishing is held off and the batch
that was refused is tried again at growing intervals. All this is steps that something calls: a thread (`engine`), or a
test. A step may wait for PostgreSQL, and for nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prosem.engine.backlog import Entry
from prosem.engine.batch import Batch
from prosem.engine.hold import Hold
from prosem.runtime.clock import Clock
from prosem.runtime.metrics import Metrics
from prosem.store.log import WriteSet
from prosem.values.errors import RefusedError, ResourceError

log = logging.getLogger("prosem.engine")
Job = Callable[[], BaseException | None]
Step = Callable[[], None]


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


@dataclass(slots=True)
class Trial:
    """What a command would write, tried in the database before memory takes it; `failure` is what that raised."""

    entry: Entry
    writes: WriteSet
    failure: BaseException | None = None


class Committer:
    """Shares the engine's lock. `idle` is called after each batch; `may_try` says whether a held batch may be tried now."""

    def __init__(
        self,
        store: Store,
        change: threading.Condition,
        metrics: Metrics,
        idle: Callable[[int], None],
        may_try: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self.store, self._change, self._may_try = store, change, may_try
        self._metrics, self._idle, self._clock = metrics, idle, clock
        self.job: Job | None = None
        self.failure: BaseException | None = None
        """for which the engine must start over"""
        self.hold: Hold | None = None
        self.is_dead = False

    # -- steps ---------------------------------------------------------------------------------------------------
    def next(self) -> Step | None:
        """What to do now; None: nothing, until a job is given or `wait_s` is over."""
        with self._change:
            if self.job is None and self.hold is not None and self._may_try() and self.hold.wait_s() <= 0:
                self.job = self._try_again
            return None if self.job is None else self._work

    def wait_s(self) -> float | None:
        """How long there is nothing to do if no job is given; None: for ever."""
        return None if self.hold is None or not self._may_try() else self.hold.wait_s()

    def step(self) -> bool:
        """Do what there is to do now; False: nothing."""
        work = self.next()
        if work is not None:
            work()
        return work is not None

    def _work(self) -> None:
        job = self.job
        failure = None if job is None else job()
        with self._change:
            self.job = None
            self.failure = failure or self.failure
            self._change.notify_all()

    # -- the engine's side ---------------------------------------------------------------------------------------
    def give(self, job: Job) -> None:
        """A job, while there is no other."""
        with self._change:
            self.check()
            self.job = job
            self._change.notify_all()

    def check(self) -> None:
        if self.is_dead:
            raise RuntimeError("the committer has stopped")

    def take_failure(self) -> BaseException | None:
        """What to start over for; under the lock."""
        failure, self.failure = self.failure, None
        return failure

    # -- jobs ----------------------------------------------------------------------------------------------------
    def probe(self, trial: Trial) -> None:
        try:
            self.store.probe(trial.writes)
        except Exception as error:
            trial.failure = error

    def commit(self, batch: Batch) -> BaseException | None:
        """Write a batch; why it was not committed, None if it was."""
        if batch.writes.is_empty():
            return self._prove()
        start = self._clock.monotonic()
        for command_trace in batch.command_traces:
            command_trace.commit = self._clock.wall_ns()
        try:
            self.store.write(batch.writes)
        except ResourceError as error:
            return self.hold_off(error, batch.writes)
        except Exception as error:
            log.error("commit of %d events failed: %s", len(batch.writes.events), error)
            return error
        for command_trace in batch.command_traces:
            command_trace.committed = self._clock.wall_ns()
        self._metrics.commits += 1
        self._metrics.commit_seconds += self._clock.monotonic() - start
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
            self.hold = Hold(failure, refused, self._clock.monotonic)
            log.error("%s", self.hold.problem)
            self._change.notify_all()
            return self.hold.error()

    def _try_again(self) -> BaseException | None:
        hold = self.hold
        if hold is None:
            return None
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
