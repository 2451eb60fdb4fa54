"""`prosem broker`: subscribers' sockets here, everything else forwarded to the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from api import VERSION
from api.broker.forward import Forwarder
from api.broker.remote_keys import RemoteKeys
from api.broker.renewal import Renewal
from api.broker.session import Session
from api.http.metrics import contents, faults, links, task_restarts
from api.server.keyring import is_loopback
from api.server.settings import BrokerSettings
from cn.networks.registry import scheme_of
from cn.transport.consumer import Consumer
from cn.transport.nats import NatsMissingError, NatsTransport
from prosem.brokers import protocol
from prosem.brokers.feed import BrokerFeed
from prosem.brokers.report import contents_of, stage_of
from prosem.brokers.transport import watched_transport
from prosem.delivery.subscriber import Subscriber
from prosem.runtime.backoff import Backoff
from prosem.runtime.metrics import Metrics
from prosem.runtime.supervise import end, supervise
from prosem.values.access import Scope
from prosem.values.errors import SetupError

log = logging.getLogger("prosem.broker")
TICK_S = 1.0


class Broker:
    """The composition root of a broker process. Everything happens on the loop's thread."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.name = settings.name or f"{settings.host}-{settings.port}".replace(".", "-").replace(":", "-")
        scheme = "https" if settings.tls_certificate else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.url = f"{scheme}://{host}:{settings.port}"
        self.metrics = Metrics()
        self.feed = BrokerFeed(self.metrics)
        self.forwarder = Forwarder(settings.server, settings.api_key)
        self.keys = RemoteKeys(self.forwarder)
        self._watching: asyncio.Task[None] | None = None
        self.failure: str | None = None
        self.problem = "the server has not been reached yet"
        self._transport: NatsTransport | None = None
        self.session: Session | None = None
        self._engine = ""  # that this broker serves
        self._task: asyncio.Task[None] | None = None
        self.on_failure: Callable[[], None] = lambda: None

    @property
    def is_worker(self) -> bool:
        """Whether it shares the port of its server, which started it."""
        return self.settings.listen_fd >= 0

    @property
    def advertised(self) -> str:
        """Where clients may be redirected to; empty if they may not: a worker's port leads to any of the workers."""
        if self.settings.advertise:
            return "" if self.settings.advertise == "none" else self.settings.advertise.rstrip("/")
        return "" if self.is_worker or self.settings.host in ("0.0.0.0", "::") else self.url

    # -- session -------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._task = supervise("broker", self._run, self.metrics.restarts)
        self._watching = supervise("keys", self.keys.watch, self.metrics.restarts)

    async def close(self) -> None:
        await end(self._task, self._watching)
        if self.session is not None:
            with contextlib.suppress(httpx.HTTPError):
                path = f"/v1/network/brokers/{self.name}?node={self.session.node}"
                await self.forwarder.ask("DELETE", path)
        if self._transport is not None:
            await self._transport.close()
        await self.forwarder.close()

    async def _run(self) -> None:
        """Join, serve until server and broker have lost each other, and join again."""
        backoff = Backoff(0.1, 2.0)
        while True:
            try:
                session = await self._join()
                joined = time.monotonic()
                await self._live(session)
                log.warning("%s; joining again", session.reason)
                if time.monotonic() - joined > session.lease_s:
                    backoff.reset()
            except (httpx.HTTPError, OSError) as error:
                problem = f"the server or NATS does not answer: {error or type(error).__name__}"
                log.log(logging.DEBUG if problem == self.problem else logging.WARNING, "%s", problem)
                self.problem = problem
                self.forwarder.fail_over(self.forwarder.url)
            except (SetupError, NatsMissingError) as missing:
                self.failure = str(missing)
                log.error("cannot start: %s", missing)
                self.on_failure()
                return
            except Exception:
                self.metrics.network_faults["broker"] += 1
                log.exception("the broker starts over")
            await self._end()
            await backoff.wait()

    async def _ask_to_join(self) -> dict[str, Any]:
        """What the server says to a broker that joins; SetupError if it refuses for good, OSError if for now."""
        spoken = {"protocol": protocol.PROTOCOL, "oldest_protocol": protocol.OLDEST, "version": VERSION}
        asked = {"name": self.name, "url": self.url, "advertised": self.advertised, **spoken}
        answer = await self.forwarder.ask("POST", "/v1/network/brokers", asked)
        try:
            given: dict[str, Any] = answer.json()
        except ValueError as error:
            raise OSError(f"{self.forwarder.url} answers {answer.status_code} without JSON") from error
        if answer.status_code in (409, 422):
            raise SetupError(given["detail"])
        if answer.status_code in (401, 403):
            raise SetupError(f"{given['detail']}; give the broker a key of the role broker with --api-key")
        if answer.status_code != 201:
            raise OSError(given.get("detail", answer.text[:200]))
        if "protocol" not in given:
            raise SetupError(
                f"the server {self.forwarder.url} is older than this broker (version {VERSION}): update the server first"
            )
        if self._engine not in ("", given["stream"]):
            log.warning("the server serves another database than before: streams begin with snapshots")
        self.keys.learn(given["open"])
        if given["open"] and not is_loopback(self.settings.host):
            raise SetupError(
                f"the server has no keys, so a broker listens on loopback alone, not on {self.settings.host}:"
                " make one with prosem keys create"
            )
        self._engine = given["stream"]
        return given

    async def _join(self) -> Session:
        given = await self._ask_to_join()
        url = self.settings.nats or given["nats"]
        if self._transport is None or self._transport.url != url:
            if self._transport is not None:
                await self._transport.close()
            self._transport = watched_transport(url, self.metrics, self._lost, given["lease_s"])
        if not self._transport.is_open:
            await self._transport.connect()
        session = self.session = Session(given, self._transport)
        options = {**given["options"], "height": self.settings.stage}
        node = scheme_of(given["network"]).node(session.node, options, given["since"])
        self.feed.begin(node, given["since"], session.send, session.request, given.get("timeline", ""))
        failed = partial(self._packet_failed, session)
        subject, name = session.subject(session.node), session.node
        await self._transport.listen(Consumer(session.stream, subject, name, self.feed.receive, failed))
        log.info(
            "joined %s (version %s, protocol %s) as %s below %s",
            self.forwarder.url,
            given.get("version"),
            given["protocol"],
            session.node,
            session.parent,
        )
        self.problem = ""
        return session

    async def _live(self, session: Session) -> None:
        """Renew the lease; returns when the session is over."""
        loop = asyncio.get_running_loop()

        def answered(status: int, answer: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._renewed, session, status, answer)

        def address() -> str:
            return f"{self.forwarder.url}/v1/network/brokers/{self.name}"

        renewal = Renewal(
            address,
            session.lease_s,
            lambda: self._report(session),
            answered,
            self.forwarder,
            self.metrics.restarts,
        )
        looked, late_s = time.monotonic(), 0.0
        try:
            while not session.over.is_set():
                now = time.monotonic()
                late_s += max(0.0, now - looked - TICK_S)
                looked = now
                self.feed.tick(
                    now - late_s
                )  # time in which this process did not look is no silence of others
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await session.over.wait()
        finally:
            renewal.close()

    def _renewed(self, session: Session, status: int, answer: dict[str, Any]) -> None:
        """The server has answered, or not."""
        if status == 404:
            session.end("this broker is out of the network")
        elif status == 200:
            session.renewed, self.problem = time.monotonic(), ""
            self.keys.learn(answer["open"])
            hang = session.find_hang(self.feed.position, answer, session.renewed)
            if hang and not session.over.is_set():
                self.metrics.network_faults["hang"] += 1
                session.end(hang)
        else:
            self.problem = f"the server does not answer: {answer.get('detail')}"
            self.forwarder.fail_over(self.forwarder.url)

    def _packet_failed(self, session: Session, sender: str, error: Exception) -> None:
        """A part of a packet may have been applied: nothing more is, and the broker starts over."""
        self.metrics.network_faults["packet"] += 1
        session.end(f"a packet from {sender or 'an unknown sender'} cannot be applied ({error!r})")
        if session is self.session:
            self.feed.end()

    def _lost(self, why: str) -> None:
        if self.session is not None:
            self.session.end(why)

    async def _end(self) -> None:
        session, self.session = self.session, None
        self.feed.end()
        if session is not None and self._transport is not None:
            session.close()
            with contextlib.suppress(Exception):
                await self._transport.leave(session.node)

    def _report(self, session: Session) -> dict[str, Any]:
        return {
            "node": session.node,
            "position": self.feed.position,
            "sockets": self.feed.edge.sinks,
            "leg_us": None if self._transport is None else self._transport.leg_us,
            "links": [
                {"to": to, "latency_us": session.link(to).latency_us, **carried.report()}
                for to, carried in list(session.carried.items())
            ],
            "contents": contents_of(self.feed.node),
            "stage": stage_of(self.feed.node),
        }

    # -- use -----------------------------------------------------------------------------------------------------
    @property
    def is_ready(self) -> bool:
        """Whether what the server commits arrives here."""
        session = self.session
        if session is None or self._transport is None or not self._transport.is_connected:
            return False
        return time.monotonic() - session.renewed < session.lease_s

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
            ("prosem_seq", "last seq delivered to all streams here", self.feed.edge.seq),
            ("prosem_attached", "subscriptions with a stream", self.feed.edge.hosted),
        )
        for name, help, value in gauges:
            yield GaugeMetricFamily(name, help, value=value)
        yield faults(metrics)
        yield task_restarts(metrics)
        carried = self.session.carried if self.session is not None else {}
        yield from links([{"from": self.name, "to": to, **one.report()} for to, one in carried.items()])
        yield from contents({self.name: contents_of(self.feed.node)})
