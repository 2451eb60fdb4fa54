"""Value notification over networks: the thesis's figures 4.7 and 4.9 to 4.12.

CN(r), CN(lid) and CN(r,lid) are the range tree over (radius, label), CN(lr) and CN(c) the same tree over what moves. That is
paid for: a frame to the new keeper of each end or centre, and what dividing pages costs; that the old keeper forgets it
costs nothing, since the message has told it. One by one is the thesis's unicast. Everything is sent through the real nodes,
and must reach those whom a scan finds. Traffic is counted per operation, an event or an arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.common import Curve, fail, progress
from bench.secondary import SecondaryServers, ranges_of
from bench.value_change import (
    RADIUS,
    Workload,
    all_rad_workload,
    diff_rad_workload,
    same_rad_workload,
)
from bench.value_schemes import Centres, Ends, Labels, region_of
from bench.value_trace import Trace, follow
from cn.frames import Data, Frame, Parts, Stands, encode
from cn.geometry import Interval
from cn.message import Message
from cn.metrics import Dissemination, Meter
from cn.networks.base import Space
from cn.networks.keeper import KeeperNode
from cn.networks.keeper_root import LEAST
from cn.networks.registry import make_simulated
from cn.networks.simulated import SERVER, Simulated
from prosem.index.b2_tree import Fired

TREE = "range-tree"
THESIS_STRESS: dict[tuple[str, int], dict[str, int]] = {
    ("4.7", 10_000): {"CN(lr)": 3_969, "one by one": 1_984, "CN(r)": 282},
    ("4.9", 10_000): {"CN(lr)": 18_051, "CN(c)": 9_026, "one by one": 9_025, "CN(lid)": 2},
}
THESIS_SHARE = {
    "one by one": "1",
    "CN(r)": "about 0.1",
    "CN(lid)": "0.01 and less",
    "CN(r,lid)": "about 0.1",
    "CN(lr)": "more than 1",
    "CN(c)": "more than 1",
}
Row = dict[str, Any]


class Topology(Protocol):
    """The brokers, a tree of them, and how far apart they are."""

    brokers: list[str]
    parents: dict[str, str]

    def ip_hops(self, sender: str, to: str) -> int: ...


class OperationMeter(Meter):
    """Counts messages, and what keeping tables right costs: standings that are told, and parts that have changed."""

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
        if isinstance(frame, Stands) or (isinstance(frame, Parts) and self._is_news(to, frame)):
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
        assert isinstance(node, KeeperNode)
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
    """A network with its subscriptions, and those whom the messages of an operation have reached."""

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
    """The host of each subscription: the broker that will keep the page it is on, as in the thesis.

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
    """Two layers: ranges of radii to the brokers of the radii, and arcs of labels from there (thesis 4.5)."""
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


# -- the figures ---------------------------------------------------------------------------------------------------
def compare(figure: str, workload: Workload, measured: int, topology: Topology) -> list[Row]:
    """All that the thesis compares in a figure, on one workload: its last events, by then centres are where they will be."""
    trace = follow(workload, measured)
    described = {"4.7": "CN(r)", "4.9": "CN(lid)", "4.10": "CN(lid)"}.get(figure, "CN(r,lid)")
    rows: list[Row] = [
        {"network": "one by one"} | one_by_one(trace, topology),
        {"network": "CN(lr)"} | measure(figure, TREE, Ends(), trace, topology),
        {"network": described} | measure(figure, TREE, Labels(), trace, topology),
    ]
    if described == "CN(lid)":
        rows.insert(2, {"network": "CN(c)"} | measure(figure, TREE, Centres(RADIUS), trace, topology))
    if described == "CN(r,lid)":
        rows.append({"network": "CN(r,lid), secondary servers"} | secondary(figure, trace, topology))
    affected = sum(len(step.affected) for step in trace.steps) / len(trace.steps)
    known = THESIS_STRESS.get((figure, len(trace.radius)), {})
    return [
        {"figure": figure, "subscriptions": len(trace.radius), "affected": round(affected, 1)}
        | row
        | {
            "of_one_by_one": round(row["traffic_bytes"] / max(1.0, rows[0]["traffic_bytes"]), 3),
            "thesis": THESIS_SHARE.get(row["network"], "-"),
            "thesis_stress": known.get(row["network"], "-"),
        }
        for row in rows
    ]


def series(topology: Topology, quick: bool) -> tuple[list[Row], list[Curve]]:
    """The rows of all figures, and a curve for each."""
    rng = np.random.default_rng(7)
    before, measured = (500, 30) if quick else (20_000, 100)
    events = before + measured
    rows: list[Row] = []
    for count in (1_000,) if quick else (10_000, 40_000, 100_000):
        rows += compare("4.7", diff_rad_workload(count, events, rng), measured, topology)
    for count in (1_000,) if quick else (10_000, 50_000):
        rows += compare("4.9", same_rad_workload(count, events, rng), 2 * measured, topology)
    for rate in (1.0,) if quick else (0.5, 2.0):
        workload = arriving(500 if quick else 5_000, rate, events, measured, rng)
        rows += [row | {"arrivals": rate} for row in compare("4.10", workload, measured, topology)]
    for count in (500,) if quick else (5_000, 50_000):
        rows += compare("4.11", all_rad_workload(count, events, rng), measured, topology)
    for count in (500,) if quick else (5_000, 20_000):
        rows += compare("4.12", priced(all_rad_workload(count, events, rng), rng), measured, topology)
    return rows, curves(rows)


def arriving(count: int, rate: float, events: int, measured: int, rng: np.random.Generator) -> Workload:
    """One radius; during the events that are measured, so many subscriptions arrive an event."""
    late = int(rate * measured)
    workload = same_rad_workload(count + late, events, rng)
    arrival = np.zeros(count + late, np.int64)
    arrival[count:] = events - measured + (np.arange(late) / rate).astype(np.int64)
    return workload._replace(arrival=arrival)


def priced(workload: Workload, rng: np.random.Generator) -> Workload:
    """The days of a stock, over and over, in cents: steps of 2 % of the price, as closing prices have."""
    days = 100 * np.exp(np.cumsum(rng.normal(0, 0.02, 2_500)))
    days = np.concatenate([days, days[::-1]])
    cents = np.round(100 * np.resize(days, len(workload.values))).astype(np.int64)
    start = int(cents[0])
    return workload._replace(values=cents.tolist(), first=np.full(len(workload.radius), start, np.int64))


def curves(rows: list[Row]) -> list[Curve]:
    titles = {
        "4.7": "different radii",
        "4.9": "one radius",
        "4.10": "one radius, arrivals",
        "4.11": "all radii",
        "4.12": "all radii, prices",
    }
    made = []
    for figure, title in titles.items():
        some = [row for row in rows if row["figure"] == figure]
        by = "arrivals" if figure == "4.10" else "subscriptions"
        lines = {
            name: [(row[by], row["traffic_bytes"]) for row in some if row["network"] == name]
            for name in dict.fromkeys(row["network"] for row in some)
        }
        x = "arrivals an event" if by == "arrivals" else by
        made.append(Curve(f"thesis {figure}: {title}", x, "bytes an operation", lines))
    return made


def table(rows: list[Row]) -> list[Row]:
    """The rows as they are shown."""
    return [
        {"figure": row["figure"], "subs": row["subscriptions"], "arrivals": row.get("arrivals", "-")}
        | {name: value for name, value in row.items() if name not in ("figure", "subscriptions", "arrivals")}
        for row in rows
    ]


NOTES = [
    "value: CN(lr) and CN(c) pay for moving whoever was told something; thesis: traffic as a share of unicast's, and stress",
    "value: figure 4.12 has prices of a random walk, since the traces of the thesis are not to be had",
]
