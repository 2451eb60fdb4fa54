"""CN*: a content passes a link once, and what is forgotten is fetched; what is delivered stays the same."""

from __future__ import annotations

from typing import Any

import pytest

from cn.frames import Content, Data, Fetch, Frame
from cn.geometry import Interval
from cn.message import Message
from cn.networks.base import Space
from cn.networks.registry import make_simulated
from cn.networks.simulated import Simulated
from cn.payload import Directory, Repository

SPACE = Space(1, 1, True)
LARGE = b"x" * 1000


class Watched:
    """A network in which one id at the end of a chain of brokers hears messages with large contents."""

    def __init__(self, **options: Any) -> None:
        self.heard: list[bytes] = []
        self.frames: list[tuple[str, Frame]] = []
        self.network: Simulated = make_simulated(
            "cbn",
            lambda message, ids: self.heard.append(message.content),
            lambda seq: None,
            brokers=["a", "b"],
            host_of=lambda id: "b",
            options={"parents": {"a": "server", "b": "a"}, **options},
            codec=True,
        )
        self.network.memory.watch = lambda sender, to, frame: self.frames.append((to, frame))
        self.network.register(SPACE, 1, b"", (5,))

    def send(self, seq: int, digest: bytes) -> int:
        """The bytes of contents on all links that this message has led to."""
        self.frames.clear()
        everywhere = ((Interval(),),)
        self.network.inject(
            Message(seq, 0, 1, "some", region=everywhere, content=digest + LARGE, digest=digest)
        )
        self.network.watermark(seq)
        assert self.heard[-1] == digest + LARGE
        data = sum(len(frame.message.content) for _, frame in self.frames if isinstance(frame, Data))
        return data + sum(len(frame.content) for _, frame in self.frames if isinstance(frame, Content))


def test_a_content_passes_each_link_once() -> None:
    watched = Watched(repository=10)
    assert [watched.send(seq, b"1") for seq in (1, 2, 3)] == [2002, 0, 0]
    assert watched.send(4, b"2") == 2002


def test_what_was_forgotten_is_fetched() -> None:
    watched = Watched(repository=1)
    watched.send(1, b"1")
    watched.send(2, b"2")
    assert watched.send(3, b"1") == 2002
    assert [to for to, frame in watched.frames if isinstance(frame, Fetch)] == [
        "a",
        "server",
    ]  # from b, from a
    assert watched.send(4, b"1") == 0


def test_a_purged_directory_only_sends_again() -> None:
    watched = Watched(repository=10, directory=1)
    for seq, digest in enumerate([b"1", b"2", b"1"], 1):
        assert watched.send(seq, digest) == 2002
    assert not any(isinstance(frame, Fetch) for _, frame in watched.frames)


@pytest.mark.parametrize(("plain", "expected"), [("a", 2002), ("b", 1001)])
def test_a_plain_broker_is_sent_everything(plain: str, expected: int) -> None:
    watched = Watched(repository=10, plain=(plain,))
    assert [watched.send(seq, b"1") for seq in (1, 2)] == [2002, expected]


def test_a_broker_that_comes_back_has_nothing() -> None:
    watched = Watched(repository=10)
    watched.send(1, b"1")
    watched.network.crash("a")
    watched.network.settle()
    assert [watched.send(seq, b"1") for seq in (2, 3)] == [2002, 0]


def test_the_entry_used_last_stays() -> None:
    repository, directory = Repository(2), Directory(2)
    for digest in (b"1", b"2"):
        repository.put(digest, b"content")
        directory.put("link", digest)
    assert repository.get(b"1")
    directory.put("link", b"1")
    repository.put(b"3", b"content")
    directory.put("link", b"3")
    assert [repository.get(digest) for digest in (b"1", b"2", b"3")] == [b"content", b"", b"content"]
    assert [directory.knows("link", digest) for digest in (b"1", b"2", b"3")] == [True, False, True]
