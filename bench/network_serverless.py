"""Networks without a server, on updates that lower a minimum: CN, CN+ and DS-CN beside S-CN ([ProSem thesis] 2.3.2, 3.5.5).

All go through real nodes but DS-CN, whose rows no network may know (`bench/diagonal.py`). The space is (-lo, hi): so the
low corner of a region, where messages begin to spread, is the event itself. CN and CN+ send every update, also
those that affect no subscription; S-CN and DS-CN find out first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench import diagonal, range_min
from bench.common import fail
from bench.network_nodes import Delivered, Events, measure
from bench.network_setting import Setting
from cn.model.geometry import Interval, Region
from cn.model.message import Message
from cn.model.network import Space
from prosem.types.extreme.form import ExtremeSpace

SEED = 11
MIRRORED = Space(1, 2, True)  # (-lo, hi)
THESIS = {
    "CN": "1",
    "CN+": "less than 0.02",
    "S-CN": "2 % less than CN+",
}  # of CN's traffic, decreasing updates
NETWORKS = {"CN": "relaxed", "CN+": "cut-off", "S-CN": "can"}


def rows(setting: Setting, count: int, events: int) -> list[dict[str, Any]]:
    """Figures per update; all must tell the same subscriptions."""
    random = np.random.default_rng(SEED)
    state, xs, ys = range_min._state(max(500, count // 5), random)
    range_min._subscribe(state, count, random)
    (space,) = state.spaces.values()
    assert isinstance(space, ExtremeSpace)
    moves, y = [], ys.copy()
    for key in random.integers(0, len(xs), events).tolist():
        y[key] = int(y[key] * random.uniform(0.5, 1.0))
        moves.append((key, int(y[key])))
    told, _ = range_min.Walk(state, space, xs, ys).take(moves, "reformulate")
    sent: Events = []
    wanted: Delivered = {}
    for seq, ((key, value), drafts) in enumerate(zip(moves, told, strict=True), 1):
        x = int(xs[key])
        region = drafts[0].region if drafts else ((Interval(x, x, True), Interval(x, x, False, True)),)
        sent.append([Message(seq, 0, MIRRORED.id, "row", region=_mirrored(region), payload=b"%d" % value)])
        if drafts and len(ids := space.points.find(b"", region)):
            wanted[seq, 0] = np.sort(ids).tolist()
    points = np.array([(-low, high) for _, _, (low, high) in sorted(space.points.items())], np.int64)
    hosts, found = setting.hosts(points), []
    for name, network in NETWORKS.items():
        row, delivered, _ = measure(network, setting, MIRRORED, points, hosts, sent, {})
        if delivered != wanted:
            fail(f"{name} does not deliver to the subscriptions that lower values affect")
        found.append(row | {"network": name})
    costs = diagonal.measure(space.points, setting.brokers, (xs, ys), moves, told, setting.ip_hops)
    found.append(
        {
            "network": "DS-CN",
            "traffic_bytes": round(sum(cost.bytes for cost in costs) / events, 1),
            "overlay_hops": round(sum(cost.overlay_hops for cost in costs) / events, 2),
            "max_node_stress": max(cost.max_node_stress for cost in costs),
            "hop_latency": round(sum(cost.hop_latency for cost in costs) / events, 2),
            "ip_hops": round(sum(cost.ip_hops for cost in costs) / events, 2),
        }
    )
    most = max(1.0, found[0]["traffic_bytes"])
    return [
        row
        | {
            "of_cn": round(row["traffic_bytes"] / most, 5),
            "thesis": THESIS.get(row["network"], "-"),
            "updates with a region": round(sum(map(bool, told)) / events, 3),
        }
        for row in found
    ]


def _mirrored(region: Region) -> Region:
    return tuple([diagonal.mirrored(box) for box in region])
