"""Live SQL subscriptions from Python: `AsyncClient` for asyncio, `Client` for threads."""

from prosem_client.client import AsyncClient
from prosem_client.dataframe import LiveFrame
from prosem_client.errors import (
    Closed,
    ConnectionLost,
    NotMonitorable,
    OutOfStep,
    PartlyPublished,
    ProsemError,
)
from prosem_client.folding import fold
from prosem_client.monitor import UpdateMonitor
from prosem_client.monitored import MonitoredSubscription
from prosem_client.pinned import PinnedVariable, release
from prosem_client.publisher import Publisher
from prosem_client.query import Order
from prosem_client.raw import RawSubscription
from prosem_client.rules import LocalState
from prosem_client.subscription import Subscription
from prosem_client.sync import Client, SyncPublisher, SyncSubscription
from prosem_client.values import Batch, Change, Published, Result

__all__ = [
    "AsyncClient",
    "Batch",
    "Change",
    "Client",
    "Closed",
    "ConnectionLost",
    "LiveFrame",
    "LocalState",
    "MonitoredSubscription",
    "NotMonitorable",
    "Order",
    "OutOfStep",
    "PartlyPublished",
    "PinnedVariable",
    "ProsemError",
    "Published",
    "Publisher",
    "RawSubscription",
    "Result",
    "Subscription",
    "SyncPublisher",
    "SyncSubscription",
    "UpdateMonitor",
    "fold",
    "release",
]
