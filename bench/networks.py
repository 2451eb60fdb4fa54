"""Networks of brokers on the thesis's workloads: range-min of table 3.1, joins of table 5.2.

An Internet-like topology; every subscription is hosted by the broker whose zone its point is in, in all networks alike, as
the thesis has it (3.5.4). Messages come from the engine's own spaces. Every network sees the same events and must deliver
the same. Only frames that carry messages count, and contents that are fetched; not those of places, marks and
acknowledgements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import range_min
from bench.common import Curve, Report, fail, progress
from bench.join_workload import Workload, subscriptions
from cn.frames import Content, Data, Frame, encode
from cn.geometry import Interval
from cn.match.point_index import PointIndex
from cn.message import Message
from cn.metrics import Meter
from cn.networks.base import Space
from cn.networks.registry import make_simulated
from cn.networks.simulated import SERVER
from cn.networks.zones import ZoneMap
from cn.topology import Topology, cluster_tree
from prosem.model import Row
from prosem.types.extreme import ExtremeSpace
from prosem.types.join_shape import MODES

Events = list[list[Message]]
Delivered = dict[tuple[int, int], list[int]]
NETWORKS = ("unicast", "multicast", "cbn", "bloom", "can")
THESIS_STRESS = {"one by one": 10_282, "multicast": 3, "can": 23, "can, relaxed": 8}  # table 3.4
PLAN = "ref-sj-clu+"
THESIS_STAR = {PLAN: 3.0}  # 5.7.3: server stress with 400 entries, so many times lower
ENTRIES = (0, 40, 400)
PAYLOAD = 1000


class Setting:
    """The topology, the brokers, and who hosts whom."""

    def __init__(self, nodes: int, brokers: int) -> None:
        topology = Topology(nodes, brokers + 1, seed=3)
        self.brokers = [f"b{at}" for at in range(brokers)]
        self._number = {SERVER: brokers, **{name: at for at, name in enumerate(self.brokers)}}
        self._hops = topology.hops
        self.parents = cluster_tree(SERVER, self.brokers, topology.coordinates()[:brokers])

    def ip_hops(self, sender: str, to: str) -> int:
        return int(self._hops[self._number[sender], self._number[to]])

    def hosts(self, points: PointIndex) -> dict[int, str]:
        """A zone for each broker, and the broker of its zone for each point."""
        items = [(id, (topic, *point)) for id, topic, point in points.items()]
        zones = ZoneMap(points.dimensions + 1, first=0)
        members = {0: items}
        while len(members) < len(self.brokers):
            largest = max(members, key=lambda zone: len(members[zone]))
            new = zones.split(largest, [point for _, point in members[largest]], len(members))
            if new is None:
                break
            parts: dict[int, list[Any]] = {largest: [], new: []}
            for item in members[largest]:
                parts[zones.locate(item[1])].append(item)
            members |= parts
        return {id: self.brokers[zone] for zone, inside in members.items() for id, _ in inside}


def run(quick: bool) -> Report:
    nodes, brokers, count, events = (1_000, 40, 2_000, 120) if quick else (20_000, 1000, 100_000, 1_000)
    params = {"nodes": nodes, "brokers": brokers, "subscriptions": count, "events": events, "quick": quick}
    report = Report("networks", params)
    progress(f"networks: a topology of {nodes:,} nodes, {brokers:,} brokers")
    setting = Setting(nodes, brokers)
    minima = _range_min(setting, count, events)
    joins, star = _joins(setting, count, events)
    report.figures = {"range_min": minima, "join": joins, "cn_star": star}
    report.tables = [
        ("range-min, per event (thesis 3.5; its table 3.4 has the maximum node stress)", _beside(minima)),
        ("joins by semijoin, per event (thesis 5.7)", _beside(joins)),
        ("CN*: bytes that leave the server, per event (thesis 5.7.3)", star),
    ]
    report.curves = [
        Curve(
            "CN*: joins",
            "repository entries",
            "bytes that leave the server, per event",
            {
                f"{plan}, {name}": [
                    (row["entries"], row["server_bytes"])
                    for row in star
                    if (row["plan"], row["network"]) == (plan, name) and row["entries"] != "-"
                ]
                for plan in THESIS_STAR
                for name in ("cbn", "can")
            },
        )
    ]
    report.notes = [
        "one by one: a message for each affected subscription; unicast: one for each broker that hosts some (2.3.1)",
        "can, relaxed: every event goes to all whose range holds it, and they find out themselves (the thesis's CN)",
        "a content has to be sent again to be saved: with few subscriptions (--quick) hardly any is",
        "CN+, DS-CN, CN(lr) and CN(c) are not measured here",
    ]
    return report


def _beside(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"thesis stress": THESIS_STRESS.get(row["network"], "-")} for row in rows]


def _range_min(setting: Setting, count: int, events: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(7)
    state, xs, ys = range_min._state(max(1000, count // 10), random)
    range_min._subscribe(state, count, random)
    (space,) = state.spaces.values()
    assert isinstance(space, ExtremeSpace)
    moves = [*range_min._walk(xs, ys, events, random)]
    walk = range_min.Walk(state, space, xs, ys)
    told, _ = walk.take(moves, "reformulate")
    walk.rewind(moves)
    addressed, _ = walk.take(moves, "enumerate")
    id = space.network.id
    sent = [
        [Message(seq, part, id, *draft) for part, draft in enumerate(drafts)]
        for seq, drafts in enumerate(told, 1)
    ]
    hosts = setting.hosts(space.points)
    rows = _compare("range-min", setting, space.network, space.points, hosts, sent)
    alone = [
        [len(encode(Data(seq, Message(seq, 0, id, *draft)))) for draft in drafts]
        for seq, drafts in enumerate(addressed, 1)
    ]
    straight = [
        setting.ip_hops(SERVER, hosts[at]) for drafts in addressed for d in drafts for at in d.targets or ()
    ]
    rows.insert(0, _one_by_one(alone) | {"ip_hops": round(sum(straight) / len(moves), 2)})
    relaxed: Events = []
    for seq, (key, y) in enumerate(moves, 1):
        x = int(xs[key])
        region = ((Interval(None, x), Interval(x, None)),)
        relaxed.append([Message(seq, 0, id, "row", region=region, payload=b"%d" % y)])
    row, _, _ = _measure("can", setting, space.network, space.points, hosts, relaxed, {"routed": True})
    return [*rows, row | {"network": "can, relaxed"}]


def _joins(setting: Setting, count: int, events: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Contents of 1000 bytes, each row its own, and few rows in R: the setting of thesis 5.7.3."""
    rows: list[dict[str, Any]] = []
    star: list[dict[str, Any]] = []
    for plan, thesis in THESIS_STAR.items():
        workload = Workload(500, 5_100 if count > 10_000 else 300, PAYLOAD)
        for table in (workload.r, workload.s):
            table.update({key: _own_payload(row) for key, row in table.items()})
        mode = next(mode for mode, plans in MODES.items() if plan in plans)
        space = workload.space(mode, subscriptions(count))
        sent: Events = []
        for delta in workload.events(min(5 * events, 1_000)):
            new = None if delta.new is None else _own_payload(delta.new)
            description = space.step(delta._replace(new=new))
            drafts = [] if description is None else space.messages(description, plan)
            sent.append(
                [Message(delta.seq, part, space.network.id, *draft) for part, draft in enumerate(drafts)]
            )
        hosts = setting.hosts(space.points)
        if plan == PLAN:
            rows = _compare("join", setting, space.network, space.points, hosts, sent)
        for name in ("cbn", "can"):
            progress(f"networks: {plan} over {name}, with and without repositories")
            plain = 0.0
            for entries in (None, *ENTRIES):
                options = {} if entries is None else {"repository": entries}
                _, _, leaving = _measure(name, setting, space.network, space.points, hosts, sent, options)
                plain = plain or leaving
                row = {"plan": plan, "network": name, "entries": "-" if entries is None else entries}
                less = round(plain / max(1.0, leaving), 2)
                star.append(row | {"server_bytes": round(leaving, 1), "times_less": less, "thesis": thesis})
    return rows, star


def _own_payload(row: Row) -> Row:
    """A row whose payload no other row has."""
    return (*row[:-1], f"{row[0]:09d}{str(row[-1])[9:]}")


def _compare(
    what: str, setting: Setting, space: Space, points: PointIndex, hosts: dict[int, str], sent: Events
) -> list[dict[str, Any]]:
    rows, first = [], None
    for name in NETWORKS:
        progress(f"networks: {what} over {name}")
        options = {"routed": True} if name == "can" else {}
        row, delivered, _ = _measure(name, setting, space, points, hosts, sent, options)
        if first is not None and delivered != first:
            fail(f"{name} and {NETWORKS[0]} deliver differently")
        first = delivered
        rows.append(row)
    return rows


def _one_by_one(sizes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """A frame for each affected subscription, straight from the server."""
    number = len(sizes)
    return {
        "network": "one by one",
        "traffic_bytes": round(sum(map(sum, sizes)) / number, 1),
        "overlay_hops": round(sum(map(len, sizes)) / number, 2),
        "max_node_stress": max(map(len, sizes)),
        "hop_latency": round(sum(map(bool, sizes)) / number, 2),
    }


def _measure(
    name: str,
    setting: Setting,
    space: Space,
    points: PointIndex,
    hosts: dict[int, str],
    sent: Events,
    options: dict[str, Any],
) -> tuple[dict[str, Any], Delivered, float]:
    """Figures per event, what was delivered, and the bytes of messages and contents that left the server."""
    delivered: Delivered = {}

    def deliver(message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        delivered[message.seq, message.part] = sorted(int(id) for id in ids)

    network = make_simulated(
        name,
        deliver,
        lambda seq: None,
        brokers=setting.brokers,
        host_of=hosts.__getitem__,
        options={"parents": setting.parents, "check": False, **options},
    )
    for id, topic, point in points.items():
        network.register(space, id, topic, point)
    network.watermark(0)
    meter = Meter(network.memory, setting.ip_hops)
    fetched = [0]

    def see(sender: str, to: str, frame: Frame) -> None:
        meter.see(sender, to, frame)
        if sender == SERVER and isinstance(frame, Content):
            fetched[0] += len(encode(frame))

    network.memory.watch = see
    for seq, messages in enumerate(sent, 1):
        for message in messages:
            network.inject(message)
        network.watermark(seq)
    number, costs = len(sent), [*meter.events.values()]
    leaving = sum(cost.byte_stress[SERVER] for cost in costs) + fetched[0]
    row = {
        "network": name,
        "traffic_bytes": round(sum(cost.bytes for cost in costs) / number, 1),
        "overlay_hops": round(sum(cost.overlay_hops for cost in costs) / number, 2),
        "max_node_stress": max((cost.max_node_stress for cost in costs), default=0),
        "hop_latency": round(sum(cost.hop_latency for cost in costs) / number, 2),
        "ip_hops": round(sum(cost.ip_hops for cost in costs) / number, 2),
    }
    return row, delivered, leaving / number
