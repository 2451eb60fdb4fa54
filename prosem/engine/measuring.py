"""What a plan really costs on an event: it is carried out once more, and what it makes is thrown away.

Messages depend on the description alone, so that every plan can be tried on the same event; nothing of the state changes.
Time is that of the processor: what other threads and processes do meanwhile is no cost of a plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cn.model.message import Message
from optimizer.plan import Estimate
from prosem.engine.traffic import Traffic
from prosem.runtime.clock import SYSTEM_CLOCK, Clock
from prosem.types.base import Space, Storage
from prosem.values.wire import pack

MOST_TRIED = 500  # affected subscriptions up to which a plan that names each is tried for a measurement


class Measured(NamedTuple):
    """One plan on one event; a row of `prosem.plan_measurement`.

    `latency_us`: on average half of the messages are on their way before the others. `network_bytes`: what the messages are
    expected to put on the links between brokers, by what such messages have put there; 0 without brokers.
    """

    server_time_us: float
    send_us: float
    bytes_out: int
    network_bytes: int
    latency_us: float
    affected: int

    @property
    def estimate(self) -> Estimate:
        """The same in the metrics of the cost model."""
        time = self.server_time_us + self.send_us
        return Estimate(time, self.latency_us, self.bytes_out, self.network_bytes, self.affected)


def measure(
    seq: int,
    space: Space,
    description: Any,
    plan: str,
    affected: int,
    described_us: float,
    traffic: Traffic | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Measured:
    """Carry a plan out and throw the messages away. `described_us` is what all plans share."""
    start = clock.cpu_ns()
    drafts = space.messages(description, plan)
    made = clock.cpu_ns()
    sizes = {True: 0, False: 0}  # of addressed messages, and of the others
    for part, draft in enumerate(drafts):
        if space.storage.get(draft.kind) is not Storage.STORED_ONLY:
            sizes[draft.targets is not None] += len(pack(Message(seq, part, space.network.id, *draft)))
    sent = clock.cpu_ns()
    carried = 0.0
    if traffic is not None:
        carried = sum(traffic.expected(space.network.id, *one) for one in sizes.items())
    process_us, send_us = described_us + (made - start) / 1e3, (sent - made) / 1e3
    size = sum(sizes.values())
    return Measured(process_us, send_us, size, round(carried), process_us + send_us / 2, affected)
