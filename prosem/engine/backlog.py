"""Commands that wait for the engine, bounded in events and in bytes.

A request counts for at most half of the room: a large one delays others, and does not have them refused. A read that may go
`ahead` is taken first: it changes nothing, and nothing that waits was acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from prosem.engine import commands as c
from prosem.engine.drain import Drain
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.runtime.trace import CommandTrace
from prosem.values.errors import BusyError, TooLargeError

EVENT_BYTES = 100  # of a command whose size is not known, per event


@dataclass(slots=True)
class Entry:
    """A command on its way, until its future has an answer."""

    command: c.Command
    weight: int
    size_bytes: int
    command_trace: CommandTrace | None = None
    future: Future[Any] = field(default_factory=Future)
    result: Any = None
    is_suspect: bool = False
    """It was in a batch that PostgreSQL refused: it is tried alone, before memory takes it."""

    @property
    def writes(self) -> bool:
        return writes(self.command)


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """How much may wait, how much one batch takes, and how long its commit may go without progress."""

    max_backlog: int = 50_000
    max_backlog_bytes: int = 128 << 20
    max_batch: int = 2_000
    max_batch_bytes: int = 4 << 20
    max_request_events: int = 1_000_000
    commit_timeout_s: float = 60.0


class Backlog:
    """Used under the engine's lock."""

    def __init__(self, limits: EngineLimits, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_events, self._max_bytes = limits.max_backlog, limits.max_backlog_bytes
        self._max_request_events = limits.max_request_events
        self._queue: deque[Entry] = deque()
        self._ahead: deque[Entry] = deque()
        self.drain = Drain(clock.monotonic)
        self.events = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._ahead) + len(self._queue)

    @property
    def first(self) -> Entry:
        return (self._ahead or self._queue)[0]

    def next(self, most: int, events: int) -> list[Entry]:
        """Some commands that will be taken soon, in their order, with about so many events."""
        found: list[Entry] = []
        for entry in islice(self._queue, most):
            found.append(entry)
            events -= entry.weight
            if events <= 0:
                break
        return found

    def admit(self, entry: Entry) -> None:
        """Take a command; BusyError if there is no room for it, TooLargeError if there never is."""
        if isinstance(entry.command, c.Publish | c.Transact) and entry.weight > self._max_request_events:
            raise TooLargeError(
                f"the request has {entry.weight} events, and a transaction at most {self._max_request_events}: "
                "send fewer at a time, or raise --max-request-events",
                "/events",
            )
        if is_ahead(entry.command):
            if len(self._ahead) >= self._max_events:
                raise self._busy(f"{len(self._ahead)} reads")
            self._ahead.append(entry)
            return
        events, size_bytes = self._counted(entry)
        if self._queue and self.events + events > self._max_events:
            raise self._busy(f"{self.events} events")
        if self._queue and self.size_bytes + size_bytes > self._max_bytes:
            raise self._busy(f"{self.size_bytes >> 20} MiB")
        self._queue.append(entry)
        self.events += events
        self.size_bytes += size_bytes

    def _busy(self, what: str) -> BusyError:
        wait_s = self.drain.wait_s(self.events)
        return BusyError(
            f"{what} wait; send again after {wait_s} s, or in smaller requests", retry_after_s=wait_s
        )

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Commands that are carried out again, before all that wait."""
        for entry in reversed(list(entries)):
            self._queue.appendleft(entry)
            self._count(entry, 1)

    def take(self) -> Entry:
        if self._ahead:
            return self._ahead.popleft()
        entry = self._queue.popleft()
        self._count(entry, -1)
        self.drain.taken(entry.weight, is_last=not self._queue)
        return entry

    def clear(self) -> list[Entry]:
        """Take all."""
        return [self.take() for _ in range(len(self))]

    def _count(self, entry: Entry, sign: int) -> None:
        events, size_bytes = self._counted(entry)
        self.events += sign * events
        self.size_bytes += sign * size_bytes

    def _counted(self, entry: Entry) -> tuple[int, int]:
        return min(entry.weight, max(1, self._max_events // 2)), min(entry.size_bytes, self._max_bytes // 2)


def entry_of(command: c.Command, command_trace: CommandTrace | None = None) -> Entry:
    weight = weight_of(command)
    size_bytes = command.size_bytes if isinstance(command, c.Publish | c.Transact) else 0
    return Entry(command, weight, size_bytes or weight * EVENT_BYTES, command_trace)


def weight_of(command: c.Command) -> int:
    """Events, or subscriptions."""
    if isinstance(command, c.Publish | c.Transact):
        return len(command.events) or 1
    return len(command.rows) if isinstance(command, c.Subscribe) else 1


def is_ahead(command: c.Command) -> bool:
    """Whether the command may pass those that wait."""
    return isinstance(command, c.Result) and command.ahead


def writes(command: c.Command) -> bool:
    """Whether the command changes what is stored."""
    return not isinstance(command, c.Result | c.Attach | c.Inspect | c.Explain | c.Adopt)
