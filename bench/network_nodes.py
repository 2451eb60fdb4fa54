"""Messages through the real nodes of a network, in the simulator, and what that costs.

Every message is carried, matched and delivered as in a deployment; with hundreds of brokers that takes a while, so large
figures are taken from ways (`bench/network_routes.py`), which must cost the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import fail, progress
from bench.network_setting import Ints, Setting
from cn.model.frames import Carrier, Content, ContentsHeld, Fetch, Frame, encode
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.contents import REQUEST_TIMEOUT_S
from cn.simulation.metrics import Meter
from cn.simulation.network import SERVER, Simulated
from cn.simulation.registry import make_simulated

Events = list[list[Message]]
Delivered = dict[tuple[int, int], list[int]]
NETWORKS = ("unicast", "multicast", "cbn", "bloom", "can")


def measure(
    name: str,
    setting: Setting,
    space: Space,
    points: Ints,
    hosts: Mapping[int, str],
    sent: Events,
    options: Mapping[str, Any],
    warming: int = 0,
) -> tuple[dict[str, Any], Delivered, float]:
    """Figures per event, what was delivered, and the bytes of messages and contents that left the server.

    Points are numbered from 1. Acknowledgements, requests and answers of contents count as traffic, not as hops: of these
    `content_latency` has those until the last broker has its message with all contents. The first `warming` events fill
    repositories, and are not counted.
    """
    delivered: Delivered = {}

    def deliver(message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        delivered[message.seq, message.part] = sorted(int(id) for id in ids)

    network = make_simulated(
        name,
        deliver,
        lambda seq: None,
        brokers=setting.brokers,
        host_of=hosts.__getitem__,
        options={"parents": setting.parents, **options},
    )
    for id, point in enumerate(points.tolist(), 1):
        network.register(space, id, b"", tuple(point))
    network.watermark(0)
    meter = Meter(network.memory, setting.ip_hops)
    contents, is_counted = [0, 0], warming == 0
    begun, latency = 0.0, dict[int, float]()

    def see(sender: str, to: str, frame: Frame) -> None:
        if not is_counted:
            return
        meter.see(sender, to, frame)
        if isinstance(
            frame, Carrier | Content
        ):  # each link takes a second, and messages go one after another
            latency[seq] = max(latency.get(seq, 0.0), network.memory.now - begun + 1)
        if isinstance(frame, ContentsHeld | Fetch | Content):
            contents[0] += len(encode(frame))
            contents[1] += len(encode(frame)) if sender == SERVER else 0

    network.memory.watch = see
    for seq, messages in enumerate(sent, 1):
        is_counted = seq > warming
        for message in messages:
            begun = network.memory.now
            network.inject(message)
            _settle(network)
        network.watermark(seq)
    number, costs = len(sent) - warming, [*meter.events.values()]
    leaving = sum(cost.byte_stress[SERVER] for cost in costs) + contents[1]
    row = {
        "network": name,
        "traffic_bytes": round((sum(cost.bytes for cost in costs) + contents[0]) / number, 1),
        "overlay_hops": round(sum(cost.overlay_hops for cost in costs) / number, 2),
        "max_node_stress": max((cost.max_node_stress for cost in costs), default=0),
        "hop_latency": round(sum(cost.hop_latency for cost in costs) / number, 2),
        "content_latency": round(sum(latency.values()) / number, 2),
        "ip_hops": round(sum(cost.ip_hops for cost in costs) / number, 2),
    }
    return row, delivered, leaving / number


def _settle(network: Simulated) -> None:
    """Until nothing is under way; brokers that wait for a content in vain ask the server after a while."""
    network.settle()
    while any(getattr(node, "is_waiting", False) for node in network.memory.nodes.values()):
        network.run(2 * REQUEST_TIMEOUT_S)
        network.memory.tick()
        network.settle()


def compare(
    what: str, setting: Setting, space: Space, points: Ints, sent: Events, wanted: Delivered
) -> list[dict[str, Any]]:
    """Every network carries the same messages and delivers what is wanted; fails if one does not."""
    rows, hosts = [], setting.hosts(points)
    for name in NETWORKS:
        progress(f"networks: {what} through the nodes of {name}")
        options = {"routed": True} if name == "can" else {}
        row, delivered, _ = measure(name, setting, space, points, hosts, sent, options)
        if delivered != wanted:
            fail(f"{name} does not deliver to the subscriptions that {what} affects")
        rows.append(row)
    return rows
