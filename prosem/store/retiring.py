"""Retention in a thread of its own: asked for between batches, never waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, MutableMapping

from prosem.runtime.supervise import supervise_thread
from prosem.store.retention import Retention
from prosem.store.session import Session
from prosem.values.errors import ProsemError

log = logging.getLogger("prosem.retention")
AGAIN_S = 10.0  # after an attempt that failed, or left partitions that other sessions read
TRIM_EVERY = 10  # measurements are counted anew after a tenth as many events as are kept


class Retiring:
    """`retired` is called with the new `retained_after`, on this thread."""

    def __init__(
        self, session: Session, retired: Callable[[int], None], restarts: MutableMapping[str, int]
    ) -> None:
        self._retention = Retention(session)
        self._retired = retired
        self._change = threading.Condition()
        self._before_seq = self._measurements = self._trimmed = 0
        self._is_trim_due, self._closing = False, threading.Event()
        self._thread = supervise_thread("retention", self._run, restarts, self._closing)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._change:
            self._closing.set()
            self._change.notify_all()
        if self._thread.is_alive():
            self._thread.join(30)
        self._retention.close()

    def request(self, before_seq: int, measurements: int, last_seq: int) -> None:
        """Forget what only seqs before this need (0: nothing), and all but so many measurements."""
        is_trim_due = not self._trimmed or (last_seq - self._trimmed) * TRIM_EVERY > measurements
        if not is_trim_due and before_seq <= self._before_seq:
            return
        with self._change:
            self._before_seq = max(self._before_seq, before_seq)
            if is_trim_due:
                self._is_trim_due, self._trimmed, self._measurements = True, last_seq, measurements
            self._change.notify_all()

    def _run(self) -> None:
        done, wait_s = 0, None
        while True:
            with self._change:
                if (
                    not self._closing.is_set()
                    and not self._is_trim_due
                    and (wait_s or self._before_seq <= done)
                ):
                    self._change.wait(wait_s)
                if self._closing.is_set():
                    return
                before_seq, is_trim_due, self._is_trim_due = self._before_seq, self._is_trim_due, False
            wait_s = None
            try:
                if is_trim_due:
                    self._retention.trim(self._measurements)
                if before_seq > done or self._retention.is_behind:
                    self._retired(self._retention.retire(before_seq))
                    done = before_seq
                if self._retention.is_behind:
                    wait_s = AGAIN_S
            except ProsemError as error:
                log.warning("what is no longer needed could not be dropped: %s", error)
                wait_s = AGAIN_S
