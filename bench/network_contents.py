"""CN* on the ways of messages: which contents pass which links, as `cn/networks/contents.py` does it.

See [ProSem thesis] 5.5, 5.7.3.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from bench.network_routes import Way
from bench.network_setting import Ints
from cn.model.frames import Content, Fetch, encode
from cn.networks.contents import DIRECTORY
from cn.networks.contents_store import Repository

ASKING = len(encode(Fetch((b"d" * 12,))))
ANSWER = len(encode(Content(b"d" * 12, b"")))


class Passed(NamedTuple):
    """What one message has cost: all bytes, those that left the server, and hops to each broker concerned."""

    bytes: int
    server_bytes: int
    hops: list[int]


class Remembering:
    """Repositories and directories of all brokers. With `entries` None no broker remembers anything.

    Directories never overflow here: as many digests as one may have are more than all rows of a workload.
    """

    def __init__(self, server: int, entries: int | None) -> None:
        self._server, self._entries = server, entries
        self._repositories: defaultdict[int, Repository] = defaultdict(lambda: Repository(entries))
        self._repositories[server] = Repository(None, 1 << 40)
        self._numbers: dict[bytes, int] = {}  # of digests
        self._known: set[tuple[int, int, int]] = set()  # sender, receiver, number of the digest

    def pass_on(
        self, way: Way, hosts: Ints, digests: tuple[bytes, ...], contents: tuple[bytes, ...]
    ) -> Passed:
        """A message goes its way; `way.sizes` are without contents. O(links · contents)."""
        server, sizes = self._server, [_written(content) for content in contents]
        leaving_server = int(way.sizes[way.senders == server].sum())
        total = int(way.sizes.sum())
        if self._entries is None or not digests:
            leaving_server += sum(sizes) * int((way.senders == server).sum())
            total += sum(sizes) * len(way.senders)
            return Passed(total, leaving_server, way.depths[np.isin(way.receivers, hosts)].tolist())
        parts = [
            (self._numbers.setdefault(digest, len(self._numbers)), digest, content, size)
            for digest, content, size in zip(digests, contents, sizes, strict=True)
        ]
        assert len(self._numbers) <= DIRECTORY
        for digest, content in zip(digests, contents, strict=True):
            self._repositories[server].put(digest, content)
        here: dict[int, tuple[list[bool], int]] = {server: ([True] * len(parts), server)}
        needed, hops, missing = set(hosts.tolist()), [], []
        for sender, to, _, depth in zip(*(part.tolist() for part in way), strict=True):
            came, holder = here[sender]
            repository, mine = self._repositories[sender], self._repositories[to]
            whole, has_all, trips = [], True, 0
            for at, (number, digest, content, size) in enumerate(parts):
                link = sender, to, number
                if link not in self._known and (came[at] or repository.get(digest)):
                    self._known.add(link)
                    whole.append(True)
                    total += size
                    leaving_server += size if sender == server else 0
                    mine.put(digest, content)
                    continue
                whole.append(False)
                has_all = has_all and digest in repository
                if to in needed and not mine.get(digest):
                    missing.append((to, at))
                    trips = 2
            here[to] = whole, sender if has_all else holder
            if to in needed:
                hops.append(depth + trips)
        for to, at in missing:
            holder, (_, digest, content, size) = here[to][1], parts[at]
            is_asked = holder not in (to, server)
            has_it = is_asked and bool(self._repositories[holder].get(digest))
            total += (is_asked + (not has_it)) * (ASKING + ANSWER) + size
            leaving_server += 0 if has_it else ANSWER + size
            self._repositories[to].put(digest, content)
        return Passed(total, leaving_server, hops)


def _written(content: bytes) -> int:
    """The bytes that a content takes more than an empty one."""
    return len(content) + (0 if len(content) < 256 else 1 if len(content) < 65536 else 3)
