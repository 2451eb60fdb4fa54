"""What a plan really costs on an event: it is carried out once more, and what it makes is thrown away.

Messages depend on the description alone, so that every plan can be tried on the same event; nothing of the state changes.
Time is that of the processor: what other threads and processes do meanwhile is no cost of a plan.
"""

from __future__ import annotations

from time import thread_time_ns
from typing import Any, NamedTuple

from cn.message import Message
from optimizer.plan import Estimate
from prosem.types.base import LOGGED_ONLY, Space
from prosem.wire import pack

MOST_TRIED = 500  # affected subscriptions up to which a plan that addresses each is tried for a measurement


class Measured(NamedTuple):
    """One plan on one event; a row of `prosem.plan_measurement`.

    `latency_us`: on average half of the messages are on their way before the others. The network within the process has no
    links between brokers, so no bytes travel on any.
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
    seq: int, space: Space, description: Any, plan: str, affected: int, described_us: float
) -> Measured:
    """Carry a plan out and throw the messages away. `described_us` is what all plans share."""
    start = thread_time_ns()
    drafts = space.messages(description, plan)
    made = thread_time_ns()
    size = 0
    for part, draft in enumerate(drafts):
        if draft.kind != LOGGED_ONLY:
            size += len(pack(Message(seq, part, space.network.id, *draft)))
    sent = thread_time_ns()
    process_us, send_us = described_us + (made - start) / 1e3, (sent - made) / 1e3
    return Measured(process_us, send_us, size, 0, process_us + send_us / 2, affected)
