"""What the server has sent lately, for brokers that lose the broker above them."""

from __future__ import annotations

from collections import deque
from itertools import dropwhile
from typing import NamedTuple

from cn.model.frames import Data, Direct, Placed, PlaceRemoved

MAX_BYTES = 64 << 20
FRAME_BYTES = 100  # of a frame beside what it carries
Kept = Data | Placed | PlaceRemoved | Direct


class _Entry(NamedTuple):
    host: str  # empty: all that match
    frame: Kept
    bytes: int


class Recent:
    """The last frames of the order, as they are for an edge; everything after the position `since` is here.

    It reaches back to the broker that is furthest behind, and holds so many bytes at most: a broker that is further
    behind than that must start over. A frame costs O(1); what a broker missed costs what is kept.

    >>> recent = Recent(since=3)
    >>> recent.add("a", PlaceRemoved(4, (), 7))
    >>> recent.add("b", PlaceRemoved(5, (), 7))
    >>> [frame.position for frame in recent.missed("b", after=3)], recent.reaches(2)
    ([5], False)
    >>> recent.trim(4)
    >>> recent.since, recent.reaches(4)
    (4, True)
    """

    def __init__(self, since: int, max_bytes: int = MAX_BYTES) -> None:
        self.since, self._max_bytes = since, max_bytes
        self._entries: deque[_Entry] = deque()
        self._bytes = 0

    def add(self, host: str, frame: Kept) -> None:
        """A frame was given its position: for one host, or (without one) for all that it concerns."""
        carried = 0
        if isinstance(frame, Direct):
            carried = len(frame.body)
        elif isinstance(frame, Data):
            carried = len(frame.message.payload) + sum(map(len, frame.message.contents))
        self._entries.append(_Entry(host, frame, FRAME_BYTES + carried))
        self._bytes += self._entries[-1].bytes
        while self._bytes > self._max_bytes:
            self._forget_first()

    def trim(self, position: int) -> None:
        """Drop what was sent up to this position: it is not needed any more."""
        while self._entries and self._entries[0].frame.position <= position:
            self._forget_first()
        self.since = max(self.since, position)

    def _forget_first(self) -> None:
        first = self._entries.popleft()
        self._bytes -= first.bytes
        self.since = first.frame.position

    def reaches(self, position: int) -> bool:
        """Whether everything after this position is here."""
        return position >= self.since

    def missed(self, host: str, after: int) -> tuple[Kept, ...]:
        """What concerns a host, or may concern it, after a position that this reaches."""
        later = dropwhile(lambda entry: entry.frame.position <= after, self._entries)
        return tuple([entry.frame for entry in later if entry.host in ("", host)])

    def check(self) -> None:
        positions = [entry.frame.position for entry in self._entries]
        assert positions == sorted(set(positions))
        assert not positions or positions[0] > self.since
        assert self._bytes == sum(entry.bytes for entry in self._entries)
