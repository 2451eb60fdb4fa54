"""Members and their leases, without processes: on a virtual clock, over a stand-in of NATS."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context

import pytest

pytest.importorskip("greenlet")
pytest.importorskip("nats")

from cn.networks.local import LocalNetwork
from cn.networks.node import Out
from cn.networks.registry import SCHEMES
from cn.transport.nats import NatsTransport
from prosem.brokers.dispatcher import Dispatcher
from prosem.brokers.membership import WATCH_S, Membership
from prosem.brokers.protocol import NETWORKS, OLDEST, PROTOCOL
from prosem.delivery.edge import Edge
from prosem.runtime.metrics import Metrics
from prosem.values.errors import ConflictError
from tests.simulation.machine import VirtualLoop, virtual_time
from tests.simulation.nats import Nats, simulated_nats
from tests.support.waiting import until_async

LEASE_S = 4 * WATCH_S


class Deployment:
    """What a server makes of a network, before brokers join."""

    def __init__(self, network: str) -> None:
        self.metrics, scheme = Metrics(), SCHEMES[network]
        ignored = lambda *_: None
        self.dispatcher = Dispatcher(
            Edge(self.metrics, LocalNetwork, ignored, ignored),
            scheme.root("server", {}),
            lambda to, frame, data: self.membership.send(to, frame, data),
            100,
            ignored,  # type: ignore[arg-type]
            ignored,
            ignored,
            ignored,
        )
        transport = NatsTransport("nats://simulated")
        self.membership = Membership(
            self.dispatcher, scheme, {}, transport, "one", lease_s=LEASE_S, replicas=1, on_disk=False,
            metrics=self.metrics,
        )  # fmt: skip

    async def open(self) -> None:
        self.membership.start_over()
        await until_async(lambda: self.membership._is_open)


def simulated(network: str, case: Callable[[Deployment], Awaitable[None]]) -> None:
    async def carry_out() -> None:
        made = Deployment(network)
        await made.open()
        try:
            await case(made)
        finally:
            await made.membership.close()

    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        with virtual_time(loop, 1), simulated_nats(Nats(loop, random.Random(1))):
            loop.run_until_complete(loop.create_task(carry_out(), context=Context()))
    finally:
        asyncio.set_event_loop(None)
        loop.end()


def test_a_lease_is_no_longer_because_its_watcher_failed() -> None:
    async def case(made: Deployment) -> None:
        node = made.membership.join("one", "http://one", PROTOCOL)["node"]
        member, root = made.dispatcher.members[node], made.dispatcher.root
        joined, tick = member.seen, root.tick

        def failing(now: float) -> Iterable[Out]:
            root.tick = tick  # type: ignore[method-assign]
            raise RuntimeError("injected")

        root.tick = failing  # type: ignore[method-assign]
        await until_async(lambda: node not in made.dispatcher.members)
        assert made.metrics.restarts["brokers-leases"] == 1
        assert member.seen == pytest.approx(joined), "the wait of the watcher is not the loop's"

    simulated("unicast", case)


def test_a_network_that_has_changed_takes_no_older_brokers() -> None:
    async def case(made: Deployment) -> None:
        with pytest.raises(ConflictError, match="update the broker"):
            made.membership.join("one", "http://one", NETWORKS["can"] - 1)
        assert made.membership.join("one", "http://one", PROTOCOL)["network"] == "can"

    async def unchanged(made: Deployment) -> None:
        assert made.membership.join("one", "http://one", OLDEST)["network"] == "unicast"

    simulated("can", case)
    simulated("unicast", unchanged)
