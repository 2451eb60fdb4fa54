"""The transport of a server or a broker, with its tasks supervised and its faults counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cn.transport.nats import CHECK_S, NatsTransport
from prosem.runtime.metrics import Metrics
from prosem.runtime.supervise import supervise


def watched_transport(
    url: str, metrics: Metrics, lost: Callable[[str], None], lease_s: float
) -> NatsTransport:
    """A transport whose tasks are started again when they fail, and whose faults are counted.

    It is checked twice within a lease: what can be made again is, before a hang of two leases makes brokers start over.
    """

    def restored(name: str) -> None:
        metrics.network_faults["consumer"] += 1

    def spawn(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return supervise(name, work, metrics.restarts)

    return NatsTransport(url, lost, restored, spawn, min(CHECK_S, lease_s / 2))
