"""Select-joins over a network of a thousand brokers: [ProSem thesis]'s figures 5.7 to 5.9 and 5.11 to 5.15.

Messages of every plan come from the engine's own spaces and go over the zones of a CAN, from where each region begins;
enumerating plans send straight from the server. The same messages down the tree of `cbn` stand beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bench.common import fail, progress
from bench.join_walk import FLAVOURS
from bench.join_workload import DOMAIN, SEEDS, Workload, clipped, either, ranges, subscriptions
from bench.network_routes import Way, Ways
from bench.network_setting import Ints, Setting, Zones
from cn.model.frames import Data, encode
from cn.model.message import Message
from prosem.types.join.shape import MODES
from prosem.types.join.space import JoinSpace
from prosem.values.model import Delta, Row

Lines = list[dict[str, Any]]
TOTALS = (
    "messages",
    "boxes",
    "hops",
    "traffic",
    "zones",
    "contents",
    "tree",
    "delivered",
)
ENUMERATED = ("enum-j", "enum-sj")
STRATEGIES = (*ENUMERATED, "ref-j", "ref-j+", "rel-sel", *FLAVOURS)
SOME = ("enum-sj", "ref-j+", "rel-sel", "ref-sj-tup", "ref-sj-clu+")
PLAN = "ref-sj-clu+"
R_ROWS, S_ROWS, PAYLOAD = 16_000, 5_100, 100


class Sent(NamedTuple):
    """A message and the points it concerns."""

    message: Message
    ids: Ints


def messages(space: JoinSpace, workload: Workload, plan: str, count: int) -> Iterator[list[Sent]]:
    """For each event what a plan sends; what affects no subscription is not sent (3.2.3), except by Ref-J (5.2.4)."""
    yield from sent_by(space, [*workload.events(count)], plan)


def sent_by(space: JoinSpace, deltas: Sequence[Delta], plan: str) -> Iterator[list[Sent]]:
    for delta in deltas:
        description = space.step(delta)
        drafts = [] if description is None else space.messages(description, plan)
        made = [Message(delta.seq, part, 1, *draft) for part, draft in enumerate(drafts)]
        found = [Sent(one, _concerned(space, one)) for one in made]
        yield [one for one in found if len(one.ids) or plan == "ref-j"]


def _concerned(space: JoinSpace, message: Message) -> Ints:
    if message.targets is not None:
        return np.array(message.targets, np.int64)
    return space.points.find(message.topic, message.region)


class Joins:
    """One workload under several plans, and what it costs per event.

    `make` makes the workload anew, for every mode.
    """

    def __init__(
        self,
        setting: Setting,
        points: Ints,
        zones: Zones,
        make: Callable[[], Workload],
        events: int,
        plans: Sequence[str],
    ) -> None:
        ways = Ways(setting, zones)
        self.events = events
        self.costs: dict[str, dict[str, float]] = {}
        told: dict[str, list[Ints]] = {}
        for mode, offered in MODES.items():
            wanted = [plan for plan in plans if plan in offered]
            if not wanted:
                continue
            workload = distinct(make())
            deltas = [*workload.events(events)]
            space = workload.space(mode, points)
            for plan in wanted:
                totals = dict.fromkeys(TOTALS, 0)
                told[plan] = []
                for sent in sent_by(space, deltas, plan):
                    for one, (way, tree) in zip(sent, _ways(ways, plan, sent), strict=True):
                        self._add(totals, one, way, tree)
                    told[plan].append(_notified(sent))
                self.costs[plan] = {name: total / events for name, total in totals.items()}
                for delta in reversed(deltas):  # the next plan finds the rows as this one did
                    space.step(delta._replace(old=delta.new, new=delta.old))
        self.costs = {plan: self.costs[plan] for plan in plans}
        _agree(told)

    def _add(self, totals: dict[str, int], sent: Sent, way: Way, tree: Way) -> None:
        message, ids = sent
        totals["messages"] += 1
        totals["boxes"] += len(message.region)
        totals["hops"] += len(way.senders)
        totals["traffic"] += int(way.sizes.sum())
        totals["zones"] += len(np.unique(way.receivers))
        totals["contents"] += len(way.senders) * len(message.contents)
        totals["tree"] += int(tree.sizes.sum())
        totals["delivered"] += len(ids) * (len(message.payload) + sum(map(len, message.contents)))

    def line(self, by: str, value: Any, what: str = "traffic") -> dict[str, Any]:
        return {by: value} | {plan: round(costs[what], 1) for plan, costs in self.costs.items()}

    def with_payload(self, size: int) -> dict[str, Any]:
        """The traffic if contents had another size: every one of them on every link."""
        return {"payload_bytes": size} | {
            plan: round(costs["traffic"] + costs["contents"] * (size - PAYLOAD), 1)
            for plan, costs in self.costs.items()
        }


def _ways(ways: Ways, plan: str, sent: Sequence[Sent]) -> Iterator[tuple[Way, Way]]:
    """The way of each message over zones, and down the tree; of one that names its subscription straight to it."""
    if plan not in ENUMERATED:
        over = ways.can_each([one.message for one in sent])
        yield from ((way, ways.cbn(*one)) for way, one in zip(over, sent, strict=True))
        return
    for message, ids in sent:
        links = (ways.setting.server, ways.hosts(ids)[0], len(encode(Data(message.seq, message))), 1)
        way = Way(*(np.array([one]) for one in links))
        yield way, way


def distinct(workload: Workload) -> Workload:
    """Payloads that differ from row to row, of the size they had."""
    make = workload._row

    def own(row: Row) -> Row:
        return (*row[:-1], f"{row[0]:09d}{str(row[-1])[9:]}")

    for rows in (workload.r, workload.s):
        rows.update({key: own(row) for key, row in rows.items()})
    workload._row = lambda number: own(make(number))  # type: ignore[method-assign]
    return workload


def _notified(sent: Sequence[Sent]) -> Ints:
    """The subscriptions notified of the event's own row, by semijoins or as joined rows."""
    own = [
        ids
        for message, ids in sent
        if message.kind == "joined"
        or (message.kind in ("upsert", "drop") and message.payload.startswith(b"[0,"))
    ]
    return np.unique(np.concatenate(own)) if own else np.empty(0, np.int64)


def _agree(told: dict[str, list[Ints]]) -> None:
    exact = {plan: one for plan, one in told.items() if plan != "rel-sel"}
    first = next(iter(exact), "")
    for plan, one in exact.items():
        for at, (mine, its) in enumerate(zip(exact[first], one, strict=True)):
            if not np.array_equal(mine, its):
                fail(f"{first} and {plan} disagree on the affected subscriptions of event {at}")


def by_subscriptions(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figures 5.7, 5.8, 5.12 and 5.14; joined rows one by one only at the smallest size."""
    rows, count, events = size(quick)
    columns = {"5.7": "hops", "5.8": "traffic", "5.8 tree": "tree", "5.8 boxes": "boxes"}
    found: dict[str, Lines] = {name: [] for name in (*columns, "5.14")}
    for number in (1_000, 2_000) if quick else (100_000, 300_000, 500_000):
        progress(f"networks: figures 5.7, 5.8, 5.12 and 5.14, {number:,} subscriptions")
        points = subscriptions(number)
        plans = STRATEGIES if number <= count else STRATEGIES[1:]
        joins = Joins(setting, points, setting.zones(points), partial(Workload, *rows), events, plans)
        for name, what in columns.items():
            found[name].append(_filled(joins.line("subscriptions", number, what)))
        last = {plan: round(one["traffic"] + one["delivered"], 1) for plan, one in joins.costs.items()}
        found["5.14"].append(_filled({"subscriptions": number, **last}))
        if number <= count and "5.12" not in found:
            found["5.12"] = [joins.with_payload(size) for size in (1, 100, 1_000, 10_000, 100_000)]
    return found


def by_r_rows(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 5.9."""
    (_, s_rows), count, events = size(quick)
    sizes = (200, 400) if quick else (1_000, 16_000, 31_000)
    return _by_rows(setting, "5.9", count, events, [(one, s_rows) for one in sizes], 0)


def by_s_rows(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 5.11: the rows of S set the number of joined rows per event."""
    (r_rows, _), count, events = size(quick)
    sizes = (100, 300) if quick else (100, 2_600, 5_100, 10_100)
    return _by_rows(setting, "5.11", count, events, [(r_rows, one) for one in sizes], 1)


def _by_rows(
    setting: Setting, name: str, count: int, events: int, variants: Sequence[tuple[int, int]], varied: int
) -> dict[str, Lines]:
    points, by = subscriptions(count), ("r_rows", "s_rows")[varied]
    zones, found = setting.zones(points), []
    for rows in variants:
        progress(f"networks: figure {name}, {rows[0]:,} rows of R, {rows[1]:,} of S")
        joins = Joins(setting, points, zones, partial(Workload, *rows), events, SOME)
        found.append((rows[varied], joins))
    return _with_zones(name, by, found)


def _with_zones(name: str, by: str, found: Sequence[tuple[int, Joins]]) -> dict[str, Lines]:
    """The bytes of each line, and the zones and boxes of messages."""
    return {
        name: [joins.line(by, value) for value, joins in found],
        f"{name} zones": [joins.line(by, value, "zones") for value, joins in found],
        f"{name} boxes": [joins.line(by, value, "boxes") for value, joins in found],
    }


def by_overlap(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 5.13."""
    rows, count, events = size(quick)
    lines = []
    for x in (0, 6_000) if quick else (0, 2_000, 4_000, 6_000):
        progress(f"networks: figure 5.13, overlap {x:,}")
        points = overlapping(count, x)
        joins = Joins(setting, points, setting.zones(points), partial(Workload, *rows), events, SOME)
        lines.append(joins.line("overlap", x))
    return {"5.13": lines}


def size(quick: bool) -> tuple[tuple[int, int], int, int]:
    """Rows of R and S, subscriptions, events."""
    return ((400, 300), 2_000, 6) if quick else ((R_ROWS, S_ROWS), 100_000, 40)


def _filled(line: dict[str, Any]) -> dict[str, Any]:
    by = next(iter(line))
    return {by: line[by]} | {plan: line.get(plan, "-") for plan in STRATEGIES}


def overlapping(count: int, x: int) -> Ints:
    """Subscriptions whose centres deviate less and less: by 13000 - 2x on R.A, by 7500 - x on S.C."""
    random = np.random.default_rng(SEEDS["subscriptions"])
    return np.column_stack(
        [
            ranges(random, (30_000, 70_000, 13_000 - 2 * x), (20_000, 5_000), count),
            ranges(random, (15_000, 85_000, 7_500 - x), (6_000, 5_000), count),
        ]
    )


class Stocks(Workload):
    """In the place of [ProSem thesis]'s stocks and ratings (figure 5.15).

    A row of R is the value of a stock on a day, one after another: R holds those of some months, as the source's does. They
    walk by 2 % a day, as closing prices do. The source has 460 ratings from 1 to 5 of 100 stocks, which it perturbs to make
    2,300. Ratings of one stock are alike: at most one from what most give it.
    """

    PERTURBED: ClassVar[int] = 4_000  # the deviation

    def __post_init__(self) -> None:
        super().__post_init__()
        random = self._random
        usual, self.s = random.integers(1, 6, 100), {}
        for number in range(460):
            rating = min(5, max(1, int(usual[number % 100]) + int(random.choice((-1, 0, 0, 1)))))
            for code in clipped(20_000 * rating - 10_000 + random.normal(0, self.PERTURBED, 5)).tolist():
                self.s[len(self.s),] = (len(self.s), number % 100, code, self._payload)

    def _row(self, number: int) -> Row:
        if not hasattr(self, "_values"):
            self._values = either(self._random, 30_000, 70_000, 12_000, 100)
        key = number % 100
        moved = self._values[key] * (1 + self._random.normal(0, 0.02))
        self._values[key] = np.clip(moved, 0, DOMAIN)
        return number, int(self._values[key]), key, self._payload


def real(setting: Setting, quick: bool) -> dict[str, Lines]:
    """Figure 5.15."""
    found, (_, _, events) = [], size(quick)
    for number in (1_000, 2_000) if quick else (100_000, 300_000):
        progress(f"networks: figure 5.15, {number:,} subscriptions")
        points = subscriptions(number)
        make = partial(Stocks, 500 if quick else R_ROWS, 0)
        joins = Joins(setting, points, setting.zones(points), make, events, SOME)
        found.append((number, joins))
    return _with_zones("5.15", "subscriptions", found)


FIGURES: dict[str, Callable[[Setting, bool], dict[str, Lines]]] = {
    "5.8": by_subscriptions,
    "5.9": by_r_rows,
    "5.11": by_s_rows,
    "5.13": by_overlap,
    "5.15": real,
}
