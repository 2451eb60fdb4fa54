"""What follows a commit when brokers hold sockets too: the server's node of the network, and its own edge beside it.

Messages go to the server's own edge as ever, and into the network's root, which decides what each broker is sent. A
subscription that a broker hosts is placed in the network before anything later can miss it; what its edge must know
(hosted, moved, gone) travels down the same links in the same order. Everything happens on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from cn.model import frames as cn_frames
from cn.model.frames import Frame
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.node import Out, Root
from prosem.brokers import control
from prosem.brokers.member import Member, RemoteSink, ReplaySink
from prosem.brokers.protocol import TOO_OLD, WITH_PARTS, WITH_STRAIGHT
from prosem.brokers.redirects import PROMISE_S, Redirects
from prosem.brokers.stage_orders import StageOrders, stage_order
from prosem.brokers.ways import Ways
from prosem.delivery.edge import NOWHERE, Edge, Host, Stream
from prosem.engine import commands as c
from prosem.engine.pipeline import Submit
from prosem.engine.traffic import Traffic
from prosem.types.base import SID_MASK, Bound, Form, NetworkPlace, Part, network_places
from prosem.values.access import Scope
from prosem.values.errors import ConflictError, ProsemError

log = logging.getLogger("prosem.brokers")
UNDER_WAY = 512  # attaches of brokers in the engine's order at a time
Send = Callable[[str, Frame, bytes], None]
ADOPTED = 10_000  # places that are placed again in one step, when a broker on the way to them is lost


class Placed(NamedTuple):
    """Where a subscription is in the network; its form and whether it is durable."""

    space: Space
    parts: tuple[Part, ...]
    form: Form
    durable: bool
    bound: Bound


class Dispatcher:
    """`send` puts a frame on the link to a neighbour; `submit` puts a command into the engine's order.

    `replay` runs a replay, `orphan` is called when the last stream of an ephemeral subscription has ended at a broker,
    `expire` when every broker must start over. `way`: the one that all messages take where the network offers two.
    `redirects`: whether clients that follow redirects are sent to the broker where their subscriptions belong.
    `stage_orders`: which columns of a table are most general, for networks that weaken places.
    """

    def __init__(
        self,
        edge: Edge,
        root: Root,
        send: Send,
        capacity: int,
        submit: Submit,
        replay: Callable[[Stream, c.Hosted], None],
        orphan: Callable[[int], None],
        expire: Callable[[], None],
        way: str | None = None,
        redirects: bool = True,
        stage_orders: StageOrders | None = None,
    ) -> None:
        self._edge, self.root, self._send, self._capacity = edge, root, send, capacity
        self._submit, self._replay, self._orphan, self._expire = submit, replay, orphan, expire
        self._hosts: dict[int, list[Member]] = {}
        self._placed: dict[int, Placed] = {}
        self._asked: deque[tuple[Member, control.Attach]] = deque()  # that wait for others
        self._under_way = 0
        self._is_marking = self._is_releasing = False
        self.seq = 0
        self.position = 0  # of the last mark
        self.traffic = Traffic()
        self.ways = Ways(root.name, self.traffic, way)
        self.stage_orders = stage_orders or {}
        self._orders: dict[int, tuple[int, ...] | None] = {}  # of the attributes of each space
        self.members: dict[str, Member] = {}  # by node
        self.redirects = Redirects(
            self.members, self.ways, self.traffic, self._serve_asked, self._redirect, is_used=redirects
        )

    @property
    def hosted(self) -> int:
        """Subscriptions that brokers host."""
        return len(self._hosts)

    def hosts(self, sid: int) -> bool:
        """Whether a broker hosts the subscription."""
        return sid in self._hosts

    # -- after a commit ------------------------------------------------------------------------------------------
    def release(self, frames: list[c.Frame], seq: int) -> Iterator[None]:
        self._is_releasing = True
        are_taken = yield from self._edge.steps(self._take, frames)
        self.seq, self._is_releasing = seq, False
        if not are_taken:
            self._expire()
        self._edge.network.watermark(seq)
        self.mark()

    def _take(self, frame: c.Frame) -> None:
        if isinstance(frame, Message):
            self._edge.take(frame)
            if self._hosts:
                self._send_message(frame)
        elif isinstance(frame, c.Hosted):
            if self.stage_orders:
                self._orders[frame.space.id] = stage_order(frame.form, self.stage_orders)
            if self.redirects.take(frame, self.root, self.post):
                pass  # its client is redirected, or it is being found out where to
            elif isinstance(frame.sink, RemoteSink):
                self._host(frame, frame.sink.member)
            else:
                self._edge.take(frame)
        else:
            self._edge.take(frame)
            if isinstance(frame, c.Moved | c.Gone):
                self._move(frame)
            elif isinstance(frame, c.Closed):
                self.traffic.forget(frame.space)
                self.redirects.assignment.forget(frame.space)
                self._orders.pop(frame.space, None)
            elif isinstance(frame, c.Rearranged):
                for member in self.members.values():
                    self._direct(member, control.Rearranged(frame.space))

    def order(self, space: int) -> tuple[int, ...] | None:
        """The attributes of a space, most general first; see `cn.networks.stages`."""
        return self._orders.get(space)

    def is_straight(self, message: Message, links: Sequence[str], hosts: Sequence[str]) -> bool:
        """Whether a message for these hosts goes straight to them; see `cn.networks.cbn`."""
        spoken = all(self.members[host].protocol >= WITH_STRAIGHT for host in hosts)
        return spoken and self.ways.is_straight(message, links, hosts)

    def _send_message(self, message: Message) -> None:
        start = time.perf_counter_ns()
        outs = [*self.root.inject(message)]
        self.post(outs)
        took_us = (time.perf_counter_ns() - start) / 1e3
        self.traffic.sent(message, *self.ways.carried(outs), took_us)
        self.redirects.learn(message, self.root, self._place_of)

    def _place_of(self, id: int) -> NetworkPlace | None:
        """Where a subscription that brokers host is, in the space that it has this id in."""
        placed = self._placed.get(id & SID_MASK)
        if placed is None:
            return None
        places = network_places(placed.space, id & SID_MASK, placed.bound, placed.parts)
        return next((one for one in places if one.id == id), None)

    def recovered(self, seq: int, timeline: str = "") -> None:
        """Frames may be missing: all start over."""
        self.seq = seq
        self._edge.recovered(seq, timeline)
        self._expire()

    def _host(self, frame: c.Hosted, member: Member) -> None:
        if member.is_gone:
            if not frame.durable:
                self._orphan(frame.sid)
            return
        if frame.parts and member.protocol < WITH_PARTS:
            self.notify(member, control.refused(frame.token, ConflictError(TOO_OLD)))
            if not frame.durable:
                self._orphan(frame.sid)
            return
        if frame.sid not in member.tokens:
            self._hosts.setdefault(frame.sid, []).append(member)
        member.tokens[frame.sid] = frame.token
        member.promised.pop(frame.sid, None)
        bound = frame.bound or NOWHERE
        self._placed[frame.sid] = Placed(frame.space, frame.parts, frame.form, frame.durable, bound)
        self._place(member.node, frame.sid, bound)
        if frame.statement.id not in member.statements:
            member.statements.add(frame.statement.id)
            self._direct(member, control.stated(frame.statement, frame.form.tables))
        self._direct(member, control.hosted(frame))
        if frame.after is not None and frame.after < frame.seq:
            sink = ReplaySink(member, frame.token, self.notify, self._capacity)
            stream = Stream(frame.id, sink, Host(frame), frame.after, frame.timeline)
            stream.replay()
            self._replay(stream, frame)

    def _move(self, frame: c.Moved | c.Gone) -> None:
        for member in self._hosts.get(frame.sid, ()):
            placed = self._placed[frame.sid]
            if isinstance(frame, c.Moved):
                self._place(member.node, frame.sid, frame.bound or NOWHERE, placed.bound)
                place = control.place_of(frame.bound, placed.space)
                state = control.pack_state(placed.form, frame.state)
                self._direct(member, control.Moved(frame.sid, place, state))
            else:
                self._displace(member.node, frame.sid)
                self._direct(member, control.Gone(frame.sid))
                del member.tokens[frame.sid]
        if isinstance(frame, c.Gone):
            self._unhost(frame.sid)
        elif frame.sid in self._placed:
            self._placed[frame.sid] = self._placed[frame.sid]._replace(bound=frame.bound or NOWHERE)

    def _place(self, node: str, sid: int, bound: Bound, before: Bound = NOWHERE) -> None:
        """Put a subscription of a broker where it is from now on, under all its topics or in all parts of its space."""
        space, parts, *_ = self._placed[sid]
        places = [*network_places(space, sid, bound, parts)]
        for one in places:
            self.post(self.root.place(node, *one))
        for one in [*network_places(space, sid, before, parts)][len(places) :]:
            self.post(self.root.left(node, one.id))

    def _displace(self, node: str, sid: int) -> None:
        space, parts, _, _, bound = self._placed[sid]
        for one in network_places(space, sid, bound, parts):
            self.post(self.root.left(node, one.id))

    def _unhost(self, sid: int) -> None:
        """No broker hosts it any more."""
        self._hosts.pop(sid, None)
        self._placed.pop(sid, None)
        self.traffic.is_used = bool(self._hosts)

    # -- what brokers ask for ------------------------------------------------------------------------------------
    def take(self, member: Member, request: control.Request) -> None:
        """A request of a broker, in the order in which it made them.

        However many streams come back at once, only some of them are in the engine's order: its queue stays open for
        publishers, and what follows a commit stays short.
        """
        if member.is_gone:
            return
        if isinstance(request, control.Attach):
            self._asked.append((member, request))
            self._submit_asked()
        elif member.tokens.get(request.sid) == request.token:  # else it was hosted again meanwhile
            self._displace(member.node, request.sid)
            self._leave(member, request.sid)

    def _submit_asked(self) -> None:
        while self._asked and self._under_way < UNDER_WAY:
            member, request = self._asked.popleft()
            if member.is_gone:
                continue
            scope = Scope(request.tenant, request.key, request.own)
            command = c.Attach(
                request.id,
                request.after,
                RemoteSink(member),
                request.token,
                scope,
                request.timeline,
                request.follows,
            )
            try:
                future = self._submit(command)
            except ProsemError as error:
                self.notify(member, control.refused(request.token, error))
                continue
            self._under_way += 1
            future.add_done_callback(partial(self._answered, member, request.token))

    def _redirect(self, frame: c.Hosted, to: Member) -> None:
        """A client is to attach at another broker. An ephemeral subscription ends if it does not come."""
        if isinstance(frame.sink, RemoteSink):
            self.notify(frame.sink.member, control.Redirected(frame.token, to.advertised))
        else:
            frame.sink.redirected(frame.id, frame.token, to.advertised)
        if not frame.durable:
            asyncio.get_running_loop().call_later(PROMISE_S, self._orphan, frame.sid)

    def _serve_asked(self, frame: c.Hosted) -> None:
        """There is no better broker for a client that would follow: it is attached where it is, later in the order."""
        assert frame.asked is not None
        if not isinstance(frame.sink, RemoteSink):
            frame.sink.serve(frame.asked)
            return
        member = frame.sink.member
        if member.is_gone:
            if not frame.durable:
                self._orphan(frame.sid)
            return
        self._asked.append((member, control.attach(frame.token, replace(frame.asked, follows=False))))
        self._submit_asked()

    def _answered(self, member: Member, token: int, done: Future[Any]) -> None:
        self._under_way -= 1
        error = done.exception()
        if error is not None:
            self.notify(member, control.refused(token, error))
        self._submit_asked()

    def _leave(self, member: Member, sid: int) -> None:
        """A broker hosts a subscription no longer; an ephemeral one ends with its last stream."""
        del member.tokens[sid]
        others = self._hosts[sid]
        others.remove(member)
        if not others:
            durable = self._placed[sid].durable
            self._unhost(sid)
            if not durable:
                self._orphan(sid)

    # -- members -------------------------------------------------------------------------------------------------
    def join(self, member: Member) -> None:
        """A broker has joined, and hosts nothing."""
        self.members[member.node] = member
        member.position = self.root.position
        self.post(self.root.join(member.node, member.parent))
        self.mark()

    def drop(self, member: Member) -> list[Member]:
        """A broker is gone, and those below it go on below its parent; returns the lost ones.

        With it go all that it led to if they host too many, or a branch whose members are too far behind.
        """
        if member.is_gone:
            return []
        below = self._below(member)
        if sum(len(one.tokens) for one in below) > ADOPTED:
            below = []
        kept, outs = self.root.lose(member.node, {one.node: one.position for one in below})
        self.post(outs)
        lost = [one for one in (member, *self._below(member)) if one.node not in kept]
        for one in lost:
            self._forget(one)
        for node in kept:
            for sid in self.members[node].tokens:
                self._place(node, sid, self._placed[sid].bound)
            if self.members[node].parent == member.node:
                self.members[node].parent = member.parent
        self.mark()
        return lost

    def start_over(self, root: Root) -> list[Member]:
        """All brokers are gone, with a root that may be in disorder; the new one begins an epoch. Returns the lost ones."""
        lost = [*self.members.values()]
        self.root, self.position = root, root.position
        for member in lost:
            self._forget(member)
        self._asked.clear()
        self.redirects.start_over()
        return lost

    def _forget(self, member: Member) -> None:
        member.is_gone = True
        del self.members[member.node]
        for sid in list(member.tokens):
            self._leave(member, sid)

    def _below(self, member: Member) -> list[Member]:
        """Those that are reached by a broker."""
        return [one for one in self.members.values() if one is not member and member.node in self._way(one)]

    def _way(self, member: Member) -> Iterator[str]:
        parent = member.parent
        while parent in self.members:
            yield parent
            parent = self.members[parent].parent

    def renewed(self) -> None:
        """A broker has said how far it is: what all have got need not be remembered."""
        self.root.trim(min([one.position for one in self.members.values()], default=self.position))

    def notify(self, member: Member, notice: control.Notice) -> None:
        """Send a broker a frame outside the order of commits."""
        if not member.is_gone:
            self._direct(member, notice)
            if not self._is_marking:
                self._is_marking = True
                asyncio.get_running_loop().call_soon(self.mark)

    def mark(self) -> None:
        """Everything that was sent so far may be applied; while the messages of an event go out, this waits for the last."""
        self._is_marking = False
        if self._is_releasing:
            return
        self.post(self.root.mark(self.seq))
        self.position = self.root.position

    def _direct(self, member: Member, notice: control.Notice) -> None:
        self.post(self.root.direct(member.node, control.encode(notice)))

    def post(self, outs: Iterable[Out]) -> int:
        """Send what the root says; what is for the server's own edge it has already. How many frames went out."""
        encoded: tuple[Frame | None, bytes] = None, b""
        count = 0
        for to, frame in outs:
            if to == self.root.name:
                continue
            if encoded[0] is not frame:
                encoded = frame, cn_frames.encode(frame)
            self._send(to, frame, encoded[1])
            count += 1
        return count
