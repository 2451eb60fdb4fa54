"""What every plan costs on the events of the mixed workload: the ground on which choices are compared.

Server figures are those of the server's own code. The network is simulated: a server and 428 brokers ([ProSem thesis] figure
6.8) in a tree, each hosting neighbouring points of every space. A message travels down the links that lead to affected
subscriptions, or straight to their brokers, without middleware ([ProSem thesis] 6.5.2): each plan is costed by both ways.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.common import fail, progress
from bench.mixed import Mixed
from cn.model.message import Message
from cn.transport.packets import Outgoing
from optimizer.choose import Chooser, NamedPlan
from optimizer.plan import Descriptor, Estimate, Planned
from prosem.brokers.ways import STRAIGHT, TREE
from prosem.engine import commands as c
from prosem.engine.measuring import measure
from prosem.engine.state import EngineState
from prosem.types.base import Storage
from prosem.types.shared.point_space import PointSpace
from prosem.values.wire import pack

BROKERS, FAN_OUT, HOP_US = 428, 10, 1_000.0
COPIES = 10_000  # by which the cost of one is measured
REPEATS = 3  # the fastest counts: what else the machine does is no cost of a plan


class Case(NamedTuple):
    """One event in one space: what a chooser sees, and what each plan costs."""

    space: int
    descriptor: Descriptor
    expected: float
    plans: dict[str, Estimate]


class Carried(NamedTuple):
    """Copies and bytes out of the server, bytes on all links, µs per average notification, and the subscriptions reached."""

    copies: int
    out: float
    between: float
    way_us: float
    reached: NDArray[np.int64]


class Overlay:
    """Brokers in a tree; the points of each space in their order, an equal number at every broker."""

    def __init__(self, state: EngineState) -> None:
        self._hosts: dict[int, NDArray[np.int64]] = {}
        self.copy_us = copy_us()
        last = state.registry.next_sid
        for number, space in state.spaces.items():
            if isinstance(space, Planned):
                hosts = np.arange(last, dtype=np.int64) * BROKERS // last  # filters, as they were registered
                if isinstance(space, PointSpace):
                    order = sorted(((t, p), sid) for sid, t, p in space.points.items())
                    for at, (_, sid) in enumerate(order):
                        hosts[sid] = at * BROKERS // len(order)
                self._hosts[number] = hosts

    def carry(self, space: Any, messages: Sequence[Message], way: str) -> Carried:
        hosts, copies, out, between, hops = self._hosts[space.network.id], 0, 0.0, 0.0, 0.0
        reached: list[Any] = [np.empty(0, np.int64)]
        for message in messages:
            size, found = len(pack(message)), _reached(space, message)
            nodes = np.unique(hosts[found])
            depth = 0
            while len(nodes) and depth < 8:
                between += size * len(nodes)
                depth += 1
                if nodes[-1] < FAN_OUT or way == STRAIGHT:
                    break
                nodes = np.unique(nodes // FAN_OUT)
            copies += max(1, len(nodes))
            out += size * max(1, len(nodes))
            hops += (1 + depth) * len(found)
            reached.append(found)
        told = np.concatenate(reached).astype(np.int64)
        return Carried(copies, out, between, HOP_US * hops / max(1, len(told)), np.unique(told))


def copy_us() -> float:
    """What one more copy of a frame costs the server: it is put into the packets of another link."""
    frame, best = bytes(200), float("inf")
    for _ in range(REPEATS):
        link, start = Outgoing("server"), time.thread_time_ns()
        for _ in range(COPIES):
            link.put(frame)
        for number, _ in link.due():
            link.confirm(number)
        best = min(best, time.thread_time_ns() - start)
    return best / COPIES / 1e3


def _reached(space: Any, message: Message) -> NDArray[np.int64]:
    if message.targets is not None:
        return np.array(message.targets, np.int64)
    if message.attributes is None:
        return np.asarray(space.points.find(message.topic, message.region), np.int64)
    vectors = [vector for vector in message.attributes if vector is not None]
    return np.array(sorted({sid for vector in vectors for sid in space.filters.match(vector)}), np.int64)


def measured_cases(mixed: Mixed, overlay: Overlay, count: int) -> list[list[Case]]:
    """The cases of each event; all plans must reach the same subscriptions."""
    found: list[list[Case]] = []
    looked: list[Case] = []

    class Watching(Chooser):
        def choose(self, space: Any, description: Any) -> str:
            if len(space.plans) > 1 and isinstance(space, Planned):
                looked.append(_case(overlay, space, description))
            return str(space.plans[0])

    state = mixed.state
    state.chooser = Watching(NamedPlan("reformulate"), share=0)
    for number, (table, event) in enumerate(mixed.events(count)):
        if number % 250 == 0:
            progress(f"optimizer: event {number:,} of {count:,}, every plan of every space")
            state.begin()
        state.execute(c.Publish(table, [event]))
        found.append(looked[:])
        looked.clear()
    return found


def _case(overlay: Overlay, space: Any, description: Any) -> Case:
    plans: dict[str, Estimate] = {}
    reached: NDArray[np.int64] | None = None
    for plan in space.plans:
        how = {draft: space.storage.get(draft.kind) for draft in space.messages(description, plan)}
        drafts = [draft for draft, storage in how.items() if storage is not Storage.STORED_ONLY]
        best = min(measure(0, space, description, plan, 0, 0.0) for _ in range(REPEATS))
        messages = [Message(0, part, space.network.id, *draft) for part, draft in enumerate(drafts)]
        for way in (TREE, STRAIGHT):
            carried = overlay.carry(space, messages, way)
            if reached is None:
                reached = carried.reached
            elif Storage.SENT_ONLY not in how.values() and not np.array_equal(reached, carried.reached):
                fail(f"{plan} reaches {len(carried.reached)} subscriptions, {space.plans[0]} {len(reached)}")
            copied_us = overlay.copy_us * carried.copies
            server = best.server_time_us + best.send_us + copied_us
            waited = best.latency_us + copied_us / 2 + carried.way_us
            plans[f"{plan}, {way}"] = Estimate(server, waited, carried.out, carried.between, len(reached))
    return Case(space.network.id, space.descriptor(description), space.expected(description), plans)


class Stand:
    """A case in the place of its space."""

    def __init__(self, case: Case) -> None:
        self.network, self.plans = SimpleNamespace(id=case.space), tuple(case.plans)
        self.descriptor: Callable[[Any], Descriptor] = lambda _: case.descriptor
        self.expected: Callable[[Any], float] = lambda _: case.expected
        self.affected: Callable[[Any], int] = lambda _: int(next(iter(case.plans.values())).affected)
