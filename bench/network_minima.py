"""Range-min over a network of a thousand brokers: [ProSem thesis]'s figures 3.6, 3.8 to 3.12 and its table 3.4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench import range_min
from bench.common import progress
from bench.network_routes import Costs, Way, Ways
from bench.network_setting import Ints, Setting, Zones
from cn.model.message import Message
from prosem.engine import commands as c
from prosem.language.parse import parse
from prosem.types.base import Bound
from prosem.types.extreme.form import ExtremeSpace
from prosem.values.model import Delta

DOMAIN = range_min.DOMAIN
SCHEMES = ("unicast", "multicast", "S-CN", "DS-CN", "CN", "can", "brokers", "cbn")
STRESS = {"unicast": 10_282, "multicast": 3, "S-CN": 23, "DS-CN": 25, "CN": 8}  # table 3.4
STEPS = (1, 100, 320, 1_000, 10_000, 100_000)  # of figure 3.11, bytes
STOCKS = 3053  # of the trace behind figure 3.12


class Event(NamedTuple):
    """An update of the row at x: its messages, and the subscriptions that each affects. Without any it was ignorable."""

    x: int
    messages: list[Message]
    ids: list[Ints]


def ranges(count: int, middle: tuple[float, float], length: tuple[float, float], seed: int = 5) -> Ints:
    """Points (lo, hi) of so many subscriptions, drawn from normal distributions."""
    random = np.random.default_rng(seed)
    centres, lengths = random.normal(*middle, count), np.abs(random.normal(*length, count))
    ends = np.column_stack([centres - lengths / 2, centres + lengths / 2])
    return np.clip(ends, 0, DOMAIN).astype(np.int64)


class Workload:
    """The engine's own space over rows that walk at random ([ProSem thesis] table 3.1)."""

    def __init__(self, tuples: int, points: Ints, seed: int = 7, recommendations: bool = False) -> None:
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

    def events(self, most: int = 200_000) -> Iterator[Event]:
        """All updates, also those that affect no subscription: they are looked at before anything is sent (3.2.3)."""
        for key, y in range_min._walk(self.xs, self.ys, most, self._random, spikes=0.0):
            yield self._take(key, y)

    def spikes(self, count: int) -> Iterator[Event]:
        """A value drops below all others, and then bounces back."""
        for key in self._random.integers(0, len(self.xs), count // 2).tolist():
            y = int(self._state.rows[1][key,][2])
            yield self._take(key, -1)
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
        return Event(int(old[1]), [one for one, _ in found], [ids for _, ids in found])


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
    each = {"unicast": ways.one_by_one, "multicast": ways.named, "S-CN": ways.s_cn,
            "can": ways.can, "brokers": ways.unicast, "cbn": ways.cbn}  # fmt: skip
    for event in events:
        for name, way in each.items():
            pairs = zip(event.messages, event.ids, strict=True)
            found[name].add([way(message, ids) for message, ids in pairs])
        found["DS-CN"].add(ways.ds_cn(event.messages, event.x))
        found["CN"].add([_relaxed(ways, event)])
    return found


def _relaxed(ways: Ways, event: Event) -> Way:
    return ways.cn(Message(1, 0, 1, "row", payload=b"%d" % event.x), event.x)


def _line(by: str, value: Any, found: dict[str, Costs], what: str = "traffic_bytes") -> dict[str, Any]:
    return {by: value, **{name: one.figures()[what] for name, one in found.items()}}


class Mixture:
    """Updates that affect a subscription, and a share of spikes among them: both measured apart, so that few suffice."""

    def __init__(self, setting: Setting, zones: Zones, workload: Workload, count: int) -> None:
        self._parts = [
            affecting(events, some)
            for events, some in ((workload.events(), count), (workload.spikes(80), 80))
        ]
        self._costs = [costs(setting, zones, part) for part in self._parts]

    def line(self, by: str, value: Any, percent: float = 100 * range_min.SPIKES) -> dict[str, Any]:
        usual, spiked = (_line(by, value, one) for one in self._costs)
        return {by: value} | {
            name: round(usual[name] * (1 - percent / 100) + spiked[name] * percent / 100, 1)
            for name in SCHEMES
        }

    def affected(self, percent: float) -> float:
        usual, spiked = (np.mean([sum(map(len, one.ids)) for one in part]) for part in self._parts)
        return round(float(usual * (1 - percent / 100) + spiked * percent / 100), 1)


def series(setting: Setting, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """The figures by their numbers."""
    count = 5_000 if quick else 500_000
    events = 40 if quick else 400
    usual = ((5000.0, 1500.0), (1000.0, 1000.0))
    points = ranges(count, *usual)
    zones = setting.zones(points)
    found: dict[str, list[dict[str, Any]]] = {}
    found["3.6"] = []
    for tuples in (1_000, 2_000) if quick else (10_000, 20_000, 50_000, 100_000):
        progress(f"networks: figure 3.6, {tuples:,} tuples, {count:,} subscriptions")
        mixture = Mixture(setting, zones, Workload(tuples, points), events)
        found["3.6"].append(mixture.line("tuples", tuples))
    least = 1_000 if quick else 10_000
    found["3.8"] = []
    for number in (1_000, 5_000) if quick else (100_000, 200_000, 500_000, 1_000_000):
        progress(f"networks: figure 3.8, {number:,} subscriptions")
        of = ranges(number, *usual)
        mixture = Mixture(setting, setting.zones(of), Workload(least, of), events)
        found["3.8"].append(mixture.line("subscriptions", number))
    found |= _ignorable(setting, count, least, events)
    progress("networks: figure 3.10, more and more spikes")
    mixture = Mixture(setting, zones, Workload(5 * least, points), events)
    found["3.10"] = [
        {"spikes_percent": percent, "affected": mixture.affected(percent)}
        | mixture.line("spikes_percent", percent, percent)
        for percent in (0.0, 0.5, 1.0, 2.0, 5.0)
    ]
    found |= _distribution(setting, zones, Workload(least, points), 2 * events)
    found["3.12"] = _trace(setting, quick, events)
    return found


def _ignorable(setting: Setting, count: int, tuples: int, events: int) -> dict[str, list[dict[str, Any]]]:
    """Figure 3.9: short ranges everywhere, no spikes, and as many ignorable updates as is asked for."""
    progress("networks: figure 3.9, ignorable updates")
    points = ranges(count, (5000.0, 10_000.0), (50.0, 10.0))
    zones = setting.zones(points)
    taken: list[Event] = []
    ignorable: list[Event] = []
    for event in Workload(tuples, points).events():
        (taken if event.messages else ignorable).append(event)
        if min(len(taken), len(ignorable)) >= events:
            break
    lines: dict[str, list[dict[str, Any]]] = {"3.9 hops": [], "3.9 bytes": [], "3.9 IP hops": []}
    for percent in (0, 25, 50, 75, 90):
        none = events * percent // 100
        some = costs(setting, zones, [*ignorable[:none], *taken[: events - none]])
        for name, what in zip(lines, ("overlay_hops", "traffic_bytes", "ip_hops"), strict=True):
            lines[name].append(_line("ignorable_percent", percent, some, what))
    return lines


def _distribution(
    setting: Setting, zones: Zones, workload: Workload, events: int
) -> dict[str, list[dict[str, Any]]]:
    """Table 3.4 and figure 3.11: no spikes, and a fifth of the updates ignorable."""
    progress("networks: table 3.4 and figure 3.11")
    some: list[Event] = []
    quiet = 0
    for event in workload.events():
        if event.messages or quiet < 0.21 * events:
            quiet += not event.messages
            some.append(event)
        if len(some) >= events:
            break
    found = costs(setting, zones, some)
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
    return {"table 3.4": stress, "3.11": shares}


def _trace(setting: Setting, quick: bool, events: int) -> list[dict[str, Any]]:
    """Figure 3.12: stocks with few distinct ratings, in the place of [ProSem thesis]'s trace."""
    lines = []
    for number in (1_000, 5_000) if quick else (100_000, 500_000):
        progress(f"networks: figure 3.12, {number:,} subscriptions")
        points = ranges(number, (5000.0, 1500.0), (1000.0, 1000.0))
        workload = Workload(STOCKS, points, recommendations=True)
        some = [event for _, event in zip(range(5 * events), workload.events(), strict=False)]
        found = costs(setting, setting.zones(points), some)
        share = np.mean([bool(event.messages) for event in some])
        line = _line("subscriptions", number, found)
        lines.append({"subscriptions": number, "not ignorable": f"{share:.1%}", **line})
    return lines
