"""What a broker of CN* remembers: the contents used last, and beyond which links a content is known ([ProSem thesis] 5.5).

Both are soft and capped. What is forgotten costs bytes, never a delivery.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable

MOST_BYTES = 64 << 20


class Repository:
    """The contents used last: at most so many, and at most so many bytes, but for those that are pinned; O(1).

    A content is pinned from the position of a message that names it until everything up to there is released. What is
    pinned counts, and is never evicted: so the caps are exceeded by no more than what is under way.

    >>> kept = Repository(entries=2)
    >>> for number in range(3):
    ...     kept.put(b"%d" % number, b"content")
    >>> [kept.get(b"%d" % number) for number in range(3)]
    [b'', b'content', b'content']
    >>> kept.pin([b"1", b"2", b"3"], position=7)
    >>> kept.put(b"3", b"content")
    >>> len(kept)
    3
    >>> kept.release(7)
    >>> [kept.get(b"%d" % number) for number in range(4)]
    [b'', b'', b'content', b'content']
    """

    def __init__(self, entries: int | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.entries, self.most_bytes = entries, most_bytes
        self.bytes = 0
        self._contents: OrderedDict[bytes, bytes] = OrderedDict()  # that may be evicted
        self._pinned: dict[bytes, bytes] = {}
        self._pins: Counter[bytes] = Counter()  # by digest, whether its content is here or not
        self._named: deque[tuple[int, bytes]] = deque()  # what the pins are for: position and digest

    def __len__(self) -> int:
        return len(self._contents) + len(self._pinned)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._contents or digest in self._pinned

    def get(self, digest: bytes) -> bytes:
        """The content of a digest; b"" if it is not here."""
        content = self._contents.get(digest)
        if content is None:
            return self._pinned.get(digest, b"")
        self._contents.move_to_end(digest)
        return content

    def put(self, digest: bytes, content: bytes) -> None:
        if digest not in self:
            self.bytes += len(content)
        if digest in self._pins:
            self._pinned[digest] = content
        else:
            self._contents[digest] = content
            self._contents.move_to_end(digest)
        self._evict()

    def pin(self, digests: Iterable[bytes], position: int) -> None:
        """A message of this position names these contents: what is here of them stays, as does what comes."""
        for digest in digests:
            self._pins[digest] += 1
            self._named.append((position, digest))
            if digest in self._contents:
                self._pinned[digest] = self._contents.pop(digest)

    def release(self, position: int) -> None:
        """No message up to this position is under way any more."""
        while self._named and self._named[0][0] <= position:
            digest = self._named.popleft()[1]
            self._pins[digest] -= 1
            if not self._pins[digest]:
                del self._pins[digest]
                if digest in self._pinned:
                    self._contents[digest] = self._pinned.pop(digest)
        self._evict()

    def _evict(self) -> None:
        while self._contents and self._is_full():
            self.bytes -= len(self._contents.popitem(last=False)[1])

    def _is_full(self) -> bool:
        too_many = self.entries is not None and len(self) > self.entries
        return too_many or self.bytes > self.most_bytes

    def check(self) -> None:
        """Assert that the bytes are counted right, that pins are as named, and that only they exceed the caps."""
        assert self.bytes == sum(map(len, [*self._contents.values(), *self._pinned.values()]))
        assert self._pins == Counter(digest for _, digest in self._named)
        assert self._pinned.keys() <= self._pins.keys()
        assert not self._contents.keys() & self._pins.keys()
        assert not self._contents or not self._is_full()


class Directory:
    """The links beyond which a content is known, of the digests used last; O(1)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._links: OrderedDict[bytes, set[str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._links)

    def knows(self, link: str, digest: bytes) -> bool:
        return link in self._links.get(digest, ())

    def put(self, link: str, digest: bytes) -> None:
        self._links.setdefault(digest, set()).add(link)
        self._links.move_to_end(digest)
        while len(self._links) > self.size:
            self._links.popitem(last=False)

    def forget(self, link: str) -> None:
        """A link starts anew: nothing is known beyond it."""
        for links in self._links.values():
            links.discard(link)


class Sources:
    """The last broker on the way of the last message that names a digest, of the digests used last; O(1)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._sources: OrderedDict[bytes, str] = OrderedDict()

    def of(self, digest: bytes) -> str:
        """A broker that remembers contents; "" if it is not known any more."""
        return self._sources.get(digest, "")

    def put(self, digest: bytes, source: str) -> None:
        self._sources[digest] = source
        self._sources.move_to_end(digest)
        if len(self._sources) > self.size:
            self._sources.popitem(last=False)
