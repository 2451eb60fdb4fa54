"""CN*: a content passes a link once, and what is forgotten is fetched; what is delivered stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cn.model.frames import Content, Data, Fetch, Frame
from cn.model.geometry import Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.contents import PayloadNode, PayloadRoot
from cn.networks.contents_store import Directory, Repository
from cn.simulation.network import Simulated
from cn.simulation.registry import make_simulated

SPACE = Space(1, 1, True)
LARGE = b"x" * 1000


class Watched:
    """A network in which one id at the end of a chain of brokers hears messages with large contents."""

    def __init__(self, brokers: Sequence[str] = ("a", "b"), **options: Any) -> None:
        self.hosts: dict[int, str] = {}  # of ids that are not at b
        self.heard: list[bytes] = []
        self.frames: list[tuple[str, Frame]] = []
        self.network: Simulated = make_simulated(
            "cbn",
            lambda message, ids: self.heard.append(b"".join(message.contents)),
            lambda seq: None,
            brokers=brokers,
            host_of=lambda id: self.hosts.get(id, "b"),
            options={"parents": {"a": "server", "b": "a"}, **options},
            codec=True,
        )
        self.network.memory.watch = lambda sender, to, frame: self.frames.append((to, frame))
        self.network.register(SPACE, 1, b"", (5,))

    def node(self, name: str) -> PayloadNode:
        node = self.network.memory.nodes[name]
        assert isinstance(node, PayloadNode)
        return node

    def asked(self) -> list[str]:
        """Who was asked for a content since the last message."""
        return [to for to, frame in self.frames if isinstance(frame, Fetch)]

    def inject(self, seq: int, digest: bytes) -> None:
        """A message, and nothing has moved yet."""
        self.frames.clear()
        everywhere = ((Interval(),),)
        self.network.inject(
            Message(seq, 0, 1, "some", region=everywhere, contents=(digest + LARGE,), digests=(digest,))
        )
        self.network._eager = False
        self.network.watermark(seq)

    def send(self, seq: int, digest: bytes) -> int:
        """The bytes of contents on all links that this message has led to."""
        self.inject(seq, digest)
        self.network.settle()
        assert self.heard[-1] == digest + LARGE
        data = sum(
            len(content)
            for _, frame in self.frames
            if isinstance(frame, Data)
            for content in frame.message.contents
        )
        return data + sum(len(frame.content) for _, frame in self.frames if isinstance(frame, Content))


def test_a_content_passes_each_link_once() -> None:
    watched = Watched(repository=10)
    assert [watched.send(seq, b"1") for seq in (1, 2, 3)] == [2002, 0, 0]
    assert watched.send(4, b"2") == 2002


def test_what_was_forgotten_is_fetched() -> None:
    watched = Watched(repository=1)
    watched.send(1, b"1")
    watched.send(2, b"2")
    assert watched.send(3, b"1") == 2002, "over each link of the way once more"
    assert watched.asked() == ["a", "server"]
    assert watched.send(4, b"1") == 0


def test_many_that_ask_for_a_content_are_one_request_on_the_way() -> None:
    leaves = {f"leaf-{number}": "a" for number in range(5)}
    watched = Watched(repository=1, parents={"a": "server", "b": "a", **leaves}, brokers=["a", "b", *leaves])
    for id, leaf in enumerate(leaves, 2):
        watched.hosts[id] = leaf
        watched.network.register(SPACE, id, b"", (5,))
    for seq, digest in enumerate([b"1", b"2"], 1):
        watched.send(seq, digest)
    assert watched.send(3, b"1") == 7 * 1001, (
        "from the server once, and over each of the six links below once"
    )
    assert sorted(watched.asked()) == ["a"] * 6 + ["server"]
    root = watched.network.root
    assert isinstance(root, PayloadRoot)
    assert (watched.node("a").asked, root.asked) == (6, 1)


def test_what_messages_under_way_name_stays_on_the_way() -> None:
    watched = Watched(repository=1)
    watched.send(1, b"1")
    watched.node("b").repository = Repository(0)
    for seq, digest in enumerate([b"1", b"2"], 2):
        watched.inject(seq, digest)
        watched.network.run(0.5)
    watched.network.settle()
    assert watched.asked() == ["a"], "which has had the other one since, and still holds both"
    assert watched.heard == [digest + LARGE for digest in (b"1", b"1", b"2")]
    assert [len(watched.node(name).repository) for name in "ab"] == [2, 2]
    watched.send(4, b"3")
    assert [len(watched.node(name).repository) for name in "ab"] == [1, 1], "what was under way is released"
    watched.network.check()


def test_what_passes_by_its_digest_stays_on_the_way() -> None:
    watched = Watched(repository=2)
    for seq, digest in enumerate([b"1", b"2", b"1", b"3"], 1):
        watched.send(seq, digest)
    for name in ("a", "b"):
        assert [digest in watched.node(name).repository for digest in (b"1", b"2", b"3")] == [
            True,
            False,
            True,
        ]


def test_a_broker_on_the_way_is_asked_if_it_has_it() -> None:
    watched = Watched(repository=1)
    for seq, digest in enumerate([b"1", b"2", b"1"], 1):
        watched.send(seq, digest)
    watched.node("a").repository.entries = 2
    watched.node("a").repository.put(b"2", b"2" + LARGE)
    assert watched.send(4, b"2") == 1001
    assert watched.asked() == ["a"]


def test_who_was_asked_and_has_forgotten_asks_the_server() -> None:
    watched = Watched(repository=1)
    for seq, digest in enumerate([b"1", b"2", b"1"], 1):
        watched.send(seq, digest)
    watched.node("a").repository.entries = 2
    watched.node("a").repository.put(b"2", b"2" + LARGE)
    watched.inject(4, b"2")
    watched.network.run(1.0)  # it has reached a, which promises it
    watched.node("a").repository = Repository(1)
    watched.network.settle()
    assert watched.asked() == ["a", "server"]
    assert watched.heard[-1] == b"2" + LARGE


def test_what_is_not_answered_is_asked_of_the_server() -> None:
    watched = Watched(repository=1)
    for seq, digest in enumerate([b"1", b"2", b"1"], 1):
        watched.send(seq, digest)
    watched.node("a").repository.entries = 2
    watched.node("a").repository.put(b"2", b"2" + LARGE)
    node, receive = watched.node("a"), watched.node("a").receive
    node.receive = lambda sender, frame: [] if isinstance(frame, Fetch) else receive(sender, frame)  # type: ignore[method-assign]
    watched.inject(4, b"2")
    watched.network.settle()
    assert watched.heard[-1] == b"1" + LARGE, "it waits"
    for _ in range(2):
        watched.network.memory.now += 2.0
        watched.network.memory.tick()
        watched.network.settle()
    assert watched.asked() == ["a", "server"]
    assert watched.heard[-1] == b"2" + LARGE


def test_the_server_remembers_so_many_bytes_and_tells_who_asks_for_more() -> None:
    lost: list[str] = []
    watched = Watched(repository=0, forgotten=lost.append)
    root = watched.network.root
    assert isinstance(root, PayloadRoot)
    root.repository.most_bytes = 2500
    for seq, digest in enumerate([b"1", b"2", b"3"], 1):
        watched.send(seq, digest)
    assert (len(root.repository), root.repository.bytes) == (2, 2002)
    answer = [("b", Content(b"1", b""))]
    assert ([*root.receive("b", Fetch((b"1",)))], lost) == (answer, []), "it may have asked for another"
    assert ([*root.receive("b", Fetch((b"1",), is_final=True))], lost) == (answer, ["b"])


def test_who_needs_what_the_server_has_forgotten_starts_over_and_nobody_else() -> None:
    lost: list[str] = []
    watched = Watched(repository=1, forgotten=lost.append)
    for seq, digest in enumerate([b"1", b"2"], 1):
        watched.send(seq, digest)
    watched.inject(3, b"1")
    root = watched.network.root
    assert isinstance(root, PayloadRoot)
    root.repository.most_bytes = 0
    root.repository.put(b"4", b"")
    watched.network.settle()
    assert lost == ["b"]
    assert watched.asked() == ["a", "server", "server"]


def test_hits_and_misses_are_counted() -> None:
    watched = Watched(repository=1)
    for seq, digest in enumerate([b"1", b"1", b"2", b"1"], 1):
        watched.send(seq, digest)
    report = watched.node("b").report()
    assert report == {"held": 1, "bytes": 1001, "hits": 1, "misses": 1, "spared": 0, "asked": 0}
    assert (watched.node("a").report()["spared"], watched.node("a").report()["asked"]) == (2, 1)


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
