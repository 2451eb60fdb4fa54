"""The composition root: the one place where parts are made and put together. Nothing is global."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from api.server.backtests import BacktestService
from api.server.command_port import CommandPort
from api.server.database import Database
from api.server.deployment import Deployment, NoBrokers
from api.server.expiry import Expiry, Orphans
from api.server.following import Following
from api.server.keyring import Keyring, is_loopback
from api.server.memory import MemoryBuilder
from api.server.running import RunningServer, new_subscriber
from api.server.settings import Settings
from api.server.tracing import tracer
from api.webhooks.service import WebhookService
from api.webhooks.targets import Targets
from api.webhooks.worker import RetryPolicy
from cn.networks.local import LocalNetwork
from prosem.delivery.edge import Edge
from prosem.delivery.replayer import Replayer
from prosem.engine.backlog import EngineLimits
from prosem.engine.engine import Engine
from prosem.runtime.metrics import Metrics
from prosem.runtime.slices import WorkQueue
from prosem.runtime.trace import TraceSink
from prosem.store.identity import identity
from prosem.store.keys import load_keys
from prosem.store.replay import ReplayStore
from prosem.store.retiring import Retiring
from prosem.store.webhooks import WebhookStore
from prosem.values.errors import RecoveringError, SetupError


async def compose(
    settings: Settings,
    metrics: Metrics,
    keys: Keyring,
    on_superseded: Callable[[], object],
    is_closing: Callable[[], bool],
) -> RunningServer:
    """Open the database, make all parts and start them; on the loop. A failure leaves nothing open.

    What is opened later is closed earlier. `on_superseded` is called on another thread.
    """
    async with AsyncExitStack() as opened:
        database = await asyncio.to_thread(
            Database.open, settings, on_superseded, is_closing, metrics.restarts
        )
        opened.push_async_callback(asyncio.to_thread, database.close)
        await _load_keys(settings, keys, database.url)
        trace = _traced(settings, opened)
        store = ReplayStore(lambda: database.url)
        opened.push_async_callback(store.close)
        replayer = Replayer(store, metrics)
        opened.push_async_callback(replayer.close)
        port, orphans = CommandPort(database.writer.session), Orphans()
        edge = Edge(metrics, LocalNetwork, replayer.submit, orphans.add)
        brokers = await _brokers(settings, metrics, database.url, edge, port, replayer, orphans)
        opened.push_async_callback(brokers.close)
        memory = MemoryBuilder(settings, metrics, database.writer, brokers.traffic)
        opened.push_async_callback(asyncio.to_thread, memory.close)
        retiring = Retiring(database.writer.session, memory.retired, metrics.restarts)
        opened.push_async_callback(asyncio.to_thread, retiring.close)
        after_commits = WorkQueue(asyncio.get_running_loop())
        opened.push_async_callback(after_commits.drained)
        engine = Engine(
            database.writer,
            memory.recover,
            after_commits.post,
            brokers.outlet or edge,
            metrics,
            limits=_limits(settings),
            idle=partial(_retire, settings, memory, retiring),
            trace=trace,
        )
        opened.push_async_callback(asyncio.to_thread, engine.close)
        port.connect(engine)
        webhooks = WebhookService(
            WebhookStore(lambda: database.url),
            Targets(settings.webhook_hosts, lambda: keys.is_open),
            partial(new_subscriber, settings, edge, port, metrics),
            keys.is_revoked,
            RetryPolicy(settings.webhook_attempts, settings.webhook_wait_ms / 1000),
            settings.webhook_timeout_s,
            settings.max_body_mb << 20,
            metrics.restarts,
        )
        opened.push_async_callback(webhooks.close)
        archive = settings.archive or str(settings.folder / "archive")
        backtests = BacktestService(archive, settings.spark_master, metrics.restarts)
        opened.push_async_callback(backtests.close)
        made = RunningServer(
            settings=settings,
            metrics=metrics,
            keys=keys,
            database=database,
            store=store,
            replayer=replayer,
            edge=edge,
            brokers=brokers,
            port=port,
            engine=engine,
            webhooks=webhooks,
            backtests=backtests,
            opened=opened.pop_all(),
        )
    try:
        _start(made, memory, retiring, orphans)
    except BaseException:
        await made.close()
        raise
    return made


def _start(made: RunningServer, memory: MemoryBuilder, retiring: Retiring, orphans: Orphans) -> None:
    """Start all threads and tasks."""
    made.metrics.loop_lateness.start()
    made.opened.callback(made.metrics.loop_lateness.close)
    made.replayer.start()
    retiring.start()
    made.engine.start()
    following = Following(made, memory)
    made.opened.push_async_callback(following.close)
    made.webhooks.start(lambda: made.is_ready)
    made.backtests.start()
    expiry = Expiry(
        orphans,
        lambda sid: made.edge.hosts(sid) or made.brokers.hosts(sid),
        partial(_unstreamed, made),
        made.submit,
        made.call,
        made.settings.ephemeral_s,
        made.metrics.restarts,
    )
    made.opened.push_async_callback(expiry.close)


async def _load_keys(settings: Settings, keys: Keyring, url: str) -> None:
    keys.replace(await asyncio.to_thread(load_keys, url))
    if keys.is_open and not is_loopback(settings.host):
        raise SetupError(
            f"without keys the server listens on loopback alone, not on {settings.host}: choose a key of"
            " 24 random characters or more and give it with --admin-key or the variable PROSEM_ADMIN_KEY"
            " (docker run --env PROSEM_ADMIN_KEY=… prosem), or make one with prosem keys create"
        )


def _traced(settings: Settings, opened: AsyncExitStack) -> TraceSink | None:
    if not settings.otlp:
        return None
    trace, stop = tracer(settings.otlp)
    opened.push_async_callback(asyncio.to_thread, stop)
    return trace


async def _brokers(
    settings: Settings,
    metrics: Metrics,
    url: str,
    edge: Edge,
    port: CommandPort,
    replayer: Replayer,
    orphans: Orphans,
) -> Deployment | NoBrokers:
    """With NATS brokers may join: what follows a commit goes to the network, and to our own edge as ever."""
    if not settings.nats:
        return NoBrokers()
    nats = await asyncio.to_thread(Deployment.prepare, settings)
    engine = await asyncio.to_thread(identity, url)
    address = settings.nats if nats is None else nats.url
    return Deployment(
        settings, edge, engine, address, nats, metrics, port.submit, replayer.submit, orphans.add
    )


def _limits(settings: Settings) -> EngineLimits:
    return EngineLimits(
        max_backlog=settings.max_backlog,
        max_backlog_bytes=settings.max_backlog_mb << 20,
        max_batch=settings.max_batch,
        max_batch_bytes=settings.max_batch_mb << 20,
        max_request_events=settings.max_request_events,
        commit_timeout_s=settings.commit_timeout_s,
    )


def _retire(settings: Settings, memory: MemoryBuilder, retiring: Retiring, last_seq: int) -> None:
    """Called by the committer between batches: what is no longer retained is dropped beside it."""
    due = last_seq - settings.retention_events - settings.partition_events
    before = last_seq - settings.retention_events if due > memory.retained_after else 0
    retiring.request(before, settings.measurements, last_seq)


def _unstreamed(made: RunningServer) -> int:
    """Ephemeral subscriptions that have had no stream yet."""
    try:
        return made.view.unstreamed if made.is_ready else 0
    except RecoveringError:
        return 0
