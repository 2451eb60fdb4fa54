"""A server of the simulation: the product's own parts from the session with PostgreSQL to the edge, put together as the
composition root does, with the steps of its threads called on the virtual loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import psycopg

from api.server.command_port import CommandPort
from api.server.deployment import Deployment
from api.server.settings import Settings
from cn.networks.local import LocalNetwork
from optimizer.choose import chooser
from prosem.delivery.edge import Edge
from prosem.delivery.replayer import Replayer
from prosem.delivery.subscriber import Subscriber
from prosem.engine.backlog import EngineLimits
from prosem.engine.pipeline import Pipeline
from prosem.engine.recovery import fill
from prosem.engine.state import EngineState
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import WorkQueue
from prosem.store import log as store_log
from prosem.store import session as store_session
from prosem.store.heartbeat import EVERY_S, Heartbeat
from prosem.store.log import Writer
from prosem.store.session import Session
from prosem.values.errors import RecoveringError, SetupError
from tests.simulation.machine import Lock, Process, VirtualClock, VirtualLoop, blocking, pause
from tests.simulation.postgres import URL, Connection, Database, batch_commands
from tests.simulation.readers import Readers, Snapshot, retire

LEASE_S = 4.0
QUEUE = 6  # frames that wait for one subscriber: few, so that slow ones lag
IDLE_S = 0.5  # that a thread without work sleeps at most


class RoundTrip:
    """The statements of a batch one by one, as psycopg sends them."""

    def run(
        self,
        connection: Connection,
        statements: Iterable[tuple[bytes, list[Any]]],
        ending: bytes | None,
        sent: Callable[[], None],
    ) -> None:
        for text, parameters in statements:
            connection.execute(text, parameters)
            pause(0.0)
            sent()
        if ending == b"COMMIT":
            connection.commit()
        elif ending is not None:
            connection.execute(ending)

    def forget(self) -> None: ...


@contextlib.contextmanager
def simulated_database(database: Database) -> Iterator[None]:
    """Sessions are those of the stand-in, and locks those of greenlets."""
    with (
        mock.patch.object(psycopg, "connect", database.connect),
        mock.patch.object(store_log, "commands", batch_commands),
        mock.patch.object(store_log, "RoundTrip", RoundTrip),
        mock.patch.object(store_session, "threading", SimpleNamespace(RLock=Lock)),
    ):
        yield


class Server:
    """One run of a server, in a process of its own; `parts` is empty until it owns the database."""

    def __init__(
        self,
        loop: VirtualLoop,
        name: str,
        database: Database,
        *,
        nats: str = "",
        network: str = "unicast",
        retention: int = 10_000,
        ended: Callable[[Server], None] = lambda server: None,
    ) -> None:
        self.loop, self.name, self._database = loop, name, database
        self.process = Process(loop, name)
        self.metrics = Metrics()
        self._settings = Settings(
            nats=nats, network=network, lease_s=int(LEASE_S), queue=QUEUE, new_timeline=False
        )
        self._retention, self._ended = retention, ended
        self.retained_after = 0
        self.writer: Writer | None = None
        self.pipeline: Pipeline | None = None
        self.port: CommandPort | None = None
        self.edge: Edge | None = None
        self.brokers: Deployment | None = None
        self._work = asyncio.Event()
        self.process.spawn(self._run())

    # -- its life ------------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        """Own the database, serve until the end; a server that was superseded ends."""
        try:
            self.writer = await blocking(self._open)
        except SetupError:
            self._end()
            return
        self._compose(self.writer.session)
        beating = self.process.spawn(self._beat(Heartbeat(self.writer.session, {})))
        pipeline = self.pipeline
        assert pipeline is not None
        await asyncio.gather(
            self._drive(pipeline.next, pipeline.wait_s, pipeline),
            self._drive(pipeline.committer.next, pipeline.committer.wait_s, pipeline),
        )
        beating.cancel()
        await asyncio.sleep(0.05)  # the last answers are sent
        await blocking(self.writer.close)
        self._end()

    def _open(self) -> Writer:
        return Writer.connect(
            URL, standby=True, lease_s=LEASE_S, on_superseded=self._superseded, partition_size=10_000_000
        )

    def _superseded(self) -> None:
        self.loop.call_soon(self._end)

    def _end(self) -> None:
        self.process.kill()
        self._ended(self)

    def close(self) -> None:
        """SIGTERM."""
        if self.pipeline is None:
            self._end()
        else:
            self.pipeline.end()

    def _compose(self, session: Session) -> None:
        metrics, readers = self.metrics, Readers(self._database)
        replayer = Replayer(readers, metrics)  # type: ignore[arg-type]
        self.port = port = CommandPort(session)
        self.edge = edge = Edge(metrics, LocalNetwork, replayer.submit, lambda sid: None)
        if self._settings.nats:
            self.brokers = Deployment(
                self._settings, edge, "db", self._settings.nats, None, metrics, port.submit, replayer.submit,
                lambda sid: None,
            )  # fmt: skip
        self.pipeline = Pipeline(
            self.writer,  # type: ignore[arg-type]
            self._recover,
            WorkQueue(self.loop, 0.0).post,  # everything else may come between two steps
            edge if self.brokers is None else self.brokers.outlet,
            metrics,
            limits=EngineLimits(max_batch=6),
            idle=self._retire,
            clock=VirtualClock(self.loop),
        )
        port.connect(self.pipeline)  # type: ignore[arg-type]
        replayer.start()

    # -- its threads ---------------------------------------------------------------------------------------------
    async def _drive(
        self, following: Callable[[], Any], wait_s: Callable[[], float | None], pipeline: Pipeline
    ) -> None:
        """A thread of the engine: steps, and waits in between."""
        while not pipeline.is_over:
            step = following()
            if step is not None:
                await blocking(step)
                self._work.set()
                await asyncio.sleep(self._database.chance.uniform(0.0, 0.002))
            else:
                self._work.clear()
                due = wait_s()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_S if due is None else min(IDLE_S, due + 1e-4)):
                        await self._work.wait()

    async def _beat(self, heartbeat: Heartbeat) -> None:
        while True:
            await blocking(heartbeat.beat)
            await asyncio.sleep(EVERY_S)

    def _recover(self, seen: int) -> EngineState:
        assert self.writer is not None
        self.writer.recover()
        stored = Snapshot.read(self._database)
        self.retained_after = stored.state.retained_after
        traffic = None if self.brokers is None else self.brokers.traffic
        state = EngineState(
            chooser("auto"),
            self.metrics,
            lambda: self.retained_after,
            look_events=20,
            traffic=traffic,
            clock=VirtualClock(self.loop),
        )
        fill(state, stored, lambda *said: None)
        state.timelines = stored.timelines
        return state

    def _retire(self, last_seq: int) -> None:
        """Between batches; the product does it beside them, in a transaction that is proven by the epoch."""
        due = last_seq - self._retention
        assert self.writer is not None
        if due > self.retained_after and self._database.data.epoch == self.writer.session.epoch:
            retire(self._database.data, due)
            self.retained_after = due

    # -- its callers ---------------------------------------------------------------------------------------------
    def submit(self, command: Any) -> Any:
        """In the process of the server."""
        if self.port is None:
            raise RecoveringError("the server waits for the database")
        future = self.port.submit(command)
        self._work.set()
        return future

    def subscriber(self) -> Subscriber:
        if self.edge is None:
            raise RecoveringError("the server waits for the database")
        return Subscriber(self.edge, self.submit, self.metrics, QUEUE)

    def membership(self) -> Any:
        if self.brokers is None or self.pipeline is None or not self.pipeline.ready:
            raise RecoveringError("the server does not serve yet")
        return self.brokers.membership

    @property
    def timeline(self) -> str:
        return "" if self.edge is None else self.edge.timeline
