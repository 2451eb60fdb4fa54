"""Numbered packets between two processes over a store that may lose, repeat or reorder them; no I/O.

What is put into an `Outgoing` comes out of the `Incoming` at the other end, each item once and in order, as long as every
packet is sent again until the store has confirmed it. Items that wait together share a packet; one that is larger than a
packet may be is cut into pieces. Memory: what is unconfirmed at the sender, and a window of packets at the receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from cn.model.message import Sent

WINDOW = 64  # packets under way
PACKET_BYTES = 256 << 10


class Packet(Sent, frozen=True):
    """`body` is a list of items in MessagePack, or a piece of one; the last piece says so."""

    sender: str
    number: int
    is_last: bool
    body: bytes


_encode = msgspec.msgpack.encode
read_packet = msgspec.msgpack.Decoder(Packet).decode


def listed(items: Iterable[bytes]) -> bytes:
    """One list of items that are encoded already: nothing is encoded twice, for however many links.

    >>> msgspec.msgpack.decode(listed([_encode(1), _encode("two")]))
    [1, 'two']
    """
    some = list(items)
    return b"\xdd" + len(some).to_bytes(4, "big") + b"".join(some)


class Outgoing:
    """The sender's end.

    >>> link = Outgoing("a")
    >>> link.put(_encode("x"))
    >>> [(number, data)] = link.due()
    >>> link.unconfirmed() == [(1, data)], link.confirm(1), link.unconfirmed()
    (True, None, [])
    """

    def __init__(self, sender: str, packet_bytes: int = PACKET_BYTES, window: int = WINDOW) -> None:
        self._sender, self._packet_bytes, self._window = sender, packet_bytes, window
        self._waiting: deque[bytes] = deque()
        self._pieces: deque[tuple[bool, bytes]] = deque()
        self._sent: dict[int, tuple[bytes, int]] = {}  # by number, ascending; with the size of the body
        self.number = 0  # of the last packet sent
        self.items = self.bytes = 0  # put so far
        self.backlog_bytes = 0  # put and not confirmed

    def put(self, item: bytes) -> None:
        """An encoded item for the other end."""
        self._waiting.append(item)
        self.items += 1
        self.bytes += len(item)
        self.backlog_bytes += len(item)

    def due(self) -> list[tuple[int, bytes]]:
        """The packets to send now, with their numbers."""
        packets = []
        while len(self._sent) < self._window and (self._pieces or self._waiting):
            if not self._pieces:
                self._pack()
            is_last, body = self._pieces.popleft()
            self.number += 1
            data = _encode(Packet(self._sender, self.number, is_last, body))
            self._sent[self.number] = data, len(body)
            packets.append((self.number, data))
        return packets

    def _pack(self) -> None:
        some: list[bytes] = []
        size = 0
        while self._waiting and (not some or size + len(self._waiting[0]) <= self._packet_bytes):
            some.append(self._waiting.popleft())
            size += len(some[-1])
        self.backlog_bytes -= size
        body = listed(some)
        starts = range(0, len(body), self._packet_bytes)
        for start in starts:
            piece = body[start : start + self._packet_bytes]
            self.backlog_bytes += len(piece)
            self._pieces.append((start == starts[-1], piece))

    def confirm(self, number: int) -> None:
        """The store has the packet."""
        _, size = self._sent.pop(number, (b"", 0))
        self.backlog_bytes -= size

    def unconfirmed(self) -> list[tuple[int, bytes]]:
        """What must be sent again after a failure, in order."""
        return [(number, data) for number, (data, _) in self._sent.items()]


class Incoming:
    """The receiver's end of one sender.

    >>> link, sent = Incoming(), Outgoing("a", window=2)
    >>> for item in (1, 2):
    ...     sent.put(_encode(item))
    ...     (_, data), = sent.due()
    ...     first = data if item == 1 else first
    >>> [*link.take(read_packet(data))], [*link.take(read_packet(first))], [*link.take(read_packet(first))]
    ([], [b'\\xdd\\x00\\x00\\x00\\x01\\x01', b'\\xdd\\x00\\x00\\x00\\x01\\x02'], [])
    """

    def __init__(self) -> None:
        self.number = 0  # of the last packet that was applied
        self._held: dict[int, Packet] = {}
        self._pieces: list[bytes] = []

    def take(self, packet: Packet) -> Iterator[bytes]:
        """The lists that are complete now. A packet that came before is dropped, one that came early is held.

        The number advances when the iteration goes on: after the list was applied, and not if that failed.
        """
        if packet.number > self.number:
            self._held[packet.number] = packet
        while (following := self._held.get(self.number + 1)) is not None:
            pieces = [*self._pieces, following.body]
            if following.is_last:
                yield b"".join(pieces)
                pieces = []
            self._pieces = pieces
            self.number += 1
            del self._held[self.number]
