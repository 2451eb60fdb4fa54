"""A link that loses nothing and keeps the order, over one that drops, repeats and reorders. Logic only."""

from __future__ import annotations

from collections import deque

import msgspec

from cn.model.frames import Frame
from cn.model.message import Sent


class Segment(Sent, frozen=True, tag="segment"):
    """A frame with its number on this link in this session."""

    session: int
    number: int
    frame: Frame


class Acknowledgement(Sent, frozen=True, tag="ack"):
    """Every segment up to this number has come."""

    session: int
    number: int


Wire = Segment | Acknowledgement
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Wire] = msgspec.msgpack.Decoder(Wire)


def encode_wire(wire: Wire) -> bytes:
    return _encoder.encode(wire)


def decode_wire(data: bytes) -> Wire:
    return _decoder.decode(data)


class Reliable:
    """One end of a link: numbers what it sends, repeats what is not acknowledged, hands over in order.

    A session is one connection of the link; what comes from another is dropped. Time-outs double up to a limit and start
    anew with each progress. A frame costs O(1); what came early waits for what is missing.

    >>> from cn.model.frames import PositionMark
    >>> one, other = Reliable(1, timeout=2.0), Reliable(1, timeout=2.0)
    >>> first, second = one.send(PositionMark(1, 1), now=0.0), one.send(PositionMark(2, 2), now=0.0)
    >>> other.receive(second)
    ([], [Acknowledgement(session=1, number=0)])
    >>> [repeated] = one.tick(now=2.0)[:1]
    >>> frames, [acknowledgement] = other.receive(repeated)
    >>> [frame.position for frame in frames], acknowledgement.number
    ([1, 2], 2)
    >>> one.receive(acknowledgement), one.due
    (([], []), None)
    """

    LIMIT = 16  # the longest time-out, in those of the start
    BURST = 64  # segments repeated at once

    def __init__(self, session: int, timeout: float) -> None:
        self.session, self.timeout = session, timeout
        self.due: float | None = None  # when to tick
        self._wait = timeout
        self._sent = 0
        self._open: deque[Segment] = deque()  # not acknowledged
        self._received = 0
        self._early: dict[int, Frame] = {}

    def send(self, frame: Frame, now: float) -> Segment:
        """What to put on the wire for a frame."""
        self._sent += 1
        segment = Segment(self.session, self._sent, frame)
        self._open.append(segment)
        if self.due is None:
            self.due = now + self._wait
        return segment

    def receive(self, wire: Wire) -> tuple[list[Frame], list[Wire]]:
        """The frames that can be handed over now, in order, and what to answer."""
        if wire.session != self.session:
            return [], []
        if isinstance(wire, Acknowledgement):
            progress = False
            while self._open and self._open[0].number <= wire.number:
                self._open.popleft()
                progress = True
            if progress:
                self._wait = self.timeout
            if not self._open:
                self.due = None
            return [], []
        if wire.number > self._received:
            self._early[wire.number] = wire.frame
        frames = []
        while (frame := self._early.pop(self._received + 1, None)) is not None:
            self._received += 1
            frames.append(frame)
        return frames, [Acknowledgement(self.session, self._received)]

    def tick(self, now: float) -> list[Segment]:
        """What to repeat now; at most a burst."""
        if self.due is None or now < self.due:
            return []
        self._wait = min(2 * self._wait, self.LIMIT * self.timeout)
        self.due = now + self._wait
        return [segment for segment, _ in zip(self._open, range(self.BURST), strict=False)]
