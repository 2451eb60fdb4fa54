"""What a broker of CN* remembers: the contents used last, and beyond which links a content is known ([ProSem thesis] 5.5).

Both are soft and capped. What is forgotten costs bytes, never a delivery.
"""

from __future__ import annotations

from collections import OrderedDict

MOST_BYTES = 64 << 20


class Repository:
    """The contents used last: at most so many, and at most so many bytes; O(1).

    >>> kept = Repository(entries=2)
    >>> for number in range(3):
    ...     kept.put(b"%d" % number, b"content")
    >>> [kept.get(b"%d" % number) for number in range(3)]
    [b'', b'content', b'content']
    """

    def __init__(self, entries: int | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.entries, self.most_bytes = entries, most_bytes
        self.bytes = 0
        self._contents: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._contents)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._contents

    def get(self, digest: bytes) -> bytes:
        """The content of a digest; b"" if it is not here."""
        content = self._contents.get(digest, b"")
        if content:
            self._contents.move_to_end(digest)
        return content

    def put(self, digest: bytes, content: bytes) -> None:
        if digest not in self._contents:
            self.bytes += len(content)
        self._contents[digest] = content
        self._contents.move_to_end(digest)
        while self._contents and self._is_full():
            self.bytes -= len(self._contents.popitem(last=False)[1])

    def _is_full(self) -> bool:
        too_many = self.entries is not None and len(self._contents) > self.entries
        return too_many or self.bytes > self.most_bytes

    def check(self) -> None:
        """Assert that the bytes are counted right, and that both caps hold."""
        assert self.bytes == sum(map(len, self._contents.values()))
        assert not self._is_full()


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
