"""What follows a commit, or a failure: replies to callers, frames for the network side, traces. Posted to one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from prosem.engine import commands as c
from prosem.engine.backlog import Entry, weight_of
from prosem.engine.batch import Batch
from prosem.engine.failures import answer, fail
from prosem.runtime.clock import Clock
from prosem.runtime.slices import Work
from prosem.runtime.trace import CommandTrace, TraceSink
from prosem.values.errors import ProsemError

Post = Callable[[Work], Any]


class Outlet(Protocol):
    """What follows a commit, on the loop's side."""

    def release(self, frames: list[c.Frame], seq: int) -> Iterator[None]:
        """Frames in order, in small steps; after them everything up to `seq` is out."""

    def recovered(self, seq: int, timeline: str = "") -> None:
        """The state was rebuilt as of `seq` of a timeline; frames may have been lost on the way there."""


class Results:
    """`post` does work on the thread that owns the network side, in the order of the calls."""

    def __init__(self, post: Post, outlet: Outlet, trace: TraceSink | None, clock: Clock) -> None:
        self._post, self._outlet, self._trace, self._clock = post, outlet, trace, clock

    def command_trace(self, command: c.Command, parent: str) -> CommandTrace | None:
        """The trace of a command that has just arrived; None if nothing is traced."""
        if self._trace is None:
            return None
        return CommandTrace(type(command).__name__, weight_of(command), parent, self._clock.wall_ns())

    def committed(self, batch: Batch, entries: Sequence[Entry]) -> None:
        self._post(partial(self._deliver, batch, entries))

    def recovered(self, seq: int, timeline: str) -> None:
        self._post(lambda: self._outlet.recovered(seq, timeline))

    def failed(self, entries: Sequence[Entry], error: ProsemError, batch: Batch | None = None) -> None:
        if entries:
            self._post(partial(self._fail, entries, error, batch))

    def answer(self, replies: Sequence[tuple[Future[Any], Any]]) -> None:
        self._post(partial(answer, replies))

    def _deliver(self, batch: Batch, entries: Sequence[Entry]) -> Iterator[None]:
        answer([(entry.future, entry.result) for entry in entries])
        yield from self._outlet.release(batch.frames, batch.writes.last_seq)
        if self._trace is not None:
            for command_trace in batch.command_traces:
                command_trace.delivered = self._clock.wall_ns()
                self._trace(command_trace)

    def _fail(self, entries: Sequence[Entry], error: ProsemError, batch: Batch | None) -> None:
        fail(entries, error)
        if self._trace is not None and batch is not None:
            for command_trace in batch.command_traces:
                command_trace.error = command_trace.error or error.detail
                self._trace(command_trace)
