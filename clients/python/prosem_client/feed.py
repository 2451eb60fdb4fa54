"""What one subscription has received from the stream and not yet consumed. No I/O.

Invariant: the seqs of the queued frames increase, all are at most `received`, and together with what was
consumed they are everything the server has told up to `received`. A frame that would break it is dropped
(told before) or refused (the queue is full).
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import pairwise
from typing import Any, NamedTuple


class Frame(NamedTuple):
    """A change, a snapshot or raw messages as the server sends them."""

    seq: int
    payload: Any
    is_snapshot: bool
    timeline: str | None = None  # that `seq` is of; None: of a server that has none


class Feed:
    """A bounded queue of frames between the shared socket and one consumer.

    When the consumer is too slow the feed stops listening, keeps what it has, and asks again from `received`
    once that is consumed. So a slow consumer costs at most `limit` frames of memory and never holds up
    another one.
    """

    def __init__(
        self,
        id: str,
        received: int | None,
        limit: int,
        *,
        is_raw: bool = False,
        timeline: str | None = None,
    ) -> None:
        self.id = id
        self.timeline = timeline  # that `received` is of
        self.is_raw = is_raw
        self.received = received
        self.limit = limit
        self.is_wanted = False  # the consumer wants to be told; the stream attaches it when it can
        self.is_listening = False  # it is attached on the present connection
        self.hops = 0  # redirects that it has followed
        self._frames: deque[Frame] = deque()
        self._interruption: Exception | None = None
        self._end: Exception | None = None
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    def take(self, frame: Frame) -> bool:
        """Queue a frame unless it was seen; False if there is no room, and then the feed stops listening."""
        if not self.is_listening or self._is_seen(frame):
            return True
        if len(self._frames) >= self.limit:
            self.is_wanted = self.is_listening = False
            return False
        self.received = frame.seq
        if frame.timeline is not None:
            self.timeline = frame.timeline
        self._frames.append(frame._replace(timeline=self.timeline))
        self._news.set()
        return True

    def pass_by(self, seq: int) -> None:
        """Nothing more will be told up to `seq`."""
        if self.received is not None:
            self.received = max(self.received, seq)

    def nudge(self) -> None:
        """The consumer may go on: let it look again."""
        self._news.set()

    @property
    def horizon(self) -> int:
        """Up to this seq no frame is queued, and none will come."""
        if self._frames:
            return self._frames[0].seq - 1
        return -1 if self.received is None else self.received

    def interrupt(self, error: Exception) -> None:
        """Raise the error once, at the consumer's next step; the stream goes on."""
        self._interruption = error
        self._news.set()

    def end(self, error: Exception, *, at_once: bool = False) -> None:
        """Raise the error from now on: after what is queued, or instead of it."""
        if at_once:
            self._frames.clear()
        self._end = self._end or error
        self.is_wanted = self.is_listening = False
        self._news.set()

    def pop(self, *, hold: bool = False) -> Frame | None:
        """The next frame, None if there is none now; raises what interrupted or ended the feed.

        With `hold` the frames that are queued stay where they are.
        """
        if self._interruption is not None:
            error, self._interruption = self._interruption, None
            raise error
        if self._frames and not hold:
            return self._frames.popleft()
        if self._end is not None:
            raise self._end
        self._news.clear()
        return None

    async def news(self) -> None:
        """Until `pop` has something to say. Nothing is taken here, so a wait may be cancelled."""
        await self._news.wait()

    def check(self) -> None:
        """The queued frames are in order, bounded, and none is beyond `received`."""
        seqs = [frame.seq for frame in self._frames]
        starts = [at for at, frame in enumerate(self._frames) if frame.is_snapshot and at]
        runs = [seqs[start:stop] for start, stop in zip([0, *starts], [*starts, len(seqs)], strict=True)]
        assert all(before < after for run in runs for before, after in pairwise(run)), seqs
        assert len(seqs) <= self.limit
        assert not seqs or (self.received is not None and seqs[-1] <= self.received)

    def _is_seen(self, frame: Frame) -> bool:
        if self.received is None or self.is_raw:  # a raw stream is not resumed: nothing comes twice
            return False
        if frame.is_snapshot:  # a smaller seq means that the server was set back: its word counts
            return frame.seq == self.received and frame.timeline in (None, self.timeline)
        return frame.seq <= self.received
