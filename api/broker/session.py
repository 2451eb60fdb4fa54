"""One membership of a broker in the network, from joining until server and broker have lost each other."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from cn.model.frames import Frame
from cn.transport.nats import Link, NatsTransport
from prosem.brokers.report import Carried
from prosem.brokers.requests import CONTROL


class Standstill:
    """Whether a number has stopped behind its target, for longer than two leases.

    When a broker above is lost the server notices within one lease, and finds another way.

    >>> watched = Standstill(lease_s=2.0)
    >>> [watched.is_stuck(now, value, target=7) for now, value in ((0.0, 5), (3.0, 6), (6.0, 6), (8.0, 6), (9.0, 7))]
    [False, False, False, True, False]
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._moved: tuple[float, int] | None = None  # when the number last changed, and to what

    def is_stuck(self, now: float, value: int, target: int) -> bool:
        if self._moved is None or value != self._moved[1] or value >= target:
            self._moved = now, value
        return now - self._moved[0] > 2 * self._lease_s


class Session:
    """The node's name, its links and what they carried. `over` is set when it has ended, and why is in `reason`."""

    def __init__(self, given: dict[str, Any], transport: NatsTransport) -> None:
        self.node: str = given["node"]
        self.parent: str = given["parent"]
        self.stream: str = given["stream"]
        self.lease_s: float = given["lease_s"]
        self._subjects: str = given["subjects"]
        self._transport = transport
        self._links: dict[str, Link] = {}
        self.carried: dict[str, Carried] = {}
        self.renewed = time.monotonic()
        self.requests = 0  # sent to the server
        self._down, self._up = Standstill(self.lease_s), Standstill(self.lease_s)
        self.over = asyncio.Event()
        self.reason = ""

    def subject(self, node: str) -> str:
        return self._subjects + node

    def link(self, to: str) -> Link:
        if to not in self._links:
            self._links[to] = self._transport.link(self.node, self.subject(to))
        return self._links[to]

    def send(self, to: str, frame: Frame, data: bytes) -> None:
        self.link(to).send(data)
        self.carried.setdefault(to, Carried()).add(frame, data)

    def request(self, data: bytes) -> None:
        self.requests += 1
        self.link(CONTROL).send(data)

    def find_hang(self, position: int, answer: dict[str, Any], now: float) -> str:
        """What does not arrive, by the server's answer to a renewal; empty if everything does."""
        if self._down.is_stuck(now, position, answer["position"]):
            return "what the server sends does not arrive"
        if self._up.is_stuck(now, answer["requests"], self.requests):
            return "what is sent to the server does not arrive"
        return ""

    def end(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.over.set()

    def close(self) -> None:
        for link in self._links.values():
            self._transport.unlink(link)
