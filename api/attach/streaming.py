"""The stream of a slot: transactions are gathered and handed to the sender, and the source hears of us whatever happens.

Four tasks on one event loop: reading, sending, a tick that confirms and ends, and a look at the source (lag, catalog). None
waits for another's request, so that a transaction that takes minutes to be applied does not end the connection
(wal_sender_timeout), and the lag is as of now under any load.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from api.attach.catalog import Facts, checked, written_facts
from api.attach.pgoutput import Alive, Begin, Commit, Data, Message, Relation
from api.attach.progress import Progress
from api.attach.sending import Sender
from api.attach.slot import Slot, lost_slot
from api.attach.source import Source, SourceTable
from api.attach.target import Target, Transaction
from api.attach.translate import Translation
from prosem.runtime.supervise import end
from prosem.values.errors import ProsemError, SetupError

log = logging.getLogger("prosem.attach")
CONFIRM_S = 5.0  # how often the position moves on while nothing of our tables is written
STATUS_S = 10.0  # how often the source hears of us, at least
LOOK_S = 2.0  # how often the source is asked for the lag and its catalog
TICK_S = 0.05
SLICE = 300  # frames that are read at a time


class Stream:
    """One stream, until `stopped`, or until the log up to `goal` is applied."""

    def __init__(
        self,
        slot: Slot,
        source: Source,
        target: Target,
        tables: Sequence[SourceTable],
        facts: Sequence[Facts],
        progress: Progress,
        stopped: Callable[[], bool],
        goal: int | None,
    ) -> None:
        self._slot, self._source, self._target, self._progress = slot, source, target, progress
        self._stopped, self._goal, self._facts = stopped, goal, facts
        self._translation = Translation(tables)
        self._sender = Sender(target, progress)
        self._arriving: list[bytes] | None = None
        self._arriving_size = 0
        self._begun: datetime | None = None
        self._seen = target.position or 0  # everything of our tables before this position has arrived
        self._definition = target.definition
        self._compared: Sequence[Facts] | None = None  # the facts that it was compared with
        self._confirmed = 0
        self._confirmed_at = self._moved_at = 0.0
        timeout_s = source.sender_timeout_s()
        self._status_s = min(STATUS_S, timeout_s / 4) if timeout_s else STATUS_S
        self._warned = ""

    async def run(self) -> None:
        """Returns when it is stopped or has reached its goal; raises what the first task fails with."""
        tasks = [
            asyncio.create_task(task)
            for task in (self._tick(), self._read(), self._sender.run(), self._watch())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(*tasks)
        failures = [error for task in tasks if not task.cancelled() and (error := task.exception())]
        # What an operator must do something about comes before a connection that was lost at the same moment.
        for error in sorted(failures, key=lambda error: not isinstance(error, ProsemError)):
            raise error
        self._look()
        self._slot.confirm(self._target.position or 0)

    # -- reading -------------------------------------------------------------------------------------------------
    async def _read(self) -> None:
        while True:
            await self._sender.room()
            for _ in range(SLICE):
                frame = self._slot.next()
                if frame is None:
                    await self._readable()
                    break
                self._take(frame)
            else:
                await asyncio.sleep(0)

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._slot.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._slot.fileno())

    def _take(self, frame: Data | Alive) -> None:
        if isinstance(frame, Alive):
            self._seen = max(self._seen, frame.end)
            if frame.wants_reply:
                self._confirm()
        elif frame.message is not None:
            self._message(frame.message)

    def _message(self, message: Message) -> None:
        if isinstance(message, Relation):
            self._translation.relation(message)
        elif isinstance(message, Begin):
            self._arriving, self._arriving_size, self._begun = [], 0, message.at
        elif isinstance(message, Commit):
            assert self._arriving is not None
            events, self._arriving = self._arriving, None
            if (
                events and message.end > self._sender.tail
            ):  # else it was applied before the source sent it again
                self._put(
                    Transaction(self._sender.tail, message.end, self._begun, events, self._arriving_size)
                )
            self._seen = max(self._seen, message.end)
        else:
            assert self._arriving is not None
            for event in self._translation.events(message):
                self._arriving.append(event)
                self._arriving_size += len(event)

    def _put(self, transaction: Transaction) -> None:
        if (
            self._facts is not self._compared
        ):  # they are read again every few seconds, not for each transaction
            self._compared, definition = self._facts, written_facts(self._facts)
            if definition != self._definition:
                transaction.definition = self._definition = definition
        self._sender.put(transaction)
        self._moved_at = time.monotonic()

    # -- the source hears of us ----------------------------------------------------------------------------------
    async def _tick(self) -> None:
        while not self._stopped() and (self._goal is None or (self._target.position or 0) < self._goal):
            now, position = time.monotonic(), self._target.position or 0
            is_moved = position > self._confirmed and now - self._confirmed_at > 1.0
            if is_moved or now - self._confirmed_at > self._status_s:
                self._confirm()
            self._pass_over(now)
            await asyncio.sleep(TICK_S)

    def _confirm(self) -> None:
        self._confirmed, self._confirmed_at = self._target.position or 0, time.monotonic()
        self._slot.confirm(self._confirmed)

    def _pass_over(self, now: float) -> None:
        """What the source wrote for others is passed over from time to time, so that it can forget it."""
        is_due = now - self._moved_at > CONFIRM_S or (self._goal is not None and self._seen >= self._goal)
        if is_due and not self._sender.waiting and self._arriving is None and self._seen > self._sender.tail:
            self._put(Transaction(self._sender.tail, self._seen))

    # -- progress -----------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        """The lag as of now, and whether the tables are still those that were copied."""
        self._facts = checked(self._source.connection, self._source.publication, self._facts)
        lag = self._source.lag()
        if lag is None:
            raise SetupError(lost_slot(self._source.slot_name, "it was dropped"))
        progress, oldest = self._progress, self._oldest()
        progress.lag_bytes = max(0, lag.end - (self._target.position or 0))
        progress.lag_s = 0.0 if oldest is None else max(0.0, (lag.clock - oldest).total_seconds())
        progress.kept_bytes, progress.safe_bytes = lag.kept, lag.safe
        if lag.status != self._warned and lag.status in ("unreserved", "lost"):
            log.warning(
                "the source is about to give the slot %s up (wal_status %s): %s bytes of log are kept for it, more than its"
                " max_slot_wal_keep_size allows", self._source.slot_name, lag.status, lag.kept
            )  # fmt: skip
        self._warned = lag.status

    def _oldest(self) -> datetime | None:
        """When the oldest transaction was committed that has arrived and is not applied."""
        for transaction in tuple(self._sender.waiting):
            if transaction.at is not None:
                return transaction.at
        return self._begun if self._arriving is not None else None
