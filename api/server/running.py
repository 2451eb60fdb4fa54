"""A server that runs: all its parts, and what routes ask it for."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from api.server.backtests import BacktestService
from api.server.command_port import LOST, CommandPort
from api.server.database import Database
from api.server.deployment import Deployment, NoBrokers
from api.server.keyring import Keyring
from api.server.settings import Settings
from api.webhooks.service import WebhookService
from prosem.delivery.edge import Edge
from prosem.delivery.replayer import Replayer
from prosem.delivery.subscriber import Subscriber
from prosem.engine import commands as c
from prosem.engine.engine import Engine
from prosem.engine.state import EngineState
from prosem.engine.view import EngineView
from prosem.runtime.metrics import Metrics
from prosem.store.log import Writer
from prosem.store.replay import ReplayStore
from prosem.values.access import WHOLE, Scope
from prosem.values.errors import RecoveringError


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """Made by `compose`, used on the loop's thread. `is_ready` says whether it serves: it may recover, also again."""

    settings: Settings
    metrics: Metrics
    keys: Keyring
    database: Database
    store: ReplayStore
    replayer: Replayer
    edge: Edge
    brokers: Deployment | NoBrokers
    port: CommandPort
    engine: Engine
    webhooks: WebhookService
    backtests: BacktestService
    opened: AsyncExitStack
    """closes what was opened, in reverse order"""
    idempotency_locks: dict[str, list[Any]] = field(default_factory=dict)
    """keys of requests under way"""

    async def close(self) -> None:
        await self.opened.aclose()

    # -- readiness -----------------------------------------------------------------------------------------------
    @property
    def writer(self) -> Writer:
        return self.database.writer

    @property
    def is_ready(self) -> bool:
        return self.engine.ready and self.writer.session.is_proven

    @property
    def problem(self) -> str:
        """Why the server does not serve."""
        return self.engine.problem or LOST

    @property
    def notice(self) -> str:
        """What does not work although the server serves."""
        return self.engine.notice

    # -- commands and what is stored -----------------------------------------------------------------------------
    @property
    def view(self) -> EngineView:
        """What is stored, to be read at once; what needs a place in the order goes through `call`."""
        self.port.check_owner()
        return self.engine.view

    @property
    def state(self) -> EngineState:
        """The engine's own memory, for tests that look inside: all else reads `view`, or goes through `call`."""
        self.port.check_owner()
        state = self.engine.state
        if state is None:
            raise RecoveringError(f"the server does not serve yet: {self.problem}")
        return state

    def submit(self, command: c.Command, parent: str = "") -> Future[Any]:
        """Put a command into the order; `parent` is the trace it belongs to."""
        return self.port.submit(command, parent)

    async def call(self, command: c.Command, parent: str = "") -> Any:
        """Carry a command out; returns after its commit."""
        return await self.port.call(command, parent)

    # -- streams and brokers -------------------------------------------------------------------------------------
    def subscriber(self, scope: Scope = WHOLE) -> Subscriber:
        return new_subscriber(self.settings, self.edge, self.port, self.metrics, scope)

    @property
    def network(self) -> str:
        """The name of the network in use."""
        return self.brokers.network or self.edge.network.name

    @property
    def attached(self) -> int:
        """Subscriptions with a stream here, and such that brokers host (one that both do counts twice)."""
        return self.edge.hosted + self.brokers.hosted


def new_subscriber(
    settings: Settings, edge: Edge, port: CommandPort, metrics: Metrics, scope: Scope = WHOLE
) -> Subscriber:
    return Subscriber(edge, port.submit, metrics, settings.queue, scope, settings.queue_mb << 20)
