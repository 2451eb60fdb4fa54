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

    `latency_us` is the time from when the event is worked on: the spaces before this one (`waited_us`), this one, on average
    half of the messages, and the way to the brokers concerned. With brokers, a message leaves the server once for each of
    the links that such messages have taken, and is carried by as many links as they were; without, `network_bytes` is 0.
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
    waited_us: float = 0.0,
) -> Measured:
    """Carry a plan out and throw the messages away. `described_us` is what all plans share."""
    start = clock.cpu_ns()
    drafts = space.messages(description, plan)
    made = clock.cpu_ns()
    sizes: dict[bool, list[int]] = {
        True: [],
        False: [],
    }  # of messages that name their targets, and of the others
    for part, draft in enumerate(drafts):
        if space.storage.get(draft.kind) is not Storage.STORED_ONLY:
            sizes[draft.targets is not None].append(len(pack(Message(seq, part, space.network.id, *draft))))
    sent = clock.cpu_ns()
    process_us, send_us = described_us + (made - start) / 1e3, (sent - made) / 1e3
    out = carried = way_us = 0.0
    count = max(1, len(sizes[True]) + len(sizes[False]))
    for is_addressed, some in sizes.items():
        carriage = None if traffic is None else traffic.expected(space.network.id, is_addressed)
        if traffic is None or carriage is None:
            out += sum(some)
            continue
        out += sum(some) * carriage.copies
        carried += sum(some) * carriage.all_copies
        send_us += len(some) * carriage.copies * traffic.copy_us
        way_us += len(some) * carriage.way_us / count
    latency_us = waited_us + process_us + send_us / 2 + way_us
    return Measured(process_us, send_us, round(out), round(carried), latency_us, affected)
