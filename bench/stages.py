"""Multi-stage filtering: the load of each stage relative to one server (RLC), and how much of what arrives matches (MR).

The setting of [Multi-stage] 5: bibliographic events of year, conference, author and title; one broker at
stage 3, 10 at stage 2, 100 at stage 1; subscriptions ask for all four. The paper does not say how it draws them. By
popularity: events and subscriptions from one catalogue, a work in proportion to 1 over its rank. Evenly: subscriptions
from the catalogue, and events with any year, conference and author alike, which lets 1 of 4,000 events come to a
subscription; the paper's RLC of stage 0 is that of 1 in 5,000. Subscriptions are placed by covering, and at random
beside it. Every delivery is compared with a search through all of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import Report, fail, progress
from cn.model.geometry import Extent, Interval
from cn.model.message import Message
from cn.model.network import Space
from cn.networks.stages import StageNode, StageRoot
from cn.simulation.metrics import matching_rate, relative_load
from cn.simulation.network import SERVER, Simulated
from cn.simulation.registry import make_simulated

SPACE = Space(1, 0, True)
SEED = 5
YEARS, CONFERENCES, AUTHORS = 20, 10, 20
BATCH = 50  # events between two marks
SHOWN = 150  # subscribers in the mean of MR, as in [Multi-stage] figure 7
FAN_OUT = 10
PAPER = [
    {"stage": 0, "rlc": 2e-7, "rlc_total": 2e-4},
    {"stage": 1, "rlc": 2e-4, "rlc_total": 2e-1},
    {"stage": 2, "rlc": 0.1, "rlc_total": 1.0},
    {"stage": 3, "rlc": 0.02, "rlc_total": 0.02},
]
PAPER_MR = 0.87
RUNS = {
    "covering": ("covering", False),
    "random": ("random", False),
    "covering, even events": ("covering", True),
    "random, even events": ("random", True),
}  # placement, and whether events are drawn evenly
Work = tuple[int, int, int, int]


def run(quick: bool) -> Report:
    subscriptions, events = (300, 500) if quick else (1000, 5000)
    report = Report("stages", {"subscriptions": subscriptions, "events": events, "quick": quick})
    report.figures = {"paper": {"stages": PAPER, "rlc_total": 1.0, "mr": PAPER_MR}}
    rows: list[dict[str, Any]] = []
    for name, (placement, even) in RUNS.items():
        progress(f"stages: {subscriptions} subscriptions placed by {name}, {events} events")
        found = measure(subscriptions, events, placement, even)
        report.figures[name] = found
        for stage, paper in zip(found["stages"], PAPER, strict=True):
            rows.append(
                {
                    "placed": name,
                    "stage": stage["stage"],
                    "nodes": stage["nodes"],
                    "filters": stage["filters"],
                    "RLC": f"{stage['rlc']:.0e}",
                    "paper": f"{paper['rlc']:.0e}",
                    "of all": f"{stage['rlc_total']:.2g}",
                    "paper's": f"{paper['rlc_total']:.2g}",
                    "MR": round(stage["mr"], 2),
                }
            )
    report.tables = [(f"{subscriptions} subscriptions, {events} events", rows)]
    found = report.figures
    report.notes = [
        "all stages together, RLC: "
        + ", ".join(f"{found[name]['rlc_total']:.2f} by {name}" for name in RUNS)
        + " (paper: about 1)",
        f"mean MR of {SHOWN} subscribers and of stages 1 and 2: "
        + ", ".join(f"{found[name]['mr']:.2f} by {name}" for name in RUNS)
        + f" (paper: {PAPER_MR})",
        "events that come to a subscription: "
        + ", ".join(f"{found[name]['selectivity']:.2%} by {name}" for name in RUNS)
        + " (paper: 0.02%, from the RLC of stage 0)",
    ]
    return report


def measure(
    subscriptions: int, events: int, placement: str, even: bool = False, seed: int = SEED
) -> dict[str, Any]:
    dice = random.Random(seed)
    works = [
        (dice.randrange(YEARS), dice.randrange(CONFERENCES), dice.randrange(AUTHORS), title)
        for title in range(subscriptions)
    ]
    weights = [1.0 if even else 1 / (rank + 1) for rank in range(len(works))]
    asked = dice.choices(works, weights, k=subscriptions)
    hosts: dict[int, str] = {}
    delivered: list[tuple[int, int]] = []

    def deliver(message: Message, ids: Sequence[int] | NDArray[np.int64]) -> None:
        delivered.extend((message.seq, int(id)) for id in ids)

    brokers = [f"b{number}" for number in range(FAN_OUT + FAN_OUT**2)]
    heights = {SERVER: 3, **{name: 2 if at < FAN_OUT else 1 for at, name in enumerate(brokers)}}
    network = make_simulated(
        "stages",
        deliver,
        lambda seq: None,
        brokers=brokers,
        host_of=hosts.__getitem__,
        options={"fan_out": FAN_OUT, "subscribers": True},
    )
    for id, work in enumerate(asked):
        place = ({at: Extent((Interval(value, value),)) for at, value in enumerate(work)},)
        hosts[id] = seek(network, place) if placement == "covering" else dice.choice(brokers[FAN_OUT:])
        network.register(SPACE, id, b"", place)
    published = _evenly(works, events, dice) if even else dice.choices(works, weights, k=events)
    for seq, work in enumerate(published, 1):
        network.inject(Message(seq, 0, SPACE.id, "insert", attributes=(work, None)))
        if not seq % BATCH or seq == events:
            network.watermark(seq)
    by_work: dict[Work, list[int]] = {}
    for id, work in enumerate(asked):
        by_work.setdefault(work, []).append(id)
    if sorted(delivered) != [
        (seq, id) for seq, work in enumerate(published, 1) for id in by_work.get(work, ())
    ]:
        fail("the stages and a search through all subscriptions disagree")
    return _figures(network, heights, Counter(id for _, id in delivered), subscriptions, events)


def _evenly(works: Sequence[Work], events: int, dice: random.Random) -> list[Work]:
    """Any year, conference and author alike; a title of the catalogue, if it has one for them."""
    titles: dict[tuple[int, int, int], list[int]] = {}
    for year, conference, author, title in works:
        titles.setdefault((year, conference, author), []).append(title)
    found = []
    for number in range(events):
        place = dice.randrange(YEARS), dice.randrange(CONFERENCES), dice.randrange(AUTHORS)
        found.append((*place, dice.choice(titles.get(place, [len(works) + number]))))
    return found


def seek(network: Simulated, place: tuple[dict[int, Extent], ...]) -> str:
    """The broker that the walk from the server down finds for a place."""
    root = network.root
    assert isinstance(root, StageRoot)
    number, outs = root.seek(SPACE, b"", place)
    network.memory.post(root.name, outs)
    network.settle()
    return root.places_found.pop(number)


def _figures(
    network: Simulated, heights: dict[str, int], matched: Counter[int], subscriptions: int, events: int
) -> dict[str, Any]:
    nodes: list[StageNode] = [node for node in network.memory.nodes.values() if isinstance(node, StageNode)]
    given: Counter[int] = Counter()
    for node in nodes:
        given.update(node.subscriber_events)
    rates: list[float] = []
    stages = []
    for stage in range(4):
        if stage == 0:
            parts = [(given[id], 1, matched[id]) for id in range(subscriptions)]
        else:
            level = [node for node in nodes if heights[node.name] == stage]
            parts = [(node.received, len(node.table) + len(node.own), node.matched) for node in level]
        loads = [relative_load(received, filters, events, subscriptions) for received, filters, _ in parts]
        some = [rate for received, _, hit in parts if (rate := matching_rate(hit, received)) is not None]
        if stage < 3:
            rates += some[:SHOWN] if stage == 0 else some
        stages.append(
            {
                "stage": stage,
                "nodes": len(parts),
                "filters": round(sum(filters for _, filters, _ in parts) / len(parts), 1),
                "rlc": sum(loads) / len(parts),
                "rlc_total": sum(loads),
                "mr": sum(some) / max(1, len(some)),
            }
        )
    return {
        "stages": stages,
        "rlc_total": sum(stage["rlc_total"] for stage in stages),
        "selectivity": sum(given.values()) / (events * subscriptions),
        "mr": sum(rates) / max(1, len(rates)),
    }
