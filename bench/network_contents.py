"""CN* on the ways of messages: which contents pass which links, by the rules of `cn/payload.py` (thesis 5.5, 5.7.3)."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from bench.network_routes import Way
from bench.network_setting import Ints
from cn.frames import Content, Fetch, encode
from cn.payload import DIRECTORY
from cn.payload_store import Directory, Repository

ASKING = len(encode(Fetch((b"d" * 12,))))
ANSWER = len(encode(Content(b"d" * 12, b"")))


class Passed(NamedTuple):
    """What one message has cost: all bytes, those that left the server, and hops to each broker concerned."""

    bytes: int
    server_bytes: int
    hops: list[int]


class Remembering:
    """Repositories and directories of all brokers. With `entries` None nobody remembers anything."""

    def __init__(self, server: int, entries: int | None) -> None:
        self._server, self._entries = server, entries
        self._repositories: defaultdict[int, Repository] = defaultdict(lambda: Repository(entries))
        self._repositories[server] = Repository(None, 1 << 40)
        self._directories: defaultdict[int, Directory] = defaultdict(lambda: Directory(DIRECTORY))
        self.hits = self.misses = 0

    def pass_on(
        self, way: Way, hosts: Ints, digests: tuple[bytes, ...], contents: tuple[bytes, ...]
    ) -> Passed:
        """A message goes its way; `way.sizes` are without contents. O(links · contents)."""
        if self._entries is None or not digests:
            more = sum(map(_written, contents))
            leaving = way.senders == self._server
            return Passed(
                int(way.sizes.sum()) + more * len(way.senders),
                int(way.sizes[leaving].sum()) + more * int(leaving.sum()),
                way.depths[np.isin(way.receivers, hosts)].tolist(),
            )
        needed, waiting = set(hosts.tolist()), []
        here: dict[int, tuple[tuple[bool, ...], int]] = {self._server: ((True,) * len(digests), self._server)}
        for digest, content in zip(digests, contents, strict=True):
            self._repositories[self._server].put(digest, content)
        total = leaving_server = 0
        hops = []
        for sender, to, size, depth in zip(*(part.tolist() for part in way), strict=True):
            came, holder = here[sender]
            directory, repository = self._directories[sender], self._repositories[sender]
            whole, has_all = [], True
            for digest, content, is_here in zip(digests, contents, came, strict=True):
                is_known = directory.knows(str(to), digest)
                found = not is_known and (is_here or bool(repository.get(digest)))
                whole.append(found)
                if found:
                    directory.put(str(to), digest)
                    size += _written(content)
                else:
                    has_all = has_all and digest in repository
            total += size
            leaving_server += size if sender == self._server else 0
            here[to] = tuple(whole), sender if has_all else holder
            mine = self._repositories[to]
            for digest, content, is_here in zip(digests, contents, whole, strict=True):
                if is_here:
                    mine.put(digest, content)
            if to in needed:
                trips = 0
                for at, digest in enumerate(digests):
                    if whole[at]:
                        continue
                    if mine.get(digest):
                        self.hits += 1
                        continue
                    self.misses += 1
                    waiting.append((to, at, here[to][1]))
                    trips = 2
                hops.append(depth + trips)
        for to, at, holder in waiting:
            content = contents[at]
            asked = [holder] if holder not in (to, self._server) else []
            has_it = bool(asked) and bool(self._repositories[holder].get(digests[at]))
            if not has_it:
                asked.append(self._server)
            total += len(asked) * (ASKING + ANSWER) + _written(content)
            leaving_server += 0 if has_it else ANSWER + _written(content)
            self._repositories[to].put(digests[at], content)
        return Passed(total, leaving_server, hops)


def _written(content: bytes) -> int:
    """The bytes that a content takes more than an empty one."""
    return len(content) + (0 if len(content) < 256 else 1 if len(content) < 65536 else 3)
