"""The broker's side: the same edge as the server's, fed by a network, and attaches that travel to the server.

All its state is soft. A *membership session* begins when the server takes the broker into the network and ends when
either has lost the other; then every stream of every socket is attached again after the last seq it was given, in the
next session, and the server's outbox brings what was missed. Requests made in between wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from cn.model import frames as cn_frames
from cn.model.frames import Data, Frame, Straight
from cn.model.network import Deliver, Network, Place, Release, Space
from cn.networks.edge_buffer import EdgeBuffer
from cn.networks.local import LocalNetwork
from cn.networks.node import Node, Out
from prosem.brokers import control
from prosem.delivery.edge import Edge, Stream
from prosem.engine import commands as c
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import TimeSlice, complete
from prosem.types.base import Form
from prosem.values.errors import BusyError
from prosem.values.model import Statement

log = logging.getLogger("prosem.broker")
MAX_WAITING = 200_000
Send = Callable[[str, Frame, bytes], None]


class BrokerFeed:
    """`Subscriber`s use `edge` and `submit` as they do in the server."""

    def __init__(self, metrics: Metrics) -> None:
        self._tokens = 0
        self._waiting: dict[int, tuple[c.Attach, Future[Any]]] = {}
        self._forms: dict[int, tuple[Statement, Form]] = {}
        self._hosted: dict[int, int] = {}  # sid → token of the last answer
        self._spaces: dict[int, Form] = {}
        self._replays: dict[int, Stream] = {}
        self._token = 0  # of the answer that is being taken
        self._node: Node | None = None
        self._buffer: EdgeBuffer
        self.edge = Edge(metrics, self._network, self._replaying, _ended_by_server)
        self._send: Send = lambda to, frame, data: None
        self._request: Callable[[bytes], None] = lambda data: None

    def _network(self, deliver: Deliver, release: Release, *since: Any) -> Network:
        """What brings frames of a session to the edge."""
        self._buffer = EdgeBuffer(deliver, release, *since)
        return _Leaving(self._buffer.network, self._left)

    # -- sessions ------------------------------------------------------------------------------------------------
    def begin(
        self, node: Node, since: int, send: Send, request: Callable[[bytes], None], timeline: str = ""
    ) -> None:
        """The server has taken this broker in as `node`, at the position `since`; its timeline is this one.

        Frames go out by `send`, requests to the server by `request`.
        """
        self._node, self._send, self._request = node, send, request
        if timeline != self.edge.timeline:
            self.edge.seq, self.edge.timeline = 0, timeline
        self.edge.network = self._network(self.edge.deliver, self.edge.watermark, self._direct, since)
        for token, (command, _) in self._waiting.items():
            self._request(control.encode(control.attach(token, command)))

    def end(self) -> None:
        """Server and broker have lost each other."""
        if self._node is None:
            return
        self._node = None
        self._request = lambda data: None
        for known in (self._forms, self._hosted, self._spaces, self._replays):
            known.clear()
        self.edge.start_over()

    @property
    def position(self) -> int:
        """How far everything was applied."""
        return self._buffer.position

    @property
    def node(self) -> Node | None:
        return self._node

    # -- frames --------------------------------------------------------------------------------------------------
    async def receive(self, sender: str, body: bytes) -> None:
        """A list of frames from a neighbour; others have their turn in between, and while many are notified."""
        node, turn = self._node, TimeSlice()
        for frame in cn_frames.decode_many(body):
            if node is None or node is not self._node:
                return  # another session has begun
            self._pass_on(node.receive(sender, frame))
            for _ in self._applied():
                await turn.over()
                if node is not self._node:
                    return
            await turn.over()

    def _applied(self) -> Iterator[None]:
        """Apply what has come for the own edge, in small steps."""
        for frame in self._buffer.steps():
            message = frame.message if isinstance(frame, Data | Straight) else None
            yield from self.edge.settle(None if message is None else message.seq)
            yield

    def tick(self, now: float) -> None:
        if self._node is not None:
            self.post(self._node.tick(now))

    def post(self, outs: Iterable[Out]) -> None:
        self._pass_on(outs)
        complete(self._applied())

    def _pass_on(self, outs: Iterable[Out]) -> None:
        assert self._node is not None
        encoded: tuple[Frame | None, bytes] = None, b""
        for to, frame in outs:
            if to == self._node.name:
                self._buffer.put(frame)  # type: ignore[arg-type]
                continue
            if encoded[0] is not frame:
                encoded = frame, cn_frames.encode(frame)
            self._send(to, frame, encoded[1])

    def _direct(self, body: bytes) -> None:
        notice = control.read_notice(body)
        if isinstance(notice, control.Hosted):
            self._host(notice)
        elif isinstance(notice, control.Replayed):
            self._replayed(notice)
        elif isinstance(notice, control.Moved):
            if notice.sid in self._hosted:
                form = self._spaces[notice.sid]
                bound = control.bound_of(notice.place)
                self.edge.take(c.Moved(notice.sid, bound, control.unpack_state(form, notice.state)))
        elif isinstance(notice, control.Rearranged):
            self.edge.take(c.Rearranged(notice.space))
        elif isinstance(notice, control.Gone):
            self._hosted.pop(notice.sid, None)
            self.edge.take(c.Gone(notice.sid))
        elif isinstance(notice, control.Redirected):
            command, future = self._waiting.pop(notice.token, (None, None))
            if command is not None and future is not None:
                future.set_result(None)
                command.sink.redirected(command.id, command.token, notice.url)
        elif isinstance(notice, control.Refused):
            _, future = self._waiting.pop(notice.token, (None, None))
            if future is not None:
                future.set_exception(control.error_of(notice))
        else:
            statement = Statement(notice.statement, notice.sql, notice.notify, per=notice.per)
            self._forms[notice.statement] = statement, control.form_of(notice)

    def _host(self, notice: control.Hosted) -> None:
        command, future = self._waiting.pop(notice.token, (None, None))
        if command is None or future is None:
            return
        statement, form = self._forms[notice.statement]
        self._hosted[notice.sid], self._spaces[notice.sid] = notice.token, form
        self._token = notice.token
        frame = c.Hosted(
            notice.sid,
            notice.id,
            command.sink,
            form,
            notice.space,
            control.bound_of(notice.place),
            notice.seq,
            notice.after,
            notice.created,
            notice.snapshot,
            notice.durable,
            command.token,
            control.unpack_state(form, notice.state),
            statement,
            notice.timeline,
            parts=notice.parts,
        )
        future.set_result(None)
        self.edge.take(frame)

    # -- replays, which the server runs --------------------------------------------------------------------------
    def _replaying(self, stream: Stream, frame: c.Hosted) -> None:
        self._replays[self._token] = stream

    def _replayed(self, notice: control.Replayed) -> None:
        stream = self._replays.get(notice.token)
        if stream is None:
            return
        for seq, body in notice.changes:
            if not stream.give("change", seq, body):
                break
        if notice.done or notice.lags:
            del self._replays[notice.token]
            if notice.lags:
                stream.sink.lag()
            elif not stream.sink.is_lagging:
                stream.catch_up()

    # -- requests ------------------------------------------------------------------------------------------------
    def submit(self, command: c.Command) -> Future[Any]:
        """Ask the server to attach; it waits while there is no server."""
        assert isinstance(command, c.Attach), "all else is asked over HTTP"
        if len(self._waiting) >= MAX_WAITING:
            raise BusyError(f"{len(self._waiting)} attaches wait for the server; send again after a second")
        self._tokens += 1
        future: Future[Any] = Future()
        self._waiting[self._tokens] = command, future
        self._request(control.encode(control.attach(self._tokens, command)))
        return future

    def _left(self, sid: int) -> None:
        token = self._hosted.pop(sid, None)
        self._spaces.pop(sid, None)
        if token is not None:
            self._request(control.encode(control.Leave(sid, token)))


def _ended_by_server(sid: int) -> None:
    """An ephemeral subscription has lost its last stream here: the server learns it from the network."""


class _Leaving:
    """The edge's network: a subscription without listeners leaves the whole network, not only this broker."""

    name = "broker"

    def __init__(self, network: LocalNetwork, left: Callable[[int], None]) -> None:
        self._network, self._left = network, left
        self.inject, self.watermark, self.links = network.inject, network.watermark, network.links

    def register(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        self._network.register(space, id, topic, place)

    def move(self, space: Space, id: int, topic: bytes, place: Place | None) -> None:
        self._network.move(space, id, topic, place)

    def remove(self, id: int) -> None:
        self._network.remove(id)
        self._left(id)
