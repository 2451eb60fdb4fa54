"""Approximate enumeration: the affected as a Bloom filter in the message, and a filter for each link.

See [Bloom filter]; [ProSem thesis] 2.5.2.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from cn.model.frames import Data, Leave, Placed, PlaceRemoved
from cn.model.message import Message
from cn.networks.node import Options, Out, Scheme, TreeNode, TreeRoot, balanced
from cn.networks.place_table import PlaceTable

PARTS = 2  # independent filters; two sets may meet only if they do in both
WIDEST = 16  # a filter has at most 2 ** WIDEST bits per part
SPARE = 3  # 2 ** SPARE bits for each id


def positions(id: int) -> tuple[int, int]:
    """The bit of an id in each part of the widest filter.

    >>> positions(7) == positions(7) != positions(8)
    True
    """
    digest = blake2b(id.to_bytes(8, "little", signed=True), digest_size=4).digest()
    return int.from_bytes(digest[:2], "little"), int.from_bytes(digest[2:], "little")


def folded(bits: int, width: int) -> int:
    """A part of the widest filter as one of 2 ** width bits: a bit's position modulo that.

    >>> folded(1 << 9 | 1 << 2, 3)
    6
    """
    for step in range(WIDEST, width, -1):
        half = 1 << (step - 1)
        bits = bits >> half | bits & ((1 << half) - 1)
    return bits


class Filter:
    """A set of ids in the bits of two parts; written as bits, or as positions where those are shorter."""

    def __init__(self, width: int, parts: list[int]) -> None:
        self.width, self.parts = width, parts

    @classmethod
    def of(cls, ids: Iterable[int], least: int = 0) -> Filter:
        """Wide enough for these ids, and for sets of `least` ids that it will be compared with."""
        chosen = {*ids}
        width = min(WIDEST, max(3, (max(len(chosen), least) << SPARE).bit_length()))
        parts = [0] * PARTS
        for id in chosen:
            for part, at in enumerate(positions(id)):
                parts[part] |= 1 << at % (1 << width)
        return cls(width, parts)

    def write(self) -> bytes:
        size = 1 << self.width - 3
        sparse = [[at for at in range(1 << self.width) if part >> at & 1] for part in self.parts]
        if 2 * sum(map(len, sparse)) + 2 < PARTS * size:
            flat = array("H", [at for part in sparse for at in part])
            return bytes([self.width, len(sparse[0]) & 255, len(sparse[0]) >> 8]) + flat.tobytes()
        return bytes([self.width | 128]) + b"".join(part.to_bytes(size, "little") for part in self.parts)

    @classmethod
    def read(cls, data: bytes) -> Filter:
        width = data[0] & 127
        if data[0] & 128:
            size = 1 << width - 3
            return cls(width, [int.from_bytes(data[1 + at * size :][:size], "little") for at in range(PARTS)])
        flat = array("H", data[3:])
        first = data[1] | data[2] << 8
        return cls(width, [sum(1 << at for at in flat[:first]), sum(1 << at for at in flat[first:])])


class LinkFilter:
    """The ids beyond a link, counted for each bit, so that they can leave again."""

    def __init__(self) -> None:
        self._counts: list[Counter[int]] = [Counter() for _ in range(PARTS)]
        self._bits = [0] * PARTS
        self._folded: dict[int, list[int]] = {}  # by width, until something changes

    def add(self, id: int) -> None:
        for part, at in enumerate(positions(id)):
            self._counts[part][at] += 1
            self._bits[part] |= 1 << at
        self._folded.clear()

    def remove(self, id: int) -> None:
        for part, at in enumerate(positions(id)):
            self._counts[part][at] -= 1
            if not self._counts[part][at]:
                del self._counts[part][at]
                self._bits[part] ^= 1 << at
        self._folded.clear()

    def meets(self, other: Filter) -> bool:
        """Whether some id may be in both."""
        parts = self._folded.get(other.width)
        if parts is None:
            parts = self._folded[other.width] = [folded(bits, other.width) for bits in self._bits]
        return all(mine & theirs for mine, theirs in zip(parts, other.parts, strict=True))

    def check(self, ids: list[int]) -> None:
        """Assert that exactly these ids are counted."""
        expected = [Counter(positions(id)[part] for id in ids) for part in range(PARTS)]
        assert self._counts == expected
        assert self._bits == [sum(1 << at for at in counts) for counts in expected]


class BloomNode(TreeNode):
    """Passes a message on over the links whose filter meets the one in the message.

    It knows no places, only which ids are hosted beyond which link. A message costs a few operations on bits for each link.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.filters: dict[str, LinkFilter] = {}
        self.hosts: dict[str, dict[int, str]] = {}  # host → id → link

    def carry(self, frame: Data) -> Iterable[Out]:
        affected = Filter.read(frame.route)
        return [(hop, frame) for hop, filter in self.filters.items() if filter.meets(affected)]

    def widen(self, hop: str, frame: Placed) -> None:
        hosted = self.hosts.setdefault(frame.route[-1], {})
        if frame.id not in hosted:
            hosted[frame.id] = hop
            self.filters.setdefault(hop, LinkFilter()).add(frame.id)

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        self._gone(frame.route[-1], frame.id)

    def forget(self, hop: str, frame: Leave) -> None:
        for host in frame.brokers:
            for id in [*self.hosts.get(host, ())]:
                self._gone(host, id)
            self.hosts.pop(host, None)

    def _gone(self, host: str, id: int) -> None:
        hop = self.hosts.get(host, {}).pop(id, None)
        if hop is not None:
            self.filters[hop].remove(id)

    def check(self) -> None:
        for hop, filter in self.filters.items():
            filter.check([id for ids in self.hosts.values() for id, way in ids.items() if way == hop])


class BloomRoot(BloomNode, TreeRoot):
    """The server enumerates the affected and sends them as a Bloom filter; each broker has one for every link.

    It serves every kind of message, and edges drop what came by mistake. It loses by false positives where brokers host
    many, and the server has to find all that match.
    """

    def __init__(self, name: str, options: Options | None = None, since: int = 0) -> None:
        super().__init__(name, options, since)
        self.table = PlaceTable()

    def carry(self, frame: Data) -> Iterable[Out]:
        ids = self.table.ids(frame.message)
        if not ids:
            return ()
        least = max(map(len, self.hosts.values()), default=0)
        return super().carry(replace(frame, route=Filter.of(ids, least).write()))

    def hosts_of(self, message: Message) -> list[str]:
        """The brokers that host a place which a message concerns."""
        return self.table.owners(message)

    def widen(self, hop: str, frame: Placed) -> None:
        super().widen(hop, frame)
        host = frame.route[-1]
        self.table.put(host, host, frame.space, frame.id, frame.topic, frame.place)

    def narrow(self, hop: str, frame: PlaceRemoved) -> None:
        super().narrow(hop, frame)
        self.table.take(frame.route[-1], frame.id)

    def forget(self, hop: str, frame: Leave) -> None:
        super().forget(hop, frame)
        self.table.forget(frame.brokers)

    def check(self) -> None:
        super().check()
        self.table.check()


BLOOM = Scheme("bloom", BloomRoot, BloomNode, balanced, exact=False)
