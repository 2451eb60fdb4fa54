"""CN*: contents that brokers remember, and that pass a link once (thesis 5.5).

Any node can be wrapped. What no condition looks at (`Message.content`) is left out on a link whose other end has said that
it has it; who lacks it asks the broker above, in the end the server. A broker that does not remember contents never says
so, and is always sent the whole message.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from cn.frames import Carrier, Content, Data, Fetch, Frame, Have, Join, Leave, Placed, Staged
from cn.message import Message
from cn.networks.base import Place, Space
from cn.networks.node import Node, Options, Out, Root, Scheme

DIRECTORY = 20_000  # digests whose links are remembered
Source = Callable[[bytes], bytes]


class Repository:
    """The contents used last, at most so many; O(1)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._contents: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._contents)

    def get(self, digest: bytes) -> bytes:
        """The content of a digest; b"" if it is not here."""
        content = self._contents.get(digest, b"")
        if content:
            self._contents.move_to_end(digest)
        return content

    def put(self, digest: bytes, content: bytes) -> None:
        self._contents[digest] = content
        self._contents.move_to_end(digest)
        while len(self._contents) > self.size:
            self._contents.popitem(last=False)


class Directory:
    """The links beyond which a content is known, of the digests used last; O(1)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._links: OrderedDict[bytes, set[str]] = OrderedDict()

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


class PayloadNode:
    """A broker that remembers contents, around one that carries messages.

    The inner node sees every frame at once and in order, since no network looks at contents. Only what is sent on waits:
    where a content is needed and not here, this frame and the later ones for that link (or for the own edge) wait for it.
    Options: `repository` and `directory`, the numbers of entries; `plain`, brokers that do not remember.
    """

    def __init__(self, inner: Node, options: Options) -> None:
        self.inner, self.name = inner, inner.name
        self.repository = Repository(options["repository"])
        self.directory = Directory(options.get("directory", DIRECTORY))
        self._remembering: set[str] = set()  # neighbours that have ever said that they have something
        self._queues: dict[str, deque[Frame]] = {}  # what waits, by whom it is for
        self._fetchers: dict[bytes, set[str]] = {}  # digests asked for: who else wants them
        self._above = ""  # the nearest broker above that remembers, if that is not the parent
        self._hosted: set[int] = set()  # whom the own edge hosts; without anybody it needs no content

    def receive(self, sender: str, frame: Frame) -> Iterable[Out]:
        if isinstance(frame, Have):
            self._remembering.add(sender)
            self.directory.put(sender, frame.digest)
            return ()
        if isinstance(frame, Fetch):
            return self._fetched(sender, frame.digest)
        if isinstance(frame, Content):
            return self._arrived(frame)
        outs: list[Out] = []
        if isinstance(frame, Join | Leave):
            self._start_anew((frame.broker,) if isinstance(frame, Join) else frame.brokers)
        elif isinstance(frame, Carrier) and frame.message.digest:
            is_plain = frame.source != sender
            if sender == getattr(self.inner, "parent", ""):
                self._above = frame.source if is_plain else ""
            if frame.message.content:
                self._learn(frame.message)
                outs += [] if is_plain else [(sender, Have(frame.message.digest))]
        return [*outs, *self.send(self.inner.receive(sender, frame))]

    def tick(self, now: float) -> Iterable[Out]:
        return self.send(self.inner.tick(now))

    def send(self, outs: Iterable[Out]) -> list[Out]:
        """What the inner node sends, with contents put in and left out."""
        sent: list[Out] = []
        for to, frame in outs:
            if to == self.name and isinstance(frame, Placed):
                self._hosted.add(frame.id)
            queue = self._queues.get(to)
            ready = frame if queue is None else None
            if ready is not None:
                ready = self._ready(to, frame)
            if ready is not None:
                sent.append((to, ready))
                continue
            self._queues.setdefault(to, deque()).append(frame)
            if queue is None and isinstance(frame, Carrier):
                sent += self._ask(frame.message.digest)
        return sent

    def _ready(self, to: str, frame: Frame) -> Frame | None:
        """A frame as it is to be sent; None if its content must be fetched first."""
        if not isinstance(frame, Carrier) or not frame.message.digest:
            return frame
        message = frame.message
        if to != self.name and self.directory.knows(to, message.digest):
            return self._with(frame, b"")
        content = message.content or self._find(message.digest)
        if to == self.name and not self._hosted:
            return frame
        if content:
            return frame if to == self.name and message.content else self._with(frame, content)
        return self._with(frame, b"") if to != self.name and to in self._remembering else None

    def _with(self, frame: Data | Staged, content: bytes) -> Frame:
        message = replace(frame.message, content=content)
        if isinstance(frame, Staged):
            return replace(frame, head=message, source=self.name)
        return replace(frame, message=message, source=self.name)

    # -- contents ----------------------------------------------------------------------------------------------
    def _learn(self, message: Message) -> None:
        self.repository.put(message.digest, message.content)

    def _find(self, digest: bytes) -> bytes:
        return self.repository.get(digest)

    def _ask(self, digest: bytes, by: str = "") -> list[Out]:
        is_asked = digest in self._fetchers
        wanted = self._fetchers.setdefault(digest, set())
        if by:
            wanted.add(by)
        above: str = self._above or getattr(self.inner, "parent", "")
        return [] if is_asked else [(above, Fetch(digest))]

    def _fetched(self, sender: str, digest: bytes) -> Iterable[Out]:
        content = self._find(digest)
        return [(sender, Content(digest, content))] if content else self._ask(digest, sender)

    def _arrived(self, frame: Content) -> list[Out]:
        self.repository.put(frame.digest, frame.content)
        outs: list[Out] = [(to, frame) for to in sorted(self._fetchers.pop(frame.digest, ()))]
        for to, queue in [*self._queues.items()]:
            first = queue[0]
            if isinstance(first, Carrier) and first.message.digest == frame.digest:
                outs.append((to, self._with(first, frame.content)))
                queue.popleft()
                del self._queues[to]
                outs += self.send([(to, one) for one in queue])
        return outs

    def _start_anew(self, brokers: Iterable[str]) -> None:
        for broker in brokers:
            self.directory.forget(broker)
            self._remembering.discard(broker)
            self._queues.pop(broker, None)
            for wanted in self._fetchers.values():
                wanted.discard(broker)

    def check(self) -> None:
        getattr(self.inner, "check", lambda: None)()
        assert len(self.repository) <= self.repository.size
        assert all(self._queues.values())
        heads = {queue[0].message.digest for queue in self._queues.values() if isinstance(queue[0], Carrier)}
        assert len(heads) == 0 or heads <= self._fetchers.keys()


class PayloadRoot(PayloadNode):
    """The server's node: it has every content, from what it injects or from the option `source`."""

    def __init__(self, inner: Root, options: Options) -> None:
        super().__init__(inner, options)
        self.root = inner
        self._source: Source | None = options.get("source")
        self._all: dict[bytes, bytes] = {}

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

    def place(self, host: str, space: Space, id: int, topic: bytes, place: Place | None) -> Iterable[Out]:
        return self.send(self.root.place(host, space, id, topic, place))

    def left(self, host: str, id: int) -> Iterable[Out]:
        return self.send(self.root.left(host, id))

    def direct(self, host: str, body: bytes) -> Iterable[Out]:
        return self.send(self.root.direct(host, body))

    def inject(self, message: Message) -> Iterable[Out]:
        if message.digest:
            self._learn(message)
        return self.send(self.root.inject(message))

    def mark(self, seq: int) -> Iterable[Out]:
        return self.send(self.root.mark(seq))

    def _learn(self, message: Message) -> None:
        if self._source is None:
            self._all[message.digest] = message.content

    def _find(self, digest: bytes) -> bytes:
        return self._all[digest] if self._source is None else self._source(digest)


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
