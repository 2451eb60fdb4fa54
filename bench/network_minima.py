"""Range-min over a network of a thousand brokers: [ProSem thesis]'s figures 3.6, 3.8 to 3.12 and its table 3.4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from bench.common import progress
from bench.minima_workload import USUAL, Event, Workload, ranges
from bench.network_routes import Costs, Way, Ways
from bench.network_setting import Ints, Setting, Zones
from bench.random_walk import SPIKES
from cn.model.message import Message

Lines = list[dict[str, Any]]
ZONED = ("S-CN", "DS-CN", "CN")
SCHEMES = ("unicast", "multicast", *ZONED, "can", "brokers", "cbn")
STRESS = {"unicast": 10_282, "multicast": 3, "S-CN": 23, "DS-CN": 25, "CN": 8}  # table 3.4
STEPS = (1, 100, 320, 1_000, 10_000, 100_000)  # of figure 3.11, bytes
STOCKS = 3053  # of the trace behind figure 3.12


def costs(setting: Setting, zones: Zones, events: Sequence[Event]) -> dict[str, Costs]:
    """Every scheme on the same events."""
    ways = Ways(setting, zones)
    found = {name: Costs(setting) for name in SCHEMES}
    each = {"unicast": ways.one_by_one, "multicast": ways.named, "brokers": ways.unicast, "cbn": ways.cbn}
    for event in events:
        for name, way in each.items():
            pairs = zip(event.messages, event.ids, strict=True)
            found[name].add([way(message, ids) for message, ids in pairs])
        found["can"].add([ways.can(*event.messages)])
    return found | _over_zones(ways, events)


def _over_zones(ways: Ways, events: Sequence[Event]) -> dict[str, Costs]:
    """The schemes of [ProSem thesis] that go from zone to zone."""
    found = {name: Costs(ways.setting) for name in ZONED}
    for event in events:
        found["S-CN"].add([ways.s_cn(*event.regions)])
        found["DS-CN"].add(ways.ds_cn(event.regions, event.x))
        found["CN"].add([_relaxed(ways, event)])
    return found


def _relaxed(ways: Ways, event: Event) -> Way:
    return ways.cn(Message(1, 0, 1, "row", payload=event.row), event.x)


def _line(by: str, value: Any, found: dict[str, Costs], what: str = "traffic_bytes") -> dict[str, Any]:
    return {by: value, **{name: one.figures()[what] for name, one in found.items()}}


class Mixture:
    """Updates of the walk, and a share of spikes among them: both measured apart, so that few spikes suffice."""

    def __init__(self, setting: Setting, zones: Zones, workload: Workload, count: int) -> None:
        self._parts = [[*islice(workload.events(), count)], [*workload.spikes(min(400, 2 * count))]]
        self._costs = [costs(setting, zones, part) for part in self._parts]

    def line(self, by: str, value: Any, spikes: float = SPIKES) -> dict[str, Any]:
        """Bytes per event."""
        aside = {"affected": self.affected(spikes), "not affecting": self.unaffecting()}
        return {by: value} | aside | self._mixed("traffic_bytes", spikes)

    def hops(self, by: str, value: Any, spikes: float = SPIKES) -> dict[str, Any]:
        """Overlay hops per event."""
        return {by: value} | self._mixed("overlay_hops", spikes)

    def _mixed(self, what: str, spikes: float) -> dict[str, Any]:
        usual, spiked = (_line("", 0, one, what) for one in self._costs)
        share = _share(spikes)
        return {name: round(usual[name] * (1 - share) + spiked[name] * share, 1) for name in SCHEMES}

    def affected(self, spikes: float) -> float:
        usual, spiked = (np.mean([sum(map(len, one.ids)) for one in part]) for part in self._parts)
        share = _share(spikes)
        return round(float(usual * (1 - share) + spiked * share), 1)

    def unaffecting(self) -> float:
        """The share of the walk's updates that affect no subscription."""
        return round(float(np.mean([not one.ids for one in self._parts[0]])), 3)


def _share(spikes: float) -> float:
    """Of the events, if after this share of the updates a value drops and bounces back."""
    return 2 * spikes / (1 + 2 * spikes)


def by_tuples(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 3.6."""
    count, events = size(quick)
    points = ranges(count, *USUAL)
    zones, lines, hops = setting.zones(points), [], []
    for tuples in (1_000, 2_000) if quick else (10_000, 20_000, 50_000, 100_000):
        progress(f"networks: figure 3.6, {tuples:,} tuples, {count:,} subscriptions")
        mixture = Mixture(setting, zones, Workload(tuples, points), events)
        lines.append(mixture.line("tuples", tuples))
        hops.append(mixture.hops("tuples", tuples))
    return {"3.6": lines, "3.6 hops": hops}


def by_subscriptions(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 3.8."""
    _, events = size(quick)
    lines, hops = [], []
    for number in (1_000, 5_000) if quick else (100_000, 200_000, 500_000, 1_000_000):
        progress(f"networks: figure 3.8, {number:,} subscriptions")
        points = ranges(number, *USUAL)
        mixture = Mixture(setting, setting.zones(points), Workload(_least(quick), points), events)
        lines.append(mixture.line("subscriptions", number))
        hops.append(mixture.hops("subscriptions", number))
    return {"3.8": lines, "3.8 hops": hops}


def by_ignorable(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 3.9: short ranges everywhere, no spikes, and as many updates without a subscription as is asked for."""
    progress("networks: figure 3.9, ignorable updates")
    count, events = size(quick)
    points = ranges(count, (5000.0, 10_000.0), (50.0, 10.0))
    zones = setting.zones(points)
    taken: list[Event] = []
    ignorable: list[Event] = []
    for event in Workload(_least(quick), points).events(ignorable=True):
        if event.messages:
            taken.append(event)
        elif not event.regions:
            ignorable.append(event)
        if min(len(taken), len(ignorable)) >= events:
            break
    lines: dict[str, Lines] = {"3.9 hops": [], "3.9 bytes": [], "3.9 IP hops": []}
    for percent in (0, 25, 50, 75, 90):
        none = events * percent // 100
        some = costs(setting, zones, [*ignorable[:none], *taken[: events - none]])
        for name, what in zip(lines, ("overlay_hops", "traffic_bytes", "ip_hops"), strict=True):
            lines[name].append(_line("ignorable_percent", percent, some, what))
    return lines


def by_spikes(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 3.10."""
    progress("networks: figure 3.10, more and more spikes")
    count, events = size(quick)
    points = ranges(count, *USUAL)
    mixture = Mixture(setting, setting.zones(points), Workload(5 * _least(quick), points), events)
    shares = (0.0, 0.5, 1.0, 2.0, 5.0)
    return {
        "3.10": [mixture.line("spikes_percent", percent, percent / 100) for percent in shares],
        "3.10 hops": [mixture.hops("spikes_percent", percent, percent / 100) for percent in shares],
    }


def distribution(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Table 3.4 and figure 3.11: no spikes, and a fifth of the updates ignorable."""
    progress("networks: table 3.4 and figure 3.11")
    count, events = size(quick)
    points = ranges(count, *USUAL)
    some: list[Event] = []
    quiet, wanted = 0, 2 * events
    for event in Workload(_least(quick), points).events(ignorable=True):
        if event.regions or quiet < 0.21 * wanted:
            quiet += not event.regions
            some.append(event)
        if len(some) >= wanted:
            break
    found = costs(setting, setting.zones(points), some)
    stress = [
        {
            "scheme": name,
            "max node stress": max(one.stress),
            "thesis": STRESS.get(name, "-"),
            "events without a message": f"{np.mean(np.array(one.stress) == 0):.0%}",
        }
        for name, one in found.items()
    ]
    shares = [
        {"bytes below": step}
        | {name: round(float(np.mean(np.array(one.bytes) < step)), 3) for name, one in found.items()}
        for step in STEPS
    ]
    affected = [sum(map(len, event.ids)) for event in some]
    busiest = some[int(np.argmax(found["DS-CN"].stress))]
    return {
        "table 3.4": stress,
        "3.11": shares,
        "3.11 hops": [
            {"scheme": name, "hops": one.figures()["overlay_hops"], "bytes": one.figures()["traffic_bytes"]}
            for name, one in found.items()
        ],
        "3.11 zones": _by_zones(setting, points, some),
        "affected": [
            {
                "events": len(some),
                "none": affected.count(0),
                "most": max(affected),
                "beyond the thesis": sum(one > STRESS["unicast"] for one in affected),
                "regions": len(busiest.regions),
                "boxes": sum(len(message.region) for message in busiest.regions),
                "mean": float(np.mean(affected)),
                "holding": _holding(points, [event.x for event in some]),
            }
        ],
    }


def _holding(points: Ints, xs: Sequence[int]) -> float:
    """The share of ranges that hold a value, on average over these values."""
    low, high = np.sort(points, axis=0).T
    held = np.searchsorted(low, xs, "right") - np.searchsorted(high, xs, "left")
    return float(held.mean()) / len(points)


def _by_zones(setting: Setting, points: Ints, events: Sequence[Event]) -> Lines:
    """What figure 3.11 says of the routed schemes, if the same points were split into fewer zones."""
    lines = []
    boxes = [[box for message in event.regions for box in message.region] for event in events]
    for count in (setting.count, setting.count // 3, setting.count // 10, setting.count // 30):
        zones = Zones(points, count)
        found = _over_zones(Ways(setting, zones), events)
        sent = {name: np.array(one.bytes) for name, one in found.items()}
        links = np.array(found["S-CN"].overlay_hops)
        lines.append(
            {"zones": count}
            | {f"{name}, links": one.figures()["overlay_hops"] for name, one in found.items()}
            | {f"{name}, bytes": one.figures()["traffic_bytes"] for name, one in found.items()}
            | {
                "S-CN below 1 kB": round(float(np.mean(sent["S-CN"] < 1_000)), 3),
                "CN below 1 kB": round(float(np.mean(sent["CN"] < 1_000)), 3),
                "DS-CN without a byte": round(float(np.mean(sent["DS-CN"] == 0)), 3),
                "links to the event": round(
                    sum(len(zones.way(box)) for some in boxes for box in some) / len(events), 2
                ),
                "S-CN, links of 97 %": int(np.quantile(links, 0.97)),
            }
        )
    return lines


def stocks(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 3.12: stocks with few distinct ratings, in the place of [ProSem thesis]'s trace."""
    _, events = size(quick)
    lines, hops = [], []
    for number in (1_000, 5_000) if quick else (100_000, 500_000):
        progress(f"networks: figure 3.12, {number:,} subscriptions")
        points = ranges(number, *USUAL)
        workload = Workload(STOCKS, points, recommendations=True)
        some = [*islice(workload.events(ignorable=True), 2 * events)]
        found = costs(setting, setting.zones(points), some)
        share = np.mean([bool(event.regions) for event in some])
        line = _line("subscriptions", number, found)
        lines.append({"subscriptions": number, "not ignorable": f"{share:.1%}", **line})
        hops.append(_line("subscriptions", number, found, "overlay_hops"))
    return {"3.12": lines, "3.12 hops": hops}


FIGURES: dict[str, Callable[[Setting, bool], dict[str, Lines]]] = {
    "3.6": by_tuples,
    "3.8": by_subscriptions,
    "3.9": by_ignorable,
    "3.10": by_spikes,
    "3.11": distribution,
    "3.12": stocks,
}


def size(quick: bool) -> tuple[int, int]:
    """Subscriptions, and events of a line."""
    return (5_000, 40) if quick else (500_000, 2_000)


def _least(quick: bool) -> int:
    return 1_000 if quick else 10_000
