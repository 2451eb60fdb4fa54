"""Updates in a network of brokers: UPD against re-subscription, with and without bounds and update monitor.

The two workloads of [Parametric] (`broker_workloads`) in the simulator: links of 10 ms, and each broker works off one frame
at a time, taking the processor time that its code really takes here. Every strategy sees the same events and updates.

* *throughput*: events that clients want and get per second ([Parametric] 8.1), when more are published than the brokers
  can carry: 2,000 events/s, and four times as many again until no more arrive. The other figures are those at 2,000;
* *delay*: from an update to the first event that matches the new range and not the old;
* *spurious*: of the events that come to a client, those it no longer wants;
* *latency*: from publishing an event to its arrival at a client that wants it;
* *in force*: from an update to its acknowledgement, which comes when the brokers up to the publishers know it.

At the end all comes to rest, and what each client is told must be what a search through all says, or the bench fails.
[Siena]'s poset is the baseline of [Parametric], FASTINT is ours. Rete with a poset for summaries is its EventJava and
[Beretta]'s EV; selectors are in the place of ActiveMQ (`bench/selectors.py`).
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from prosem_client import UpdateMonitor
from prosem_client.forecast import History

from bench.broker_workloads import Range, Workload, highway, trading
from bench.common import Report, fail, progress
from bench.poset import Poset
from bench.rete import ReteWithPoset
from bench.selectors import Selectors, TopicNode
from cn.model.frames import Ack, ClientDelivery, Data, Frame, Subscribe, Unsubscribe, Update
from cn.model.message import Message
from cn.simulation.cbn_peer import PeerNode
from cn.simulation.transport import Memory

SEED = 7
LINK_S = 0.010
WARM = 0.25  # the share of a run before anything is counted
MODES: dict[str, dict[str, Any]] = {
    "poset sub": {"matcher": Poset, "updates": False},
    "poset upd": {"matcher": Poset},
    "fastint sub": {"updates": False},
    "fastint upd": {},
    "fastint upd exact": {"lub": False},
    "fastint upd monitor": {"monitor": UpdateMonitor(frequency_hz=4.0)},
    "rete sub": {"matcher": ReteWithPoset, "updates": False},
    "rete upd": {"matcher": ReteWithPoset},
    "selectors sub": {"node": TopicNode, "matcher": Selectors, "updates": False, "threshold": 0},
}
SIZES = {
    ("highway", False): (150, 100, 200),  # edge brokers, cars at each, sensors
    ("highway", True): (15, 20, 20),
    ("trading", False): (150, 200, 20),  # subscribers, types of events, of which each asks for
    ("trading", True): (30, 40, 10),
}
WORKLOADS: dict[str, Callable[..., Workload]] = {"highway": highway, "trading": trading}
OFFERED = {False: 128_000, True: 2_000}  # events/s at most
HIGH_FREQUENCY_HZ = 8.0  # of each subscription that keeps changing; the monitor begins at 4
PAIRS = [
    ("poset upd", "poset sub"),
    ("fastint upd", "poset sub"),
    ("fastint upd", "fastint sub"),
]
PAPER = {
    "highway": {"throughput": 7.9, "delay": 6.05, "spurious": 6.1},
    "trading": {"throughput": 4.4, "delay": 2.5, "spurious": 5.94},
}


def run(quick: bool) -> Report:
    rates = [0, 100] if quick else [0, 10, 50, 100]
    seconds = 0.25 if quick else 0.5
    report = Report("parametric", {"network": "cbn", "rates": rates, "seconds": seconds, "quick": quick})
    report.notes = [
        "sub: a new subscription and the end of the old one; upd: an update; exact: no bounds in summaries",
        "throughput: wanted events that come to clients per second, at most; delay: update to first event of a new range",
        "spurious: % of what clients get and no longer want; in force: update to acknowledgement",
    ]
    for make in (highway, trading):
        made = make(*SIZES[make.__name__, quick])
        rows = by_rate(made.name, rates, seconds, quick)
        report.figures[made.name] = {"by_rate": rows, "ratios": _ratios(rows), "paper": PAPER[made.name]}
        title = f"{made.name}: {len(made.clients)} subscriptions, {len(made.brokers)} brokers"
        report.tables.append((title, [_short(row) for row in rows]))
        for best, base in PAIRS:
            found = report.figures[made.name]["ratios"][f"{best} / {base}"]
            report.notes.append(
                f"{made.name}, {best} against {base}: throughput {found['throughput']:.1f}x, "
                f"delay {found['delay']:.1f}x lower, spurious {found['spurious']:.1f}x fewer"
            )
        report.notes.append(f"{made.name}, the paper's up to: {PAPER[made.name]}")
    return report


def by_rate(name: str, rates: list[int], seconds: float, quick: bool) -> list[dict[str, Any]]:
    """All strategies at several rates of updates, at one size."""
    rows = []
    for mode, options in MODES.items():
        progress(f"parametric: {name}, {mode}, subscriptions")
        run = Run(WORKLOADS[name](*SIZES[name, quick]), options)
        for rate in rates:
            progress(f"parametric: {name}, {mode}, {rate} updates/s")
            rows.append({"mode": mode, "updates/s": rate, **saturated(run, rate, seconds, quick)})
    return rows


def by_size(
    name: str, sizes: Sequence[int], rate: float, seconds: float, quick: bool
) -> list[dict[str, Any]]:
    """All strategies at one rate of updates, by edge brokers (highway) or subscribers (trading)."""
    rows = []
    for mode, options in MODES.items():
        for size in sizes:
            progress(f"parametric: {name}, {mode}, size {size}")
            workload = WORKLOADS[name](size, *SIZES[name, quick][1:])
            rows.append(
                {"mode": mode, "size": size, **saturated(Run(workload, options), rate, seconds, quick)}
            )
    return rows


def high_frequency(shares: Sequence[float], seconds: float, quick: bool) -> list[dict[str, Any]]:
    """The update monitor on trading, by the share of subscriptions that keep changing ([Parametric] 8.12)."""
    rows = []
    for share in shares:
        for mode in ("fastint upd", "fastint upd monitor"):
            progress(f"parametric: {share:.0%} of high frequency, {mode}")
            workload = trading(*SIZES["trading", quick], moving=share)
            rate = HIGH_FREQUENCY_HZ * len(workload.sources_of_updates[0])
            rows.append(
                {"mode": mode, "share": share, **saturated(Run(workload, MODES[mode]), rate, seconds, quick)}
            )
    return rows


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "mode": row["mode"],
        "updates/s": row["updates/s"],
        "throughput": round(row["throughput_per_s"]),
        "delay ms": round(row["delay_ms"]),
        "latency ms": round(row["latency_ms"], 1),
        "spurious %": round(row["spurious_percent"], 2),
        "in force ms": round(row["in_force_ms"], 1),
        "frames": row["request_frames"],
    }


def _ratios(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How much better each strategy is than each re-subscription, at the highest rate of updates."""
    most = max(row["updates/s"] for row in rows)
    last = {row["mode"]: row for row in rows if row["updates/s"] == most}
    return {
        f"{mode} / {base}": {
            "throughput": last[mode]["throughput_per_s"] / last[base]["throughput_per_s"],
            "delay": last[base]["delay_ms"] / max(1e-9, last[mode]["delay_ms"]),
            "spurious": last[base]["spurious_percent"] / max(1e-9, last[mode]["spurious_percent"]),
            "latency": last[base]["latency_ms"] / max(1e-9, last[mode]["latency_ms"]),
        }
        for base in ("poset sub", "fastint sub")
        for mode in last
        if mode != base
    }


def saturated(run: Run, rate: float, seconds: float, quick: bool) -> dict[str, Any]:
    """What is measured at 2,000 events/s, and the most that comes to clients however many are published."""
    found = apart(partial(run.measure, rate, seconds))
    offered = run.work.events_per_s
    found |= {"throughput_per_s": found["delivered_per_s"], "offered_per_s": offered}
    while 4 * offered <= OFFERED[quick]:
        offered *= 4
        delivered = apart(partial(run.delivered, rate, seconds, offered))["delivered_per_s"]
        if delivered < 1.1 * found["throughput_per_s"]:
            break
        found |= {"throughput_per_s": delivered, "offered_per_s": offered}
    return found


def apart(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is measured in a copy of this process: what was set up here can be measured again."""
    fork = get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(measure()))
    child.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:  # it has said why
        raise SystemExit(1) from None
    finally:
        child.join()
    return found


def void(_: object) -> None:
    """Whatever was returned is not needed."""


class Run:
    """One strategy, with all subscriptions in force."""

    def __init__(self, workload: Workload, options: dict[str, Any]) -> None:
        self.work = workload
        self.updates = options.get("updates", True)
        self.monitor: UpdateMonitor | None = options.get("monitor")
        self.memory = Memory(latency=lambda sender, to: LINK_S, service=self._service)
        self.dice = random.Random(SEED)
        self.measuring = False
        self.event_s: dict[str, float] = {}
        self.request_s: dict[str, float] = {}
        count = len(workload.clients)
        self.low = np.array([client.range[0] for client in workload.clients])
        self.high = np.array([client.range[1] for client in workload.clients])
        self.least = np.array([client.least for client in workload.clients])
        self.space = np.array([client.space for client in workload.clients])
        self.since = np.full(count, np.nan)  # of the last update that no event has answered yet
        self.old_low, self.old_high = self.low.copy(), self.high.copy()
        self.keys = [0] * count
        self.registered: list[Range] = [client.range for client in workload.clients]
        self.histories: dict[int, tuple[History, History]] = {}
        self.useful = self.spurious = self.sent = self.number = self.seq = 0
        self.begins = self.ends = 0.0  # what comes to clients in between is counted
        self.delays: list[float] = []
        self.published: dict[int, float] = {}
        self.waited = 0.0
        self.in_force: list[float] = []
        self.asked: dict[tuple[str, int], float] = {}
        self.told: set[tuple[int, int]] | None = None
        settings = {key: value for key, value in options.items() if key not in ("monitor", "node")}
        make: type[PeerNode] = options.get("node", PeerNode)
        for name in workload.brokers:
            self.memory.add(make(name, settings), self._told)
        for one, other in workload.links:
            self.memory.post(one, self._node(one).link(other))
            self.memory.post(other, self._node(other).link(one))
        for broker, space, _ in workload.publishers:
            self.memory.post(broker, self._node(broker).advertise(space))
        self.memory.run()
        for at, client in enumerate(workload.clients):
            self._request(at, Subscribe(at, client.space, 0, client.filter(client.range)))
        self.memory.run()

    def measure(self, rate: float, seconds: float) -> dict[str, Any]:
        """At so many updates per second, for so long; then all comes to rest, and is checked."""
        lasted = self._take(rate, seconds, self.work.events_per_s)
        self.memory.run()
        self.measuring = False
        gc.enable()
        self._check()
        return {
            "delay_ms": 1000 * float(np.mean(self.delays)) if self.delays else 0.0,
            "spurious_percent": 100 * self.spurious / max(1, self.spurious + self.useful),
            "spurious": self.spurious,
            "latency_ms": 1000 * self.waited / max(1, self.useful),
            "in_force_ms": 1000 * float(np.mean(self.in_force)) if self.in_force else 0.0,
            "delivered_per_s": self.useful / (self.ends - self.begins),
            "request_frames": self.sent,
            "busiest_share": max(
                (self.event_s.get(name, 0.0) + self.request_s.get(name, 0.0)) / lasted
                for name in self.work.brokers
            ),
        }

    def delivered(self, rate: float, seconds: float, events_per_s: float) -> dict[str, Any]:
        """What comes to clients if so many events are published; what is under way at the end is left there."""
        self._take(rate, seconds, events_per_s)
        return {"delivered_per_s": self.useful / (self.ends - self.begins)}

    def _take(self, rate: float, seconds: float, events_per_s: float) -> float:
        """Events and updates, spread evenly over so long; the simulated seconds that it lasted."""
        memory, work = self.memory, self.work
        gc.collect()
        gc.disable()
        self.measuring, start = True, memory.now
        self.begins, self.ends = start + WARM * seconds, start + seconds
        self.asked.clear()
        self.in_force.clear()
        for at in range(int(events_per_s * seconds)):
            memory.after((at + 0.5) / events_per_s, lambda: void(self._publish()))
        for group in work.sources_of_updates if rate else ():
            offset = self.dice.random()
            for at in range(int(rate * seconds)):
                memory.after((at + offset) / rate, self._updater(group))
        memory.run(start + seconds)
        return memory.now - start

    # -- what happens ----------------------------------------------------------------------------------------------
    def _service(self, name: str, frame: Frame, seconds: float) -> float:
        if not self.measuring:
            return 0.0
        spent = self.event_s if isinstance(frame, Data) else self.request_s
        spent[name] = spent.get(name, 0.0) + seconds
        self.sent += not isinstance(frame, Data)
        return seconds

    def _node(self, name: str) -> PeerNode:
        node = self.memory.nodes[name]
        assert isinstance(node, PeerNode)
        return node

    def _request(self, at: int, frame: Frame) -> None:
        self.memory.post(f"c{at}", [(self.work.clients[at].broker, frame)])

    def _publish(self) -> tuple[int, int, tuple[int, int]]:
        broker, space, row = self.work.event(self.dice)
        self.seq += 1
        self.published[self.seq] = self.memory.now
        message = Message(self.seq, 0, space, "event", attributes=(row,))
        self.memory.post("publisher", [(broker, Data(self.seq, message))])
        return self.seq, space, row

    def _updater(self, group: list[int]) -> Callable[[], None]:
        return lambda: self._update(self.dice.choice(group))

    def _update(self, at: int) -> None:
        client, now = self.work.clients[at], self.memory.now
        self.old_low[at], self.old_high[at] = self.low[at], self.high[at]
        exact = self.work.moved(client, self.dice)
        self.low[at], self.high[at] = exact
        self.since[at] = now
        wide = self._widened(at, exact, now)
        if wide is None:
            return
        old, new = client.filter(self.registered[at]), client.filter(wide)
        self.registered[at] = wide
        self.number += 1
        self.asked[f"c{at}", self.number] = now
        if self.updates:
            changes = {attribute: extent for attribute, extent in new.items() if old[attribute] != extent}
            self._request(at, Update(self.number, client.space, 0, {**changes}))
            return
        self.keys[at] += 1
        self._request(at, Subscribe(self.number, client.space, self.keys[at], new))
        self._request(at, Unsubscribe(-self.number, client.space, self.keys[at] - 1))

    def _widened(self, at: int, exact: Range, now: float) -> Range | None:
        """The range to register; None if the one that is there will do, as the update monitor has foreseen."""
        if self.monitor is None:
            return exact
        window = self.monitor.window_s
        ends = self.histories.setdefault(at, (History(window), History(window)))
        wide = [*exact]
        for side, history in enumerate(ends):
            if abs(exact[side]) == float("inf"):
                continue
            history.record(now, exact[side])
            band = history.band() if history.frequency(now) >= self.monitor.frequency_hz else None
            if band is not None:
                added = self.monitor.margin * (band[1] - band[0])
                wide[side] = min(exact[0], band[0] - added) if side == 0 else max(exact[1], band[1] + added)
        there = self.registered[at]
        if (wide[0], wide[1]) != exact and there[0] <= exact[0] and exact[1] <= there[1]:
            return None
        return wide[0], wide[1]

    # -- what comes ------------------------------------------------------------------------------------------------
    def _told(self, frame: Frame) -> None:
        if isinstance(frame, Ack):
            since = self.asked.pop((frame.client, frame.number), None)
            if since is not None:
                self.in_force.append(self.memory.now + LINK_S - since)
        elif isinstance(frame, ClientDelivery):
            self.memory.after(LINK_S, lambda: self._arrived(frame))

    def _arrived(self, frame: ClientDelivery) -> None:
        ids = np.fromiter((int(name[1:]) for name in frame.clients), np.int64, len(frame.clients))
        assert frame.message.attributes is not None
        row = frame.message.attributes[0]
        assert row is not None
        x, density = row
        wanted = (self.low[ids] <= x) & (x <= self.high[ids]) & (self.least[ids] <= density)
        if self.told is not None:
            self.told |= {(frame.message.seq, int(at)) for at in ids[wanted]}
            return
        if self.begins <= self.memory.now < self.ends:
            count = int(wanted.sum())
            self.useful += count
            self.waited += count * (self.memory.now - self.published[frame.message.seq])
            self.spurious += int((~wanted).sum())
        fresh = wanted & ~np.isnan(self.since[ids]) & ~((self.old_low[ids] <= x) & (x <= self.old_high[ids]))
        for at in ids[fresh]:
            self.delays.append(self.memory.now - float(self.since[at]))
        self.since[ids[fresh]] = np.nan

    def _check(self) -> None:
        """At rest, exactly those are told whose ranges hold an event."""
        self.told, expected = set(), set[tuple[int, int]]()
        for _ in range(20):
            seq, space, (x, density) = self._publish()
            holds = (self.space == space) & (self.low <= x) & (x <= self.high) & (self.least <= density)
            expected |= {(seq, int(at)) for at in np.flatnonzero(holds)}
        self.memory.run()
        if self.told != expected:
            fail(f"{len(self.told ^ expected)} deliveries differ from a search through all subscriptions")
