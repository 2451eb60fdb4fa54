"""`prosem broker`: subscribers' sockets here, everything else forwarded to the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response, WebSocket
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import PlainTextResponse

from api import VERSION, problems
from api.access import Gate, caller_of
from api.forward import Forwarder
from api.keyring import is_loopback
from api.lifespan import lifespan_of
from api.metrics import contents, links
from api.remote_keys import RemoteKeys
from api.renewal import Renewal
from api.routes import streams
from api.settings import BrokerSettings
from cn.frames import Frame
from cn.networks.registry import scheme_of
from cn.transport.nats import Link, NatsMissingError, NatsTransport
from prosem.access import Role, Scope
from prosem.brokers.dispatcher import Carried
from prosem.brokers.feed import Feed
from prosem.brokers.membership import CONTROL, contents_of
from prosem.errors import RecoveringError, SetupError
from prosem.metrics import Metrics
from prosem.subscriber import Subscriber

log = logging.getLogger("prosem.broker")
TICK_S = 1.0


class Life:
    """One membership in the network: the node's name, its links and what they carried."""

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
        self._moved = self.renewed, 0  # when the position last changed, and to what

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
        self.link(CONTROL).send(data)

    def is_stuck(self, position: int, wanted: int) -> bool:
        """Whether what was sent does not arrive: the position stands still and is behind for longer than two leases.

        When a broker above is lost, the server notices within one, and finds another way.
        """
        now = time.monotonic()
        if position != self._moved[1] or position >= wanted:
            self._moved = now, position
        return now - self._moved[0] > 2 * self.lease_s

    def close(self) -> None:
        for link in self._links.values():
            self._transport.unlink(link)


class Broker:
    """The composition root of a broker process. Everything happens on the loop's thread."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.name = settings.name or f"{settings.host}-{settings.port}".replace(".", "-").replace(":", "-")
        scheme = "https" if settings.tls_certificate else "http"
        self.url = f"{scheme}://{settings.host}:{settings.port}"
        self.metrics = Metrics()
        self.feed = Feed(self.metrics)
        self.forwarder = Forwarder(settings.server, settings.api_key)
        self.keys = RemoteKeys(self.forwarder)
        self._watching: asyncio.Task[None] | None = None
        self.failure: str | None = None
        self.problem = "the server has not been reached yet"
        self._transport: NatsTransport | None = None
        self.life: Life | None = None
        self._task: asyncio.Task[None] | None = None
        self.on_failure: Callable[[], None] = lambda: None

    # -- life ----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._watching = asyncio.get_running_loop().create_task(self.keys.watch())

    async def close(self) -> None:
        for task in (self._task, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self.life is not None:
            with contextlib.suppress(httpx.HTTPError):
                path = f"/v1/network/brokers/{self.name}?node={self.life.node}"
                await self.forwarder.ask("DELETE", path)
        if self._transport is not None:
            await self._transport.close()
        await self.forwarder.close()

    async def _run(self) -> None:
        """Join, live until server and broker have lost each other, and join again."""
        wait_s = 0.1
        while True:
            try:
                await self._join()
                wait_s = 0.1
                await self._live()
            except (httpx.HTTPError, OSError) as error:
                self.problem = f"the server or NATS does not answer: {error or type(error).__name__}"
                log.warning("%s", self.problem)
            except (SetupError, NatsMissingError) as missing:
                self.failure = str(missing)
                log.error("cannot start: %s", missing)
                self.on_failure()
                return
            except Exception:
                log.exception("the broker starts over")
            await self._end()
            await asyncio.sleep(wait_s)
            wait_s = min(1.0, 2 * wait_s)

    async def _join(self) -> None:
        answer = await self.forwarder.ask("POST", "/v1/network/brokers", {"name": self.name, "url": self.url})
        given = answer.json()
        if answer.status_code in (409, 422):
            raise SetupError(given["detail"])
        if answer.status_code in (401, 403):
            raise SetupError(f"{given['detail']}; give the broker a key of the role broker with --api-key")
        if answer.status_code != 201:
            raise OSError(given.get("detail", answer.text[:200]))
        if given["open"] and not is_loopback(self.settings.host):
            raise SetupError(
                f"the server has no keys, so a broker listens on loopback alone, not on {self.settings.host}:"
                " make one with prosem keys create"
            )
        url = self.settings.nats or given["nats"]
        if self._transport is None or self._transport.url != url:
            if self._transport is not None:
                await self._transport.close()
            self._transport = NatsTransport(url)
        if not self._transport.is_open:
            await self._transport.connect()
        life = self.life = Life(given, self._transport)
        node = scheme_of(given["network"]).node(life.node, given["options"], given["since"])
        self.feed.begin(node, given["since"], life.send, life.request, given.get("timeline", ""))
        await self._transport.listen(life.stream, life.subject(life.node), life.node, self.feed.receive)
        log.info("joined %s as %s below %s", self.settings.server, life.node, life.parent)
        self.problem = ""

    async def _live(self) -> None:
        """Renew the lease; returns when the life is over."""
        life, loop = self.life, asyncio.get_running_loop()
        assert life is not None
        over = asyncio.Event()

        def answered(status: int, answer: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._renewed, life, over, status, answer)

        path = f"{self.forwarder.url}/v1/network/brokers/{self.name}"
        renewal = Renewal(path, life.lease_s, lambda: self._report(life), answered, self.forwarder)
        try:
            while not over.is_set():
                self.feed.tick(time.monotonic())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), TICK_S)
        finally:
            renewal.close()

    def _renewed(self, life: Life, over: asyncio.Event, status: int, answer: dict[str, Any]) -> None:
        """The server has answered, or not."""
        if status == 404:
            log.warning("this broker is out of the network, and joins again")
            over.set()
        elif status == 200:
            life.renewed, self.problem = time.monotonic(), ""
            if life.is_stuck(self.feed.position, answer["position"]):
                log.warning("what the server sends does not arrive; joining again")
                over.set()
        else:
            self.problem = f"the server does not answer: {answer.get('detail')}"

    async def _end(self) -> None:
        life, self.life = self.life, None
        self.feed.end()
        if life is not None and self._transport is not None:
            life.close()
            with contextlib.suppress(Exception):
                await self._transport.leave(life.node)

    def _report(self, life: Life) -> dict[str, Any]:
        return {
            "node": life.node,
            "position": self.feed.position,
            "sockets": self.feed.edge.sinks,
            "links": [{"to": to, **carried.report()} for to, carried in list(life.carried.items())],
            "contents": contents_of(self.feed.node),
        }

    # -- use -----------------------------------------------------------------------------------------------------
    @property
    def is_ready(self) -> bool:
        """Whether what the server commits arrives here."""
        life = self.life
        if life is None or self._transport is None or not self._transport.is_connected:
            return False
        return time.monotonic() - life.renewed < life.lease_s

    def subscriber(self, scope: Scope) -> Subscriber:
        settings = self.settings
        return Subscriber(
            self.feed.edge, self.feed.submit, self.metrics, settings.queue, scope, settings.queue_mb << 20
        )

    # -- what is measured ----------------------------------------------------------------------------------------
    def collect(self) -> Iterator[Metric]:
        usage, metrics = resource.getrusage(resource.RUSAGE_SELF), self.metrics
        counters = (
            ("prosem_process_cpu_seconds", "CPU time of the process", usage.ru_utime + usage.ru_stime),
            ("prosem_changes", "changes folded for attached subscriptions", metrics.changes),
            ("prosem_lagging", "times a subscriber was too slow and was caught up later", metrics.lagging),
        )
        for name, help, value in counters:
            yield CounterMetricFamily(name, help, value=value)
        gauges = (
            ("prosem_ready", "1 while what the server commits arrives", int(self.is_ready)),
            ("prosem_seq", "last seq that everybody here was told of", self.feed.edge.seq),
            ("prosem_attached", "subscriptions with a stream", self.feed.edge.hosted),
        )
        for name, help, value in gauges:
            yield GaugeMetricFamily(name, help, value=value)
        carried = self.life.carried if self.life is not None else {}
        yield from links([{"from": self.name, "to": to, **one.report()} for to, one in carried.items()])
        yield from contents({self.name: contents_of(self.feed.node)})


def make_broker_app(made: Broker) -> FastAPI:
    """Sockets and the broker's own health; the rest is the server's."""
    app = FastAPI(
        title="ProSem broker", version=VERSION, lifespan=lifespan_of(made), docs_url=None, openapi_url=None
    )
    app.state.server = made
    problems.install(app)
    app.add_middleware(Gate, keys=made.keys, forwards=True)

    @app.get("/healthz")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz() -> Response:
        if not made.is_ready:
            raise RecoveringError(made.problem or "NATS does not answer")
        return PlainTextResponse("ready\n")

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        caller_of(request).check_service(Role.METRICS)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(made)
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    app.include_router(streams.router)

    @app.websocket("/{path:path}")
    async def sockets(socket: WebSocket) -> None:
        await made.forwarder.socket(socket)

    async def rest(request: Request) -> Response:
        return await made.forwarder.forward(request)

    app.add_route("/{path:path}", rest, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    return app
