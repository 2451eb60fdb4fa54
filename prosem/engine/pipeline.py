"""The pipeline: buffer → apply → choose → process → commit → inject.

One engine thread owns the state and works the commands off in one order; one committer thread writes each batch in one
transaction; batch k + 1 is processed while batch k commits, and nothing leaves before its commit. A batch takes whatever
has arrived meanwhile (group commit). When a commit fails, the batch, everything processed after it and the state in memory
are thrown away and the state is rebuilt from PostgreSQL. What becomes of the commands depends on the failure (`failures`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from traceback import clear_frames
from typing import Any, Protocol

from prosem.engine import commands as c
from prosem.engine.backlog import Backlog, Entry, entry_of, weight_of
from prosem.engine.batch import Batch
from prosem.engine.committer import Committer, Store
from prosem.engine.failures import Fault, answer, fail, sort_out
from prosem.engine.state import EngineState
from prosem.engine.suspects import Suspects, trial
from prosem.engine.watchdog import Watchdog
from prosem.runtime.metrics import Metrics
from prosem.runtime.trace import CommandTrace, TraceSink, now
from prosem.values.errors import (
    BusyError,
    CommitError,
    ProsemError,
    RecoveringError,
    RefusedError,
    ResourceError,
    UnknownOutcomeError,
)

log = logging.getLogger("prosem.engine")
Submit = Callable[[c.Command], "Future[Any]"]
CLOSE_S = 30.0  # that a shutdown waits for what has arrived, before it breaks the commit off


class Outlet(Protocol):
    """What follows a commit, on the loop's side."""

    def release(self, frames: list[c.Frame], seq: int) -> None:
        """Frames in order; after them everything up to `seq` is out."""

    def recovered(self, seq: int, timeline: str = "") -> None:
        """The state was rebuilt as of `seq` of a timeline; frames may have been lost on the way there."""


class Engine:
    """`recover` makes the state from PostgreSQL; `post` runs a callable on the thread that owns the network side;
    `idle` is called by the committer after each batch, for housekeeping; `trace` is told of every command's way, on
    the thread of the network side."""

    def __init__(
        self,
        store: Store,
        recover: Callable[[], EngineState],
        post: Callable[[Callable[[], None]], Any],
        outlet: Outlet,
        metrics: Metrics,
        *,
        max_backlog: int = 50_000,
        max_backlog_bytes: int = 128 << 20,
        max_batch: int = 2_000,
        max_batch_bytes: int = 4 << 20,
        max_request_events: int = 1_000_000,
        commit_timeout_s: float = 60.0,
        idle: Callable[[int], None] = lambda seq: None,
        trace: TraceSink | None = None,
    ) -> None:
        self._recover, self._post, self._outlet = recover, post, outlet
        self.metrics, self._trace = metrics, trace
        self._max_batch, self._max_batch_bytes = max_batch, max_batch_bytes
        self._waiting = Backlog(max_backlog, max_backlog_bytes, max_request_events)
        self._change = threading.Condition()
        self._open: list[Entry] = []  # processed, in the batch that is being filled
        self._is_sealed = False  # the open batch takes no other command
        self._handed: list[Entry] = []  # in the batch that is being committed
        self._refused: list[Entry] = []  # in a batch whose data PostgreSQL refused
        self._is_rebuilding = True
        self._committer = Committer(store, self._change, metrics, idle, lambda: not self._is_rebuilding)
        self._watchdog = Watchdog(commit_timeout_s, lambda: store.busy_since, self._break_off)
        self._suspects = Suspects()
        self._closing = self._is_over = False
        self.ready = False
        self.problem = "the indexes are being rebuilt"
        self.state: EngineState | None = None
        self.committed_seq = 0
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            for work, name in ((self._run, "prosem-engine"), (self._commit, "prosem-committer"))
        ]

    def start(self) -> None:
        for thread in (*self._threads, self._watchdog):
            thread.start()

    def close(self) -> None:
        """Work off what has arrived, commit it and stop. A commit that does not end meanwhile is broken off."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        for attempt in range(2):
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(CLOSE_S)
            if attempt == 0 and any(thread.is_alive() for thread in self._threads):
                self._committer.store.abort()
        self._watchdog.close()
        self._abandon(BusyError("the server has shut down; nothing was applied", retry_after_s=5))

    @property
    def is_alive(self) -> bool:
        """Whether both threads run, or have not been started yet."""
        return all(thread.ident is None or thread.is_alive() for thread in self._threads)

    # -- the rim's side ------------------------------------------------------------------------------------------
    @property
    def notice(self) -> str:
        """What does not work although the engine is ready."""
        hold = self._committer.hold
        return "" if hold is None else hold.problem

    @property
    def backlog(self) -> int:
        """Events and subscriptions that wait."""
        return self._waiting.events

    def submit(self, command: c.Command, parent: str = "") -> Future[Any]:
        """Put a command into the order. BusyError when the buffer is full: nothing was taken.

        `parent` is the trace that the command belongs to.
        """
        journey = None
        if self._trace is not None:
            journey = CommandTrace(type(command).__name__, weight_of(command), parent)
        entry = entry_of(command, journey)
        with self._change:
            if self._closing:
                raise BusyError("the server is shutting down", retry_after_s=5)
            if not self.ready:
                raise RecoveringError(f"the server does not serve yet: {self.problem}")
            self._check_hold(entry)
            self._waiting.admit(entry)
            self._change.notify_all()
        return entry.future

    def _check_hold(self, entry: Entry) -> None:
        hold = self._committer.hold
        if hold is not None and entry.writes:
            raise hold.error()

    # -- the engine thread ---------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            is_open = self._rebuild()
            while is_open:
                is_open = self._step()
        finally:
            with self._change:
                self._is_over = True
                self._change.notify_all()

    def _step(self) -> bool:
        """Do the next thing there is to do. False: all is done."""
        step = self._next()
        if step == "process":
            self._process()
        elif step == "commit":
            self._hand_over()
        elif step == "failed":
            return self._start_over()
        return step != "stop"

    def _next(self) -> str:
        """What to do now: hand over as soon as the committer is free, process as long as the batch has room."""
        committer = self._committer
        with self._change:
            while True:
                committer.check()
                if committer.failure is not None:
                    return "failed"
                if self._open and committer.job is None:
                    return "commit"
                if self._waiting and not self._must_wait():
                    return "process"
                if self._closing and not self._waiting and not self._open and committer.job is None:
                    return "stop"
                self._change.wait()

    def _must_wait(self) -> bool:
        """Whether the next command cannot be processed before the open batch is handed over, or another committed."""
        assert self.state is not None
        batch, first = self.state.batch, self._waiting.first
        if (
            self._is_sealed
            or batch.weight >= self._max_batch
            or batch.writes.size_bytes >= self._max_batch_bytes
        ):
            return True
        if self._suspects.wants_trial(first):
            return bool(self._open) or self._committer.job is not None
        return bool(self._open) and first.size_bytes > self._max_batch_bytes

    def _process(self) -> None:
        for _ in range(64):  # look at the committer now and then
            with self._change:
                if not self._waiting or self._committer.failure is not None or self._must_wait():
                    return
                entry = self._waiting.take()
            self._open.append(entry)
            self._is_sealed = self._suspects.wants_trial(entry)
            self._execute(entry)

    def _execute(self, entry: Entry) -> None:
        """Carry a command out in the open batch."""
        assert self.state is not None
        journey, batch = entry.journey, self.state.batch
        if journey is not None:
            journey.started = now()
            batch.journeys.append(journey)
        try:
            self._suspects.check(entry.command)
            self._check_hold(entry)
            if self._is_sealed and not self._try(entry):
                return
            entry.result = self.state.execute(entry.command)
            if not isinstance(entry.command, c.Publish | c.Transact):
                batch.writes.size_bytes += entry.size_bytes
        except ProsemError as error:
            entry.result = error
            if journey is not None:
                journey.error = error.detail
        except Exception as error:
            log.exception("a command failed in a way it should not: %r", type(entry.command).__name__)
            clear_frames(error.__traceback__)  # their locals refer to the state, which must go
            self._committer.failure = Fault(entry, repr(error))  # the state may be half changed: rebuild it
        if journey is not None:
            journey.processed = now()

    def _try(self, entry: Entry) -> bool:
        """Try in the database what the command would write; all before it is committed. False: start over."""
        assert self.state is not None
        tried = trial(self.state, entry.command)
        if tried is None:
            return True
        failure = self._committer.call(lambda: self._committer.store.probe(tried))
        if isinstance(failure, ResourceError):
            raise self._committer.hold_off(failure, tried)
        if isinstance(failure, RefusedError):
            self._suspects.refused_in_trial(entry.command)
        if isinstance(failure, ProsemError) and not isinstance(failure, CommitError):
            raise failure
        self._committer.failure = failure
        return failure is None

    def _hand_over(self) -> None:
        assert self.state is not None
        batch, entries = self.state.begin(), self._open
        with self._change:
            self._open, self._is_sealed, self._handed = [], False, entries
            self._committer.job = lambda: self._commit_batch(batch, entries)
            self._change.notify_all()

    def _start_over(self) -> bool:
        """Throw away what was processed and not committed, and build the state again. False: the server is closing."""
        with self._change:
            failure = self._committer.take_failure()
            refused, self._refused = self._refused, []
            processed, self._open, self._is_sealed = self._open, [], False
            outcome = sort_out(failure, refused, processed)
            self._waiting.put_back(outcome.again)
            self._is_rebuilding = True
            self.ready = self.ready and outcome.others_wait
            self.problem = outcome.problem
        log.error("starting over after a failure: %s", failure)
        for entry, error in outcome.culprits:
            self._suspects.refused_alone(entry.command, error)
        self._post(lambda: answer(outcome.answers()))
        return self._rebuild()

    def _rebuild(self) -> bool:
        """The state as PostgreSQL has it. False: the server closes, and all that waits is answered."""
        is_start, wait_s = self.state is None, 0.2
        self.state = None  # released before the next one is built: there is never memory for two
        while not self._closing:
            try:
                self.state = self._recover()
                break
            except ProsemError as error:
                self.ready, self.problem = False, error.detail
                if is_start and error.code == "setup":
                    raise
            except Exception as error:
                self.ready, self.problem = False, f"recovery failed ({error}); trying again"
                log.warning("recovery failed, trying again in %.1f s: %s", wait_s, error)
            time.sleep(wait_s)
            wait_s = min(5.0, wait_s * 2)
        if self.state is None:
            self._abandon(BusyError("the server shuts down; nothing was applied", retry_after_s=5))
            return False
        self.metrics.rebuilds += not is_start
        seq = self.committed_seq = self.state.seq
        timeline = self.state.timelines.current
        self._post(lambda: self._outlet.recovered(seq, timeline))
        with self._change:
            self._is_rebuilding = False
            self.ready, self.problem = True, ""
            self._change.notify_all()
        return True

    def _abandon(self, error: ProsemError) -> None:
        """Answer all that has not been handed over; none of it is stored."""
        with self._change:
            self.ready = False
            left = [*self._refused, *self._open, *self._waiting.clear()]
            self._refused, self._open = [], []
            self._change.notify_all()
        if left:
            self._post(lambda: fail(left, error))

    # -- the committer thread ------------------------------------------------------------------------------------
    def _commit(self) -> None:
        self._committer.run(lambda: self._is_over)

    def _commit_batch(self, batch: Batch, entries: list[Entry]) -> BaseException | None:
        failure = self._committer.commit(batch)
        if failure is None:
            self.committed_seq = batch.writes.last_seq
            self._post(lambda: self._deliver(batch, entries))
            with self._change:
                if self.state is not None and not self._closing:
                    self.ready, self.problem = True, ""  # the watchdog may have lost hope
        elif isinstance(failure, RefusedError):
            self._refused = entries  # which of them it was is found out
        else:
            error = _answer_to(failure)
            self._post(lambda: self._failed(batch, entries, error))
        self._handed = []
        return failure

    def _break_off(self, for_s: float) -> None:
        """Called by the watchdog: a commit makes no progress."""
        with self._change:
            if self._committer.job is None:
                return
            self.ready = False
            self.problem = f"a transaction has made no progress for {for_s:.0f} s and is broken off"
        log.error("%s", self.problem)
        self._committer.store.abort()

    def _deliver(self, batch: Batch, entries: list[Entry]) -> None:
        answer([(entry.future, entry.result) for entry in entries])
        self._outlet.release(batch.frames, batch.writes.last_seq)
        if self._trace is not None:
            for journey in batch.journeys:
                journey.delivered = now()
                self._trace(journey)

    def _failed(self, batch: Batch, entries: list[Entry], error: ProsemError) -> None:
        fail(entries, error)
        if self._trace is not None:
            for journey in batch.journeys:
                journey.error = journey.error or error.detail
                self._trace(journey)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            log.critical("%s stopped: %s", threading.current_thread().name, error, exc_info=True)
            with self._change:
                self.problem = str(error)
                if work == self._commit:
                    self._committer.is_dead = True
                    lost, self._handed = self._handed, []
                    unknown = UnknownOutcomeError(
                        f"the committer stopped ({error}): whether it was applied is not known"
                    )
                    self._post(lambda: fail(lost, unknown))
            self._abandon(CommitError(f"the engine stopped: {error}"))


def _answer_to(failure: BaseException) -> ProsemError:
    if isinstance(failure, ResourceError | UnknownOutcomeError):
        return failure
    return CommitError(f"the transaction was not committed ({failure}); send the request again")
