"""The composition root: the one place where parts are made and put together. Nothing is global."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from api.server.database import Database
from api.server.deployment import Deployment
from api.server.expiry import Expiry
from api.server.keyring import Keyring, is_loopback
from api.server.memory import MemoryBuilder
from api.server.settings import Settings
from api.server.tracing import tracer
from api.webhooks.service import WebhookService
from api.webhooks.targets import Targets
from api.webhooks.worker import RetryPolicy
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import Edge
from prosem.delivery.replayer import Replayer
from prosem.delivery.subscriber import Subscriber
from prosem.engine import commands as c
from prosem.engine.backlog import EngineLimits
from prosem.engine.engine import Engine
from prosem.engine.outlet import Outlet
from prosem.engine.state import EngineState
from prosem.engine.view import EngineView
from prosem.runtime.metrics import Metrics
from prosem.runtime.trace import TraceSink
from prosem.store.identity import identity
from prosem.store.keys import CHANNEL as KEYS_CHANNEL
from prosem.store.keys import load_keys
from prosem.store.log import Writer
from prosem.store.replay import ReplayStore as ReplayStore
from prosem.store.retiring import Retiring
from prosem.store.statistics import CHANNEL as STATISTICS_CHANNEL
from prosem.store.statistics import Listener, active_run, load_statistics
from prosem.store.webhooks import WebhookStore
from prosem.values.access import WHOLE, Scope
from prosem.values.errors import ProsemError, RecoveringError, SetupError
from prosem.values.model import JsonObject

log = logging.getLogger("prosem")
T = TypeVar("T")


class Server:
    """A running server. Made and closed on the loop's thread; starting the database happens beside it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.started = time.time()
        self.failure: str | None = None
        self.idempotency_locks: dict[str, list[Any]] = {}
        self._database: Database | None = None
        self._writer: Writer | None = None
        self._memory: MemoryBuilder | None = None
        self._retiring: Retiring | None = None
        self.is_superseded = False
        self._engine: Engine | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closing = False
        self.store: ReplayStore | None = None
        self.edge = Edge(self.metrics)
        self.edge.network = LocalNetwork(self.edge.deliver, self.edge.watermark)
        self._replayer: Replayer | None = None
        self._trace: TraceSink | None = None
        self._stop_tracing: Callable[[], None] = lambda: None
        self._listeners: list[Listener] = []
        self.keys = Keyring()
        self.webhooks = self._make_webhooks()
        self._expiry = Expiry(settings.ephemeral_s, self._unstreamed, self.call, self._forget_again)
        self.deployment: Deployment | None = None
        self.on_failure: Callable[[], None] = lambda: None

    # -- life ----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to start; `ready` tells when it is done. Requests are answered 503 until then."""
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self.settings.otlp:
                self._trace, self._stop_tracing = tracer(self.settings.otlp)
            opened = await self._open_database()
            url, writer = opened.url, opened.writer
            self.store = ReplayStore(url)
            self._replayer = Replayer(self.store, self.metrics)
            self._replayer.start()
            self.edge.replay = self._replayer.submit
            self.edge.orphan = self._forget
            outlet: Outlet = self.edge
            if self.settings.nats:
                outlet = await self._deploy(url)
            writer.session.revive = self._revive
            traffic = None if self.deployment is None else self.deployment.dispatcher.traffic
            self._memory = memory = MemoryBuilder(self.settings, self.metrics, writer, traffic)
            self._retiring = Retiring(writer.session, memory.retired)
            self._retiring.start()
            self._engine = Engine(
                writer,
                memory.recover,
                loop.call_soon_threadsafe,
                outlet,
                self.metrics,
                limits=EngineLimits(
                    max_backlog=self.settings.max_backlog,
                    max_backlog_bytes=self.settings.max_backlog_mb << 20,
                    max_batch=self.settings.max_batch,
                    max_batch_bytes=self.settings.max_batch_mb << 20,
                    max_request_events=self.settings.max_request_events,
                    commit_timeout_s=self.settings.commit_timeout_s,
                ),
                idle=self._retire,
                trace=self._trace,
            )
            self._engine.start()
            self._listeners = [
                Listener(lambda: self.database, changed, channel, self.metrics.restarts)
                for changed, channel in (
                    (self._statistics_changed, STATISTICS_CHANNEL),
                    (self.reload_keys, KEYS_CHANNEL),
                )
            ]
            for listener in self._listeners:
                listener.start()
            self.webhooks.start(lambda: self.is_ready)
            self._expiry.start()
        except ProsemError as error:
            self.failure = error.detail
            log.error("cannot start: %s", error.detail)
            self.on_failure()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            log.exception("cannot start")
            self.on_failure()

    def _make_webhooks(self) -> WebhookService:
        settings = self.settings
        return WebhookService(
            WebhookStore(lambda: self.database),
            Targets(settings.webhook_hosts, lambda: self.keys.is_open),
            self.subscriber,
            self.keys.is_revoked,
            RetryPolicy(settings.webhook_attempts, settings.webhook_wait_ms / 1000),
            settings.webhook_timeout_s,
            settings.max_body_mb << 20,
            self.metrics.restarts,
        )

    async def _deploy(self, url: str) -> Outlet:
        """Brokers may join: what follows a commit goes to the network, and to our own edge as ever."""
        settings = self.settings
        nats = await asyncio.to_thread(Deployment.prepare, settings)
        engine = await asyncio.to_thread(identity, url)
        address = settings.nats if nats is None else nats.url
        made = self.deployment = Deployment(settings, self.edge, engine, address, nats, self.metrics)
        assert self._replayer is not None
        made.dispatcher.replay = self._replayer.submit
        made.dispatcher.forget = self._forget
        self.edge.orphan = made.dispatcher.orphan
        made.start(self.submit)
        return made.dispatcher

    async def _open_database(self) -> Database:
        loop, settings = asyncio.get_running_loop(), self.settings
        superseded = functools.partial(loop.call_soon_threadsafe, self._supersede)
        opening = functools.partial(Database.open, settings, superseded, lambda: self._closing)
        opened = self._database = await asyncio.to_thread(opening)
        self._writer = opened.writer
        self.keys.replace(await asyncio.to_thread(load_keys, opened.url))
        if self.keys.is_open and not is_loopback(settings.host):
            raise SetupError(
                f"without keys the server listens on loopback alone, not on {settings.host}: choose a key of"
                " 24 random characters or more and give it with --admin-key or the variable PROSEM_ADMIN_KEY"
                " (docker run --env PROSEM_ADMIN_KEY=… prosem), or make one with prosem keys create"
            )
        return opened

    @property
    def database(self) -> str:
        """The database's address."""
        _ = self.engine
        assert self.store is not None
        return self.store.url

    async def reload_keys(self) -> None:
        """Take keys over as they are stored now."""
        self.keys.replace(await asyncio.to_thread(load_keys, self.database))
        await self.webhooks.review()

    async def _statistics_changed(self) -> None:
        """Take the active run over if it is another one; events go on meanwhile."""
        while not self.is_ready:
            await asyncio.sleep(0.1)
        store, view, memory = self.store, self.view, self._memory
        assert store is not None
        assert memory is not None
        if await asyncio.to_thread(active_run, store.url) == (
            None if view.statistics is None else view.statistics["run"]
        ):
            return
        statistics = await asyncio.to_thread(load_statistics, store.url, 0)
        await self.call(await asyncio.to_thread(memory.adoption, self.view, statistics))
        log.info("statistics: run %s is in force", None if statistics.run is None else statistics.run["run"])

    def _revive(self) -> str | None:
        """Start the embedded PostgreSQL again if it has ended; its address, None for an external database."""
        if self._database is None or self._closing:
            return None
        url = self._database.revive()
        if url is not None and self.store is not None:
            self.store.url = url
        return url

    def _retire(self, last_seq: int) -> None:
        """Called by the committer between batches: what is no longer retained is dropped beside it."""
        assert self._retiring is not None
        assert self._memory is not None
        due = last_seq - self.settings.retention_events - self.settings.partition_events
        before = last_seq - self.settings.retention_events if due > self._memory.retained_after else 0
        self._retiring.request(before, self.settings.measurements, last_seq)

    def _supersede(self) -> None:
        """Another server owns the database: this one ends, and `serve` starts over with nothing in memory."""
        if not self._closing and not self.is_superseded:
            self.is_superseded = True
            self.failure = "another server has taken the database over"
            self.on_failure()

    async def close(self) -> None:
        self._closing = True
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        for listener in self._listeners:
            await listener.close()
        await self._expiry.close()
        await self.webhooks.close()
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
        await asyncio.to_thread(self._stop_tracing)
        if self._replayer is not None:
            await self._replayer.close()
        if self.deployment is not None:
            await self.deployment.close()
        if self.store is not None:
            await self.store.close()
        if self._retiring is not None:
            await asyncio.to_thread(self._retiring.close)
        if self._database is not None:
            await asyncio.to_thread(self._database.close)

    # -- use -----------------------------------------------------------------------------------------------------
    @property
    def is_ready(self) -> bool:
        return self._engine is not None and self._engine.ready and self._is_owner

    @property
    def _is_owner(self) -> bool:
        return self._writer is not None and self._writer.session.is_proven

    @property
    def is_alive(self) -> bool:
        """False once a thread of the engine has died: nothing but a restart of the process helps."""
        return self._closing or self._engine is None or self._engine.is_alive

    @property
    def problem(self) -> str:
        """Why the server does not serve (yet)."""
        if self.failure:
            return self.failure
        if self._engine is None:
            return "the database is being started"
        return self._engine.problem or "the session that owns the database is lost and being opened again"

    @property
    def notice(self) -> str:
        """What does not work although the server serves."""
        return "" if self._engine is None else self._engine.notice

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise RecoveringError(f"the server does not serve yet: {self.problem}")
        return self._engine

    @property
    def state(self) -> EngineState:
        """The engine's own memory, for tests that look inside: all else reads `view`, or goes through `call`."""
        self._check_owner()
        state = self.engine.state
        if state is None:
            raise RecoveringError(f"the server does not serve yet: {self.problem}")
        return state

    @property
    def view(self) -> EngineView:
        """What is stored, to be read at once; what needs a place in the order goes through `call`."""
        self._check_owner()
        return self.engine.view

    def submit(self, command: c.Command, parent: str = "") -> Future[Any]:
        self._check_owner()
        return self.engine.submit(command, parent)

    def _check_owner(self) -> None:
        """RecoveringError while this server cannot know that its memory is what the database holds."""
        if self.engine.ready and not self._is_owner:
            raise RecoveringError(f"the server does not serve at the moment: {self.problem}")

    async def call(self, command: c.Command, parent: str = "") -> Any:
        """Carry a command out; returns after its commit. `parent`: the trace it belongs to."""
        return await asyncio.wrap_future(self.submit(command, parent))

    @property
    def network(self) -> str:
        """The name of the network in use."""
        return self.edge.network.name if self.deployment is None else self.settings.network

    def brokers(self) -> JsonObject:
        """The brokers, and the links of the network with what they have carried."""
        if self.deployment is None:
            return {"brokers": [], "links": []}
        return self.deployment.membership.report()

    @property
    def attached(self) -> int:
        """Subscriptions with a stream here, and such that brokers host (one that both do counts twice)."""
        return self.edge.hosted + (self.deployment.dispatcher.hosted if self.deployment else 0)

    def subscriber(self, scope: Scope = WHOLE) -> Subscriber:
        settings = self.settings
        return Subscriber(
            self.edge, self.submit, self.metrics, settings.queue, scope, settings.queue_mb << 20
        )

    def _forget(self, sid: int) -> None:
        try:
            future = self.submit(c.Forget(sid))
            future.add_done_callback(lambda done: done.exception())
        except ProsemError as error:
            log.info("the ephemeral subscription %d is ended later: %s", sid, error.detail)
            self._expiry.refused(sid)

    def _forget_again(self, sid: int) -> None:
        if not self.edge.hosts(sid):
            self.edge.orphan(sid)

    def _unstreamed(self) -> int:
        """Ephemeral subscriptions that have had no stream yet."""
        try:
            return self.view.unstreamed if self.is_ready else 0
        except RecoveringError:
            return 0
