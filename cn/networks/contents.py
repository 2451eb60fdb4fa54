"""CN*: contents that brokers remember, and that pass a link once ([ProSem thesis] 5.5).

Any node can be wrapped. What no condition looks at (`Message.contents`) is left out on a link whose other end has said that
it has it. A broker without it asks back along the way the message came: each on that way answers, or asks the one before
it, once for all that ask it. So what many brokers have dropped leaves the server once. A content that a message names is
pinned at each broker that the message passes, until all brokers have come to its position (`PositionMark.settled`): so it
is still held when a broker further on asks for it. A broker that does not remember contents never says that it has some,
and is always sent the whole message. One that does says so once, and again when it is sent what it has: links keep their
order, so what was sent to it once is known there.

It loses where contents do not repeat: a digest more for each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from cn.model.frames import (
    Carrier,
    Content,
    ContentsHeld,
    Data,
    Fetch,
    Frame,
    Join,
    Leave,
    Placed,
    PlaceRemoved,
    PositionMark,
    Staged,
)
from cn.model.message import Message
from cn.model.network import Place, Space
from cn.networks.contents_store import MOST_BYTES, Directory, Repository, Sources
from cn.networks.node import Node, Options, Out, Root, Scheme
from cn.networks.place_table import PlaceTable

DIRECTORY = 20_000  # digests whose links are remembered
REQUEST_TIMEOUT_S = 1.0  # after which the server is asked instead of a neighbour
Carrying = Data | Staged


class Waiting:
    """A frame that is to be sent when its contents are there, and not before those in front of it."""

    __slots__ = ("frame", "missing")

    def __init__(self, frame: Frame, missing: Iterable[bytes]) -> None:
        self.frame, self.missing = frame, set(missing)


class ContentRequest:
    """A content that was asked for: since when, what waits for it here, and which brokers have asked for it.

    `is_final`: the server was asked, and cannot say that others may have it.
    """

    __slots__ = ("askers", "is_final", "since", "waiting")

    def __init__(self) -> None:
        self.since: float | None = None  # until the next tick says what time it is
        self.is_final = False
        self.waiting: list[tuple[str, Waiting]] = []
        self.askers: dict[str, None] = {}


class PayloadNode:
    """A broker that remembers contents, around one that carries messages.

    The inner node sees every frame at once and in order, since no network looks at contents. Only what is sent on waits:
    where a content is needed and not here, this frame and the later ones for that link (or for the own edge) wait for it.
    The own edge needs contents of messages that match a place here, and no others. Options: `repository` and
    `directory`, the numbers of entries; `contents_mb`, their size at the most; `plain`, brokers that do not remember.
    """

    def __init__(self, inner: Node, options: Options) -> None:
        self.inner, self.name = inner, inner.name
        most_bytes = options["contents_mb"] << 20 if "contents_mb" in options else MOST_BYTES
        self.repository = self._make_repository(options["repository"], most_bytes)
        self.directory = Directory(options.get("directory", DIRECTORY))
        self.hits = self.misses = 0  # contents named by a reference: found here, or fetched
        self.spared = 0  # contents left out on links
        self.asked = 0  # contents that other brokers have asked for
        self._server: str = options.get("server", "server")
        self._remembering: set[str] = set()  # neighbours that have ever said that they have something
        self._announced_to: set[str] = set()  # neighbours that know it
        self._queues: dict[str, deque[Waiting]] = {}  # what waits, by receiver
        self._requests: dict[bytes, ContentRequest] = {}
        self._sources = Sources(self.directory.size)
        self._own = PlaceTable()  # what the own edge hosts

    def _make_repository(self, entries: int, most_bytes: int) -> Repository:
        return Repository(entries, most_bytes)

    # -- frames ------------------------------------------------------------------------------------------------
    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, ContentsHeld):
            self._remembering.add(sender)
            for digest in frame.digests:
                self.directory.put(sender, digest)
            return ()
        if isinstance(frame, Fetch):
            return self._asked(sender, frame)
        if isinstance(frame, Content):
            return self._arrived(frame)
        outs: list[Out] = []
        if isinstance(frame, Join | Leave):
            self._start_anew((frame.broker,) if isinstance(frame, Join) else frame.brokers)
        elif isinstance(frame, Carrier):
            for digest in frame.message.digests:
                self._sources.put(digest, frame.source)
            is_known = any(one in self.repository for one in frame.message.digests)
            self.repository.pin(frame.message.digests, frame.position)
            learnt = self._learn(frame.message)
            if learnt and frame.source == sender and (is_known or sender not in self._announced_to):
                self._announced_to.add(sender)
                outs.append((sender, ContentsHeld(learnt)))
        elif isinstance(frame, PositionMark):  # an older server does not say how far all have come
            self.repository.release(frame.position if frame.settled is None else frame.settled)
        return [*outs, *self.send(self.inner.receive(sender, frame))]

    def tick(self, now: float) -> Iterable[Out]:
        """Ask the server for what no neighbour has answered; those that have asked here do the same."""
        late = []
        for digest, request in [*self._requests.items()]:
            if request.since is None:
                request.since = now
            elif now - request.since > REQUEST_TIMEOUT_S and not request.waiting:
                del self._requests[digest]
            elif now - request.since > REQUEST_TIMEOUT_S:
                request.since, request.is_final = now, True
                late.append(digest)
        asked: list[Out] = [(self._server, Fetch(tuple(late), is_final=True))] if late else []
        return [*asked, *self.send(self.inner.tick(now))]

    def send(self, outs: Iterable[Out]) -> list[Out]:
        """What the inner node sends, with contents put in and left out."""
        sent: list[Out] = []
        for to, frame in outs:
            if to == self.name:
                self._host(frame)
            ready, missing = self._ready(to, frame)
            queue = self._queues.get(to)
            if not missing and queue is None:
                sent.append((to, ready))
                continue
            waiting = Waiting(ready, missing)
            self._queues.setdefault(to, deque()).append(waiting)
            if missing:
                sent += self._ask(missing, to, waiting, _source(frame))
        return sent

    def _host(self, frame: Frame) -> None:
        if isinstance(frame, Placed):
            self._own.put(self.name, self.name, frame.space, frame.id, frame.topic, frame.place)
        elif isinstance(frame, PlaceRemoved):
            self._own.take(self.name, frame.id)

    # -- contents put in and left out --------------------------------------------------------------------------
    def _ready(self, to: str, frame: Frame) -> tuple[Frame, Sequence[bytes]]:
        """A frame as it is to be sent, and the digests of contents that must be fetched first."""
        if not isinstance(frame, Carrier) or not frame.message.digests:
            return frame, ()
        message, is_own = frame.message, to == self.name
        if is_own and not self._concerns(message):
            return frame, ()
        filled, missing, spared = [], [], 0
        for digest, content in zip(message.digests, message.contents, strict=True):
            found = content or self.repository.get(digest)
            is_remembered = not is_own and to in self._remembering
            if not is_own and self.directory.knows(to, digest):
                filled.append(b"")
                spared += 1
                continue
            self.hits += is_own and not content and bool(found)
            filled.append(found)
            if not found and not is_remembered:
                missing.append(digest)
            elif not found:
                spared += 1
            elif is_remembered:  # it will have it before anything that is sent later
                self.directory.put(to, digest)
        self.spared += spared
        return self._with(frame, tuple(filled)), missing

    def _concerns(self, message: Message) -> bool:
        """Whether a place here matches; where frames come in another order than positions, that is unknown."""
        return not getattr(self.inner, "in_order", True) or self._own.covers(message)

    def _with(self, frame: Carrying, contents: tuple[bytes, ...]) -> Carrying:
        message = replace(frame.message, contents=contents)
        if isinstance(frame, Staged):
            return replace(frame, head=message, source=self.name)
        return replace(frame, message=message, source=self.name)

    def _learn(self, message: Message) -> tuple[bytes, ...]:
        """Keep the contents that came with a message; their digests."""
        came = [(digest, one) for digest, one in zip(message.digests, message.contents, strict=True) if one]
        for digest, content in came:
            self.repository.put(digest, content)
        return tuple([digest for digest, _ in came])

    # -- contents that are not here ----------------------------------------------------------------------------
    def _ask(self, missing: Sequence[bytes], to: str, waiting: Waiting, source: str) -> list[Out]:
        """A frame waits for contents: its source is asked for those that are not asked for yet."""
        new = [digest for digest in missing if digest not in self._requests]
        for digest in missing:
            self._requests.setdefault(digest, ContentRequest()).waiting.append((to, waiting))
        self.misses += len(new)
        asked = self._server if source == self.name else source  # else it went by here, and came back
        return [(asked, Fetch(tuple(new)))] if new else []

    def _asked(self, asker: str, frame: Fetch) -> list[Out]:
        """Another broker asks: answer, or ask on where the content's last message came from."""
        self.asked += len(frame.digests)
        outs: list[Out] = []
        for digest in frame.digests:
            content = self.repository.get(digest)
            if content:
                outs.append((asker, Content(digest, content)))
                continue
            request = self._requests.get(digest)
            if request is None:
                before = self._sources.of(digest)
                if before in ("", asker):
                    outs.append((asker, Content(digest, b"")))
                    continue
                request = self._requests[digest] = ContentRequest()
                outs.append((before, Fetch((digest,))))
            request.askers[asker] = None
        return outs

    def _arrived(self, frame: Content) -> list[Out]:
        request = self._requests.get(frame.digest)
        if request is None:
            return []
        answers: list[Out] = [(asker, frame) for asker in request.askers]
        request.askers.clear()
        if not frame.content:
            if not request.waiting:
                del self._requests[frame.digest]
                return answers
            if request.is_final:
                return answers  # the server makes this broker start over
            request.is_final, request.since = True, None
            return [*answers, (self._server, Fetch((frame.digest,), is_final=True))]
        del self._requests[frame.digest]
        self.repository.put(frame.digest, frame.content)
        for _, waiting in request.waiting:
            waiting.frame = _filled(waiting.frame, frame)
            waiting.missing.discard(frame.digest)
        receivers = dict.fromkeys(to for to, _ in request.waiting)
        return [*answers, *(out for to in receivers for out in self._flush(to))]

    def _flush(self, to: str) -> Iterable[Out]:
        queue = self._queues.get(to, deque())
        while queue and not queue[0].missing:
            yield to, queue.popleft().frame
        if not queue:
            self._queues.pop(to, None)

    def _start_anew(self, brokers: Iterable[str]) -> None:
        for broker in brokers:
            self.directory.forget(broker)
            self._remembering.discard(broker)
            self._announced_to.discard(broker)
            self._queues.pop(broker, None)
            for request in self._requests.values():
                request.askers.pop(broker, None)

    # -- what is shown -----------------------------------------------------------------------------------------
    @property
    def is_waiting(self) -> bool:
        """Whether a content is asked for: brokers that ask each other in a circle go on when `tick` asks the server."""
        return bool(self._requests)

    def report(self) -> dict[str, int]:
        """For GET /v1/network."""
        return {
            "held": len(self.repository),
            "bytes": self.repository.bytes,
            "hits": self.hits,
            "misses": self.misses,
            "spared": self.spared,
            "asked": self.asked,
        }

    def check(self) -> None:
        getattr(self.inner, "check", lambda: None)()
        self.repository.check()
        self._own.check()
        assert len(self.directory) <= self.directory.size
        assert all(queue and queue[0].missing for queue in self._queues.values())
        waits = {digest for queue in self._queues.values() for one in queue for digest in one.missing}
        assert waits <= self._requests.keys()


def _source(frame: Frame) -> str:
    """The node that has left contents out of a frame."""
    assert isinstance(frame, Carrier)
    return frame.source


def _filled(frame: Frame, content: Content) -> Frame:
    assert isinstance(frame, Carrier)
    message = frame.message
    pairs = zip(message.digests, message.contents, strict=True)
    contents = tuple([content.content if digest == content.digest else one for digest, one in pairs])
    if isinstance(frame, Staged):
        return replace(frame, head=replace(message, contents=contents))
    return replace(frame, message=replace(message, contents=contents))


class PayloadRoot(PayloadNode):
    """The server's node: it remembers what it has injected last, by size alone.

    What is asked for was mostly injected a moment ago. A broker that asks for content dropped here too is reported to
    the option `forgotten`: such a broker has to start over, and what it missed is replayed.
    """

    def __init__(self, inner: Root, options: Options) -> None:
        super().__init__(inner, options)
        self.root = inner
        self._forgotten: Callable[[str], None] = options.get("forgotten", _refuse)

    def _make_repository(self, entries: int, most_bytes: int) -> Repository:
        return Repository(None, most_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.root, name)

    @property
    def position(self) -> int:
        return self.root.position

    @position.setter
    def position(self, position: int) -> None:
        self.root.position = position

    def join(self, broker: str, parent: str) -> Iterable[Out]:
        self._start_anew((broker,))
        return self.send(self.root.join(broker, parent))

    def leave(self, broker: str) -> Iterable[Out]:
        self._start_anew((broker,))
        return self.send(self.root.leave(broker))

    def lose(self, broker: str, positions: Mapping[str, int]) -> tuple[list[str], Iterable[Out]]:
        kept, outs = self.root.lose(broker, positions)
        self._start_anew((broker, *kept))
        return kept, self.send(outs)

    def trim(self, position: int) -> None:
        self.root.trim(position)

    def place(self, host: str, space: Space, id: int, topic: bytes, place: Place | None) -> Iterable[Out]:
        return self.send(self.root.place(host, space, id, topic, place))

    def left(self, host: str, id: int) -> Iterable[Out]:
        return self.send(self.root.left(host, id))

    def direct(self, host: str, body: bytes) -> Iterable[Out]:
        return self.send(self.root.direct(host, body))

    def inject(self, message: Message) -> Iterable[Out]:
        self._learn(message)
        return self.send(self.root.inject(message))

    def mark(self, seq: int) -> Iterable[Out]:
        return self.send(self.root.mark(seq))

    def _asked(self, asker: str, frame: Fetch) -> list[Out]:
        self.asked += len(frame.digests)
        found = [Content(digest, self.repository.get(digest)) for digest in frame.digests]
        if frame.is_final and not all(one.content for one in found):
            self._forgotten(asker)
        return [(asker, one) for one in found]


def _refuse(asker: str) -> None:
    raise LookupError(f"{asker} asks for a content that the server has forgotten; give it more contents_mb")


def remembering(scheme: Scheme) -> Scheme:
    """The same network, whose brokers remember contents if the option `repository` says how many."""

    def root(name: str, options: Options) -> Root:
        made = scheme.root(name, options)
        return PayloadRoot(made, options) if "repository" in options else made

    def node(name: str, options: Options, since: int) -> Node:
        made = scheme.node(name, options, since)
        is_plain = "repository" not in options or name in options.get("plain", ())
        return made if is_plain else PayloadNode(made, options)

    root.__doc__ = scheme.root.__doc__
    return scheme._replace(root=root, node=node)
