"""Range-min over a network of a thousand brokers: [ProSem thesis]'s figures 3.6, 3.8 to 3.12 and its table 3.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bench import range_min
from bench.common import progress
from bench.network_routes import Costs, Way, Ways
from bench.network_setting import Ints, Setting, Zones
from bench.random_walk import BELOW, DOMAIN, SPIKES, updates
from cn.model.message import Message
from prosem.engine import commands as c
from prosem.index.ranges.a2b_tree import A2BTree
from prosem.language.parse import parse
from prosem.types.base import Bound
from prosem.types.extreme import rule
from prosem.types.extreme.form import ExtremeSpace
from prosem.values.model import Delta

Lines = list[dict[str, Any]]
SEEDS = {"subscriptions": 5, "events": 7}
USUAL = ((5000.0, 1500.0), (1000.0, 1000.0))  # midpoints and lengths of ranges
SCHEMES = ("unicast", "multicast", "S-CN", "DS-CN", "CN", "can", "brokers", "cbn")
STRESS = {"unicast": 10_282, "multicast": 3, "S-CN": 23, "DS-CN": 25, "CN": 8}  # table 3.4
STEPS = (1, 100, 320, 1_000, 10_000, 100_000)  # of figure 3.11, bytes
STOCKS = 3053  # of the trace behind figure 3.12


class Event(NamedTuple):
    """An update of the row at x: its messages, and the subscriptions that each affects.

    `regions` are the messages of [ProSem thesis], also to regions that hold no subscription; none if it was ignorable.
    """

    x: int
    messages: list[Message]
    ids: list[Ints]
    regions: list[Message]


def ranges(
    count: int, middle: tuple[float, float], length: tuple[float, float], seed: int = SEEDS["subscriptions"]
) -> Ints:
    """Points (lo, hi) of so many subscriptions, drawn from normal distributions."""
    random = np.random.default_rng(seed)
    centres, lengths = random.normal(*middle, count), np.abs(random.normal(*length, count))
    ends = np.column_stack([centres - lengths / 2, centres + lengths / 2])
    return np.clip(ends, 0, DOMAIN).astype(np.int64)


class Workload:
    """The engine's own space over rows that walk at random ([ProSem thesis] table 3.1)."""

    def __init__(
        self, tuples: int, points: Ints, seed: int = SEEDS["events"], recommendations: bool = False
    ) -> None:
        self._random, self._seq = np.random.default_rng(seed), 0
        random = self._random
        self._state, self.xs, self.ys = range_min._state(tuples, random)
        if (
            recommendations
        ):  # some hundred places, as mean ratings from 1 to 5 are, and values with a long tail
            self.xs = np.rint(random.beta(4, 5, tuples) * 400).astype(np.int64) * (DOMAIN // 400)
            self.ys = np.clip(random.lognormal(6.5, 0.8, tuples), 1, DOMAIN).astype(np.int64)
            rows = zip(self.xs.tolist(), self.ys.tolist(), strict=True)
            self._state.rows[1].update({(k,): (k, x, y) for k, (x, y) in enumerate(rows)})
        first: list[tuple[str | None, dict[str, Any]]] = [
            (None, dict(zip(("lo", "hi"), points[0].tolist(), strict=True)))
        ]
        self._state.execute(c.Subscribe(parse(range_min.SQL), None, first, batch=True))
        (space,) = self._state.spaces.values()
        assert isinstance(space, ExtremeSpace)
        self.space = space
        for start in range(1, len(points), 100_000):
            some = points[start : start + 100_000].tolist()
            space.add(range(start + 1, start + 1 + len(some)), [Bound(b"", tuple(one)) for one in some])
        placed = zip(self.xs.tolist(), self.ys.tolist(), strict=True)
        self._tree = A2BTree().build([(x, y, (key,)) for key, (x, y) in enumerate(placed)])

    def events(self, *, ignorable: bool = False) -> Iterator[Event]:
        """Updates without spikes and without end; ignorable ones too, if asked for."""
        for key, y in updates(self.xs, self.ys, self._random, spikes=0.0, ignorable=ignorable):
            yield self._take(key, y)

    def spikes(self, count: int) -> Iterator[Event]:
        """A value drops below all others, and then bounces back."""
        for key in self._random.integers(0, len(self.xs), count // 2).tolist():
            y = int(self._state.rows[1][key,][2])
            yield self._take(key, BELOW)
            yield self._take(key, y)

    def _take(self, key: int, y: int) -> Event:
        self._seq += 1
        rows = self._state.rows[1]
        old = rows[key,]
        new = rows[key,] = (key, old[1], y)
        description = self.space.step(Delta(self._seq, self._state.tables()["stocks"], (key,), old, new))
        drafts = self.space.messages(description, "reformulate") if description else []
        messages = [Message(self._seq, part, 1, *draft) for part, draft in enumerate(drafts)]
        found = [(one, self.space.points.find(b"", one.region)) for one in messages]
        found = [(one, ids) for one, ids in found if len(ids)]
        pieces = rule.step(self._tree, (old[1], old[2]), (old[1], y), (key,))
        regions = [
            Message(self._seq, part, 1, *draft)
            for part, draft in enumerate(self.space.drafts([(b"", one) for one in pieces]))
        ]
        return Event(int(old[1]), [one for one, _ in found], [ids for _, ids in found], regions)


def affecting(events: Iterator[Event], count: int) -> list[Event]:
    """The first events that affect a subscription."""
    found: list[Event] = []
    for event in events:
        if event.messages:
            found.append(event)
            if len(found) >= count:
                break
    return found


def costs(setting: Setting, zones: Zones, events: Sequence[Event]) -> dict[str, Costs]:
    """Every scheme on the same events."""
    ways = Ways(setting, zones)
    found = {name: Costs(setting) for name in SCHEMES}
    each = {"unicast": ways.one_by_one, "multicast": ways.named,
            "can": ways.can, "brokers": ways.unicast, "cbn": ways.cbn}  # fmt: skip
    for event in events:
        for name, way in each.items():
            pairs = zip(event.messages, event.ids, strict=True)
            found[name].add([way(message, ids) for message, ids in pairs])
        found["S-CN"].add([ways.s_cn(message) for message in event.regions])
        found["DS-CN"].add(ways.ds_cn(event.regions, event.x))
        found["CN"].add([_relaxed(ways, event)])
    return found


def _relaxed(ways: Ways, event: Event) -> Way:
    return ways.cn(Message(1, 0, 1, "row", payload=b"%d" % event.x), event.x)


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
    return {
        "table 3.4": stress,
        "3.11": shares,
        "3.11 hops": [
            {"scheme": name, "hops": one.figures()["overlay_hops"], "bytes": one.figures()["traffic_bytes"]}
            for name, one in found.items()
        ],
        "affected": [
            {
                "events": len(some),
                "none": affected.count(0),
                "most": max(affected),
                "mean": float(np.mean(affected)),
            }
        ],
    }


def stocks(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 3.12: stocks with few distinct ratings, in the place of [ProSem thesis]'s trace."""
    _, events = size(quick)
    lines = []
    for number in (1_000, 5_000) if quick else (100_000, 500_000):
        progress(f"networks: figure 3.12, {number:,} subscriptions")
        points = ranges(number, *USUAL)
        workload = Workload(STOCKS, points, recommendations=True)
        some = [*islice(workload.events(ignorable=True), 2 * events)]
        found = costs(setting, setting.zones(points), some)
        share = np.mean([bool(event.regions) for event in some])
        line = _line("subscriptions", number, found)
        lines.append({"subscriptions": number, "not ignorable": f"{share:.1%}", **line})
    return {"3.12": lines}


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
