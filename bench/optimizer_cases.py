"""What every plan costs on the events of the mixed workload: the ground on which choices are compared.

Server figures are those of the server's own code. The network is simulated: a server and 428 brokers ([ProSem thesis] figure
6.8) in a tree, each hosting neighbouring points of every space. A message travels down the links that lead to affected
subscriptions, or straight to their brokers, without middleware ([ProSem thesis] 6.5.2): `Executed` has both. Decisions are
the product's own: it learns what `prosem.engine.measuring` measures, with the means of what the network has carried before
(`Traffic`), chooses a plan by the cheaper way, and the network takes the cheaper way for each message (`Ways`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.common import fail, progress
from bench.mixed import Mixed
from cn.model.message import Message
from cn.transport.packets import Outgoing
from optimizer.choose import Chooser, NamedPlan
from optimizer.cost import STRAIGHT, TREE, Carriage, Carriages, Weights
from optimizer.known import by_way
from optimizer.plan import Descriptor, Estimate, Planned
from prosem.engine import commands as c
from prosem.engine.measuring import measure
from prosem.engine.state import EngineState
from prosem.engine.traffic import Traffic
from prosem.types.base import Storage
from prosem.types.shared.point_space import PointSpace
from prosem.values.wire import pack

BROKERS, FAN_OUT, HOP_US = 428, 10, 1_000.0
COPIES = 10_000  # by which the cost of one is measured
REPEATS = 3  # the fastest counts: what else the machine does is no cost of a plan


class Sent(NamedTuple):
    """A message: its bytes, the subscriptions that it reaches, and how each way carries it."""

    size: int
    reached: int
    ways: Mapping[str, Carriage]


class Executed(NamedTuple):
    """A plan on an event: what it costs to make its messages, and these."""

    made: Estimate
    messages: tuple[Sent, ...]

    def cost(self, weights: Weights, way: str | None = None) -> Estimate:
        """What it costs by one way, or by the cheaper way of each message as the product takes it."""
        made, affected = self.made, max(1, sum(message.reached for message in self.messages))
        copied_us = way_us = out = between = 0.0
        for size, reached, ways in self.messages:
            if way is None and len(ways) > 1:
                one = min(ways.values(), key=lambda one: weights.cost(_of_message(one, size)))
            else:
                one = ways.get(way or TREE) or next(iter(ways.values()))
            copied_us += one.server_us
            way_us += one.way_us * reached / affected
            out += size * one.copies
            between += size * one.all_copies
        return Estimate(
            made.server_time + copied_us,
            made.response_time + copied_us / 2 + way_us,
            out,
            between,
            made.affected,
        )

    @property
    def ways(self) -> tuple[str, ...]:
        """Those open to its messages."""
        return tuple(self.messages[0].ways) if self.messages else (TREE,)

    def only(self, way: str) -> Executed:
        """The same where the network has one way alone."""
        return self._replace(messages=tuple(one._replace(ways={way: one.ways[way]}) for one in self.messages))

    def way(self, weights: Weights) -> str:
        """The cheaper one for most of its bytes."""
        return max(
            (
                (size, min(ways, key=lambda way: weights.cost(_of_message(ways[way], size))))
                for size, _, ways in self.messages
            ),
            default=(0, TREE),
        )[1]


def _of_message(one: Carriage, size: int) -> Estimate:
    """As `Ways` compares them."""
    return Estimate(one.server_us, one.way_us, one.copies * size, one.all_copies * size, 0.0)


class Case(NamedTuple):
    """One event in one space: what a chooser sees, what it could have learned here, and what each plan costs."""

    space: int
    descriptor: Descriptor
    expected: float
    carriages: Carriages
    learned: Mapping[str, Estimate]
    plans: Mapping[str, Executed]

    @property
    def affected(self) -> float:
        return next(iter(self.plans.values())).made.affected


class Overlay:
    """Brokers in a tree; the points of each space in their order, an equal number at every broker."""

    def __init__(self, state: EngineState) -> None:
        self._hosts: dict[int, NDArray[np.int64]] = {}
        self.copy_us, self.traffic = copy_us(), Traffic()
        last = state.registry.next_sid
        for number, space in state.spaces.items():
            if isinstance(space, Planned):
                hosts = np.arange(last, dtype=np.int64) * BROKERS // last  # filters, as they were registered
                if isinstance(space, PointSpace):
                    order = sorted(((t, p), sid) for sid, t, p in space.points.items())
                    for at, (_, sid) in enumerate(order):
                        hosts[sid] = at * BROKERS // len(order)
                self._hosts[number] = hosts

    def carry(self, space: Any, message: Message) -> tuple[Sent, NDArray[np.int64]]:
        """A message by both ways, and the subscriptions that it reaches."""
        size, found = len(pack(message)), _reached(space, message)
        nodes = hosts = np.unique(self._hosts[space.network.id][found])
        links, depth = len(nodes), int(len(nodes) > 0)
        while len(nodes) and nodes[-1] >= FAN_OUT:
            nodes = np.unique(nodes // FAN_OUT)
            links += len(nodes)
            depth += 1
        ways = {
            TREE: self._carriage(len(nodes), links, depth),
            STRAIGHT: self._carriage(len(hosts), len(hosts), 1),
        }
        return Sent(size, len(found), ways), found

    def _carriage(self, copies: int, links: int, depth: int) -> Carriage:
        own = max(1, copies)  # without brokers concerned, for the server's own edge
        return Carriage(own, links, HOP_US * (1 + depth), own * self.copy_us)

    def sent(self, space: int, messages: Sequence[Message], sent: Sequence[Sent]) -> None:
        """The network has carried these, and the optimizer learns how."""
        for message, (size, _, ways) in zip(messages, sent, strict=True):
            way = min(ways, key=lambda way: self.traffic.weights.cost(_of_message(ways[way], size)))
            self.traffic.sent(message, way, ways, ways[way].server_us)


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
    number, traffic = space.network.id, overlay.traffic
    carriages = traffic.expected(number)
    plans: dict[str, Executed] = {}
    learned: dict[str, Estimate] = {}
    sent: dict[str, list[Message]] = {}
    reached: NDArray[np.int64] | None = None
    for plan in space.plans:
        how = {draft: space.storage.get(draft.kind) for draft in space.messages(description, plan)}
        drafts = [draft for draft, storage in how.items() if storage is not Storage.STORED_ONLY]
        sent[plan] = [Message(0, part, number, *draft) for part, draft in enumerate(drafts)]
        carried = [overlay.carry(space, message) for message in sent[plan]]
        found = np.unique(np.concatenate([np.empty(0, np.int64), *(some for _, some in carried)]))
        if reached is None:
            reached = found
        elif Storage.SENT_ONLY not in how.values() and not np.array_equal(reached, found):
            fail(f"{plan} reaches {len(found)} subscriptions, {space.plans[0]} {len(reached)}")
        made = min(measure(0, space, description, plan, len(reached), 0.0)[TREE] for _ in range(REPEATS))
        plans[plan] = Executed(made.estimate, tuple(one for one, _ in carried))
        measured = [measure(0, space, description, plan, len(reached), 0.0, traffic) for _ in range(REPEATS)]
        for way in measured[0]:
            learned[by_way(plan, way)] = min(one[way] for one in measured).estimate
    cheapest = min(plans, key=lambda plan: traffic.weights.cost(plans[plan].cost(traffic.weights)))
    overlay.sent(number, sent[cheapest], plans[cheapest].messages)
    return Case(number, space.descriptor(description), space.expected(description), carriages, learned, plans)


class Stand:
    """A case in the place of its space."""

    def __init__(self, case: Case) -> None:
        self.network, self.plans = SimpleNamespace(id=case.space), tuple(case.plans)
        self.descriptor: Callable[[Any], Descriptor] = lambda _: case.descriptor
        self.expected: Callable[[Any], float] = lambda _: case.expected
        self.affected: Callable[[Any], int] = lambda _: int(case.affected)
