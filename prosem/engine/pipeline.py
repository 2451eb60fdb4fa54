"""The pipeline as steps: buffer → apply → choose → process → commit → inject.

The engine's steps own the state and work the commands off in one order; the committer's steps write each batch in one
transaction; batch k + 1 is processed while batch k commits, and nothing leaves before its commit. A batch takes whatever
has arrived meanwhile (group commit). When PostgreSQL refuses a batch, what it and everything processed after it changed in
memory is taken back by their undo logs. When the connection broke, or a command failed half-way by a fault of the server,
the state is thrown away and rebuilt from PostgreSQL. What becomes of the commands depends on the failure (`failures`).

No step starts a thread, sleeps or waits for another step: `engine` calls them from two threads, a test from one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from traceback import clear_frames
from typing import Any

from prosem.engine import commands as c
from prosem.engine.backlog import Backlog, EngineLimits, Entry, entry_of
from prosem.engine.batch import Batch
from prosem.engine.committer import Committer, Step, Store, Trial
from prosem.engine.failures import Fault, reply_to, sort_out
from prosem.engine.outlet import Outlet, Post, Results
from prosem.engine.publishing import read_ahead
from prosem.engine.state import EngineState
from prosem.engine.suspects import Suspects, trial_writes
from prosem.engine.view import EngineView, next_view, whole_view
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.runtime.metrics import Metrics
from prosem.runtime.trace import TraceSink
from prosem.values.errors import (
    BusyError,
    CommitError,
    ProsemError,
    RecoveringError,
    RefusedError,
    ResourceError,
)

log = logging.getLogger("prosem.engine")
Submit = Callable[[c.Command], "Future[Any]"]
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 5.0  # between attempts to recover
AT_ONCE = 64  # commands that are processed in one step
GATHER_S = 0.001  # that a batch is filled for while the committer has nothing to do


class Pipeline:
    """`recover` makes the state from PostgreSQL, given the last committed seq; `post` runs a callable on the thread
    that owns the network side; `idle` is called by the committer after each batch, for housekeeping; `trace` is called
    with every command's trace, on the thread of the network side."""

    def __init__(
        self,
        store: Store,
        recover: Callable[[int], EngineState],
        post: Post,
        outlet: Outlet,
        metrics: Metrics,
        *,
        limits: EngineLimits = EngineLimits(),  # noqa: B008 - frozen
        idle: Callable[[int], None] = lambda seq: None,
        trace: TraceSink | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._recover, self._results = recover, Results(post, outlet, trace, clock)
        self.metrics, self._clock, self._limits = metrics, clock, limits
        self._waiting = Backlog(limits, clock)
        self._change = threading.Condition()
        self._open: list[Entry] = []  # processed, in the batch that is being filled
        self._is_sealed = False  # the open batch takes no other command
        self._trial: Trial | None = None  # of the command that the open batch is sealed for
        self._handed: list[Entry] = []  # in the batch that is being committed
        self._refused: list[Entry] = []  # in a batch whose data PostgreSQL refused
        self._uncommitted: Batch | None = None  # whose commit failed
        self._is_broken = False  # a command has failed half-way: the state cannot be undone
        self._is_rebuilding = True
        self._has_recovered = False
        self._recover_at, self._recover_wait_s = clock.monotonic(), FIRST_WAIT_S
        self.committer = Committer(store, self._change, metrics, idle, lambda: not self._is_rebuilding, clock)
        self._suspects = Suspects(clock.monotonic)
        self._closing = self.is_over = False
        self.ready = False
        self.problem = "the indexes are being rebuilt"
        self.state: EngineState | None = None
        self._view: EngineView | None = None
        self._next_view = EngineView()  # after the batch that was handed over last
        self.committed_seq = 0

    # -- the rim's side ------------------------------------------------------------------------------------------
    @property
    def notice(self) -> str:
        """What does not work although the engine is ready."""
        hold = self.committer.hold
        return "" if hold is None else hold.problem

    @property
    def view(self) -> EngineView:
        """What is stored, as far as it may be read from any thread; RecoveringError while it is being rebuilt."""
        view = self._view
        if view is None:
            raise RecoveringError(f"the server does not serve yet: {self.problem}")
        return view

    @property
    def backlog(self) -> int:
        """Events and subscriptions that wait."""
        return self._waiting.events

    def submit(self, command: c.Command, parent: str = "") -> Future[Any]:
        """Put a command into the order. BusyError when the buffer is full: nothing was taken.

        `parent` is the trace that the command belongs to.
        """
        entry = entry_of(command, self._results.command_trace(command, parent))
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
        hold = self.committer.hold
        if hold is not None and entry.writes:
            raise hold.error()

    # -- steps ---------------------------------------------------------------------------------------------------
    def next(self) -> Step | None:
        """What the engine does now; None: nothing, until something arrives, the committer is done or `wait_s` is over."""
        committer = self.committer
        with self._change:
            committer.check()
            if self.is_over:
                return None
            if self._is_rebuilding:
                if self._closing:
                    return self._stop
                return self._rebuild if self._clock.monotonic() >= self._recover_at else None
            is_free = committer.job is None
            if committer.failure is not None:
                return self._start_over if is_free else None
            if self._trial is not None:
                return partial(self._end_trial, self._trial) if is_free else None
            if self._open and is_free:
                return self._hand_over
            if self._waiting and not self._must_wait():
                return self._process
            is_done = is_free and not self._waiting and not self._open
            return self._stop if self._closing and is_done else None

    def wait_s(self) -> float | None:
        """How long the engine has nothing to do if nothing arrives; None: for ever."""
        return max(0.0, self._recover_at - self._clock.monotonic()) if self._is_rebuilding else None

    def step(self) -> bool:
        """Do the next thing there is to do; False: there is nothing."""
        work = self.next()
        if work is not None:
            work()
        return work is not None

    def end(self) -> None:
        """Take no more commands: once what has arrived is worked off, `is_over`."""
        with self._change:
            self._closing = True
            self._change.notify_all()

    @property
    def _memory(self) -> EngineState:
        if self.state is None:
            raise RecoveringError(f"the server does not serve yet: {self.problem}")
        return self.state

    def _must_wait(self) -> bool:
        """Whether the next command cannot be processed before the open batch is handed over, or another committed."""
        batch, first, limits = self._memory.batch, self._waiting.first, self._limits
        if (
            self._is_sealed
            or batch.weight >= limits.max_batch
            or batch.writes.size_bytes >= limits.max_batch_bytes
        ):
            return True
        if self._suspects.wants_trial(first, self._memory.table_store):
            return bool(self._open) or self.committer.job is not None
        return bool(self._open) and first.size_bytes > limits.max_batch_bytes

    # -- processing ----------------------------------------------------------------------------------------------
    def _read_ahead(self) -> None:
        """Columns that are not in memory are read for all requests that wait, as far as they fit a batch."""
        if self._memory.table_store.stored is None:
            return
        with self._change:
            waiting = self._waiting.next(AT_ONCE, self._limits.max_batch)
        if len(waiting) > 1:
            try:
                read_ahead(self._memory, [entry.command for entry in waiting])
            except BusyError as error:  # a command that needs it meets it again
                log.warning("columns could not be read ahead: %s", error.detail)

    def _process(self) -> None:
        self._read_ahead()
        committer, until = self.committer, self._clock.monotonic() + GATHER_S
        for _ in range(AT_ONCE):  # look at the committer now and then
            with self._change:
                if not self._waiting or committer.failure is not None or self._must_wait():
                    return
                if self._open and committer.job is None and self._clock.monotonic() >= until:
                    return
                entry = self._waiting.take()
            self._open.append(entry)
            self._is_sealed = self._suspects.wants_trial(entry, self._memory.table_store)
            if entry.command_trace is not None:
                entry.command_trace.started = self._clock.wall_ns()
                self._memory.batch.command_traces.append(entry.command_trace)
            self._attempt(entry, self._begin)

    def _attempt(self, entry: Entry, work: Callable[[Entry], None]) -> None:
        try:
            work(entry)
        except CommitError as error:  # memory and the database differ
            self.committer.failure = error
        except ProsemError as error:
            entry.result = error
            if entry.command_trace is not None:
                entry.command_trace.error = error.detail
        except Exception as error:
            log.exception("a command failed in a way it should not: %r", type(entry.command).__name__)
            clear_frames(error.__traceback__)  # their locals refer to the state, which must go
            self._is_broken = True
            self.committer.failure = Fault(entry, repr(error))
        if entry.command_trace is not None:
            entry.command_trace.processed = self._clock.wall_ns()

    def _begin(self, entry: Entry) -> None:
        """Carry a command out in the open batch, or have it tried first; all before it is committed then."""
        self._suspects.check(entry.command)
        self._check_hold(entry)
        writes = trial_writes(self._memory, entry.command) if self._is_sealed else None
        if writes is None:
            self._carry_out(entry)
        else:
            self._trial = Trial(entry, writes)
            self.committer.give(partial(self.committer.probe, self._trial))

    def _end_trial(self, trial: Trial) -> None:
        self._trial = None
        self._attempt(trial.entry, lambda entry: self._after_trial(entry, trial))

    def _after_trial(self, entry: Entry, trial: Trial) -> None:
        failure = trial.failure
        if failure is None:
            self._carry_out(entry)
            return
        if isinstance(failure, ResourceError):
            raise self.committer.hold_off(failure, trial.writes)
        if isinstance(failure, RefusedError):
            self._suspects.refused_in_trial(entry.command)
        if isinstance(failure, ProsemError) and not isinstance(failure, CommitError):
            raise failure
        self.committer.failure = failure

    def _carry_out(self, entry: Entry) -> None:
        memory = self._memory
        entry.result = memory.execute(entry.command)
        if not isinstance(entry.command, c.Publish | c.Transact):
            memory.batch.writes.size_bytes += entry.size_bytes

    # -- committing ----------------------------------------------------------------------------------------------
    def _hand_over(self) -> None:
        batch, entries = self._memory.begin(), self._open
        view = next_view(self._next_view, self._memory, batch.writes)
        with self._change:
            self._open, self._is_sealed, self._handed = [], False, entries
            self._next_view = view
            self.committer.give(partial(self._commit_batch, batch, entries, view))

    def _commit_batch(self, batch: Batch, entries: list[Entry], view: EngineView) -> BaseException | None:
        """The committer's job."""
        failure = self.committer.commit(batch)
        if failure is None:
            batch.undo.clear()
            self.committed_seq, self._view = batch.writes.last_seq, view
            self._results.committed(batch, entries)
            with self._change:
                if self.state is not None and not self._closing:
                    self.ready, self.problem = True, ""  # the watchdog may have found it stuck
        else:
            self._uncommitted = batch
            if isinstance(failure, RefusedError | ResourceError):
                self._refused = entries  # which of them it was is found out; reads are carried out again
            else:
                self._results.failed(entries, reply_to(failure), batch)
        self._handed = []
        return failure

    # -- starting over -------------------------------------------------------------------------------------------
    def _start_over(self) -> None:
        """Take back what was processed and not committed, or have the state built again by the next step."""
        with self._change:
            failure = self.committer.take_failure()
            if failure is None:
                return
            refused, self._refused = self._refused, []
            batch, self._uncommitted = self._uncommitted, None
            processed, self._open, self._is_sealed, self._trial = self._open, [], False, None
            outcome = sort_out(failure, refused, processed)
            self._waiting.put_back(outcome.again)
            is_undone = isinstance(failure, RefusedError | ResourceError) and not self._is_broken
            if not is_undone:
                self._rebuild_next(outcome.problem, outcome.others_wait)
                if batch is not None:
                    batch.undo.clear()  # it refers to the state, which must go
        log.error("starting over after a failure: %s", failure)
        if is_undone:
            self._take_back(batch)
        for entry, error in outcome.culprits:
            self._suspects.refused_alone(entry.command, error)
        self._results.answer(outcome.answers())

    def _take_back(self, batch: Batch | None) -> None:
        """The state as of the last commit; it is rebuilt if that fails, which is a fault of ours."""
        try:
            self._memory.take_back(batch)
        except Exception as error:
            log.exception("a batch could not be undone, and the state is rebuilt")
            clear_frames(error.__traceback__)
            with self._change:
                self._rebuild_next("a batch could not be undone, and the indexes are being rebuilt")
            return
        self.metrics.undone += 1
        self._next_view = self.view

    def _rebuild_next(self, problem: str, others_wait: bool = True) -> None:
        self._is_rebuilding = True
        self._recover_at, self._recover_wait_s = self._clock.monotonic(), FIRST_WAIT_S
        self.ready = self.ready and others_wait
        self.problem = problem

    def _rebuild(self) -> None:
        """The state as PostgreSQL has it; if that fails, it is tried again later."""
        self._view = None
        if self.state is not None:
            self.state.undo.cut()  # refers to the state
        self.state = None  # released before the next one is built: there is never memory for two
        try:
            state = self._recover(self.committed_seq)
        except Exception as error:
            self._recover_later(error)
            return
        self.state, self._is_broken = state, False
        self._view = self._next_view = whole_view(state)
        self.metrics.rebuilds += self._has_recovered
        self._has_recovered = True
        seq = self.committed_seq = state.seq
        self._results.recovered(seq, state.timelines.current)
        with self._change:
            self._is_rebuilding = False
            self.ready, self.problem = True, ""
            self._change.notify_all()

    def _recover_later(self, error: Exception) -> None:
        self.ready = False
        if isinstance(error, ProsemError):
            self.problem = error.detail
            if not self._has_recovered and error.code == "setup":
                raise error
        else:
            self.problem = f"recovery failed ({error}); trying again"
            log.warning("recovery failed, trying again in %.1f s: %s", self._recover_wait_s, error)
        self._recover_at = self._clock.monotonic() + self._recover_wait_s
        self._recover_wait_s = min(LONGEST_WAIT_S, self._recover_wait_s * 2)

    def _stop(self) -> None:
        """All is done; what waits for a state that will not come is answered."""
        self._abandon(BusyError("the server shuts down; nothing was applied", retry_after_s=5))
        with self._change:
            self.is_over = True
            self._change.notify_all()

    def _abandon(self, error: ProsemError) -> None:
        """Answer all that has not been handed over; none of it is stored."""
        with self._change:
            self.ready = False
            left = [*self._refused, *self._open, *self._waiting.clear()]
            self._refused, self._open = [], []
            self._change.notify_all()
        self._results.failed(left, error)
