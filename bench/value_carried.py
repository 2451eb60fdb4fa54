"""Value notifications sent through the nodes of a network, operation by operation, and what each has cost.

The subscriptions that a scan finds must be notified, and no others. Besides messages, the cost of updating tables is
counted: a frame to the new owner of what moves, and the parts that change; that the old owner removes it costs nothing,
since the message has said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.common import fail, progress
from bench.secondary import SecondaryServers, ranges_of
from bench.value_schemes import Labels, region_of
from bench.value_trace import Trace
from cn.model.frames import Data, Frame, Parts, PlacementAdded, encode
from cn.model.geometry import Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.partition_owner import PartitionOwnerNode
from cn.networks.partition_root import LEAST
from cn.simulation.metrics import Dissemination, Meter
from cn.simulation.network import SERVER, Simulated
from cn.simulation.registry import make_simulated
from prosem.index.radii.ba_tree_radii import Fired

TREE = "range-tree"
Row = dict[str, Any]


class Topology(Protocol):
    """The brokers, a tree of them, and how far apart they are."""

    brokers: list[str]
    parents: dict[str, str]

    def ip_hops(self, sender: str, to: str) -> int: ...


class OperationMeter(Meter):
    """Counts messages, and what keeping tables right costs: placements that are sent, and parts that have changed."""

    def __init__(self, network: Simulated, ip_hops: Callable[[str, str], int]) -> None:
        super().__init__(network.memory, ip_hops)
        self._nodes = network.memory.nodes
        self.operation = 0
        self.is_counting = True
        self._under = ip_hops

    def see(self, sender: str, to: str, frame: Frame) -> None:
        if not self.is_counting:
            return
        super().see(sender, to, frame)
        if isinstance(frame, PlacementAdded) or (isinstance(frame, Parts) and self._is_news(to, frame)):
            event = self.events.get(self.operation) or self._begin(self.operation)
            size, hops = len(encode(frame)), self._under(sender, to)
            event.overlay_hops += 1
            event.ip_hops += hops
            event.bytes += size
            event.traffic_bytes += hops * size
            event.stress[sender] += 1

    def _is_news(self, to: str, frame: Parts) -> bool:
        """Whether a broker does not keep exactly these parts already: then only the epoch is another."""
        node = self._nodes[to]
        assert isinstance(node, PartitionOwnerNode)
        return {part.number: part for part in frame.parts} != node.parts

    def quietly(self, work: Callable[[], None]) -> None:
        self.is_counting = False
        work()
        self.is_counting = True


class SecondaryMeter(OperationMeter):
    """Of the second layer: what its server sends is sent by the broker of the radius, and costs nothing to itself."""

    def __init__(
        self, network: Simulated, ip_hops: Callable[[str, str], int], hosts: Mapping[int, str]
    ) -> None:
        super().__init__(network, ip_hops)
        self._hosts = hosts  # of each radius

    def see(self, sender: str, to: str, frame: Frame) -> None:
        if isinstance(frame, Data) and sender == SERVER:
            sender = self._hosts[frame.message.region[0][0].low]
        if sender != to:
            super().see(sender, to, frame)


class Carried:
    """A network with its subscriptions, and those that the messages of an operation have reached."""

    def __init__(
        self, network: str, topology: Topology, host_of: Callable[[int], str], *, check: bool = True
    ) -> None:
        self.heard: list[int] = []
        self.network = make_simulated(
            network,
            self._deliver,
            lambda seq: None,
            brokers=topology.brokers,
            host_of=host_of,
            options={"parents": topology.parents, "check": check},
        )

    def _deliver(self, message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        if message.kind == "value":
            self.heard.extend(int(id) for id in ids)

    def take_heard(self) -> list[int]:
        heard, self.heard = self.heard, []
        return heard


def hosts_of(trace: Trace, brokers: Sequence[str]) -> list[str]:
    """The host of each subscription: the broker that will keep the page it is on, as in [ProSem thesis].

    Pages are halved until they have their share (`KeeperRoot`), so their number is a power of two.
    """
    rank = np.argsort(np.lexsort((trace.label, trace.radius)))
    pages = 1
    while len(rank) > pages * max(LEAST, 2 * len(rank) / len(brokers)):
        pages *= 2
    return [brokers[(int(at) * pages // len(rank)) * len(brokers) // pages] for at in rank]


def measure(what: str, name: str, scheme: Labels, trace: Trace, topology: Topology) -> Row:
    """Figures of a trace over a network."""
    progress(f"networks: {what}, {len(trace.radius):,} subscriptions over {name}")
    hosts = hosts_of(trace, topology.brokers)
    carried = Carried(name, topology, lambda id: hosts[scheme.owner(id)], check=scheme.has_server)
    network = carried.network
    for id, point in scheme.points(trace):
        network.register(scheme.space, id, b"", point)
    network.watermark(0)
    meter = OperationMeter(network, topology.ip_hops)
    for step in trace.steps:
        for arrival in step.arrivals:
            meter.operation += 1
            scheme.arrive(network, trace, arrival, meter.operation, meter.quietly)
            network.watermark(meter.operation)
        meter.operation += 1
        regions = scheme.regions(step)
        for part, region in enumerate(regions):
            payload = b"%d" % step.value
            network.inject(
                Message(meter.operation, part, scheme.space.id, "value", region=region, payload=payload)
            )
        if regions:
            network.watermark(meter.operation)
        if scheme.concerned(carried.take_heard()) != step.affected:
            fail(f"{what}: {name} and the scan disagree on the event to {step.value}")
        if scheme.recentre(network, trace, step):
            network.watermark(meter.operation)
    return figures([*meter.events.values()], trace)


def one_by_one(trace: Trace, topology: Topology) -> Row:
    """A message for each affected subscription, straight from the server; and one to the broker of each that arrives."""
    hosts, costs = hosts_of(trace, topology.brokers), []
    for number, step in enumerate(trace.steps, 1):
        cost = Dissemination()
        message = Message(number, 0, 1, "value", targets=(1_000,), payload=b"%d" % step.value)
        size = len(encode(Data(number, message)))
        for at in [*step.affected, *(arrival.at for arrival in step.arrivals)]:
            cost.ip_hops += topology.ip_hops(SERVER, hosts[at])
        cost.overlay_hops = len(step.affected) + len(step.arrivals)
        cost.bytes = cost.overlay_hops * size
        cost.stress[SERVER] = len(step.affected)
        cost.hop_latency = int(bool(step.affected))
        costs.append(cost)
    return figures(costs, trace)


def secondary(what: str, trace: Trace, topology: Topology) -> Row:
    """Two layers: ranges of radii to the brokers of the radii, and arcs of labels from there ([ProSem thesis] 4.5)."""
    progress(f"networks: {what}, {len(trace.radius):,} subscriptions with secondary servers")
    hosts = hosts_of(trace, topology.brokers)
    broker = {int(radius): host for radius, host in zip(trace.radius[::-1], hosts[::-1], strict=True)}
    servers, radii = SecondaryServers(trace.state), Space(1, 1, True)
    upper = Carried(TREE, topology, lambda radius: broker[radius])
    lower, scheme = Carried(TREE, topology, hosts.__getitem__), Labels()
    for radius in servers.radii:
        upper.network.register(radii, radius, b"", (radius,))
    for at, point in scheme.points(trace):
        lower.network.register(scheme.space, at, b"", point)
    upper.network.watermark(0)
    lower.network.watermark(0)
    first = OperationMeter(upper.network, topology.ip_hops)
    second = SecondaryMeter(lower.network, topology.ip_hops, broker)
    operation = 0
    for step in trace.steps:
        for arrival in step.arrivals:
            operation += 1
            first.operation = second.operation = operation
            radius = int(trace.radius[arrival.at])
            if servers.arrive(radius, arrival.value) != arrival.label:
                fail(f"the servers disagree on the label of a subscription of radius {radius}")
            upper.network.register(radii, radius, b"", (radius,))
            scheme.arrive(lower.network, trace, arrival, operation, second.quietly)
            lower.network.watermark(operation)
            upper.network.watermark(operation)
        operation += 1
        first.operation = second.operation = operation
        ranges = ranges_of(step.fired, servers.radii)
        payload = b"%d" % step.value
        for part, (low, high) in enumerate(ranges):
            region = ((Interval(low, high),),)
            upper.network.inject(Message(operation, part, radii.id, "value", region=region, payload=payload))
        upper.network.watermark(operation)
        found = [servers.take(step.value, one) for one in ranges]
        if [fired[0] for some in found for fired in some] != sorted(upper.take_heard()):
            fail(f"the event to {step.value} does not reach the servers of its radii")
        for part, fired in enumerate(one for some in found for one in _joined(some, broker)):
            arcs = region_of(fired)
            lower.network.inject(
                Message(operation, part, scheme.space.id, "value", region=arcs, payload=payload)
            )
        lower.network.watermark(operation)
        if sorted(lower.take_heard()) != step.affected:
            fail(f"secondary servers and the scan disagree on the event to {step.value}")
    costs = []
    for number in range(1, operation + 1):
        cost, below = (one.events.get(number) or Dissemination() for one in (first, second))
        cost.overlay_hops += below.overlay_hops
        cost.ip_hops += below.ip_hops
        cost.bytes += below.bytes
        cost.stress += below.stress
        cost.hop_latency += below.hop_latency
        costs.append(cost)
    return figures(costs, trace)


def _joined(found: list[Fired], broker: Mapping[int, str]) -> list[Fired]:
    """Of one range: neighbouring radii of one broker that fire as a whole in one message."""
    joined: list[Fired] = []
    for (_, is_whole), some in groupby(found, lambda one: (broker[one[0]], one[2] is None)):
        run = [*some]
        joined += [(run[0][0], run[-1][1], None)] if is_whole else run
    return joined


def figures(costs: list[Dissemination], trace: Trace) -> Row:
    """Per operation; the stress is the largest of all."""
    number = trace.operations
    return {
        "traffic_bytes": round(sum(cost.bytes for cost in costs) / number, 1),
        "overlay_hops": round(sum(cost.overlay_hops for cost in costs) / number, 2),
        "max_node_stress": max((cost.max_node_stress for cost in costs), default=0),
        "hop_latency": round(sum(cost.hop_latency for cost in costs) / number, 2),
        "ip_hops": round(sum(cost.ip_hops for cost in costs) / number, 2),
    }
