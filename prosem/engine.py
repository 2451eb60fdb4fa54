"""The pipeline: buffer → apply → choose → process → commit → inject.

One engine thread owns the state and works the commands off in one order; one committer thread writes each batch in one
transaction; batch k + 1 is processed while batch k commits, and nothing leaves before its commit. A batch takes whatever
has arrived meanwhile (group commit). When a commit fails, the batch, everything processed after it and the state in memory
are thrown away, the state is rebuilt from PostgreSQL, and the commands that were thrown away are answered with an error.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from traceback import clear_frames
from typing import Any, Protocol

from prosem import commands as c
from prosem.batch import Batch
from prosem.errors import BusyError, CommitError, ProsemError, RecoveringError
from prosem.journey import Journey, Trace, now
from prosem.metrics import Metrics
from prosem.state import State
from prosem.store.log import WriteSet

log = logging.getLogger("prosem.engine")
Reply = tuple["Future[Any]", Any]
Submit = Callable[[c.Command], "Future[Any]"]


class Store(Protocol):
    """Where batches become durable."""

    def write(self, writes: WriteSet) -> None:
        """One transaction; an error means that nothing of it was committed."""


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
        recover: Callable[[], State],
        post: Callable[[Callable[[], None]], Any],
        outlet: Outlet,
        metrics: Metrics,
        *,
        max_backlog: int = 50_000,
        max_batch: int = 2_000,
        idle: Callable[[int], None] = lambda seq: None,
        trace: Trace | None = None,
    ) -> None:
        self._store, self._recover, self._post, self._outlet = store, recover, post, outlet
        self.metrics = metrics
        self._max_backlog, self._max_batch, self._idle = max_backlog, max_batch, idle
        self._trace = trace
        self._queue: deque[tuple[c.Command, Future[Any], int, Journey | None]] = deque()
        self._change = threading.Condition()
        self.backlog = 0  # events and subscriptions that wait
        self._committing: tuple[Batch, list[Reply]] | None = None
        self._failure: BaseException | None = None
        self._closing = False
        self.ready = False
        self.problem = "the indexes are being rebuilt"
        self.state: State | None = None
        self.committed_seq = 0
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            for work, name in ((self._run, "prosem-engine"), (self._commit_all, "prosem-committer"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Work off what has arrived, commit it and stop."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        wait_s = 30 if self.is_alive else 2  # one thread without the other never ends
        for thread in self._threads:
            if thread.is_alive():
                thread.join(wait_s)

    @property
    def is_alive(self) -> bool:
        """Whether both threads run, or have not been started yet."""
        return all(thread.ident is None or thread.is_alive() for thread in self._threads)

    # -- the rim's side ------------------------------------------------------------------------------------------
    def submit(self, command: c.Command, parent: str = "") -> Future[Any]:
        """Put a command into the order. BusyError when the buffer is full: nothing was taken.

        `parent` is the trace that the command belongs to.
        """
        weight = _weight(command)
        with self._change:
            if self._closing:
                raise BusyError("the server is shutting down", retry_after_s=5)
            if not self.ready:
                raise RecoveringError(f"the server does not serve yet: {self.problem}")
            if self.backlog and self.backlog + weight > self._max_backlog:
                raise BusyError(
                    f"{self.backlog} events wait; send again after a second, or in smaller requests"
                )
            future: Future[Any] = Future()
            journey = None if self._trace is None else Journey(type(command).__name__, weight, parent)
            self._queue.append((command, future, weight, journey))
            self.backlog += weight
            self._change.notify_all()
        return future

    # -- the engine thread ---------------------------------------------------------------------------------------
    def _run(self) -> None:
        self._rebuild()
        replies: list[Reply] = []
        while True:
            step = self._next(bool(replies))
            if step == "stop":
                return
            if step == "failed":
                self._start_over(replies)
                replies = []
            elif step == "commit":
                assert self.state is not None
                batch, replies = (self.state.begin(), replies), []
                with self._change:
                    self._committing = batch
                    self._change.notify_all()
            else:
                self._process(replies)

    def _next(self, pending: bool) -> str:
        """What to do now: hand over as soon as the committer is free, process as long as the batch has room."""
        with self._change:
            while True:
                if self._failure is not None:
                    return "failed"
                if pending and self._committing is None:
                    return "commit"
                room = self.state is not None and self.state.batch.weight < self._max_batch
                if self._queue and room and not self._stands_alone(pending):
                    return "process"
                if self._closing and not self._queue and not pending and self._committing is None:
                    return "stop"
                self._change.wait()

    def _stands_alone(self, pending: bool) -> bool:
        """A change of the schema is a batch of its own."""
        assert self.state is not None
        writes = self.state.batch.writes
        is_ddl = isinstance(self._queue[0][0], c.CreateTable | c.DropTable)
        return writes.created is not None or writes.dropped is not None or (is_ddl and pending)

    def _process(self, replies: list[Reply]) -> None:
        assert self.state is not None
        for _ in range(64):  # look at the committer now and then
            with self._change:
                if not self._queue or self._stands_alone(bool(replies)) or self._failure is not None:
                    return
                command, future, weight, journey = self._queue.popleft()
                self.backlog -= weight
            if journey is not None:
                journey.started = now()
                self.state.batch.journeys.append(journey)
            try:
                replies.append((future, self.state.execute(command)))
            except ProsemError as error:
                replies.append((future, error))
                if journey is not None:
                    journey.error = error.detail
            except Exception as error:
                log.exception("a command failed in a way it should not: %r", type(command).__name__)
                clear_frames(error.__traceback__)  # their locals refer to the state, which must go
                self._failure = RuntimeError(repr(error))  # the state may be half changed: rebuild it
                replies.append((future, CommitError(f"internal error: {error!r}; nothing was applied")))
                return
            if journey is not None:
                journey.processed = now()
            if self.state.batch.weight >= self._max_batch:
                return

    def _start_over(self, replies: list[Reply]) -> None:
        """Throw away what was processed and not committed, and build the state again."""
        with self._change:
            self._change.wait_for(lambda: self._committing is None)
            failure, self._failure = self._failure, None
            self.ready, self.problem = False, "the database failed and the indexes are being rebuilt"
        log.error("starting over after a failure: %s", failure)
        error = CommitError(f"the transaction was not committed ({failure}); send the request again")
        self._post(lambda: _answer([(future, error) for future, _ in replies]))
        self._rebuild()

    def _rebuild(self) -> None:
        is_start, wait_s = self.state is None, 0.2
        self.state = None  # released before the next one is built: there is never memory for two
        while not self._closing:
            try:
                self.state = self._recover()
                break
            except ProsemError as error:
                if is_start and error.code == "setup":
                    self.problem = error.detail
                    raise
                self.problem = error.detail
            except Exception as error:
                self.problem = f"recovery failed ({error}); trying again"
                log.warning("recovery failed, trying again in %.1f s: %s", wait_s, error)
            time.sleep(wait_s)
            wait_s = min(5.0, wait_s * 2)
        if self.state is None:
            return
        seq = self.committed_seq = self.state.seq
        timeline = self.state.timelines.current
        self._post(lambda: self._outlet.recovered(seq, timeline))
        with self._change:
            self.ready, self.problem = True, ""
            self._change.notify_all()

    # -- the committer thread ------------------------------------------------------------------------------------
    def _commit_all(self) -> None:
        while True:
            with self._change:
                while self._committing is None:
                    if self._closing and not self._threads[0].is_alive():
                        return
                    self._change.wait(0.2 if self._closing else None)
                batch, replies = self._committing
            failure = self._commit(batch)
            if failure is None:
                self.committed_seq = batch.writes.last_seq
                self._post(lambda b=batch, r=replies: self._deliver(b, r))  # type: ignore[misc]
            else:
                error = CommitError(f"the transaction was not committed ({failure}); send the request again")
                for journey in batch.journeys:
                    journey.error = journey.error or error.detail
                self._post(lambda b=batch, r=replies, e=error: self._failed(b, r, e))  # type: ignore[misc]
            with self._change:
                self._committing = None
                self._failure = failure or self._failure
                self._change.notify_all()

    def _commit(self, batch: Batch) -> BaseException | None:
        if batch.writes.is_empty():
            return None
        start = time.perf_counter()
        for journey in batch.journeys:
            journey.commit = now()
        try:
            self._store.write(batch.writes)
        except Exception as error:
            log.error("commit of %d events failed: %s", len(batch.writes.events), error)
            return error
        for journey in batch.journeys:
            journey.committed = now()
        self.metrics.commits += 1
        self.metrics.commit_seconds += time.perf_counter() - start
        try:
            self._idle(batch.writes.last_seq)
        except ProsemError as error:
            log.warning("what is no longer needed could not be dropped: %s", error)
        return None

    def _deliver(self, batch: Batch, replies: list[Reply]) -> None:
        _answer(replies)
        self._outlet.release(batch.frames, batch.writes.last_seq)
        if self._trace is not None:
            for journey in batch.journeys:
                journey.delivered = now()
                self._trace(journey)

    def _failed(self, batch: Batch, replies: list[Reply], error: CommitError) -> None:
        _answer([(future, error) for future, _ in replies])
        if self._trace is not None:
            for journey in batch.journeys:
                self._trace(journey)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            log.critical("%s stopped: %s", threading.current_thread().name, error, exc_info=True)
            with self._change:
                self.ready, self.problem = False, str(error)
                waiting = [future for _, future, _, _ in self._queue]
                self._queue.clear()
            stopped = CommitError(f"the engine stopped: {error}")
            self._post(lambda: _answer([(future, stopped) for future in waiting]))


def _answer(replies: list[Reply]) -> None:
    for future, result in replies:
        if future.set_running_or_notify_cancel():
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


def _weight(command: c.Command) -> int:
    if isinstance(command, c.Publish | c.Transact):
        return len(command.events) or 1
    return len(command.rows) if isinstance(command, c.Subscribe) else 1
