"""The parts that a server with brokers has in addition: NATS, the dispatcher and the brokers' membership."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from api.server.settings import Settings
from cn.networks.registry import SCHEMES
from cn.transport.nats import NatsMissingError
from optimizer.cost import STRAIGHT, TREE
from prosem.brokers.dispatcher import Dispatcher
from prosem.brokers.embedded_nats import EmbeddedNats
from prosem.brokers.membership import Membership
from prosem.brokers.requests import SERVER
from prosem.brokers.stage_orders import read_stage_orders
from prosem.brokers.transport import watched_transport
from prosem.delivery.edge import Edge, Stream
from prosem.engine import commands as c
from prosem.engine.outlet import Outlet
from prosem.engine.pipeline import Submit
from prosem.engine.traffic import Traffic
from prosem.runtime.metrics import Metrics
from prosem.runtime.supervise import end, supervise
from prosem.values.errors import ConflictError, SetupError
from prosem.values.model import JsonObject

log = logging.getLogger("prosem.brokers")
REVIVE_S = 0.3


class NoBrokers:
    """The same of a server without brokers."""

    network = ""
    hosted = 0
    traffic: Traffic | None = None
    outlet: Outlet | None = None

    @property
    def membership(self) -> Membership:
        raise ConflictError("this server takes no brokers; start it with --nats embedded or --nats nats://…")

    def hosts(self, sid: int) -> bool:
        return False

    def report(self) -> JsonObject:
        return {"brokers": [], "links": [], "ways": {}, "redirected": 0}

    async def close(self) -> None:
        pass


class Deployment:
    """Made and used on the loop, after `prepare`. `outlet` is the engine's; `network` is the name of the network."""

    def __init__(
        self,
        settings: Settings,
        edge: Edge,
        engine: str,
        url: str,
        nats: EmbeddedNats | None,
        metrics: Metrics,
        submit: Submit,
        replay: Callable[[Stream, c.Hosted], None],
        orphan: Callable[[int], None],
    ) -> None:
        self._nats, self.network = nats, settings.network
        scheme, options = SCHEMES[settings.network], network_options(settings.network_options)
        transport = watched_transport(url, metrics, lambda why: self.membership.lost(why), settings.lease_s)
        self.dispatcher = Dispatcher(
            edge,
            scheme.root(SERVER, options),
            lambda to, frame, data: self.membership.send(to, frame, data),
            settings.queue,
            submit,
            replay,
            orphan,
            lambda: self.membership.start_over(),
            {0: TREE, 1: STRAIGHT}.get(options.pop("straight", -1)),
            options.pop("redirect", 1) != 0,
            stage_orders(settings),
        )
        self.membership = Membership(
            self.dispatcher,
            scheme,
            options,
            transport,
            engine,
            lease_s=settings.lease_s,
            replicas=settings.nats_replicas,
            on_disk=settings.nats_storage == "file",
            metrics=metrics,
        )
        self._tasks = (
            [] if nats is None else [supervise("nats-revive", partial(self._revive, nats), metrics.restarts)]
        )

    @classmethod
    def prepare(cls, settings: Settings) -> EmbeddedNats | None:
        """Start a NATS server of our own, if that is wanted. Blocks."""
        if settings.network not in SCHEMES:
            raise SetupError(
                f"--network {settings.network!r} has no brokers; those that have are {', '.join(SCHEMES)}"
            )
        network_options(settings.network_options)
        stage_orders(settings)
        if settings.nats_storage not in ("file", "memory"):
            raise SetupError(f"--nats-storage is file or memory, not {settings.nats_storage!r}")
        try:
            import nats  # noqa: F401
        except ImportError:
            raise SetupError(str(NatsMissingError())) from None
        if settings.nats != "embedded":
            return None
        made = EmbeddedNats(settings.folder / "nats")
        made.start()
        return made

    @property
    def outlet(self) -> Outlet:
        return self.dispatcher

    @property
    def traffic(self) -> Traffic:
        return self.dispatcher.traffic

    @property
    def hosted(self) -> int:
        """Subscriptions that brokers host."""
        return self.dispatcher.hosted

    def hosts(self, sid: int) -> bool:
        """Whether a broker hosts the subscription."""
        return self.dispatcher.hosts(sid)

    def report(self) -> JsonObject:
        """The brokers, and the links of the network with what they have carried."""
        return self.membership.report()

    async def close(self) -> None:
        await end(*self._tasks)
        await self.membership.close()
        if self._nats is not None:
            await asyncio.to_thread(self._nats.stop)

    async def _revive(self, nats: EmbeddedNats) -> None:
        """Our own NATS server is started again if it has ended."""
        while True:
            await asyncio.sleep(REVIVE_S)
            if not nats.is_alive():
                log.warning("the embedded NATS server has ended; starting it again")
                try:
                    await asyncio.to_thread(nats.start)
                except SetupError as error:
                    log.error("%s", error.detail)
                    await asyncio.sleep(1.0)


def stage_orders(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The order of attributes that is given for each table."""
    try:
        orders = read_stage_orders(settings.stage_order)
    except ValueError as error:
        raise SetupError(f"--stage-order: {error}") from None
    if orders and settings.network != "stages":
        raise SetupError(f"--stage-order is for the network stages, not for {settings.network}")
    return orders


def network_options(text: str) -> dict[str, int]:
    """The options of a network as they are given.

    >>> network_options("fan_out=4, lub=1")
    {'fan_out': 4, 'lub': 1}
    """
    options = {}
    for item in filter(None, text.replace(" ", "").split(",")):
        name, _, number = item.partition("=")
        if not name.isidentifier() or not number.isdigit():
            raise SetupError(f"--network-options takes name=number with commas, not {item!r}")
        options[name] = int(number)
    return options
