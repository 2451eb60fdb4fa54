"""The brokers of a server: who is in the network, where, and for how long.

A broker joins over HTTP and is given a place in the network and a lease, which it renews. One that is silent beyond its
lease is dropped with all it hosts, and so is one to which too much is under way; when it comes back it joins again, as a new
node. An *epoch* is one life of the server's state: after a start or a recovery all brokers join again. What is under way
stands in one stream of NATS JetStream, made anew for each epoch.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from functools import partial
from typing import Any

from cn import frames as cn_frames
from cn.frames import Frame
from cn.networks.node import Node, Options, Root, Scheme
from cn.payload import PayloadNode
from cn.transport.nats import Link, NatsTransport
from prosem.brokers import control
from prosem.brokers.dispatcher import Carried, Dispatcher
from prosem.brokers.member import Member
from prosem.errors import InputError, NotFoundError, RecoveringError
from prosem.turn import Turn

log = logging.getLogger("prosem.brokers")
SERVER, CONTROL = "server", "control"  # the server's node, and where brokers send requests
MAX_BACKLOG_BYTES = 256 << 20  # a broker to which more is under way starts over
ROOM_BYTES = 32 << 20  # beyond it replays to a broker come in smaller pieces
WATCH_S = 0.5
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
    ) -> None:
        self._dispatcher, self._scheme, self._options = dispatcher, scheme, options
        self._transport, self._engine = transport, engine
        self.lease_s, self._replicas = lease_s, replicas
        self.epoch = ""
        self._is_open = False
        self._links: dict[str, Link] = {}
        self.carried: dict[str, Carried] = {}  # by node
        self._opening: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._looked = time.monotonic()
        dispatcher.expire = self.start_over

    @property
    def stream(self) -> str:
        return f"prosem-{self._engine}"

    def subject(self, node: str) -> str:
        return f"prosem.{self._engine}.{self.epoch}.{node}"

    # -- epochs --------------------------------------------------------------------------------------------------
    def start_over(self) -> None:
        """Begin an epoch: nobody is in the network."""
        self._is_open = False
        for member in reversed([*self._dispatcher.members.values()]):  # none has one below it then
            self._drop(member, "the server starts over")
        self._dispatcher.root = self.make_root()
        if self._opening is not None:
            self._opening.cancel()
        self._opening = asyncio.get_running_loop().create_task(self._open())
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def make_root(self) -> Root:
        """The root calls `forgotten` when a broker asks for a content that is no longer in memory, `expired` when a lease of
        the network itself is over: the broker joins again, and is replayed from the log."""
        forgotten = partial(self._drop_later, why="it asks for a content that the server has forgotten")
        expired = partial(self._drop_later, why="its lease in the network is over")
        return self._scheme.root(SERVER, {**self._options, "forgotten": forgotten, "expired": expired})

    def _drop_later(self, node: str, why: str) -> None:
        """Remove a broker after the step of the root that is being carried out."""
        asyncio.get_running_loop().call_soon(self._drop_node, node, why)

    def _drop_node(self, node: str, why: str) -> None:
        member = self._dispatcher.members.get(node)
        if member is not None:
            self._drop(member, why)

    async def _open(self) -> None:
        """Make the stream of a new epoch, however long NATS takes to answer."""
        self.epoch = secrets.token_hex(4)
        wait_s = 0.1
        while True:
            try:
                if not self._transport.is_open:
                    await self._transport.connect()
                await self._make_stream(is_new=True)
                await self._transport.listen(
                    self.stream, self.subject(CONTROL), f"{CONTROL}-{self.epoch}", self._requested
                )
                await self._transport.listen(
                    self.stream, self.subject(SERVER), f"{SERVER}-{self.epoch}", self._received
                )
                break
            except OSError as problem:
                log.warning("brokers cannot join yet: %s", problem)
                await asyncio.sleep(wait_s)
                wait_s = min(2.0, 2 * wait_s)
        self._is_open = True
        log.info("brokers may join (epoch %s, network %s)", self.epoch, self._scheme.name)

    async def _make_stream(self, is_new: bool = False) -> None:
        await self._transport.make_stream(
            self.stream, f"prosem.{self._engine}.{self.epoch}.>", self._replicas, is_new
        )

    async def restore_stream(self) -> None:
        """The stream has vanished with a NATS server: make it again; what was in it was not confirmed, or is missed."""
        await self._make_stream()

    async def close(self) -> None:
        for task in (self._opening, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._transport.close()

    # -- members -------------------------------------------------------------------------------------------------
    def join(self, name: Any, url: Any) -> dict[str, Any]:
        """Take a broker in; what it must know."""
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (SERVER, CONTROL):
            raise InputError("expected a name of 1 to 64 letters, digits, - and _, and not server", "/name")
        if not isinstance(url, str):
            raise InputError("expected the broker's address", "/url")
        if not self._is_open or not self._transport.is_connected:
            raise RecoveringError("NATS does not answer yet, or the server is starting; join again")
        for former in [member for member in self._dispatcher.members.values() if member.name == name]:
            if former.node in self._dispatcher.members:
                self._drop(former, "it has started again")
        node = f"{name}-{secrets.token_hex(4)}"
        parent = self._scheme.overlay(SERVER, [*self._dispatcher.members, node], self._options)[node]
        member = Member(name, node, url, ROOM_BYTES, parent)
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

    def renew(self, name: str, report: Any) -> dict[str, Any]:
        """A broker is alive; NotFoundError if it must join again."""
        if not isinstance(report, dict):
            raise InputError("expected what the broker says of itself", "")
        member = self._member(name, report.get("node"))
        position = report.get("position")
        if not isinstance(position, int):
            raise InputError("expected the position that the broker has come to", "/position")
        member.seen, member.report, member.position = time.monotonic(), report, position
        self._dispatcher.renewed()
        self._count()
        return {"position": self._dispatcher.position, "seq": self._dispatcher.seq}

    def _count(self) -> None:
        """Tell the optimizer's picture of the network how much of the traffic lies behind the server's own links."""
        reports = (member.report.get("links") for member in self._dispatcher.members.values())
        links = [link for report in reports if isinstance(report, list) for link in report]
        counts = [link.get("messages") for link in links if isinstance(link, dict)]
        behind = sum(count for count in counts if isinstance(count, int))
        own = sum(carried.messages for carried in self.carried.values())
        self._dispatcher.traffic.reported(own, behind)

    def leave(self, name: str, node: str | None) -> None:
        """A broker says goodbye."""
        self._drop(self._member(name, node), "it has left")

    def _member(self, name: str, node: Any) -> Member:
        member = self._dispatcher.members.get(node) if isinstance(node, str) else None
        if member is None or member.name != name:
            raise NotFoundError(f"the broker {name!r} is not in the network (any more); join again")
        return member

    def _drop(self, member: Member, why: str) -> None:
        """Without a broker; those below it go on below its parent, if that is possible."""
        for one in self._dispatcher.drop(member):
            log.info("the broker %s is out of the network: %s", one.node, why)
            self._transport.unlink(self._links.pop(one.node))
            del self.carried[one.node]
            asyncio.get_running_loop().create_task(
                self._transport.forget(self.stream, self.subject(one.node), one.node)
            )

    async def _watch(self) -> None:
        """Let leases run out; the time that the loop was late itself does not count."""
        while True:
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            late_s = now - self._looked - WATCH_S
            for member in self._dispatcher.members.values():
                member.seen = min(now, member.seen + max(0.0, late_s))
            self._looked = now
            for member in list(self._dispatcher.members.values()):
                if member.node not in self._dispatcher.members:
                    continue
                if now - member.seen > self.lease_s:
                    self._drop(member, f"silent for {now - member.seen:.0f} s")
                elif member.backlog_bytes() > MAX_BACKLOG_BYTES:
                    self._drop(member, f"{member.backlog_bytes()} bytes are under way to it")
            self._dispatcher.post(self._dispatcher.root.tick(now))

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
            member.seen, turn = time.monotonic(), Turn()
            for request in control.read_requests(body):
                self._dispatcher.take(member, request)
                await turn.over()

    # -- what is shown -------------------------------------------------------------------------------------------
    def report(self) -> dict[str, Any]:
        """For GET /v1/network: brokers, and links with what they carried."""
        members = list(self._dispatcher.members.values())
        names = {SERVER: SERVER, **{member.node: member.name for member in members}}
        links = []
        for member in members:
            if member.parent == SERVER:
                links.append({"from": SERVER, "to": member.name, **self.carried[member.node].report()})
            for link in member.report.get("links", []):
                links.append({**link, "from": member.name, "to": names.get(link["to"], link["to"])})
        return {
            "brokers": [
                {
                    "name": member.name,
                    "url": member.url,
                    "parent": names[member.parent],
                    "hosted": len(member.tokens),
                    "sockets": member.report.get("sockets", 0),
                    "backlog_bytes": member.backlog_bytes(),
                    "behind": self._dispatcher.position - member.position,
                    **_contents(member.report.get("contents")),
                }
                for member in members
            ],
            "links": links,
            **_contents(contents_of(self._dispatcher.root)),
        }


def contents_of(node: Node | None) -> dict[str, int] | None:
    """What a node that remembers contents (CN*) says of them."""
    return node.report() if isinstance(node, PayloadNode) else None


def _contents(report: Any) -> dict[str, Any]:
    return {"contents": report} if report else {}
