"""The edge: the streams of attached subscriptions, and the folding of messages into changes.

Runs on the loop's thread. It hosts only subscriptions with a stream; each hosted one has a place in the
network. Messages of one `seq` are gathered and folded by the subscription's form into at most one change, which goes to
every stream attached. A stream that starts in the past is fed by the replayer first, while what comes live is put aside.

A sink that cannot take more is *lagging*: it is sent nothing further, and once its queue is empty its streams are
attached again after the last `seq` they were given, so that the outbox brings what was missed. No other sink waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

from cn.model.message import Message
from cn.model.network import Factory
from prosem.engine import commands as c
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import complete
from prosem.types.base import SID_MASK, Bound, PartedForm, network_places
from prosem.values.wire import encode

log = logging.getLogger("prosem.edge")
MAX_PUT_ASIDE, MAX_PUT_ASIDE_BYTES = 10_000, 8 << 20  # per stream, while it is replayed
NOWHERE = Bound(b"", None)


class Sink(Protocol):
    """A socket or an event stream; `offer` is False when its queue is full (then nothing was taken)."""

    def accept(self, stream: Stream, token: int) -> bool:
        """A stream was asked for with this token; False when it is no longer waited for."""

    def attached(self, stream: Stream) -> None:
        """The stream has reached the present."""

    def offer(self, stream: Stream, kind: str, seq: int, body: bytes) -> bool: ...
    def lag(self) -> None: ...
    def renew(self, stream: Stream) -> None:
        """Attach the stream again where it stands."""

    @property
    def is_lagging(self) -> bool: ...
    def gone(self, stream: Stream) -> None: ...
    def progress(self, seq: int) -> None: ...


class Stream:
    """One subscription on one sink. `seq`: everything up to it has been given to the sink (None: nothing yet)."""

    __slots__ = (
        "_aside",
        "_aside_bytes",
        "head",
        "host",
        "id",
        "is_closed",
        "is_raw",
        "seq",
        "sink",
        "timeline",
    )

    def __init__(self, id: str, sink: Sink, host: Host, seq: int | None, timeline: str = "") -> None:
        self.id, self.sink, self.host, self.seq = id, sink, host, seq
        self.timeline = timeline  # that `seq` is of
        self.head = b'{"id":%b' % encode(id)  # how its frames begin
        self._aside: list[tuple[int, bytes]] | None = None
        self._aside_bytes = 0
        self.is_closed = False
        self.is_raw = False  # it receives messages instead of changes; the sink says so when it accepts it

    def replay(self) -> None:
        """From now on what comes live waits until `catch_up`."""
        self._aside, self._aside_bytes = [], 0

    def live(self, seq: int, body: bytes) -> None:
        if self._aside is None:
            sink = self.sink  # as `give` does it: a change that affects many passes here for each of them
            if self.is_closed or sink.is_lagging:
                return
            if sink.offer(self, "change", seq, body):
                self.seq = seq
            else:
                sink.lag()
        elif len(self._aside) < MAX_PUT_ASIDE and self._aside_bytes < MAX_PUT_ASIDE_BYTES:
            self._aside.append((seq, body))
            self._aside_bytes += len(body)
        else:
            self.sink.lag()  # what was put aside is lost, and fetched again from where the replay stands

    def give(self, kind: str, seq: int, body: bytes) -> bool:
        """Hand over in order; False when the sink lags or the stream is closed."""
        if self.is_closed or self.sink.is_lagging:
            return False
        if not self.sink.offer(self, kind, seq, body):
            self.sink.lag()
            return False
        self.seq = seq
        return True

    def rest(self, floor: int) -> None:
        """Take nothing more; the sink had been given everything up to `floor`, and the stream stays there."""
        if not self.is_closed:
            self.is_closed = True
            if self.seq is not None and self._aside is None:
                self.seq = max(self.seq, floor)

    def catch_up(self) -> None:
        """The replay is complete: hand over what was put aside."""
        if self.is_closed:
            return  # it was attached again meanwhile, and another replay brings the rest
        for seq, body in self._aside or ():
            if not self.give("change", seq, body):
                return  # it still stands in the past, and is attached again there
        self._aside = None
        self.sink.attached(self)


class Host:
    """A subscription with streams."""

    __slots__ = ("bound", "durable", "form", "is_raw", "parts", "placed", "sid", "space", "state", "streams")

    def __init__(self, frame: c.Hosted) -> None:
        self.sid, self.form, self.space, self.durable = frame.sid, frame.form, frame.space, frame.durable
        self.parts = frame.parts
        self.bound: Bound | None = frame.bound
        self.state: Any = frame.state
        self.streams: list[Stream] = []
        self.is_raw = False  # some stream is, or was
        self.placed: tuple[int, ...] = ()  # the ids by which the network knows it, one per topic or part

    def send_raw(self, seq: int, messages: Sequence[Message], change: bytes | None) -> None:
        """Each stream receives what it asked for: the messages, or the change they amount to."""
        raw = self.form.raw(messages, self.bound or NOWHERE, change)
        for stream in self.streams:
            if not stream.is_raw:
                if change is not None:
                    stream.live(seq, change)
            elif raw:
                stream.give("raw", seq, encode(raw))


class Edge:
    """Hosts the subscriptions that have a stream here.

    `network` makes the network that delivers to this edge; `replay(stream, frame)` starts the replay of a stream that begins
    in the past; `orphan(sid)` is called when the last stream of an ephemeral subscription has ended here.
    """

    step = 16  # subscriptions whose messages are folded at a time

    def __init__(
        self,
        metrics: Metrics,
        network: Factory,
        replay: Callable[[Stream, c.Hosted], None],
        orphan: Callable[[int], None],
    ) -> None:
        self._metrics = metrics
        self._hosts: dict[int, Host] = {}
        self._sinks: set[Sink] = set()
        self._folding: list[tuple[Message, Sequence[int]]] = []  # of one seq, with the ids they concern
        self._folding_seq = 0
        self.seq = 0
        self.timeline = ""
        self._replay, self._orphan = replay, orphan
        self.network = network(self.deliver, self.watermark)

    @property
    def hosted(self) -> int:
        return len(self._hosts)

    @property
    def sinks(self) -> int:
        """Sockets and event streams that are open."""
        return len(self._sinks)

    def hosts(self, sid: int) -> bool:
        """Whether the subscription has a stream here."""
        return sid in self._hosts

    # -- after a commit ------------------------------------------------------------------------------------------
    def release(self, frames: list[c.Frame], seq: int) -> Iterator[None]:
        yield from self.steps(self.take, frames)
        self.network.watermark(seq)

    def steps(self, take: Callable[[Any], None], frames: list[c.Frame]) -> Generator[None, None, bool]:
        """Take frames in their order, in small steps; whether all were taken."""
        are_taken = True
        for frame in frames:
            yield from self.settle(frame.seq if isinstance(frame, Message) else None)
            are_taken &= self._survive(take, frame)
            yield
        yield from self._fold()
        return are_taken

    def settle(self, seq: int | None) -> Iterator[None]:
        """Fold what has gathered, in small steps, unless the next message is of the same seq."""
        if self._folding and seq != self._folding_seq:
            yield from self._fold()

    def _survive(self, take: Callable[[Any], None], frame: c.Frame) -> bool:
        """Whether a frame was taken. If not, a fault of ours: every stream starts again from where it stands."""
        try:
            take(frame)
        except Exception:
            log.exception("a frame failed in a way it should not: %r", type(frame).__name__)
            self._all_lag()
            return False
        return True

    def take(self, frame: c.Frame) -> None:
        """One frame, in its order."""
        if isinstance(frame, Message):
            self.network.inject(frame)
        else:
            self._fold_all()
            self._move(frame)

    def recovered(self, seq: int, timeline: str = "") -> None:
        """Frames may be missing, also such without a seq: every stream starts again from where it stands."""
        self._fold_all()
        if self.seq:
            self._all_lag()
        self.seq, self.timeline = seq, timeline
        self.network.watermark(seq)

    def start_over(self) -> None:
        """Whatever fed this edge is lost: it hosts nothing, and every stream is attached again where it stands."""
        self._folding = []
        self._all_lag()
        self._hosts = {}

    def _all_lag(self) -> None:
        for host in self._hosts.values():
            for stream in host.streams:
                stream.sink.lag()

    def _move(self, frame: c.Frame) -> None:
        if isinstance(frame, c.Hosted):
            self._host(frame)
        elif isinstance(frame, c.Moved):
            host = self._hosts.get(frame.sid)
            if host is not None:
                host.bound, host.state = frame.bound, frame.state
                self._place(host)
                for stream in list(host.streams):
                    if stream.is_raw:  # what it holds is of another place: it begins anew
                        stream.sink.renew(stream)
        elif isinstance(frame, c.Rearranged):
            self._renew(frame.space)
        elif isinstance(frame, c.Gone):
            host = self._hosts.pop(frame.sid, None)
            if host is not None:
                self._displace(host)
                for stream in host.streams:
                    stream.is_closed = True
                    stream.sink.gone(stream)

    def _renew(self, space: int) -> None:
        """What is held of a space's subscriptions is of no use any more: attach their streams where they stand."""
        concerned = [host for host in self._hosts.values() if host.space.id == space]
        for stream in [stream for host in concerned for stream in host.streams]:
            stream.sink.renew(stream)

    def _place(self, host: Host) -> None:
        before, placed = host.placed, []
        for space, id, topic, place in network_places(
            host.space, host.sid, host.bound or NOWHERE, host.parts
        ):
            self.network.register(space, id, topic, place)
            placed.append(id)
        host.placed = tuple(placed)
        for id in before[len(placed) :]:
            self.network.remove(id)

    def _displace(self, host: Host) -> None:
        for id in reversed(host.placed):  # the sid itself last: a broker then notifies the server
            self.network.remove(id)
        host.placed = ()

    # -- streams -------------------------------------------------------------------------------------------------
    def _host(self, frame: c.Hosted) -> None:
        sink: Sink = frame.sink
        host = self._hosts.get(frame.sid)
        if host is None:
            host = self._hosts[frame.sid] = Host(frame)
        host.bound, host.state = (
            frame.bound,
            frame.state,
        )  # nothing new, unless a frame was lost with a connection
        self._place(host)
        for other in [stream for stream in host.streams if stream.sink is sink]:
            other.is_closed = True
            host.streams.remove(other)
        start = frame.seq if frame.after is not None else None
        stream = Stream(frame.id, sink, host, start, frame.timeline)
        if not sink.accept(stream, frame.token):
            self._leave_if_empty(host)
            return
        host.streams.append(stream)
        host.is_raw |= stream.is_raw
        if frame.after is not None and frame.after < frame.seq:
            stream.seq = frame.after
            stream.replay()
            self._replay(stream, frame)
            return
        if stream.is_raw:
            opening = frame.form.opening(frame.snapshot, frame.state)
            stream.give("raw", frame.seq, encode([opening]))
        elif frame.after is None:
            stream.give("snapshot", frame.seq, frame.snapshot)
        sink.attached(stream)

    def close(self, stream: Stream) -> None:
        """The sink lets go of a stream."""
        if stream.is_closed:
            return
        stream.is_closed = True
        host = stream.host
        if stream in host.streams:
            host.streams.remove(stream)
        self._leave_if_empty(host)

    def _leave_if_empty(self, host: Host) -> None:
        if not host.streams and self._hosts.get(host.sid) is host:
            del self._hosts[host.sid]
            self._displace(host)
            if not host.durable:
                self._orphan(host.sid)

    # -- deliveries of the network -------------------------------------------------------------------------------
    def deliver(self, message: Message, sids: Sequence[int] | Any) -> None:
        """The network brings a message to the subscriptions it concerns."""
        if message.seq != self._folding_seq:
            self._fold_all()
            self._folding_seq = message.seq
        self._folding.append((message, sids if isinstance(sids, Sequence) else sids.tolist()))

    def _fold_all(self) -> None:
        if self._folding:
            complete(self._fold())

    def _fold(self) -> Iterator[None]:
        """Make one change of all messages of the present seq, for each subscription they concern; some in a step."""
        folding, self._folding, seq = self._folding, [], self._folding_seq
        for number, (sid, messages) in enumerate(_by_subscription(folding), 1):
            if not number % self.step:
                yield
            host = self._hosts.get(sid)
            if host is None:
                continue
            try:
                self._tell(host, seq, messages)
            except Exception:  # a fault of ours: this subscription starts again, the others go on
                log.exception("messages of seq %d could not be folded", seq)
                for stream in host.streams:
                    stream.sink.lag()

    def _tell(self, host: Host, seq: int, messages: Sequence[Message]) -> None:
        if host.parts and isinstance(host.form, PartedForm):
            messages = host.form.translated(messages, host.state)
            if not messages:
                return
        body, host.state = host.form.change(messages, host.bound or NOWHERE, host.state)
        if host.is_raw:
            host.send_raw(seq, messages, body)
            self._metrics.changes += body is not None
        elif body is not None:
            self._metrics.changes += 1
            for stream in host.streams:
                stream.live(seq, body)

    def watermark(self, seq: int) -> None:
        """The network has brought everything up to `seq`."""
        self._fold_all()
        self.seq = seq
        for sink in self._sinks:
            sink.progress(seq)

    def open(self, sink: Sink) -> None:
        self._sinks.add(sink)

    def leave(self, sink: Sink) -> None:
        self._sinks.discard(sink)


def _by_subscription(
    deliveries: Sequence[tuple[Message, Sequence[int]]],
) -> Iterable[tuple[int, Sequence[Message]]]:
    """The messages that concern each subscription; ids of one subscription differ above `SID_MASK`.

    >>> first, second = Message(7, 0, 1, "put"), Message(7, 1, 1, "take")
    >>> found = _by_subscription([(first, [1, 2]), (second, [2, (1 << 40) | 3])])
    >>> [(sid, [message.kind for message in messages]) for sid, messages in found]
    [(1, ['put']), (2, ['put', 'take']), (3, ['take'])]
    """
    if len(deliveries) == 1:
        ((message, ids),) = deliveries
        if max(ids, default=0) <= SID_MASK:
            return zip(ids, repeat((message,)))
    found: dict[int, list[Message]] = {}
    for message, ids in deliveries:
        for id in ids:
            sid = id & SID_MASK
            messages = found.get(sid)
            if messages is None:
                found[sid] = [message]
            else:
                messages.append(message)
    return found.items()
