"""Brokers of the simulation: the product's broker process, which reaches its server without HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from unittest import mock

import httpx

from api import VERSION
from api.broker import process as broker_process
from api.server.settings import BrokerSettings
from prosem.brokers.feed import BrokerFeed
from prosem.brokers.protocol import agree
from prosem.delivery.subscriber import Subscriber
from prosem.values.access import WHOLE
from prosem.values.errors import ProsemError
from prosem.values.wire import decode, encode
from tests.simulation.machine import Process, VirtualLoop
from tests.simulation.server import QUEUE, Server

RENEWALS = 5


class Servers(Protocol):
    """Where brokers find the server that serves."""

    chance: random.Random

    def primary(self) -> Server | None: ...


class Broker:
    """One run of a broker, in a process of its own."""

    def __init__(self, loop: VirtualLoop, name: str, servers: Servers) -> None:
        self.process = Process(loop, name)
        settings = BrokerSettings(server="http://simulated", name=name, nats=f"nats://{name}", queue=QUEUE)
        self.broker = broker_process.Broker(settings)
        self.broker.forwarder.servers = servers  # type: ignore[attr-defined]
        self.broker.on_failure = self.process.kill
        self.process.call(self.broker.start)

    def subscriber(self) -> Subscriber:
        return self.broker.subscriber(WHOLE)

    def fail_next(self) -> None:
        self.broker.feed.faults = 1  # type: ignore[attr-defined]

    def heal(self) -> None:
        self.broker.feed.faults = 0  # type: ignore[attr-defined]


class Forwarded:
    """In the place of `Forwarder`: what the server's routes do with a request of a broker."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url
        self.servers: Servers

    async def close(self) -> None: ...

    def fail_over(self, failed: str) -> None:
        """Every request goes to the server that serves."""

    async def ask(self, method: str, path: str, body: Any = None, headers: Any = None) -> httpx.Response:
        await asyncio.sleep(0.002)
        server = self.servers.primary()
        if server is None or not server.process.is_alive:
            raise httpx.ConnectError("no server answers")
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

        def serve() -> None:
            try:
                found = 201 if method == "POST" else 200, encode(_route(server, method, path, body))
            except ProsemError as error:
                found = error.status, encode(error.problem())
            if not answered.done():
                answered.set_result(found)

        server.process.call(serve)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                status, content = await answered
                return httpx.Response(status, content=content)
        raise httpx.ReadTimeout("the server does not answer")


def _route(server: Server, method: str, path: str, body: Any) -> Any:
    """See `api.http.routes.network`."""
    name = path.removeprefix("/v1/network/brokers").strip("/").partition("?")
    membership = server.membership()
    if method == "POST":
        spoken = agree(body["oldest_protocol"], body["protocol"], body["version"], VERSION)
        said = {"protocol": spoken, "version": VERSION, "open": True, "timeline": server.timeline}
        return {**membership.join(body["name"], body["url"], spoken, body["advertised"]), **said}
    if method == "PUT":
        return {**membership.renew(name[0], body), "open": True}
    membership.leave(name[0], name[2].removeprefix("node="))
    return {}


class Renewing:
    """In the place of `Renewal`: a task instead of a thread."""

    def __init__(
        self,
        address: Callable[[], str],
        lease_s: float,
        report: Callable[[], dict[str, Any]],
        answered: Callable[[int, dict[str, Any]], None],
        forwarder: Any,
        restarts: Any,
    ) -> None:
        self._pause_s, self._report, self._answered = lease_s / RENEWALS, report, answered
        self._forwarder, self._path = forwarder, address().removeprefix("http://simulated")
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s)
            try:
                response = await self._forwarder.ask("PUT", self._path, self._report())
                self._answered(response.status_code, decode(response.content))
            except httpx.HTTPError as error:
                self._answered(0, {"detail": str(error)})


async def _receive(self: BrokerFeed, sender: str, body: bytes) -> None:
    """`BrokerFeed.receive` with a fault, if one is due."""
    if getattr(self, "faults", 0):
        self.faults = 0  # type: ignore[attr-defined]
        raise RuntimeError("an injected fault")
    await _RECEIVE(self, sender, body)


_RECEIVE = BrokerFeed.receive


@contextlib.contextmanager
def simulated_brokers() -> Iterator[None]:
    with (
        mock.patch.object(broker_process, "Forwarder", Forwarded),
        mock.patch.object(broker_process, "Renewal", Renewing),
        mock.patch.object(BrokerFeed, "receive", _receive),
    ):
        yield
