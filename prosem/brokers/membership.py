"""The brokers of a server: which are in the network, where, and for how long.

A broker joins over HTTP and is given a place in the network and a lease, which it renews. One that is silent beyond its
lease is dropped with all it hosts, and so is one to which too much is under way; when it comes back it joins again, as a new
node. An *epoch* is one run of the server's state: after a start or a recovery all brokers join again. What is under way
is in one stream of NATS JetStream, made anew for each epoch.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from functools import partial
from typing import Any

from cn.model import frames as cn_frames
from cn.model.frames import Frame
from cn.networks.node import Options, Root, Scheme
from cn.transport.consumer import Consumer, Receive
from cn.transport.nats import Link, NatsTransport
from cn.transport.stream import OwnStream
from prosem.brokers import control
from prosem.brokers.dispatcher import Dispatcher
from prosem.brokers.member import Member
from prosem.brokers.protocol import NETWORKS, WITH_ORDERS
from prosem.brokers.report import Carried, report
from prosem.brokers.requests import CONTROL, POSITION_EXPECTED, SERVER, LeaseRenewal
from prosem.runtime.backoff import Backoff
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import TimeSlice
from prosem.runtime.supervise import end, supervise
from prosem.values.errors import ConflictError, InputError, NotFoundError, RecoveringError
from prosem.values.model import JsonObject
from prosem.values.request_model import read

log = logging.getLogger("prosem.brokers")
MAX_BACKLOG_BYTES = 256 << 20  # a broker to which more is under way starts over
ROOM_BYTES = 32 << 20  # beyond it replays to a broker come in smaller pieces
WATCH_S = 0.5


class Membership:
    """`transport` is connected by `open`; `engine` names the database, so that servers can share a NATS."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        scheme: Scheme,
        options: Options,
        transport: NatsTransport,
        engine: str,
        *,
        lease_s: float,
        replicas: int,
        on_disk: bool,
        metrics: Metrics,
    ) -> None:
        self._dispatcher, self._scheme, self._options = dispatcher, scheme, options
        self._transport, self._engine = transport, engine
        self.lease_s, self._metrics = lease_s, metrics
        self._replicas, self._on_disk = replicas, on_disk
        self.epoch = ""
        self._is_open = False
        self._links: dict[str, Link] = {}
        self.carried: dict[str, Carried] = {}  # by node
        self._opening: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._forgetting: set[asyncio.Task[None]] = set()
        self._late_s = 0.0  # that the loop was late altogether

    @property
    def stream(self) -> str:
        return f"prosem-{self._engine}"

    def subject(self, node: str) -> str:
        return f"prosem.{self._engine}.{self.epoch}.{node}"

    # -- epochs --------------------------------------------------------------------------------------------------
    def start_over(self) -> None:
        """Begin an epoch: the network is empty."""
        self._is_open = False
        for member in self._dispatcher.start_over(self.make_root()):
            self._unlink(member, "the server starts over")
        before = self._opening
        if before is not None:
            before.cancel()
        self._opening = supervise("brokers-open", partial(self._open, before), self._metrics.restarts)
        if self._watching is None:
            self._watching = supervise("brokers-leases", self._watch, self._metrics.restarts)

    def lost(self, why: str) -> None:
        """What was on its way to brokers is lost: all join again, and are replayed from the log."""
        log.error("%s; all brokers start over", why)
        self._metrics.network_faults["stream"] += 1
        self.start_over()

    def make_root(self) -> Root:
        """The root with what it calls back.

        `forgotten`: a broker asks for a content that is no longer in memory; `expired`: a lease of the network is over.
        Either broker joins again, and is replayed from the log. `found`: where a subscription belongs; `order`: the
        attributes of a space; `is_straight`: which way a message takes.
        """
        forgotten = partial(self._drop_later, why="it asks for a content that the server has forgotten")
        expired = partial(self._drop_later, why="its lease in the network is over")
        calls: dict[str, Any] = {"forgotten": forgotten, "expired": expired}
        calls |= {"found": self._dispatcher.redirects.found, "order": self._dispatcher.order}
        if "repository" not in self._options:  # with it, contents are spared on the links of the tree
            calls["is_straight"] = self._dispatcher.is_straight
        return self._scheme.root(SERVER, {**self._options, **calls})

    def _drop_later(self, node: str, why: str) -> None:
        """Remove a broker after the step of the root that is being carried out."""
        asyncio.get_running_loop().call_soon(self._drop_node, node, why)

    def _drop_node(self, node: str, why: str) -> None:
        member = self._dispatcher.members.get(node)
        if member is not None:
            self._drop(member, why)

    async def _open(self, before: asyncio.Task[None] | None) -> None:
        """Make the stream of a new epoch, however long NATS takes to answer, once the opening before it has ended."""
        await end(before)
        self._is_open = False
        self.epoch = secrets.token_hex(4)
        backoff = Backoff(0.1, 2.0)
        while True:
            try:
                if not self._transport.is_open:
                    await self._transport.connect()
                await self._transport.leave()
                subjects = f"prosem.{self._engine}.{self.epoch}.>"
                made = OwnStream(self.stream, subjects, self._replicas, self._on_disk)
                await self._transport.make_stream(made)
                await self._listen(CONTROL, self._requested)
                await self._listen(SERVER, self._received)
                break
            except OSError as problem:
                log.warning("brokers cannot join yet: %s", problem)
                await backoff.wait()
        self._is_open = True
        log.info("brokers may join (epoch %s, network %s)", self.epoch, self._scheme.name)

    async def _listen(self, node: str, receive: Receive) -> None:
        name, members = f"{node}-{self.epoch}", self._dispatcher.members
        await self._transport.listen(
            Consumer(
                self.stream, self.subject(node), name, receive, self._packet_failed, members.__contains__
            )
        )

    def _packet_failed(self, sender: str, error: Exception) -> None:
        self._metrics.network_faults["packet"] += 1
        self._drop_later(sender, f"what it sent cannot be applied ({error!r})")

    async def close(self) -> None:
        await end(self._opening, self._watching, *self._forgetting)
        await self._transport.close()

    # -- members -------------------------------------------------------------------------------------------------
    def join(self, name: str, url: str, protocol: int, advertised: str = "") -> dict[str, Any]:
        """Take a broker in, with which this protocol is spoken; what it must know.

        `advertised`: where clients may be redirected to.
        """
        if not self._is_open or not self._transport.is_connected:
            raise RecoveringError("NATS does not answer yet, or the server is starting; join again")
        if self._dispatcher.stage_orders and protocol < WITH_ORDERS:
            raise ConflictError(
                "the server has --stage-order, which this broker's version does not know: update the broker"
            )
        if protocol < NETWORKS.get(self._scheme.name, 0):
            raise ConflictError(
                f"the server's network {self._scheme.name} is not the one of this broker's version: update the broker"
            )
        for former in [member for member in self._dispatcher.members.values() if member.name == name]:
            if former.node in self._dispatcher.members:
                self._drop(former, "it has started again")
        node = f"{name}-{secrets.token_hex(4)}"
        parent = self._scheme.overlay(SERVER, [*self._dispatcher.members, node], self._options)[node]
        member = Member(name, node, url, ROOM_BYTES, parent, protocol, advertised)
        member.seen = time.monotonic()
        self._link(member)
        since = self._dispatcher.root.position
        self._dispatcher.join(member)
        log.info("the broker %s has joined below %s", member.node, parent)
        return {
            "node": member.node,
            "parent": parent,
            "since": since,
            "network": self._scheme.name,
            "options": self._options,
            "stream": self.stream,
            "subjects": self.subject(""),
            "lease_s": self.lease_s,
            "nats": self._transport.url,
        }

    def _link(self, member: Member) -> None:
        link = self._links[member.node] = self._transport.link(SERVER, self.subject(member.node))
        self.carried[member.node] = Carried()
        member.backlog_bytes = lambda: link.outgoing.backlog_bytes

    def renew(self, name: str, report: JsonObject) -> dict[str, Any]:
        """A broker is alive; NotFoundError if it must join again."""
        given = read(LeaseRenewal, report)
        member = self._member(name, given.node)
        if given.position is None:
            raise InputError(POSITION_EXPECTED, "/position")
        member.seen, member.report, member.position = time.monotonic(), given, given.position
        self._dispatcher.renewed()
        self._count()
        return {
            "position": self._dispatcher.position,
            "seq": self._dispatcher.seq,
            "requests": member.requests,
        }

    def _count(self) -> None:
        """What is known of the network now: its tree, how fast links are, and how much lies behind the server's own."""
        members = self._dispatcher.members
        links = [link for member in members.values() for link in member.report.links]
        behind = sum(link.messages for link in links)
        own = sum(carried.messages for carried in self.carried.values())
        legs_us = {node: member.report.leg_us or 0.0 for node, member in members.items()}
        own_leg_us = self._transport.leg_us or 0.0
        own_us = {
            node: _way_us(link.latency_us, own_leg_us, legs_us[node])
            for node, link in self._links.items()
            if link.latency_us is not None
        }
        parents = {node: member.parent for node, member in members.items()}
        link_us = {
            link.to: _way_us(link.latency_us, legs_us[node], legs_us[link.to])
            for node, member in members.items()
            for link in member.report.links
            if link.latency_us is not None and link.to in members
        }
        self._dispatcher.ways.learn(parents, own_us, link_us, behind / own if own else 0.0)

    def leave(self, name: str, node: str | None) -> None:
        """A broker says goodbye."""
        self._drop(self._member(name, node), "it has left")

    def _member(self, name: str, node: str | None) -> Member:
        member = None if node is None else self._dispatcher.members.get(node)
        if member is None or member.name != name:
            raise NotFoundError(f"the broker {name!r} is not in the network (any more); join again")
        return member

    def _drop(self, member: Member, why: str) -> None:
        """Without a broker; those below it go on below its parent, if that is possible."""
        try:
            lost = self._dispatcher.drop(member)
        except Exception:
            log.exception("the broker %s cannot be taken out of the network; all start over", member.node)
            self._metrics.network_faults["root"] += 1
            self.start_over()
            return
        for one in lost:
            self._unlink(one, why)

    def _unlink(self, member: Member, why: str) -> None:
        log.info("the broker %s is out of the network: %s", member.node, why)
        self._transport.unlink(self._links.pop(member.node))
        del self.carried[member.node]
        removing = self._transport.forget(self.stream, self.subject(member.node), member.node)
        task = asyncio.get_running_loop().create_task(removing)
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def _watch(self) -> None:
        """Let leases run out; the time that the loop was late itself does not count."""
        looked = time.monotonic()  # not before a failure: the wait after it is not the loop's
        while True:
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            late_s = now - looked - WATCH_S
            for member in self._dispatcher.members.values():
                member.seen = min(now, member.seen + max(0.0, late_s))
            looked = now
            self._late_s += max(0.0, late_s)
            for member in list(self._dispatcher.members.values()):
                if member.node not in self._dispatcher.members:
                    continue
                if now - member.seen > self.lease_s:
                    self._drop(member, f"silent for {now - member.seen:.0f} s")
                elif member.backlog_bytes() > MAX_BACKLOG_BYTES:
                    self._drop(member, f"{member.backlog_bytes()} bytes are under way to it")
            self._dispatcher.post(self._dispatcher.root.tick(now - self._late_s))
            self._dispatcher.redirects.tick(now)

    # -- frames --------------------------------------------------------------------------------------------------
    def send(self, to: str, frame: Frame, data: bytes) -> None:
        link = self._links.get(to)
        if link is not None:
            link.send(data)
            self.carried[to].add(frame, data)

    async def _received(self, sender: str, body: bytes) -> None:
        """Frames from a neighbour in the network."""
        if sender in self._dispatcher.members:
            for frame in cn_frames.decode_many(body):
                self._dispatcher.post(self._dispatcher.root.receive(sender, frame))

    async def _requested(self, sender: str, body: bytes) -> None:
        member = self._dispatcher.members.get(sender)
        if member is not None:
            member.seen, turn = time.monotonic(), TimeSlice()
            for request in control.read_requests(body):
                self._dispatcher.take(member, request)
                member.requests += 1
                await turn.over()

    # -- what is shown -------------------------------------------------------------------------------------------
    def report(self) -> dict[str, Any]:
        """For GET /v1/network."""
        return report(self._dispatcher, self.carried)


def _way_us(answered_us: float, sender_us: float, receiver_us: float) -> float:
    """From a sender to a receiver: until the sender knows that NATS has it, less the way of that answer, and the leg from
    NATS to the receiver.

    >>> _way_us(500.0, 200.0, 1_000.0)
    1300.0
    """
    return max(0.0, answered_us - sender_us) + receiver_us
